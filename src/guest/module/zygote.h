/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_ZYGOTE_H
#define SNP_GUEST_MODULE_ZYGOTE_H

#include <stddef.h>

#include "base/err.h"
#include "guest/module/freeze.h"

/* Called around each fork that leads to an interpreter, for the host language. */
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
 * Serve as the zygote on control_fd (SOCK_SEQPACKET, see guest/spec.h); filter_fd holds the seccomp
 * program for the sandboxes; hooks are borrowed forever. The descriptors are consumed. Returns 0
 * only in a process that has become an interpreter inside a sandbox, with descriptors 0 to
 * SNP_GUEST_PRISTINE_FD in place. The zygote ends with the supervisor. On failure to start serving:
 * a code and *err.
 */
int snp_zygote_serve(int control_fd,
                     int filter_fd,
                     const struct snp_zygote_hooks *hooks,
                     struct snp_err *err) SNP_NODISCARD;

enum {
    SNP_ZYGOTE_CLOSING_MAX = 1024
};

/* Resources of a copy; the descriptors are borrowed, except socket_fd. */
struct snp_zygote_copy {
    int socket_fd; /* on which it waits; consumed */
    int stream_fd; /* the guest stream, which it closes */
    size_t n_closing;
    int closing[SNP_ZYGOTE_CLOSING_MAX]; /* others that it closes */
};

/*
 * In an interpreter with one thread: leave a sleeping copy of it. Returns twice: here with
 * *ret_stream_fd -1; and, for each wake by pid 1, in a new interpreter with its guest stream there.
 * No fork handlers run in either. -1 with errno.
 */
int snp_zygote_leave_copy(const struct snp_zygote_copy *copy, int *ret_stream_fd) SNP_NODISCARD;

/*
 * Survive SIGHUP from the kernel, in this process and its forks; a SIGHUP sent by a process still
 * ends it. gVisor sends SIGHUP to a whole process group when it has a stopped member, as pid 1
 * makes the code stop, and another ends or leaves it.
 */
void snp_zygote_outlive_hangups(void);

#endif
