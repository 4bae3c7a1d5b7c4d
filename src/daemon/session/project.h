/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_PROJECT_H
#define SNP_DAEMON_SESSION_PROJECT_H

/* The project of a session: a folder of the host. */

#include "base/err.h"

/* Check that a project's folder is still allowed. home: the user's, or NULL. */
int snp_session_project_check(const char *path,
                              const char *home,
                              struct snp_err *err) SNP_NODISCARD;

#endif
