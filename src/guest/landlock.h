/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_LANDLOCK_H
#define SNP_GUEST_LANDLOCK_H

#include "base/err.h"

/*
 * Restrict the calling process and its future children to the folders of the sandbox's
 * own root, a second fence behind the mount namespace. upper_fd: one more folder that may
 * be read, reachable by that descriptor only. most_abi: the newest ABI to use, 0 for none.
 * *ret_abi is the one that was used; 0 (and success) where there is none. Needs no_new_privs.
 */
int snp_landlock_apply(int upper_fd, int most_abi, int *ret_abi, struct snp_err *err)
    SNP_NODISCARD;

#endif
