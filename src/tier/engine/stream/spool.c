/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list has every file of the folder, because the folder is emptied when a tier starts. It is
 * short, so sums are made by walking it, and only when space runs out.
 */
#include "tier/engine/stream/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    FILE_NAME_MAX = 96
};

struct snp_spool {
    struct snp_spool *next;
    char owner[SNP_SPOOL_OWNER_LEN + 1];
    char name[FILE_NAME_MAX];
    uint64_t bytes;
    bool is_cut; /* some output did not fit */
    int fd;      /* owned; -1 = complete */
};

/* Remove every file of the folder. */
static void empty_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (dir == NULL) {
        snp_closep(&fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    (void)closedir(dir);
}

int snp_spools_open(struct snp_spools *spools, const char *state_dir, struct snp_err *err)
{
    (void)snprintf(spools->folder, sizeof(spools->folder), "%.4096s/out", state_dir);
    if (mkdir(spools->folder, 0700) < 0 && errno != EEXIST) {
        return snp_fail_sys(err, errno, "mkdir %.300s", spools->folder);
    }
    empty_folder(spools->folder);
    spools->stream_max = SNP_SPOOL_MAX;
    spools->session_max = SNP_SPOOL_SESSION_MAX;
    spools->all_max = SNP_SPOOL_ALL_MAX;
    return 0;
}

void snp_spools_close(struct snp_spools *spools)
{
    while (spools->first != NULL) {
        struct snp_spool *spool = spools->first;
        spools->first = spool->next;
        snp_closep(&spool->fd);
        free(spool);
    }
    spools->bytes = 0;
    empty_folder(spools->folder);
}

struct share {
    uint64_t bytes;
    unsigned files;
    struct snp_spool *oldest; /* of the complete ones; NULL = none */
};

static struct share share_of(const struct snp_spools *spools, const char *owner)
{
    struct share share = {0};

    for (struct snp_spool *s = spools->first; s != NULL; s = s->next) {
        if (snp_streq(s->owner, owner)) {
            share.bytes += s->bytes;
            share.files++;
            share.oldest = share.oldest == NULL && s->fd < 0 ? s : share.oldest;
        }
    }
    return share;
}

static void path_of(const struct snp_spools *spools, const char *name, char *out, size_t out_len)
{
    (void)snprintf(out, out_len, "%s/%s", spools->folder, name);
}

static void evict(struct snp_spools *spools, struct snp_spool *spool)
{
    char path[SNP_SPOOL_PATH_MAX + FILE_NAME_MAX];

    for (struct snp_spool **at = &spools->first; *at != NULL; at = &(*at)->next) {
        if (*at == spool) {
            *at = spool->next;
            break;
        }
    }
    path_of(spools, spool->name, path, sizeof(path));
    (void)unlink(path);
    spools->bytes -= spool->bytes;
    free(spool);
}

void snp_spools_forget(struct snp_spools *spools, const char *owner)
{
    struct snp_spool *oldest;

    while ((oldest = share_of(spools, owner).oldest) != NULL) {
        evict(spools, oldest);
    }
}

/* The oldest complete output of the session with the most, if that is at least the owner's. */
static struct snp_spool *find_victim(const struct snp_spools *spools, const char *owner)
{
    struct share most = share_of(spools, owner);

    for (const struct snp_spool *s = spools->first; s != NULL; s = s->next) {
        struct share other = share_of(spools, s->owner);
        if (other.oldest != NULL && other.bytes >= most.bytes &&
            (most.oldest == NULL || other.bytes > most.bytes)) {
            most = other;
        }
    }
    return most.oldest;
}

static uint64_t at_most(uint64_t limit, uint64_t bytes)
{
    return limit < bytes ? limit : bytes;
}

void snp_spools_bound(struct snp_spools *spools, uint64_t bytes)
{
    struct snp_spool *victim;

    spools->all_max = at_most(SNP_SPOOL_ALL_MAX, bytes);
    spools->session_max = at_most(SNP_SPOOL_SESSION_MAX, bytes);
    spools->stream_max = at_most(SNP_SPOOL_MAX, bytes);
    while (spools->bytes > spools->all_max && (victim = find_victim(spools, "")) != NULL) {
        evict(spools, victim);
    }
}

/* The part of n bytes that fits beside used ones. Limits can be lowered below these. */
static size_t fitting(size_t n, uint64_t used, uint64_t limit)
{
    return used >= limit ? 0 : (size_t)at_most(limit - used, n);
}

/* Make room for a file, or for n bytes; returns how many bytes fit. */
static size_t make_room(struct snp_spools *spools, const char *owner, unsigned files, size_t n)
{
    struct share own = share_of(spools, owner);
    struct snp_spool *victim;
    unsigned all_files = files;

    while ((own.bytes + n > spools->session_max || own.files + files > SNP_SPOOL_SESSION_FILES) &&
           own.oldest != NULL) {
        evict(spools, own.oldest);
        own = share_of(spools, owner);
    }
    if (own.files + files > SNP_SPOOL_SESSION_FILES) {
        return 0;
    }
    n = fitting(n, own.bytes, spools->session_max);
    for (const struct snp_spool *s = spools->first; s != NULL; s = s->next) {
        all_files++;
    }
    while ((spools->bytes + n > spools->all_max || all_files > SNP_SPOOL_ALL_FILES) &&
           (victim = find_victim(spools, owner)) != NULL) {
        evict(spools, victim);
        all_files--;
    }
    if (all_files > SNP_SPOOL_ALL_FILES) {
        return 0;
    }
    return fitting(n, spools->bytes, spools->all_max);
}

struct snp_spool *snp_spool_new(struct snp_spools *spools,
                                const char *owner,
                                uint64_t cell,
                                const char *stream)
{
    struct snp_spool *spool = NULL;
    struct snp_spool **end = &spools->first;
    char path[SNP_SPOOL_PATH_MAX + FILE_NAME_MAX];

    if (make_room(spools, owner, 1, 1) == 0 || (spool = calloc(1, sizeof(*spool))) == NULL) {
        return NULL;
    }
    (void)snprintf(spool->owner, sizeof(spool->owner), "%s", owner);
    (void)snprintf(spool->name, sizeof(spool->name), "%s-%llu.%s", spool->owner,
                   (unsigned long long)cell, stream);
    path_of(spools, spool->name, path, sizeof(path));
    spool->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (spool->fd < 0) {
        free(spool);
        return NULL;
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = spool;
    return spool;
}

static bool has_disk(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) < 0 ||
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize > SNP_SPOOL_DISK_FREE;
}

void snp_spool_add(struct snp_spools *spools, struct snp_spool *spool, const char *bytes, size_t n)
{
    size_t given = n;

    n = fitting(n, spool->bytes, spools->stream_max);
    if (spool->fd >= 0 && n > 0 && !has_disk(spool->fd)) {
        snp_closep(&spool->fd); /* stored bytes stay readable */
    }
    n = spool->fd < 0 || n == 0 ? 0 : make_room(spools, spool->owner, 0, n);
    spool->is_cut = spool->is_cut || n < given;
    if (n > 0 && snp_write_all(spool->fd, bytes, n) < 0) {
        spool->is_cut = true;
        return; /* a failed write may have left uncounted bytes */
    }
    spool->bytes += n;
    spools->bytes += n;
}

bool snp_spool_is_empty(const struct snp_spool *spool)
{
    return spool == NULL || spool->bytes == 0;
}

void snp_spool_done(struct snp_spool *spool)
{
    if (spool != NULL) {
        snp_closep(&spool->fd);
    }
}

/* Convert "ID/CELL" or "TIER/ID/CELL", with an id of 32 hex digits and a number, to "ID-CELL". */
static bool handle_name(const char *handle, char *out, size_t out_len)
{
    const char *slash = strchr(handle, '/');
    size_t n;

    /* The prefix that result.c writes; the daemon finds the tier by it. */
    if (slash != NULL && strchr(slash + 1, '/') != NULL) {
        handle = slash + 1;
    }
    n = strspn(handle, "0123456789abcdef");

    if (n != 32 || handle[n] != '/' || handle[n + 1] == '\0' ||
        strspn(handle + n + 1, "0123456789") != strlen(handle + n + 1) || strlen(handle) > 50) {
        return false;
    }
    (void)snprintf(out, out_len, "%.32s-%s", handle, handle + n + 1);
    return true;
}

static bool is_cut(const struct snp_spools *spools, const char *name, const char *stream)
{
    char whole[FILE_NAME_MAX];

    (void)snprintf(whole, sizeof(whole), "%s.%s", name, stream);
    for (const struct snp_spool *s = spools->first; s != NULL; s = s->next) {
        if (snp_streq(s->name, whole)) {
            return s->is_cut;
        }
    }
    return false;
}

int snp_spool_read(const struct snp_spools *spools,
                   const char *handle,
                   const char *stream,
                   uint64_t offset,
                   struct snp_spool_part *part,
                   struct snp_err *err)
{
    char name[64];
    char path[SNP_SPOOL_PATH_MAX + FILE_NAME_MAX];
    struct stat st;
    snp_autoclose int fd = -1;
    ssize_t n;

    if (!handle_name(handle, name, sizeof(name)) ||
        (!snp_streq(stream, "stdout") && !snp_streq(stream, "stderr"))) {
        return snp_fail(err, SNP_E_INVALID,
                        "'%.60s' is not an output handle: a result has one as output.handle if "
                        "its output was cut",
                        handle);
    }
    (void)snprintf(path, sizeof(path), "%s/%s.%s", spools->folder, name, stream);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no full %s is kept for %s", stream, handle);
    }
    n = SNP_RETRY(pread(fd, part->bytes, part->room, (off_t)offset));
    if (n < 0) {
        return snp_fail_sys(err, errno, "read the kept output");
    }
    part->n = (size_t)n;
    part->size = (uint64_t)st.st_size;
    part->is_cut = is_cut(spools, name, stream);
    return 0;
}
