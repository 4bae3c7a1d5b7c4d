/* SPDX-License-Identifier: Apache-2.0 */
/* Writing trajectories. */
#include "trajectory/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/str.h"
#include "trajectory/chain.h"
#include "trajectory/reader.h"

enum {
    FDINFO_MAX = 64 << 10,
    TAIL_MAX = 256, /* bytes of mac and hash */
};

struct snp_trajectory {
    int fd;     /* -1 = none */
    char *path; /* owned */
    unsigned char key[SNP_CHAIN_KEY];
    struct snp_chain chain;
    int64_t seq;    /* of the last line */
    off_t size;     /* bytes that are whole lines */
    bool is_broken; /* a torn line could not be removed: nothing is appended */
};

/* Processes --------------------------------------------------------------------------------- */

json_t *snp_trajectory_process(void)
{
    snp_autofree char *boot = snp_boot_id();
    int64_t pid = getpid();

    return json_pack("{s:I, s:I, s:s?}", "pid", (json_int_t)pid, "start",
                     (json_int_t)snp_process_began((uint64_t)pid), "boot", boot);
}

static bool is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool snp_trajectory_is_written(const char *path)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return fd >= 0 && is_locked(fd);
}

/* Whether descriptor number fd of a process is the open file that has the lock on this one. */
static bool fd_has_lock(int64_t pid, const char *fd, const struct stat *file)
{
    snp_autofree char *link = snp_format("/proc/%lld/fd/%.20s", (long long)pid, fd);
    snp_autofree char *info = snp_format("/proc/%lld/fdinfo/%.20s", (long long)pid, fd);
    snp_autofree char *text = NULL;
    const char *lock;
    struct stat st;
    struct snp_err err;

    if (link == NULL || info == NULL || stat(link, &st) < 0 || st.st_dev != file->st_dev ||
        st.st_ino != file->st_ino || snp_file_read(info, FDINFO_MAX, &text, NULL, &err) < 0) {
        return false;
    }
    lock = strstr(text, "\nlock:");
    return lock != NULL && strstr(lock, "OFDLCK") != NULL && strstr(lock, "WRITE") != NULL;
}

/*
 * Whether a process writes a file. The writer named in the file may be forged, and another process
 * may hold the lock; the kernel knows the holder.
 */
static bool has_lock(int64_t pid, const char *path)
{
    snp_autofree char *folder = snp_format("/proc/%lld/fd", (long long)pid);
    DIR *dir = folder == NULL ? NULL : opendir(folder);
    const struct dirent *entry;
    struct stat file;
    bool has = false;

    if (dir == NULL) {
        return false;
    }
    while (!has && lstat(path, &file) == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        has = entry->d_name[0] != '.' && fd_has_lock(pid, entry->d_name, &file);
    }
    (void)closedir(dir);
    return has;
}

int snp_trajectory_stop(const char *path, const json_t *process, int number, struct snp_err *err)
{
    int64_t pid = snp_json_int(process, "pid", 0);
    int64_t start = snp_json_int(process, "start", 0);
    snp_autofree char *boot = snp_boot_id();
    snp_autoclose int pidfd = -1;

    if (!snp_trajectory_is_written(path)) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the run is not in progress");
    }
    if (pid > 0 && snp_streq(boot, snp_json_str(process, "boot", NULL))) {
        pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    }
    /* The number was valid when the pidfd was opened, if the process began when the run's did. */
    if (pidfd < 0 || start <= 0 || !has_lock(pid, path) ||
        snp_process_began((uint64_t)pid) != (uint64_t)start) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "cannot confirm that the process on record (pid %lld) writes this file",
                        (long long)pid);
    }
    if (syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0) {
        return errno == ESRCH ? snp_fail(err, SNP_E_NOT_FOUND, "the run has just ended")
                              : snp_fail_sys(err, errno, "signal process %lld", (long long)pid);
    }
    return 0;
}

/* Files ------------------------------------------------------------------------------------- */

static int lock_take(const struct snp_trajectory *t, struct snp_err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(t->fd, F_OFD_SETLK, &lock) == 0) {
        return 0;
    }
    return errno == EAGAIN || errno == EACCES
               ? snp_fail(err, SNP_E_LIMIT, "%s is being written: the run is still in progress",
                          t->path)
               : snp_fail_sys(err, errno, "lock %s", t->path);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static struct snp_trajectory *trajectory_new(char *path, const unsigned char *key)
{
    struct snp_trajectory *t = path == NULL ? NULL : calloc(1, sizeof(*t));

    if (t == NULL) {
        free(path);
        return NULL;
    }
    t->fd = -1;
    t->path = path;
    memcpy(t->key, key, SNP_CHAIN_KEY);
    snp_chain_init(&t->chain);
    return t;
}

static bool leads_out(int fd, const char *name)
{
    struct stat st;

    return strcmp(name, "..") == 0 ||
           (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
}

static int leads_out_fail(const char *dir, struct snp_err *err)
{
    return snp_fail_with(
        err, SNP_E_DENIED, SNP_REMEDY_LOG_DIR, NULL, 0,
        "%.200s could put records outside this folder: the path is or contains a symbolic link",
        dir);
}

/*
 * Open a folder one level down, created if missing. A link put there at the same time is not
 * followed.
 */
static int step_down(int *fd, const char *name, const char *dir, struct snp_err *err)
{
    int next;
    int saved;

    if (leads_out(*fd, name)) {
        return leads_out_fail(dir, err);
    }
    next = mkdirat(*fd, name, 0700) < 0 && errno != EEXIST
               ? -1
               : openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    saved = errno;
    snp_closep(fd);
    *fd = next;
    return next < 0 ? snp_fail_sys(err, saved, "open %s", dir) : 0;
}

/* Open the folder of records; step by step from the current one if it is a default. */
static int folder_open(const char *dir, bool is_beneath, int *ret, struct snp_err *err)
{
    snp_autofree char *parts = strdup(is_beneath ? dir : "");
    char *rest = parts;
    const char *name;
    snp_autoclose int fd = open(is_beneath ? "." : dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? snp_fail_sys(err, errno, "open %s", dir) : 0;

    if (parts == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (r == 0 && parts[0] == '/') {
        return leads_out_fail(dir, err);
    }
    while (r == 0 && (name = strsep(&rest, "/")) != NULL) {
        r = name[0] == '\0' || strcmp(name, ".") == 0 ? 0 : step_down(&fd, name, dir, err);
    }
    *ret = r < 0 ? -1 : SNP_TAKE_FD(fd);
    return r;
}

static int head_add(struct snp_trajectory *t, json_t *head, struct snp_err *err)
{
    json_t *process = snp_trajectory_process();

    if (head == NULL || process == NULL || json_object_set(head, "process", process) < 0) {
        json_decref(head);
        json_decref(process);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    json_decref(process);
    return snp_trajectory_add(t, head, true, err);
}

int snp_trajectory_create(const struct snp_trajectory_place *place,
                          const char *id,
                          const unsigned char *key,
                          json_t *head,
                          struct snp_trajectory **ret,
                          struct snp_err *err)
{
    snp_autotrajectory struct snp_trajectory *t =
        trajectory_new(snp_format("%s/%s.jsonl", place->dir, id), key);
    snp_autoclose int folder = -1;
    int r = t == NULL           ? snp_fail(err, SNP_E_NOMEM, "out of memory")
            : place->is_beneath ? 0
                                : snp_mkdir_p(place->dir, 0700, err);

    r = r < 0 ? r : folder_open(place->dir, place->is_beneath, &folder, err);
    if (r == 0) {
        t->fd = openat(folder, name_of(t->path),
                       O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = t->fd < 0 ? snp_fail_sys(err, errno, "create %s", t->path) : 0;
    }
    r = r < 0 ? r : lock_take(t, err);
    if (r < 0) {
        json_decref(head);
        return r;
    }
    r = head_add(t, head, err);
    if (r == 0 && fsync(folder) < 0) { /* else its new name may not survive a power cut */
        r = snp_fail_sys(err, errno, "sync %s", place->dir);
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(t);
    }
    return r;
}

int snp_trajectory_resume(const char *path,
                          bool is_beneath,
                          const unsigned char *key,
                          struct snp_trajectory **ret,
                          size_t *ret_torn,
                          struct snp_err *err)
{
    snp_autotrajectory struct snp_trajectory *t = trajectory_new(strdup(path), key);
    /* with its slash; "" without any */
    snp_autofree char *dir = strndup(path, (size_t)(name_of(path) - path));
    struct snp_trajectory_check check;
    snp_autoclose int folder = -1;
    int r;

    if (t == NULL || dir == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = folder_open(dir[0] == '\0' ? "." : dir, is_beneath, &folder, err);
    if (r < 0) {
        return r;
    }
    t->fd = openat(folder, name_of(path), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (t->fd < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    r = lock_take(t, err);
    r = r < 0 ? r : snp_trajectory_own(path, key, &check, err);
    if (r < 0) {
        return r;
    }
    if (check.torn > 0 && ftruncate(t->fd, (off_t)check.whole) < 0) {
        return snp_fail_sys(err, errno, "cut the torn line of %s", path);
    }
    t->chain = check.chain;
    t->seq = check.last_seq;
    t->size = (off_t)check.whole;
    *ret_torn = check.torn;
    *ret = SNP_TAKE_PTR(t);
    return 0;
}

void snp_trajectory_free(struct snp_trajectory *t)
{
    if (t != NULL) {
        snp_closep(&t->fd);
        explicit_bzero(t->key, sizeof(t->key));
        free(t->path);
        free(t);
    }
}

const char *snp_trajectory_path(const struct snp_trajectory *t)
{
    return t->path;
}

/* Lines ------------------------------------------------------------------------------------- */

static int line_write(struct snp_trajectory *t, struct snp_buf *line, struct snp_err *err)
{
    int saved;

    if (snp_write_all(t->fd, snp_buf_bytes(line), line->len) == 0) {
        t->size += (off_t)line->len;
        return 0;
    }
    saved = errno;
    t->is_broken = ftruncate(t->fd, t->size) < 0;
    return snp_fail_sys(err, saved, "write %s", t->path);
}

static int line_add(struct snp_trajectory *t, const char *body, struct snp_err *err)
{
    snp_autobuf struct snp_buf line = {0};
    size_t n = strlen(body);
    struct snp_chain chain = t->chain;
    char mac[SNP_CHAIN_HEX + 1];
    char hash[SNP_CHAIN_HEX + 1];
    int r;

    if (n > SNP_TRAJECTORY_LINE_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "a record of %zu bytes is too long for %s", n, t->path);
    }
    snp_buf_init(&line, n + TAIL_MAX);
    if (snp_chain_mac(&chain, t->key, body, n, mac) < 0) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "libcrypto has no HMAC-SHA-256 for %s", t->path);
    }
    r = snp_buf_add(&line, body, n - 1);
    r = r < 0 ? r : snp_buf_addf(&line, ",\"mac\":\"%s\"}", mac);
    if (r < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (snp_chain_next(&chain, snp_buf_bytes(&line), line.len, hash) < 0) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "libcrypto has no SHA-256 for %s", t->path);
    }
    line.len--; /* its "}" */
    r = snp_buf_addf(&line, ",\"hash\":\"%s\"}\n", hash);
    if (r < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = line_write(t, &line, err);
    if (r == 0) {
        t->chain = chain;
        t->seq++;
    }
    return r;
}

int snp_trajectory_add(struct snp_trajectory *t,
                       json_t *record,
                       bool is_synced,
                       struct snp_err *err)
{
    snp_autojson json_t *owned = record;
    snp_autofree char *body = NULL;
    int r;

    if (t->is_broken) {
        return snp_fail(err, SNP_E_SYS, "%s ends with a torn line", t->path);
    }
    if (owned != NULL &&
        json_object_set_new(owned, "seq", json_integer((json_int_t)t->seq + 1)) == 0) {
        body = snp_json_text(owned);
    }
    if (body == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = line_add(t, body, err);
    if (r == 0 && is_synced && fdatasync(t->fd) < 0) {
        return snp_fail_sys(err, errno, "sync %s", t->path);
    }
    return r;
}
