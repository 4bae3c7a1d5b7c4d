/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PROJECT_PROJECT_H
#define SNP_BASE_PROJECT_PROJECT_H

/* Which folder may be shown to code as its project. A pure decision: reads no file. */

#include "base/err.h"

enum {
    SNP_PROJECT_PATH_MAX = 4095
}; /* bytes, without terminator */

/*
 * path: the folder with all links resolved; home: the user's home folder, also resolved, NULL if
 * there is none. SNP_E_INVALID: not absolute, too long, or written with '.', '..', '//' or a '/' at
 * its end. SNP_E_DENIED: '/', the home folder, or a folder that contains it; the message has a
 * hint.
 */
int snp_project_check(const char *path, const char *home, struct snp_err *err) SNP_NODISCARD;

#endif
