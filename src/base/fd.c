/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors: whole reads and writes, small files, passing over unix sockets.
 *
 * Invariants: every descriptor is CLOEXEC from its first instruction; nothing opened
 * here blocks on a FIFO or becomes a controlling terminal; no descriptor that a peer
 * sent is ever left open without an owner.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"

enum {
    READ_CHUNK = 64 << 10
};

int snp_write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t done = SNP_RETRY(write(fd, p, n));
        if (done < 0) {
            return -1;
        }
        if (done == 0) {
            errno = EIO;
            return -1;
        }
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

ssize_t snp_read_all(int fd, void *bytes, size_t n)
{
    char *p = bytes;
    size_t have = 0;
    while (have < n) {
        ssize_t got = SNP_RETRY(read(fd, p + have, n - have));
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    return (ssize_t)have;
}

/* Append the rest of fd to buf; SNP_E_LIMIT beyond buf->max. */
static int read_rest(int fd, struct snp_buf *buf, struct snp_err *err)
{
    for (;;) {
        size_t room = buf->max - buf->len;
        size_t want = room < READ_CHUNK ? room : READ_CHUNK;
        if (want == 0) {
            return snp_fail(err, SNP_E_LIMIT, "too large");
        }
        char *space = NULL;
        if (snp_buf_reserve(buf, want, &space) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        ssize_t got = SNP_RETRY(read(fd, space, want));
        if (got < 0) {
            return snp_fail_sys(err, errno, "read");
        }
        if (got == 0) {
            return 0;
        }
        snp_buf_commit(buf, (size_t)got);
    }
}

int snp_file_read(
    const char *path, size_t max, char **ret_text, size_t *ret_len, struct snp_err *err)
{
    snp_autoclose int fd = -1;
    int r = snp_file_open(path, &fd, err);
    return r < 0 ? r : snp_file_read_fd(fd, path, max, ret_text, ret_len, err);
}

int snp_file_open(const char *path, int *ret_fd, struct snp_err *err)
{
    int fd = SNP_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0) {
        int eno = errno;
        if (eno == ENOENT || eno == ENOTDIR) {
            return snp_fail(err, SNP_E_NOT_FOUND, "%s: no such file",
                            path[0] == '\0' ? "''" : path);
        }
        return snp_fail_sys(err, eno, "open %s", path);
    }
    *ret_fd = fd;
    return 0;
}

int snp_file_read_fd(
    int fd, const char *path, size_t max, char **ret_text, size_t *ret_len, struct snp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "stat %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "%s: not a regular file", path);
    }
    if (st.st_size > 0 && (uint64_t)st.st_size > max) {
        return snp_fail(err, SNP_E_LIMIT, "%s: larger than %zu bytes", path, max);
    }
    /* Read one byte more than allowed, to detect a file that is too long. */
    snp_autobuf struct snp_buf buf = {0};
    snp_buf_init(&buf, max < SIZE_MAX / 4 ? max + 1 : max);
    int r = read_rest(fd, &buf, err);
    if (r == SNP_E_LIMIT) {
        return snp_fail(err, SNP_E_LIMIT, "%s: larger than %zu bytes", path, max);
    }
    if (r < 0) {
        return snp_err_wrap(err, "%s", path);
    }
    if (snp_buf_cstr(&buf) == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (ret_len != NULL) {
        *ret_len = buf.len;
    }
    *ret_text = SNP_TAKE_PTR(buf.data); /* nothing was consumed, so it starts at data */
    return 0;
}

int snp_file_pokeat(int dir_fd, const char *path, const char *text)
{
    snp_autoclose int fd = SNP_RETRY(openat(dir_fd, path, O_WRONLY | O_CLOEXEC));
    if (fd < 0) {
        return -1;
    }
    size_t n = strlen(text);
    ssize_t done = SNP_RETRY(write(fd, text, n));
    if (done < 0) {
        return -1;
    }
    if ((size_t)done != n) {
        errno = EIO;
        return -1;
    }
    return 0;
}

int snp_file_poke(const char *path, const char *text)
{
    return snp_file_pokeat(AT_FDCWD, path, text);
}

/* Make a rename in the folder of path durable. */
static int sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    if (n >= sizeof(folder)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, n);
    folder[n] = '\0';
    snp_autoclose int fd =
        SNP_RETRY(open(n == 0 ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0) {
        return -1;
    }
    /* Some file systems cannot sync a folder; nothing more can be done there. */
    return fsync(fd) < 0 && errno != EINVAL ? -1 : 0;
}

static int replace(const char *path,
                   const void *bytes,
                   size_t n,
                   unsigned mode,
                   bool is_synced,
                   struct snp_err *err)
{
    char temp[PATH_MAX];
    int len = snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
    if (len < 0 || (size_t)len >= sizeof(temp)) {
        return snp_fail(err, SNP_E_INVALID, "path too long");
    }
    snp_autoclose int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "create %s", path);
    }
    if (fchmod(fd, (mode_t)mode) < 0 || snp_write_all(fd, bytes, n) < 0 ||
        (is_synced && fsync(fd) < 0) || rename(temp, path) < 0) {
        int eno = errno;
        (void)unlink(temp);
        return snp_fail_sys(err, eno, "write %s", path);
    }
    if (is_synced && sync_folder(path) < 0) {
        return snp_fail_sys(err, errno, "sync the folder of %s", path);
    }
    return 0;
}

int snp_file_replace(
    const char *path, const void *bytes, size_t n, unsigned mode, struct snp_err *err)
{
    return replace(path, bytes, n, mode, false, err);
}

int snp_file_write_atomic(
    const char *path, const void *bytes, size_t n, unsigned mode, struct snp_err *err)
{
    return replace(path, bytes, n, mode, true, err);
}

int snp_mkdir_p(const char *path, unsigned mode, struct snp_err *err)
{
    char part[PATH_MAX];
    int len = snprintf(part, sizeof(part), "%s", path);
    if (len <= 0 || (size_t)len >= sizeof(part)) {
        return snp_fail(err, SNP_E_INVALID, "the path of the folder is empty or too long");
    }
    char *p = part;
    while (*p != '\0') {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char end = *p;
        *p = '\0';
        struct stat st;
        if (mkdir(part, (mode_t)mode) < 0) {
            int eno = errno;
            if (stat(part, &st) < 0) {
                return snp_fail_sys(err, eno, "mkdir %s", part);
            }
            if (!S_ISDIR(st.st_mode)) {
                return snp_fail_sys(err, ENOTDIR, "mkdir %s", part);
            }
        }
        *p = end;
    }
    return 0;
}

static int wait_writable(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLOUT};
    return SNP_RETRY(poll(&p, 1, -1)) < 0 ? -1 : 0;
}

/* Send what a stream socket did not take at once; the message must not be left half sent. */
static int send_rest(int sock, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = SNP_RETRY(send(sock, bytes, n, MSG_NOSIGNAL));
        if (done < 0 && (errno != EAGAIN || wait_writable(sock) < 0)) {
            return -1;
        }
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
    return 0;
}

int snp_send_fds_marked(
    int sock, const void *bytes, size_t n, const int *fds, size_t n_fds, uint64_t mark)
{
    if (n == 0 || n_fds > SNP_FDS_MAX) {
        errno = EINVAL;
        return -1;
    }
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(SNP_FDS_MAX * sizeof(int))];
    } control;
    memset(&control, 0, sizeof(control));
    struct iovec iov = {.iov_len = n};
    const uint64_t high = mark & 0xffffffff00000000U;
    const uint64_t low = mark << 32U;
    memcpy(&iov.iov_base, &bytes, sizeof(bytes)); /* sendmsg only reads; iov is not const */
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ssize_t done =
        SNP_RETRY(syscall(SYS_sendmsg, high | (uint32_t)sock, &msg, low | (uint32_t)MSG_NOSIGNAL));
    if (done < 0) {
        return -1;
    }
    return send_rest(sock, (const char *)bytes + done, n - (size_t)done);
}

int snp_send_fds(int sock, const void *bytes, size_t n, const int *fds, size_t n_fds)
{
    return snp_send_fds_marked(sock, bytes, n, fds, n_fds, 0);
}

/*
 * Take the descriptors of a message: store them while there is room, else close them. Returns how
 * many arrived.
 */
static size_t take_fds(struct msghdr *msg, int *fds, size_t *ret_stored)
{
    size_t came = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++, came++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (fds != NULL && *ret_stored < SNP_FDS_MAX) {
                fds[(*ret_stored)++] = fd;
            } else {
                snp_closep(&fd);
            }
        }
    }
    return came;
}

ssize_t snp_recv_fds(int sock, void *bytes, size_t n, int *fds, size_t *ret_n_fds)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(SNP_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    if (ret_n_fds != NULL) {
        *ret_n_fds = 0;
    }
    ssize_t got = SNP_RETRY(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC));
    if (got < 0) {
        return -1;
    }
    size_t stored = 0;
    size_t came = take_fds(&msg, fds, &stored);
    if (((unsigned)msg.msg_flags & (unsigned)MSG_CTRUNC) != 0 || came > SNP_FDS_MAX) {
        for (size_t i = 0; i < stored; i++) {
            (void)close(fds[i]);
        }
        errno = EBADMSG;
        return -1;
    }
    if (ret_n_fds != NULL) {
        *ret_n_fds = stored;
    }
    return got;
}

int snp_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return -1;
    }
    int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return wanted == flags ? 0 : fcntl(fd, F_SETFL, wanted);
}
