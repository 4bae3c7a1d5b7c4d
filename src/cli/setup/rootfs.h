/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SETUP_ROOTFS_H
#define SNP_CLI_SETUP_ROOTFS_H

/* --rootfs: a folder as it is, or an archive that is unpacked once. */

#include "base/err.h"

/*
 * The folder for what was given, links resolved; owned by the caller. An archive is unpacked into
 * STATE/rootfs under the hash of its content, and found there the next time; the ones not used for
 * longest are removed when there are many. SNP_E_DENIED: it holds a path that leads out;
 * SNP_E_LIMIT: it is too large.
 */
int snp_rootfs_folder(const char *given,
                      const char *state_dir,
                      char **ret_folder,
                      struct snp_err *err) SNP_NODISCARD;

#endif
