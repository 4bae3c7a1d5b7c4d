/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of full outputs, `out` in the state folder: one file per stream of a cell
 * whose output was cut. Old ones go when there are too many; all go when a tier starts.
 */
#include "tier/native/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "tier/native/result.h"
#include "tier/native/serve.h"
#include "tier/native/tier.h"

enum {
    FILES_MAX = 128
};

#define BYTES_MAX (512ULL << 20)

static DIR *open_folder(const struct snp_tier *tier)
{
    char path[SNP_TIER_PATH_MAX + 8];
    int fd;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%s/out", tier->state_dir);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        snp_closep(&fd);
    }
    return dir;
}

/* Count what is there; the oldest file's name into oldest. */
static unsigned measure(DIR *dir, uint64_t *ret_bytes, char *oldest, size_t oldest_len)
{
    struct dirent *entry;
    struct timespec first = {.tv_sec = INT64_MAX};
    unsigned n = 0;

    *ret_bytes = 0;
    rewinddir(dir);
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        struct stat st;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        n++;
        *ret_bytes += (uint64_t)st.st_size;
        if (st.st_mtim.tv_sec < first.tv_sec ||
            (st.st_mtim.tv_sec == first.tv_sec && st.st_mtim.tv_nsec < first.tv_nsec)) {
            first = st.st_mtim;
            (void)snprintf(oldest, oldest_len, "%s", entry->d_name);
        }
    }
    return n;
}

static void trim(const struct snp_tier *tier, unsigned files_max, uint64_t bytes_max)
{
    DIR *dir = open_folder(tier);
    char oldest[256] = "";
    uint64_t bytes;

    for (unsigned i = 0; dir != NULL && i < 100000; i++) {
        unsigned n = measure(dir, &bytes, oldest, sizeof(oldest));
        if ((n <= files_max && bytes <= bytes_max) || n == 0 ||
            unlinkat(dirfd(dir), oldest, 0) < 0) {
            break;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

void snp_spool_trim(struct snp_tier *tier)
{
    trim(tier, FILES_MAX, BYTES_MAX);
}

int snp_spool_open(struct snp_tier *tier, struct snp_err *err)
{
    char path[SNP_TIER_PATH_MAX + 8];

    (void)snprintf(path, sizeof(path), "%s/out", tier->state_dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return snp_fail_sys(err, errno, "mkdir %.300s", path);
    }
    trim(tier, 0, 0);
    return 0;
}

void snp_spool_close(struct snp_tier *tier)
{
    trim(tier, 0, 0);
}

/* "ID/CELL" as 32 hex digits and a number; into "ID-CELL". */
static bool handle_name(const char *handle, char *out, size_t out_len)
{
    size_t n = strspn(handle, "0123456789abcdef");

    if (n != 32 || handle[n] != '/' || handle[n + 1] == '\0' ||
        strspn(handle + n + 1, "0123456789") != strlen(handle + n + 1) || strlen(handle) > 50) {
        return false;
    }
    (void)snprintf(out, out_len, "%.32s-%s", handle, handle + n + 1);
    return true;
}

int snp_spool_read(struct snp_tier *tier,
                   const char *handle,
                   const char *stream,
                   uint64_t offset,
                   struct snp_spool_part *part,
                   struct snp_err *err)
{
    char name[64];
    char path[SNP_TIER_PATH_MAX + 96];
    struct stat st;
    snp_autoclose int fd = -1;
    ssize_t n;

    if (!handle_name(handle, name, sizeof(name)) ||
        (!snp_streq(stream, "stdout") && !snp_streq(stream, "stderr"))) {
        return snp_fail(err, SNP_E_INVALID, "'%.60s' is not an output handle", handle);
    }
    (void)snprintf(path, sizeof(path), "%s/out/%s.%s", tier->state_dir, name, stream);
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
    return 0;
}
