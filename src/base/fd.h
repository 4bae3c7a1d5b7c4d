/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_FD_H
#define SNP_BASE_FD_H

/*
 * File descriptors: whole reads and writes, passing over unix sockets. EINTR is retried everywhere.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Identity of a file, to distinguish it from others of the same name. */
struct snp_file_id {
    dev_t dev;
    ino_t ino; /* 0 = unknown */
};

/* Retry a call that returns -1 with EINTR. Without inner braces: they would count as nesting. */
#define SNP_RETRY(call)                         \
    __extension__({                             \
        __typeof__(call) snp_r_;                \
        do                                      \
            snp_r_ = (call);                    \
        while (snp_r_ == -1 && errno == EINTR); \
        snp_r_;                                 \
    })

/*
 * Write all n bytes to a blocking fd (MSG_NOSIGNAL not implied; ignore SIGPIPE). 0 or -1
 * with errno.
 */
int snp_write_all(int fd, const void *bytes, size_t n) SNP_NODISCARD;
/* Read until n bytes or end of file; the count, or -1 with errno. */
ssize_t snp_read_all(int fd, void *bytes, size_t n) SNP_NODISCARD;

/*
 * Read a whole file of at most max bytes. *ret_text is NUL-terminated and owned by the caller
 * (free); *ret_len without the NUL, may be NULL. Anything but a regular file, such as a FIFO, is
 * refused (SNP_E_INVALID). SNP_E_LIMIT if larger; SNP_E_NOT_FOUND. Files of /proc and /sys (size 0)
 * are read to their end.
 */
int snp_file_read(const char *path,
                  size_t max,
                  char **ret_text,
                  size_t *ret_len,
                  struct snp_err *err) SNP_NODISCARD;

/*
 * The two halves of snp_file_read: open a path, which need not be a regular file yet; read an open
 * file, for which path is only a name in errors.
 */
int snp_file_open(const char *path, int *ret_fd, struct snp_err *err) SNP_NODISCARD;
int snp_file_read_fd(int fd,
                     const char *path,
                     size_t max,
                     char **ret_text,
                     size_t *ret_len,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Write a file in place (cgroup and proc knobs): open O_WRONLY|O_CLOEXEC, one write. 0 or -1
 * with errno.
 */
int snp_file_poke(const char *path, const char *text) SNP_NODISCARD;
/* The same relative to a directory fd. */
int snp_file_pokeat(int dir_fd, const char *path, const char *text) SNP_NODISCARD;

/*
 * Create or replace a file (temporary file, rename), with mode. After a power failure it may be the
 * old file, or empty.
 */
int snp_file_replace(const char *path,
                     const void *bytes,
                     size_t n,
                     unsigned mode,
                     struct snp_err *err) SNP_NODISCARD;

/* The same, synced: after a power failure it is the new file. */
int snp_file_write_atomic(const char *path,
                          const void *bytes,
                          size_t n,
                          unsigned mode,
                          struct snp_err *err) SNP_NODISCARD;

/* mkdir -p; existing folders keep their mode. */
int snp_mkdir_p(const char *path, unsigned mode, struct snp_err *err) SNP_NODISCARD;

enum {
    SNP_FDS_MAX = 16
};

/*
 * One message with n_fds descriptors (0..SNP_FDS_MAX) over a unix socket; fds stay
 * the caller's. 0 or -1 with errno (EAGAIN on a non-blocking socket that is full).
 */
int snp_send_fds(int sock, const void *bytes, size_t n, const int *fds, size_t n_fds) SNP_NODISCARD;

/*
 * The same past a seccomp filter that checks for the mark in the upper halves of the first and the
 * last argument.
 */
int snp_send_fds_marked(int sock,
                        const void *bytes,
                        size_t n,
                        const int *fds,
                        size_t n_fds,
                        uint64_t mark) SNP_NODISCARD;

/*
 * Receive one message. Received descriptors are CLOEXEC, stored in fds (room for SNP_FDS_MAX) and
 * owned by the caller, *ret_n_fds of them; with fds == NULL any are closed. The byte count, 0 at
 * end of stream, -1 with errno. A truncated control message is EBADMSG.
 */
ssize_t snp_recv_fds(int sock, void *bytes, size_t n, int *fds, size_t *ret_n_fds) SNP_NODISCARD;

int snp_set_nonblock(int fd, bool on) SNP_NODISCARD;

#endif
