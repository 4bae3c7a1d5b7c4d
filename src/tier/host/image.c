/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/host/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#ifdef __x86_64__
#    include <cpuid.h>
#endif

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "guest/image.h"
#include "guest/spec.h"
#include "tier/host/host.h"

enum {
    FILES_MAX = 8, /* stored images */
    KEY_BYTES = 16,
    NAME_LEN = 48, /* of a file name: 32 digits and a suffix */
    PATIENCE_MS = 10000,
    CHUNK = 256 << 10,
    REASON_MAX = 300, /* of a template's error message */
};

#define BYTES_MAX (1ULL << 30) /* for one, and in total */
#define AGE_MAX_S (7ULL * 24 * 3600)

/* Names ------------------------------------------------------------------------------------ */

/* Collision-resistant: the key includes a project's path. */
static void mix(EVP_MD_CTX *hash, const void *bytes, size_t n)
{
    (void)EVP_DigestUpdate(hash, bytes, n); /* the final call reports failures */
}

static void mix_text(EVP_MD_CTX *hash, const char *text)
{
    mix(hash, text, strlen(text) + 1);
}

/* Processor features on which libraries base their choices. */
static void mix_processor(EVP_MD_CTX *hash)
{
#ifdef __x86_64__
    static const unsigned leaves[][2] = {{0, 0}, {1, 0},   {7, 0},
                                         {7, 1}, {0xd, 0}, {0x80000001U, 0}};

    for (size_t i = 0; i < SNP_ARRAY_LEN(leaves); i++) {
        unsigned r[4] = {0};
        (void)__get_cpuid_count(leaves[i][0], leaves[i][1], &r[0], &r[1], &r[2], &r[3]);
        r[1] = leaves[i][0] == 1 ? 0 : r[1]; /* without the number of the current processor */
        mix(hash, r, sizeof(r));
    }
#else
    (void)hash;
#endif
}

/* False: no key. */
static bool make_key(char *const *args, uint64_t *ret)
{
    const char *core =
        getenv("OPENBLAS_CORETYPE"); /* NOLINT(concurrency-mt-unsafe): never set by us */
    struct utsname host = {0};
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    unsigned char all[EVP_MAX_MD_SIZE];
    bool ok = hash != NULL && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1;

    if (ok) {
        (void)uname(&host);
        mix_text(hash, SNP_VERSION);
        mix_text(hash, host.release);
        mix_text(hash, host.version);
        mix_text(hash, host.machine);
        mix_text(hash, core == NULL ? "" : core);
        mix_processor(hash);
        for (char *const *arg = args + 1; *arg != NULL; arg++) { /* without our path */
            mix_text(hash, *arg);
        }
        ok = EVP_DigestFinal_ex(hash, all, NULL) == 1;
        memcpy(ret, all, KEY_BYTES);
    }
    EVP_MD_CTX_free(hash);
    return ok;
}

static void file_name(const uint64_t *key, const char *ending, char *out)
{
    (void)snprintf(out, NAME_LEN, "%016llx%016llx.%s", (unsigned long long)key[0],
                   (unsigned long long)key[1], ending);
}

static int open_folder(const struct snp_supervisor *supervisor, bool make)
{
    char path[SNP_SUPERVISOR_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.4000s/images", supervisor->state_dir);
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST) {
        return -1;
    }
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Using ------------------------------------------------------------------------------------ */

/* The reason not to use it; NULL = usable. */
static const char *distrust(int fd, const uint64_t *key, uint64_t *ret_age_s)
{
    struct snp_template_image_label label;
    const uint64_t now = (uint64_t)time(NULL);
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 077U) != 0 || st.st_nlink != 1) {
        return "it is not a file that is only yours";
    }
    if (snp_read_all(fd, &label, sizeof(label)) != (ssize_t)sizeof(label) ||
        label.magic != SNP_IMAGE_MAGIC || label.len != (uint64_t)st.st_size - sizeof(label)) {
        return "it is cut short";
    }
    if (memcmp(label.key, key, sizeof(label.key)) != 0) {
        return "it is of another template";
    }
    *ret_age_s = now - label.born_s;
    return label.born_s <= now && *ret_age_s < AGE_MAX_S ? NULL : "it is too old";
}

int snp_template_image_open(struct snp_supervisor *supervisor,
                            const char *template_name,
                            char *const *args,
                            uint64_t *ret_age_s)
{
    const char *why = NULL;
    snp_autoclose int folder = -1;
    char name[NAME_LEN];
    uint64_t key[2];
    int fd;

    if (!snp_host_ops_of(supervisor)->has_images || snp_host_of(supervisor)->image_idle_ms == 0) {
        return -1;
    }
    if (!make_key(args, key)) {
        return -1;
    }
    folder = open_folder(supervisor, false);
    file_name(key, "image", name);
    fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        why = distrust(fd, key, ret_age_s);
        (void)futimens(fd, NULL); /* the least recently used is removed first */
    } else if (folder >= 0 && errno != ENOENT) {
        why = "it is not a file that is only yours";
    }
    if (why != NULL) {
        snp_closep(&fd);
        fd = -1;
        snp_log(SNP_LOG_WARN, "template_image", "name=%s unused=\"%s\"", template_name, why);
        snp_template_image_trouble(supervisor, template_name, why);
    }
    return fd;
}

void snp_template_image_remove(const struct snp_supervisor *supervisor, char *const *args)
{
    snp_autoclose int folder = open_folder(supervisor, false);
    char name[NAME_LEN];
    uint64_t key[2];

    if (folder >= 0 && make_key(args, key)) {
        file_name(key, "image", name);
        (void)unlinkat(folder, name, 0);
    }
}

/* Storing ---------------------------------------------------------------------------------- */

/* Used in a worker. */
struct keeping {
    uv_work_t work;
    struct snp_supervisor *supervisor;
    char name[32];
    uint64_t key[2];
    int pipe_fd; /* owned */
    uint64_t len;
    int result;
    struct snp_err err;
};

static bool has_ending(const char *name, const char *ending)
{
    size_t n = strlen(name);
    size_t m = strlen(ending);

    return n > m && snp_streq(name + n - m, ending);
}

/*
 * Remove leftovers of a killed daemon, and the least recently used image, if there are too many.
 * False: there are not.
 */
static bool remove_one(int folder)
{
    int list_fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = list_fd < 0 ? NULL : fdopendir(list_fd);
    char oldest[NAME_LEN] = "";
    time_t oldest_s = 0;
    uint64_t bytes = 0;
    unsigned n = 0;
    struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private stream */
    while (list != NULL && (entry = readdir(list)) != NULL) {
        struct stat st;
        if (has_ending(entry->d_name, ".new")) {
            (void)unlinkat(folder, entry->d_name, 0);
            continue;
        }
        if (!has_ending(entry->d_name, ".image") || strlen(entry->d_name) >= NAME_LEN ||
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        n++;
        bytes += (uint64_t)st.st_size;
        if (oldest[0] == '\0' || st.st_mtim.tv_sec < oldest_s) {
            oldest_s = st.st_mtim.tv_sec;
            (void)snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
        }
    }
    if (list != NULL) {
        (void)closedir(list);
    } else if (list_fd >= 0) {
        (void)close(list_fd);
    }
    return (n > FILES_MAX || bytes > BYTES_MAX) && unlinkat(folder, oldest, 0) == 0;
}

/* Is the image complete? Its content is trusted for the same template only. */
static int check(const struct keeping *k, int fd, struct snp_err *err)
{
    snp_autofree struct snp_image *image = malloc(sizeof(*image));
    struct iovec parts[SNP_IMAGE_PARTS];
    char reason[REASON_MAX + 1] = "";
    const off_t at = sizeof(struct snp_template_image_label);

    if (image == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (k->len < sizeof(image->head)) {
        (void)!pread(fd, reason, REASON_MAX, at);
        return snp_fail(err, SNP_E_UNSUPPORTED, "it has %.*s", REASON_MAX, reason);
    }
    if (pread(fd, &image->head, sizeof(image->head), at) != (ssize_t)sizeof(image->head) ||
        !snp_image_fits(&image->head)) {
        return snp_fail(err, SNP_E_PEER, "it is not understood");
    }
    return snp_image_parts(image, parts) == k->len ? 0
                                                   : snp_fail(err, SNP_E_PEER, "it was cut short");
}

static int copy(struct keeping *k, int fd, struct snp_err *err)
{
    snp_autofree char *bytes = malloc(CHUNK);

    if (bytes == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    for (;;) {
        struct pollfd ready = {.fd = k->pipe_fd, .events = POLLIN};
        ssize_t n;
        if (SNP_RETRY(poll(&ready, 1, PATIENCE_MS)) <= 0) {
            return snp_fail(err, SNP_E_TIMEOUT, "it did not come");
        }
        n = SNP_RETRY(read(k->pipe_fd, bytes, CHUNK));
        if (n <= 0) {
            return n == 0 ? 0 : snp_fail_sys(err, errno, "read it");
        }
        k->len += (uint64_t)n;
        if (k->len > BYTES_MAX) {
            return snp_fail(err, SNP_E_LIMIT, "it is larger than %llu MiB", BYTES_MAX >> 20U);
        }
        if (snp_write_all(fd, bytes, (size_t)n) < 0) {
            return snp_fail_sys(err, errno, "write it");
        }
    }
}

static int seal(struct keeping *k, int folder, int fd, const char *from, struct snp_err *err)
{
    const struct snp_template_image_label label = {.magic = SNP_IMAGE_MAGIC,
                                                   .key = {k->key[0], k->key[1]},
                                                   .born_s = (uint64_t)time(NULL),
                                                   .len = k->len};
    char name[NAME_LEN];

    file_name(k->key, "image", name);
    if (pwrite(fd, &label, sizeof(label), 0) != (ssize_t)sizeof(label) || fsync(fd) < 0) {
        return snp_fail_sys(err, errno, "write it");
    }
    return renameat(folder, from, folder, name) < 0 || fsync(folder) < 0
               ? snp_fail_sys(err, errno, "rename it")
               : 0;
}

static int keep(struct keeping *k, struct snp_err *err)
{
    snp_autoclose int folder = open_folder(k->supervisor, true);
    snp_autoclose int fd = -1;
    char name[NAME_LEN];
    int r;

    file_name(k->key, "new", name);
    if (folder >= 0) {
        (void)unlinkat(folder, name, 0);
        fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (fd < 0) {
        return snp_fail_sys(err, errno, "make a file for it");
    }
    r = lseek(fd, sizeof(struct snp_template_image_label), SEEK_SET) < 0
            ? snp_fail_sys(err, errno, "write it")
            : copy(k, fd, err);
    r = r < 0 ? r : check(k, fd, err);
    r = r < 0 ? r : seal(k, folder, fd, name, err);
    if (r < 0) {
        (void)unlinkat(folder, name, 0);
        return r;
    }
    while (remove_one(folder)) {
    }
    return 0;
}

void snp_template_image_trouble(struct snp_supervisor *supervisor,
                                const char *name,
                                const char *why)
{
    struct snp_host *host = snp_host_of(supervisor);

    (void)snprintf(host->image_trouble, sizeof(host->image_trouble), "%s%s%.200s",
                   why[0] == '\0' ? "" : name, why[0] == '\0' ? "" : ": ", why);
}

static void keeping_run(uv_work_t *work)
{
    struct keeping *k = work->data;

    k->result = keep(k, &k->err);
}

static void keeping_done(uv_work_t *work, int status)
{
    struct keeping *k = work->data;

    snp_host_of(k->supervisor)->is_imaging = false;
    (void)close(k->pipe_fd);
    if (status == 0 && k->result == 0) {
        snp_log(SNP_LOG_INFO, "template_image", "name=%s bytes=%llu", k->name,
                (unsigned long long)k->len);
        snp_template_image_trouble(k->supervisor, k->name, "");
    } else {
        snp_template_image_trouble(k->supervisor, k->name, k->err.msg);
        snp_log(SNP_LOG_WARN, "template_image", "name=%s error=%s", k->name, k->err.msg);
    }
    free(k);
}

void snp_template_image_wait(struct snp_supervisor *supervisor)
{
    while (snp_host_of(supervisor)->is_imaging) {
        (void)uv_run(supervisor->loop, UV_RUN_ONCE);
    }
}

bool snp_template_image_make(struct snp_supervisor *supervisor,
                             const char *name,
                             char *const *args,
                             int control_fd)
{
    struct snp_host *host = snp_host_of(supervisor);
    static const char order[1 + sizeof(uint32_t)] = {SNP_ZYGOTE_IMAGE};
    struct keeping *k;
    int ends[2];

    if (host->is_imaging || pipe2(ends, O_CLOEXEC) < 0) {
        return false;
    }
    k = calloc(1, sizeof(*k));
    if (k != NULL && make_key(args, k->key) &&
        snp_send_fds(control_fd, order, sizeof(order), &ends[1], 1) == 0) {
        k->work.data = k;
        k->supervisor = supervisor;
        k->pipe_fd = ends[0];
        (void)snprintf(k->name, sizeof(k->name), "%s", name);
        host->is_imaging =
            uv_queue_work(supervisor->loop, &k->work, keeping_run, keeping_done) == 0;
    }
    (void)close(ends[1]);
    if (!host->is_imaging) {
        (void)close(ends[0]);
        free(k);
    }
    return host->is_imaging;
}
