/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime and state folders.
 *
 * /tmp is shared, so a folder there may have been planted: a user who can write to the runtime
 * folder can pose as the daemon and receive another user's code. Therefore a folder is used only
 * after it has been opened without following links and its owner and mode have been read from that
 * descriptor.
 */
#include "base/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    LOG_MAX = 1 << 20,
    DIR_MODE = 0700,
    ID_LEN = 32, /* of snp_random_id */
};

static int dir_check(const char *path, mode_t forbidden, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        return snp_fail(err, SNP_E_DENIED, "%s is not a real folder; remove it", path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    if (st.st_uid != geteuid()) {
        return snp_fail(err, SNP_E_DENIED, "%s belongs to user %u, not to you (user %u)", path,
                        (unsigned)st.st_uid, (unsigned)geteuid());
    }
    if ((st.st_mode & forbidden) != 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "%s has mode %04o, which gives others access; run: chmod 700 %s", path,
                        (unsigned)(st.st_mode & 07777), path);
    }
    return 0;
}

int snp_private_dir(const char *path, struct snp_err *err)
{
    struct stat st;

    if (mkdir(path, DIR_MODE) < 0 && errno != EEXIST) {
        return snp_fail_sys(err, errno, "mkdir %s", path);
    }
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return snp_fail(err, SNP_E_DENIED, "%s is not a real folder; remove it", path);
    }
    if (st.st_uid != geteuid()) { /* usually because of an earlier run with sudo */
        return snp_fail(err, SNP_E_DENIED,
                        "%s belongs to user %u, not to you; run as root: chown -R %u %s", path,
                        (unsigned)st.st_uid, (unsigned)geteuid(), path);
    }
    return (st.st_mode & 07777) == DIR_MODE || chmod(path, DIR_MODE) == 0
               ? 0
               : snp_fail_sys(err, errno, "chmod 700 %s", path);
}

static int dir_make(char *path, mode_t forbidden, char **ret_path, struct snp_err *err)
{
    snp_autofree char *owned = path;
    int r;

    if (owned == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_mkdir_p(owned, DIR_MODE, err);
    if (r < 0) {
        struct stat st;

        /* Report a link or a file in its place first, as the clearer message. */
        if (lstat(owned, &st) == 0 && !S_ISDIR(st.st_mode)) {
            return snp_fail(err, SNP_E_DENIED, "%s is not a real folder; remove it", owned);
        }
        return r;
    }
    r = dir_check(owned, forbidden, err);
    if (r < 0) {
        return r;
    }
    *ret_path = SNP_TAKE_PTR(owned);
    return 0;
}

/* A variable's value if it is an absolute path; SNP_E_INVALID if it is relative. */
static int env_path(const char *name, const char **ret_path, struct snp_err *err)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    if (value == NULL || value[0] == '\0') {
        *ret_path = NULL;
        return 0;
    }
    if (value[0] != '/') {
        return snp_fail(err, SNP_E_INVALID, "%s must be an absolute path, not '%s'", name, value);
    }
    *ret_path = value;
    return 0;
}

/* Whether a folder of the desktop's base directories is ours; others are ignored. */
static bool is_own_dir(const char *path)
{
    struct stat st;

    return path != NULL && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

int snp_runtime_dir(char **ret_path, struct snp_err *err)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
    const char *own = NULL;
    char usual[48];
    char *path;
    int r = env_path("SNIPARA_SANDBOX_RUNTIME_DIR", &own, err);

    if (r < 0) {
        return r;
    }
    if (own != NULL) {
        path = strdup(own);
    } else if (is_own_dir(xdg)) {
        path = snp_format("%s/snipara-sandbox", xdg);
    } else {
        /*
         * The usual place: AI clients, cron and sudo drop the variable but must find the same
         * daemon.
         */
        (void)snprintf(usual, sizeof(usual), "/run/user/%u", (unsigned)geteuid());
        path = is_own_dir(usual) ? snp_format("%s/snipara-sandbox", usual)
                                 : snp_format("/tmp/snipara-sandbox-%u", (unsigned)geteuid());
    }
    r = dir_make(path, 077, ret_path, err);
    return r == 0        ? 0
           : own != NULL ? snp_err_wrap(err, "runtime folder")
                         : snp_err_wrap(err, "runtime folder (to use another, set "
                                             "SNIPARA_SANDBOX_RUNTIME_DIR)");
}

/* The first variable set decides: sessions must not move because a folder is unusable now. */
int snp_state_dir(char **ret_path, struct snp_err *err)
{
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): one thread */
    const char *own = NULL;
    const char *xdg = NULL;
    snp_autofree char *path = NULL;
    int r = env_path("SNIPARA_SANDBOX_STATE_DIR", &own, err);

    r = r < 0 || own != NULL ? r : env_path("XDG_STATE_HOME", &xdg, err);
    if (r < 0) {
        return r;
    }
    if (own == NULL && xdg == NULL && !is_own_dir(home)) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_STATE_DIR, NULL, 0,
                             "no state folder: HOME (%s) is not a folder of yours (user %u); "
                             "set HOME",
                             home == NULL ? "not set" : home, (unsigned)geteuid());
    }
    path = own != NULL   ? strdup(own)
           : xdg != NULL ? snp_format("%s/snipara-sandbox", xdg)
                         : snp_format("%s/.local/state/snipara-sandbox", home);
    r = dir_make(path == NULL ? NULL : strdup(path), 022, ret_path, err);
    if (r < 0) {
        (void)snp_err_wrap(err, "state folder %s", path == NULL ? "" : path);
        return snp_err_remedy(err, r, SNP_REMEDY_STATE_DIR, NULL, 0);
    }
    return 0;
}

char *snp_users_folder(const char *name)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    /* NOLINTEND(concurrency-mt-unsafe) */

    if (data != NULL && data[0] == '/') {
        return snp_format("%s/snipara-sandbox/%s", data, name);
    }
    return home == NULL || home[0] != '/'
               ? NULL
               : snp_format("%s/.local/share/snipara-sandbox/%s", home, name);
}

const char *snp_dir_id(const char *path, char out[SNP_DIR_ID_MAX + 1])
{
    struct stat st;

    out[0] = '\0';
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)snprintf(out, SNP_DIR_ID_MAX + 1, "%llu:%llu", (unsigned long long)st.st_dev,
                       (unsigned long long)st.st_ino);
    }
    return out;
}

int snp_socket_path_check(const char *path, struct snp_err *err)
{
    size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

    if (strlen(path) > max) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the socket path is longer than %zu bytes; set "
                        "SNIPARA_SANDBOX_RUNTIME_DIR to a shorter folder: %s",
                        max, path);
    }
    return 0;
}

int snp_socket_path(char **ret_path, struct snp_err *err)
{
    snp_autofree char *dir = NULL;
    snp_autofree char *path = NULL;
    int r = snp_runtime_dir(&dir, err);

    if (r < 0) {
        return r;
    }
    path = snp_format("%s/sandboxd.sock", dir);
    if (path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_socket_path_check(path, err);
    if (r < 0) {
        return r;
    }
    *ret_path = SNP_TAKE_PTR(path);
    return 0;
}

int snp_daemon_log_open(const char *state_dir, int *ret_fd, struct snp_err *err)
{
    snp_autofree char *path = snp_format("%s/daemon.log", state_dir);
    snp_autoclose int fd = -1;
    struct stat st;

    if (path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_DENIED, "%s is not a regular file", path);
    }
    if (st.st_size > LOG_MAX && ftruncate(fd, 0) < 0) {
        return snp_fail_sys(err, errno, "truncate %s", path);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

void snp_daemon_log_trim(const char *state_dir)
{
    snp_autofree char *path = snp_format("%s/daemon.log", state_dir);
    snp_autoclose int fd =
        path == NULL ? -1 : open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > LOG_MAX) {
        (void)!ftruncate(fd, 0); /* writers append */
    }
}

/*
 * Write the key completely, then link it to its name; if the name exists already, that key is used.
 */
static int key_make(const char *dir, const char *path, struct snp_err *err)
{
    unsigned char key[SNP_RUN_KEY];
    char suffix[ID_LEN + 1];
    snp_autofree char *temp = NULL;
    snp_autoclose int fd = -1;
    snp_autoclose int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = 0;

    /* So few bytes are read completely or not at all. */
    if (snp_random_id(suffix) < 0 || getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key)) {
        return snp_fail(err, SNP_E_SYS, "the kernel returned no random numbers");
    }
    temp = snp_format("%s.%s", path, suffix);
    fd = temp == NULL ? -1 : open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        explicit_bzero(key, sizeof(key));
        return temp == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                            : snp_fail_sys(err, errno, "create %s", temp);
    }
    if (snp_write_all(fd, key, sizeof(key)) < 0 || fsync(fd) < 0 ||
        (link(temp, path) < 0 && errno != EEXIST)) {
        r = snp_fail_sys(err, errno, "write %s", path);
    }
    explicit_bzero(key, sizeof(key));
    (void)unlink(temp);
    if (r == 0 && (dir_fd < 0 || fsync(dir_fd) < 0)) {
        r = snp_fail_sys(err, errno, "sync %s", dir);
    }
    return r;
}

static int key_read(const char *path,
                    int fd,
                    unsigned char ret_key[SNP_RUN_KEY],
                    struct snp_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077) != 0) {
        return snp_fail(
            err, SNP_E_DENIED,
            "the key of runs in %s must be a file that you own and that others cannot read "
            "(chmod 600); or remove it: the next run creates a new key, and resume "
            "refuses earlier runs",
            path);
    }
    if (st.st_size != SNP_RUN_KEY || snp_read_all(fd, ret_key, SNP_RUN_KEY) != SNP_RUN_KEY) {
        return snp_fail(err, SNP_E_INVALID,
                        "%s is not a key of %d bytes; remove it: the next run makes a new key, "
                        "and resume refuses earlier runs",
                        path, SNP_RUN_KEY);
    }
    return 0;
}

int snp_run_key(unsigned char ret_key[SNP_RUN_KEY], struct snp_err *err)
{
    snp_autofree char *dir = NULL;
    snp_autofree char *path = NULL;
    snp_autoclose int fd = -1;
    int r = snp_state_dir(&dir, err);

    if (r < 0) {
        return r;
    }
    SNP_ASSERT(dir != NULL);
    path = snp_format("%s/run.key", dir);
    if (path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        r = key_make(dir, path, err);
        if (r < 0) {
            return r;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    return fd < 0 ? snp_fail_sys(err, errno, "open %s", path) : key_read(path, fd, ret_key, err);
}

static const char *own_folder;

void snp_own_folder(const char *folder)
{
    own_folder = folder;
}

int snp_own_program(const char *name, char **ret_path, struct snp_err *err)
{
    /*
     * Next to this program; from bin/ in libexec/ and the reverse; from lib/ and lib/ARCHITECTURE/.
     */
    static const char *const folders[] = {"", "../libexec/snipara-sandbox/", "../bin/",
                                          "../../bin/", "../../libexec/snipara-sandbox/"};
    char self[PATH_MAX];
    ssize_t n = own_folder != NULL ? snprintf(self, sizeof(self), "%.4000s/", own_folder)
                                   : readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (n < 0) {
        return snp_fail_sys(err, errno, "readlink /proc/self/exe");
    }
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash == NULL) {
        return snp_fail(err, SNP_E_INTERNAL, "/proc/self/exe is not a path");
    }
    *slash = '\0';
    for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
        snp_autofree char *path = snp_format("%s/%s%s", self, folders[i], name);

        if (path == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        if (access(path, X_OK) == 0) {
            *ret_path = SNP_TAKE_PTR(path);
            return 0;
        }
    }
    return snp_fail(err, SNP_E_NOT_FOUND,
                    "program %s is neither in %s nor in libexec/snipara-sandbox or bin beside it",
                    name, self);
}
