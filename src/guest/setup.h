/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_SETUP_H
#define SNP_GUEST_SETUP_H

#include <linux/filter.h>

#include "base/err.h"
#include "guest/spec.h"

/* Everything the steps read and leave behind. */
struct snp_setup {
    struct snp_spec spec;
    int fd[SNP_SPEC_FD_N]; /* -1 where none; owned */
    const char *mask;      /* spec.mask_len bytes; borrowed */
    const struct sock_fprog *filter;
    int fs_fd[SNP_SETUP_FS_N]; /* out: O_PATH folders of enum snp_setup_fs; -1 before */
    int listener_fd;           /* out: seccomp listener, or -1 */
    int landlock_abi;          /* out */
    uint32_t step_us[SNP_STEPS_MAX];
    uint32_t n_steps;
};

/*
 * Turn the calling process (alone in new user, pid, mount, network, ipc and uts
 * namespaces, id map written) into a sandbox. Runs the steps in order and stops at the
 * first that fails; the process must then exit. The caller keeps no capability.
 */
int snp_setup_run(struct snp_setup *setup, struct snp_err *err) SNP_NODISCARD;

/* Name of step i, NULL past the last. */
const char *snp_setup_step_name(uint32_t i);

#endif
