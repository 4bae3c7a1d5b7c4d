/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_ZYGOTE_H
#define SNP_GUEST_ZYGOTE_H

#include <stdbool.h>

#include "base/err.h"

/* Called around each fork that leads to an interpreter, as the host language needs. */
struct snp_zygote_hooks {
    const char *version; /* of the interpreter, "3.11.2"; borrowed */
    void (*before_fork)(void);
    void (*after_fork_parent)(void);
    void (*after_fork_child)(void);
};

/*
 * Serve as the zygote on control_fd (SOCK_SEQPACKET, see guest/spec.h); filter_fd holds
 * the seccomp program for the sandboxes; hooks are borrowed for ever. The descriptors are
 * consumed. Returns 0 only in a process that has become an interpreter inside a sandbox,
 * with descriptors 0 to SNP_GUEST_SEED_FD in place. The zygote itself ends with the
 * process when the supervisor goes away. On failure to start serving: a code and *err.
 */
int snp_zygote_serve(int control_fd,
                     int filter_fd,
                     const struct snp_zygote_hooks *hooks,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * In an interpreter that has not run any code of others yet: leave a copy of it behind, the
 * seed, on SNP_GUEST_SEED_FD, which is consumed. stream_fd is the guest stream, which the
 * copy closes. Returns twice: here with *ret_is_new false; and, whenever pid 1 asks the seed
 * for it, in a new interpreter with *ret_is_new true and SNP_GUEST_FD in place. -1 with errno.
 */
int snp_zygote_seed(int stream_fd, bool *ret_is_new) SNP_NODISCARD;

#endif
