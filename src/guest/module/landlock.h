/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_LANDLOCK_H
#define SNP_GUEST_MODULE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Folders accessible by these descriptors only, which only pid 1 has; borrowed. */
struct snp_landlock_own {
    int upper_fd;  /* the workspace's layer: to read */
    int base_fd;   /* the project without it: to read; -1 = none */
    int copies_fd; /* copies of the workspace: files in it are made, read, removed; -1 = none */
};

/*
 * Restrict the calling process and its future children to the folders of the sandbox's root, in
 * addition to the mount namespace, and to those of own. most_abi: the newest ABI to use, 0 for
 * none. *ret_abi is the one in use; 0 (and success) without Landlock. Needs no_new_privs.
 */
int snp_landlock_apply(const struct snp_landlock_own *own,
                       int most_abi,
                       int *ret_abi,
                       struct snp_err *err) SNP_NODISCARD;

/* Access that a rule permits below its path. */
enum snp_landlock_access {
    SNP_LANDLOCK_READ = 0,
    SNP_LANDLOCK_LIST, /* names in folders */
    SNP_LANDLOCK_RUN,  /* read and execute */
    SNP_LANDLOCK_EDIT, /* read and write existing files */
    SNP_LANDLOCK_ALL,
    SNP_LANDLOCK_OWN,     /* everything except devices and sockets */
    SNP_LANDLOCK_SCRATCH, /* the same without execute */
    SNP_LANDLOCK_STORE,   /* files are created, read and removed */
};

struct snp_landlock_rule {
    const char *path; /* skipped if it does not exist */
    enum snp_landlock_access access;
};

/*
 * Restrict processes in the host's mount namespace: only files of the list can be opened; TCP, and
 * signals and abstract sockets to outside processes, are refused if the ABI supports it (4, 6), TCP
 * only with refuses_tcp. most_abi: the newest ABI to use. SNP_E_UNSUPPORTED: no Landlock.
 */
int snp_landlock_fence(const struct snp_landlock_rule *list,
                       size_t n,
                       int most_abi,
                       bool refuses_tcp,
                       int *ret_abi,
                       struct snp_err *err) SNP_NODISCARD;

#endif
