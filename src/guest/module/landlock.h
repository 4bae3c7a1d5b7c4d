/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_LANDLOCK_H
#define SNP_GUEST_MODULE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Folders that are reached by these descriptors only, which pid 1 alone keeps; borrowed. */
struct snp_landlock_own {
    int upper_fd;  /* the workspace's layer: to read */
    int base_fd;   /* the project without it: to read; -1 = none */
    int copies_fd; /* copies of the workspace: files in it are made, read, removed; -1 = none */
};

/*
 * Restrict the calling process and its future children to the folders of the sandbox's
 * own root, a second fence behind the mount namespace, and to those of own. most_abi: the
 * newest ABI to use, 0 for none. *ret_abi is the one that was used; 0 (and success) where
 * there is none. Needs no_new_privs.
 */
int snp_landlock_apply(const struct snp_landlock_own *own,
                       int most_abi,
                       int *ret_abi,
                       struct snp_err *err) SNP_NODISCARD;

/* What a rule permits below its path. */
enum snp_landlock_access {
    SNP_LANDLOCK_READ = 0,
    SNP_LANDLOCK_LIST, /* names in folders */
    SNP_LANDLOCK_RUN,  /* read and execute */
    SNP_LANDLOCK_EDIT, /* read and write what is there */
    SNP_LANDLOCK_ALL,
    SNP_LANDLOCK_OWN,     /* everything but devices and sockets */
    SNP_LANDLOCK_SCRATCH, /* the same without execute */
    SNP_LANDLOCK_STORE,   /* files made, read and removed */
};

struct snp_landlock_rule {
    const char *path; /* one that does not exist is passed over */
    enum snp_landlock_access access;
};

/*
 * The fence of processes that stay in the host's mount namespace: only what the list names can be
 * opened; TCP, and signals and abstract sockets across the fence, are refused where the ABI can (4,
 * 6), TCP only if refuses_tcp. most_abi: the newest ABI to use. SNP_E_UNSUPPORTED: no Landlock.
 */
int snp_landlock_fence(const struct snp_landlock_rule *list,
                       size_t n,
                       int most_abi,
                       bool refuses_tcp,
                       int *ret_abi,
                       struct snp_err *err) SNP_NODISCARD;

#endif
