/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SETUP_ROOTFS_H
#define SNP_CLI_SETUP_ROOTFS_H

/* --rootfs: a folder used in place, or an archive that is unpacked once. */

#include "base/err.h"

/*
 * The folder for the argument, links resolved; owned by the caller. An archive is unpacked into
 * STATE/rootfs under the hash of its content and reused the next time; if there are many, the least
 * recently used are removed. SNP_E_DENIED: it has a path that leads out; SNP_E_LIMIT: it is too
 * large.
 */
int snp_rootfs_folder(const char *given,
                      const char *state_dir,
                      char **ret_folder,
                      struct snp_err *err) SNP_NODISCARD;

#endif
