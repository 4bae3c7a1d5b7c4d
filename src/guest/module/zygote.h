/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_ZYGOTE_H
#define SNP_GUEST_MODULE_ZYGOTE_H

#include <stddef.h>

#include "base/err.h"
#include "guest/module/freeze.h"

/* Called around each fork that leads to an interpreter, as the host language needs. */
struct snp_zygote_hooks {
    const char *version; /* of the interpreter, "3.11.2"; borrowed */
    void (*before_fork)(void);
    void (*after_fork_parent)(void);
    void (*after_fork_child)(void);
    const char *files; /* loaded files: see guest/module/freeze.h; borrowed */
    size_t files_len;
    struct snp_template_image_settings began;
};

/*
 * Serve as the zygote on control_fd (SOCK_SEQPACKET, see guest/spec.h); filter_fd holds
 * the seccomp program for the sandboxes; hooks are borrowed for ever. The descriptors are
 * consumed. Returns 0 only in a process that has become an interpreter inside a sandbox,
 * with descriptors 0 to SNP_GUEST_PRISTINE_FD in place. The zygote itself ends with the
 * process when the supervisor goes away. On failure to start serving: a code and *err.
 */
int snp_zygote_serve(int control_fd,
                     int filter_fd,
                     const struct snp_zygote_hooks *hooks,
                     struct snp_err *err) SNP_NODISCARD;

enum {
    SNP_ZYGOTE_CLOSING_MAX = 1024
};

/* What a copy is to have; the descriptors are borrowed, but for socket_fd. */
struct snp_zygote_copy {
    int socket_fd; /* where it sleeps; consumed */
    int stream_fd; /* the guest stream, which it has not */
    size_t n_closing;
    int closing[SNP_ZYGOTE_CLOSING_MAX]; /* others it has not */
};

/*
 * In an interpreter with one thread: leave a copy of it behind, asleep. Returns
 * twice: here with *ret_stream_fd -1; and, whenever pid 1 asks the copy for it, in a new
 * interpreter with its guest stream there. No handler of a fork is run in either. -1 with
 * errno.
 */
int snp_zygote_leave_copy(const struct snp_zygote_copy *copy, int *ret_stream_fd) SNP_NODISCARD;

/*
 * Outlive hang-ups by the kernel, in this process and what is forked from it; a SIGHUP that a
 * process sends still ends it. gVisor hangs up a whole process group when one process of it stands
 * still, as pid 1 makes the code do, and another ends or leaves it.
 */
void snp_zygote_outlive_hangups(void);

#endif
