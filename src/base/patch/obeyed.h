/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PATCH_OBEYED_H
#define SNP_BASE_PATCH_OBEYED_H

/* Files of a project that tools run or obey automatically, and files of secrets. */

/* The reason, printed for users, why a path is on the list; static. NULL = not listed. */
const char *snp_obeyed_by(const char *path);

#endif
