/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_SETUP_H
#define SNP_GUEST_MODULE_SETUP_H

#include <stddef.h>
#include <linux/filter.h>

#include "base/err.h"
#include "guest/spec.h"

/* Input and output of the steps. */
struct snp_setup {
    struct snp_spec spec;
    int fd[SNP_SPEC_FD_N];             /* -1 = none; owned */
    int group_fd[SNP_SPEC_GROUPS_MAX]; /* spec.n_groups of them; owned */
    const char *mask;                  /* spec.mask_len bytes; borrowed */
    const struct sock_fprog *filter;
    int fs_fd[SNP_SETUP_FS_N]; /* out: O_PATH folders of enum snp_setup_fs; -1 before */
    int copies_fd;             /* out: SNP_INIT_COPIES_FD, or -1 */
    int diag_fd;               /* out: SNP_INIT_DIAG_FD, or -1 */
    int base_fd;               /* out: SNP_INIT_BASE_FD, or -1 */
    int listener_fd;           /* out: seccomp listener, or -1 */
    int landlock_abi;          /* out */
};

/*
 * Turn the calling process (alone in new user, pid, mount, network, ipc and uts namespaces, with a
 * written id map; or with spec.is_local in none) into a sandbox. Runs the steps in order and stops
 * at the first failure; the process must then exit. The caller keeps no capability.
 */
int snp_setup_run(struct snp_setup *setup, struct snp_err *err) SNP_NODISCARD;

/* One step: 0, or a code and *err. */
struct snp_step {
    const char *name;
    int (*run)(struct snp_setup *setup, struct snp_err *err);
};

/* The steps of a sandbox without namespaces, in order. */
extern const struct snp_step snp_local_steps[];
extern const size_t snp_local_steps_n;

/* Steps of both kinds of sandbox. */
int snp_step_cgroups(struct snp_setup *s, struct snp_err *err) SNP_NODISCARD;
int snp_step_affinity(struct snp_setup *s, struct snp_err *err) SNP_NODISCARD;
int snp_step_rlimits(struct snp_setup *s, struct snp_err *err) SNP_NODISCARD;
int snp_step_capabilities(struct snp_setup *s,
                          struct snp_err *err) SNP_NODISCARD; /* and no_new_privs */

/* Install the filter, with this sandbox's mark. Returns like the system call. */
long snp_setup_filter(const struct snp_setup *s, unsigned flags);

#endif
