/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_ZYGOTE_H
#define SNP_GUEST_ZYGOTE_H

#include <stdint.h>

#include "base/err.h"

/* Called around each fork that leads to an interpreter, as the host language needs. */
struct snp_zygote_hooks {
    const char *version; /* of the interpreter, "3.11.2"; borrowed */
    void (*before_fork)(void);
    void (*after_fork_parent)(void);
    void (*after_fork_child)(void);
};

/* What a new interpreter starts with. */
struct snp_interpreter {
    int guest_fd;    /* its end of the guest stream; owned */
    const char *env; /* env_len bytes of "K=V\0"; valid for the life of the process */
    uint32_t env_len;
};

/*
 * Serve as the zygote on control_fd (SOCK_SEQPACKET, see guest/spec.h); filter_fd holds
 * the seccomp program for the sandboxes. Both are consumed. Returns 0 only in a process
 * that has become an interpreter inside a sandbox, with *ret_interpreter filled and
 * descriptors 0 to 2 in place. The zygote itself ends with the process when the
 * supervisor goes away. On failure to start serving: a code and *err.
 */
int snp_zygote_serve(int control_fd,
                     int filter_fd,
                     const struct snp_zygote_hooks *hooks,
                     struct snp_interpreter *ret_interpreter,
                     struct snp_err *err) SNP_NODISCARD;

#endif
