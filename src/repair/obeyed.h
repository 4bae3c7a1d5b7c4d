/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_OBEYED_H
#define SNP_REPAIR_OBEYED_H

/* Files of a project that tools run or obey without being asked, and files of secrets. */

/* Why a file of this path is one of them, for users; static. NULL if it is not. */
const char *snp_obeyed_by(const char *path);

#endif
