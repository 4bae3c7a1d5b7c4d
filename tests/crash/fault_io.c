/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points at the calls that change files and move frames, in test builds.
 *
 * The program defines these functions of the C library itself, so libraries it uses
 * (SQLite, libuv) call them too. A point's name is the call and what it works on:
 * "write.state/journal/journal.db-wal", "send.socket", "fsync.state/journal".
 *
 * With a record (io_max of the shared file) every change of the state folder is written
 * down, contents included; a test cuts the power anywhere in it, see tests/crash.
 *
 * Invariants: calls that are not ours to change go to the kernel as they came; in a forked
 * child all do. The order of records is the order of the calls within one process.
 */
#undef _FILE_OFFSET_BITS /* open() and open64() are both defined here */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/macro.h"
#include "crash/fault.h"

#define REAL __attribute__((__visibility__("default")))

enum {
    NAME_MAX_LEN = 72,
    TORN_MAX = 1 << 20,
};

enum io_op {
    IO_WRITE = 1, /* path: of the file; data */
    IO_SYNC,      /* path: a file or a folder */
    IO_TRUNCATE,  /* offset is the new length */
    IO_RENAME,    /* path to other */
    IO_UNLINK,
    IO_CREATE, /* a file that was not there */
    IO_MKDIR,
    IO_RMDIR,
    IO_LINK, /* other is the new name of path */
};

/* A record: this, path and other with their NULs, data; padded to 8 bytes. */
struct io_record {
    uint32_t size; /* of all of it; 0 while it is being written */
    uint32_t op;
    uint64_t ino;
    uint64_t offset;
    uint64_t mono_us;
    uint32_t path_len;
    uint32_t other_len;
    uint32_t data_len;
    uint32_t unused;
};

static pthread_mutex_t io_lock = PTHREAD_MUTEX_INITIALIZER;

/* Places ------------------------------------------------------------------------------ */

/* The state folder; empty if none is set. */
static const char *state_folder(size_t *ret_len)
{
    static const char *folder;
    static size_t len;
    if (folder == NULL) {
        const char *text = getenv("SNIPARA_SANDBOX_STATE_DIR");
        len = text == NULL ? 0 : strlen(text);
        folder = text == NULL ? "" : text;
    }
    *ret_len = len;
    return folder;
}

/* What is below the state folder in path; NULL if it is elsewhere. */
static const char *below_state(const char *path)
{
    size_t n;
    const char *folder = state_folder(&n);
    if (n == 0 || strncmp(path, folder, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
        return NULL;
    }
    return path[n] == '/' ? path + n + 1 : path + n;
}

/* The absolute path of name in dir; false if it cannot be told. */
static bool path_at(int dir, const char *name, char path[PATH_MAX])
{
    char link[64];
    if (name[0] == '/') {
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    }
    if (dir == AT_FDCWD) {
        (void)snprintf(link, sizeof(link), "/proc/self/cwd");
    } else {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
    }
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n < 0) {
        return false;
    }
    path[n] = '\0';
    if (name[0] != '\0') {
        size_t room = PATH_MAX - (size_t)n;
        return (size_t)snprintf(path + n, room, "/%s", name) < room;
    }
    char *deleted = strstr(path, " (deleted)");
    if (deleted != NULL) {
        *deleted = '\0';
    }
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Names that are different each time become one: long numbers, and endings of mkostemp. */
static void generalise(const char *path, char *out, size_t size)
{
    size_t n = 0;
    const char *blobs = strstr(path, "blobs/");
    size_t len = blobs != NULL ? (size_t)(blobs - path) + 6 : strlen(path);
    const char *dot = strrchr(path, '.');
    if (blobs == NULL && dot != NULL && strlen(dot) == 7 && strpbrk(dot, "/-") == NULL) {
        len = (size_t)(dot - path) + 1;
    }
    for (size_t i = 0; i < len && n + 2 < size;) {
        size_t hex = 0;
        while (i + hex < len && is_hex(path[i + hex])) {
            hex++;
        }
        bool is_number = hex > 0 && path[i] >= '0' && path[i] <= '9';
        if (hex >= 6 || is_number) {
            out[n++] = '#';
            i += hex;
            continue;
        }
        hex = hex > 0 ? hex : 1;
        while (hex-- > 0 && n + 2 < size) {
            out[n++] = path[i++];
        }
    }
    if (len < strlen(path) && n + 2 < size) {
        out[n++] = '#';
    }
    out[n] = '\0';
}

static void name_of_path(const char *op, const char *path, char name[NAME_MAX_LEN])
{
    const char *below = below_state(path);
    char general[NAME_MAX_LEN];
    if (below != NULL) {
        generalise(below, general, sizeof(general));
        (void)snprintf(name, NAME_MAX_LEN, "%s.state/%.50s", op, general);
        return;
    }
    static const struct {
        const char *prefix;
        const char *name;
    } places[] = {
        {"/sys/fs/cgroup", "cgroup"}, {"/proc", "proc"}, {"socket:", "socket"}, {"pipe:", "pipe"},
        {"anon_inode:", "event"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(places); i++) {
        if (strncmp(path, places[i].prefix, strlen(places[i].prefix)) == 0) {
            (void)snprintf(name, NAME_MAX_LEN, "%s.%s", op, places[i].name);
            return;
        }
    }
    (void)snprintf(name, NAME_MAX_LEN, "%s.other", op);
}

/* Points ------------------------------------------------------------------------------ */

/*
 * Files of the kernel take a write as a whole or not at all. A half of it would mean something
 * else, to processes that are not ours: the beginning of a number is another process.
 */
static bool is_atomic(const char *name)
{
    return strstr(name, ".cgroup") != NULL || strstr(name, ".proc") != NULL;
}

/*
 * Single bytes in pipes are the lock of libuv's signals and the like: no kernel fails there, and
 * libuv would wait for ever.
 */
static bool is_token(int fd, size_t n)
{
    struct stat st;
    int eno = errno;
    bool is = n == 1 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);

    errno = eno;
    return is;
}

/* The point of a call on a descriptor. */
static enum snp_fault_action hit_fd(const char *op, int fd, int *ret_eno)
{
    char path[PATH_MAX];
    char name[NAME_MAX_LEN];
    enum snp_fault_action action;
    int eno = errno;

    *ret_eno = 0;
    if (!snp_fault_is_on()) {
        return SNP_FAULT_NONE;
    }
    if (fd == STDERR_FILENO) {
        (void)snprintf(name, sizeof(name), "%s.log", op);
    } else if (path_at(fd, "", path)) {
        name_of_path(op, path, name);
    } else {
        (void)snprintf(name, sizeof(name), "%s.unknown", op);
    }
    errno = eno;
    if (strstr(name, ".event") != NULL) {
        return SNP_FAULT_NONE;
    }
    action = snp_fault_hit(name, ret_eno);
    if (action == SNP_FAULT_TORN && is_atomic(name)) {
        snp_fault_die();
    }
    return action;
}

/* The point of a call on a path; false and errno if it is to fail. */
static bool pass_path(const char *op, int dir, const char *file)
{
    char path[PATH_MAX];
    char name[NAME_MAX_LEN];
    int eno = errno;
    int why = 0;

    if (!snp_fault_is_on() || !path_at(dir, file, path)) {
        errno = eno;
        return true;
    }
    name_of_path(op, path, name);
    enum snp_fault_action action = snp_fault_hit(name, &why);
    if (action == SNP_FAULT_TORN) {
        snp_fault_die();
    }
    errno = action == SNP_FAULT_FAIL ? why : eno;
    return action != SNP_FAULT_FAIL;
}

/* Received data: only sockets and pipes are worth a point. */
static bool pass_receive(int fd)
{
    struct stat st;
    int why = 0;
    int eno = errno;
    if (!snp_fault_is_on() || fstat(fd, &st) < 0 ||
        !(S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode))) {
        errno = eno;
        return true;
    }
    const char *name = S_ISSOCK(st.st_mode) ? "recv.socket" : "recv.pipe";
    if (snp_fault_hit(name, &why) == SNP_FAULT_TORN) {
        snp_fault_die();
    }
    errno = why != 0 ? why : eno;
    return why == 0;
}

/* The record -------------------------------------------------------------------------- */

static struct snp_fault_file *recorder(void)
{
    struct snp_fault_file *file = snp_fault_shared();
    return file != NULL && file->io_max > 0 && snp_fault_is_on() ? file : NULL;
}

static void record(enum io_op op,
                   const struct io_record *what,
                   const char *path,
                   const char *other,
                   const void *data)
{
    struct snp_fault_file *file = snp_fault_shared();
    struct io_record r = *what;
    r.op = op;
    r.path_len = (uint32_t)strlen(path) + 1;
    r.other_len = other == NULL ? 0 : (uint32_t)strlen(other) + 1;
    r.mono_us = snp_now_us();
    size_t size = (sizeof(r) + r.path_len + r.other_len + r.data_len + 7) & ~(size_t)7;
    uint64_t at = __atomic_fetch_add(&file->io_len, size, __ATOMIC_ACQ_REL);
    if (at + size > file->io_max) {
        return;
    }
    char *to = (char *)file + SNP_FAULT_IO_AT + at;
    memcpy(to, &r, sizeof(r));
    memcpy(to + sizeof(r), path, r.path_len);
    if (other != NULL) {
        memcpy(to + sizeof(r) + r.path_len, other, r.other_len);
    }
    if (r.data_len > 0) {
        memcpy(to + sizeof(r) + r.path_len + r.other_len, data, r.data_len);
    }
    uint32_t size32 = (uint32_t)size;
    memcpy(to, &size32, sizeof(size32));
}

/* A change through a descriptor, after it was made. */
static void record_fd(enum io_op op, int fd, uint64_t offset, const void *data, size_t n)
{
    char path[PATH_MAX];
    int eno = errno;
    struct stat st;
    if (recorder() != NULL && path_at(fd, "", path)) {
        const char *below = below_state(path);
        if (below != NULL && fstat(fd, &st) == 0) {
            struct io_record r = {.ino = st.st_ino, .offset = offset, .data_len = (uint32_t)n};
            record(op, &r, below, NULL, data);
        }
    }
    errno = eno;
}

/* A change of names, after it was made. */
static void record_path(enum io_op op, int dir, const char *file, int dir2, const char *file2)
{
    char path[PATH_MAX];
    char other[PATH_MAX];
    int eno = errno;
    struct stat st = {0};
    if (recorder() != NULL && path_at(dir, file, path) &&
        (file2 == NULL || path_at(dir2, file2, other))) {
        const char *below = below_state(path);
        const char *below2 = file2 == NULL ? NULL : below_state(other);
        (void)lstat(file2 == NULL ? path : other, &st);
        if (below != NULL && (file2 == NULL) == (below2 == NULL)) {
            record(op, &(struct io_record){.ino = st.st_ino}, below, below2, NULL);
        }
    }
    errno = eno;
}

/* Signals are blocked while the lock is held: a handler that writes would wait for it forever. */
static sigset_t unlocked_signals; /* protected by io_lock */

static void lock(void)
{
    if (recorder() != NULL) {
        sigset_t all;
        sigset_t before;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
        (void)pthread_mutex_lock(&io_lock);
        unlocked_signals = before;
    }
}

static void unlock(void)
{
    if (recorder() != NULL) {
        sigset_t before = unlocked_signals;
        (void)pthread_mutex_unlock(&io_lock);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
}

/* Writing ----------------------------------------------------------------------------- */

/* What a caller does with an action at a write of n bytes: how many to write, -1 to fail. */
static ssize_t write_size(enum snp_fault_action action, int eno, size_t n)
{
    if (action == SNP_FAULT_FAIL) {
        errno = eno;
        return -1;
    }
    return (ssize_t)(action == SNP_FAULT_TORN ? n / 2 : n);
}

REAL ssize_t write(int fd, const void *bytes, size_t n)
{
    int eno = 0;
    enum snp_fault_action action = is_token(fd, n) ? SNP_FAULT_NONE : hit_fd("write", fd, &eno);
    ssize_t size = write_size(action, eno, n);
    if (size < 0) {
        return -1;
    }
    lock();
    ssize_t done = syscall(SYS_write, fd, bytes, (size_t)size);
    if (done > 0 && recorder() != NULL) {
        off_t end = (off_t)syscall(SYS_lseek, fd, 0L, SEEK_CUR);
        record_fd(IO_WRITE, fd, (uint64_t)(end - done), bytes, (size_t)done);
    }
    unlock();
    if (action == SNP_FAULT_TORN) {
        snp_fault_die();
    }
    return done;
}

REAL ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t offset)
{
    int eno;
    enum snp_fault_action action = hit_fd("write", fd, &eno);
    ssize_t size = write_size(action, eno, n);
    if (size < 0) {
        return -1;
    }
    lock();
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, (size_t)size, offset);
    if (done > 0) {
        record_fd(IO_WRITE, fd, (uint64_t)offset, bytes, (size_t)done);
    }
    unlock();
    if (action == SNP_FAULT_TORN) {
        snp_fault_die();
    }
    return done;
}

REAL ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    return pwrite64(fd, bytes, n, offset);
}

/* Part by part, which the kernel would do as one; nobody here needs that. */
REAL ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t offset)
{
    ssize_t sum = 0;
    for (int i = 0; i < n; i++) {
        ssize_t done = pwrite64(fd, parts[i].iov_base, parts[i].iov_len, offset + sum);
        if (done < 0) {
            return sum > 0 ? sum : -1;
        }
        sum += done;
        if ((size_t)done < parts[i].iov_len) {
            break;
        }
    }
    return sum;
}

REAL ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t offset)
{
    return pwritev64(fd, parts, n, offset);
}

/* Likewise. */
REAL ssize_t writev(int fd, const struct iovec *parts, int n)
{
    ssize_t sum = 0;
    if (!snp_fault_is_on()) {
        return syscall(SYS_writev, fd, parts, n);
    }
    for (int i = 0; i < n; i++) {
        ssize_t done = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (done < 0) {
            return sum > 0 ? sum : -1;
        }
        sum += done;
        if ((size_t)done < parts[i].iov_len) {
            break;
        }
    }
    return sum;
}

REAL int ftruncate64(int fd, off64_t length)
{
    int eno;
    enum snp_fault_action action = hit_fd("truncate", fd, &eno);
    if (write_size(action, eno, 0) < 0) {
        return -1;
    }
    lock();
    int r = (int)syscall(SYS_ftruncate, fd, length);
    if (r == 0) {
        record_fd(IO_TRUNCATE, fd, (uint64_t)length, NULL, 0);
    }
    unlock();
    return r;
}

REAL int ftruncate(int fd, off_t length)
{
    return ftruncate64(fd, length);
}

static int sync_fd(long call, int fd)
{
    int eno;
    enum snp_fault_action action = hit_fd("fsync", fd, &eno);
    if (write_size(action, eno, 0) < 0) {
        return -1;
    }
    lock();
    int r = (int)syscall(call, fd);
    if (r == 0) {
        record_fd(IO_SYNC, fd, 0, NULL, 0);
    }
    unlock();
    return r;
}

REAL int fsync(int fd)
{
    return sync_fd(SYS_fsync, fd);
}

REAL int fdatasync(int fd)
{
    return sync_fd(SYS_fdatasync, fd);
}

/* Names ------------------------------------------------------------------------------- */

REAL int renameat2(int from, const char *name, int to, const char *other, unsigned flags)
{
    if (!pass_path("rename", to, other)) {
        return -1;
    }
    lock();
    int r = (int)syscall(SYS_renameat2, from, name, to, other, flags);
    if (r == 0) {
        record_path(IO_RENAME, from, name, to, other);
    }
    unlock();
    return r;
}

REAL int renameat(int from, const char *name, int to, const char *other)
{
    return renameat2(from, name, to, other, 0);
}

REAL int rename(const char *name, const char *other)
{
    return renameat2(AT_FDCWD, name, AT_FDCWD, other, 0);
}

REAL int unlinkat(int dir, const char *name, int flags)
{
    if (!pass_path("unlink", dir, name)) {
        return -1;
    }
    lock();
    int r = (int)syscall(SYS_unlinkat, dir, name, flags);
    if (r == 0) {
        record_path((flags & AT_REMOVEDIR) != 0 ? IO_RMDIR : IO_UNLINK, dir, name, 0, NULL);
    }
    unlock();
    return r;
}

REAL int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

REAL int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

REAL int mkdirat(int dir, const char *name, mode_t mode)
{
    if (!pass_path("mkdir", dir, name)) {
        return -1;
    }
    lock();
    int r = (int)syscall(SYS_mkdirat, dir, name, mode);
    if (r == 0) {
        record_path(IO_MKDIR, dir, name, 0, NULL);
    }
    unlock();
    return r;
}

REAL int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

REAL int linkat(int from, const char *name, int to, const char *other, int flags)
{
    if (!pass_path("link", to, other)) {
        return -1;
    }
    lock();
    int r = (int)syscall(SYS_linkat, from, name, to, other, flags);
    if (r == 0) {
        record_path(IO_LINK, from, name, to, other);
    }
    unlock();
    return r;
}

REAL int link(const char *name, const char *other)
{
    return linkat(AT_FDCWD, name, AT_FDCWD, other, 0);
}

/* Opening is a point only where it may make a file. */
static int open_at(int dir, const char *name, int flags, mode_t mode)
{
    struct stat st;
    bool makes = (flags & O_CREAT) != 0 && snp_fault_is_on();
    if (makes && !pass_path("create", dir, name)) {
        return -1;
    }
    if (!makes || recorder() == NULL) {
        return (int)syscall(SYS_openat, dir, name, flags, mode);
    }
    lock();
    bool is_new = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
    int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
    if (fd >= 0 && is_new) {
        record_fd(IO_CREATE, fd, 0, NULL, 0);
    } else if (fd >= 0 && (flags & O_TRUNC) != 0) {
        record_fd(IO_TRUNCATE, fd, 0, NULL, 0);
    }
    unlock();
    return fd;
}

#define OPEN_MODE(flags, mode)                        \
    do {                                              \
        if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
            va_list list;                             \
            va_start(list, flags);                    \
            (mode) = va_arg(list, mode_t);            \
            va_end(list);                             \
        }                                             \
    } while (0)

REAL int open(const char *name, int flags, ...)
{
    mode_t mode = 0;
    OPEN_MODE(flags, mode);
    return open_at(AT_FDCWD, name, flags, mode);
}

REAL int open64(const char *name, int flags, ...)
{
    mode_t mode = 0;
    OPEN_MODE(flags, mode);
    return open_at(AT_FDCWD, name, flags, mode);
}

REAL int openat(int dir, const char *name, int flags, ...)
{
    mode_t mode = 0;
    OPEN_MODE(flags, mode);
    return open_at(dir, name, flags, mode);
}

REAL int openat64(int dir, const char *name, int flags, ...)
{
    mode_t mode = 0;
    OPEN_MODE(flags, mode);
    return open_at(dir, name, flags, mode);
}

/* Frames ------------------------------------------------------------------------------ */

REAL ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    int eno;
    enum snp_fault_action action = hit_fd("send", fd, &eno);
    if (action == SNP_FAULT_FAIL) {
        errno = eno;
        return -1;
    }
    if (action == SNP_FAULT_TORN && msg->msg_iovlen > 0) {
        struct iovec half = msg->msg_iov[0];
        struct msghdr torn = *msg;
        half.iov_len = (half.iov_len + 1) / 2;
        torn.msg_iov = &half;
        torn.msg_iovlen = 1;
        (void)syscall(SYS_sendmsg, fd, &torn, flags);
        snp_fault_die();
    }
    return syscall(SYS_sendmsg, fd, msg, flags);
}

REAL ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    int eno;
    enum snp_fault_action action = hit_fd("send", fd, &eno);
    ssize_t size = write_size(action, eno, n);
    if (size < 0) {
        return -1;
    }
    ssize_t done = syscall(SYS_sendto, fd, bytes, (size_t)size, flags, NULL, 0);
    if (action == SNP_FAULT_TORN) {
        snp_fault_die();
    }
    return done;
}

REAL ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    return pass_receive(fd) ? syscall(SYS_recvfrom, fd, bytes, n, flags, NULL, NULL) : -1;
}

REAL ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    return pass_receive(fd) ? syscall(SYS_recvmsg, fd, msg, flags) : -1;
}

REAL ssize_t read(int fd, void *bytes, size_t n)
{
    return is_token(fd, n) || pass_receive(fd) ? syscall(SYS_read, fd, bytes, n) : -1;
}

/* The wall's clock -------------------------------------------------------------------- */

REAL int clock_gettime(clockid_t id, struct timespec *ret)
{
    int r = (int)syscall(SYS_clock_gettime, id, ret);
    struct snp_fault_file *file = snp_fault_shared();
    if (r == 0 && id == CLOCK_REALTIME && file != NULL && file->wall_offset_us != 0) {
        int64_t us = ret->tv_nsec / 1000 + file->wall_offset_us % 1000000;
        int64_t carry = us < 0 ? -1 : us / 1000000;
        ret->tv_sec += file->wall_offset_us / 1000000 + carry;
        ret->tv_nsec = (us - carry * 1000000) * 1000 + ret->tv_nsec % 1000;
    }
    return r;
}

REAL int gettimeofday(struct timeval *restrict ret, void *restrict zone SNP_UNUSED)
{
    struct timespec now;
    int r = clock_gettime(CLOCK_REALTIME, &now);
    ret->tv_sec = now.tv_sec;
    ret->tv_usec = now.tv_nsec / 1000;
    return r;
}

REAL time_t time(time_t *ret)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}
