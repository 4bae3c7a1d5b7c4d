/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/sparse.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    SECTOR = 512
};

static bool is_hole(const char *bytes, size_t n)
{
    return n == SNP_RUN_BLOCK && bytes[0] == '\0' && memcmp(bytes, bytes + 1, n - 1) == 0;
}

static size_t block_len(const struct snp_runs *runs)
{
    size_t left = runs->n - runs->used;

    return left < SNP_RUN_BLOCK ? left : SNP_RUN_BLOCK;
}

/* Offset of the next data, rounded to a block; size if there is none. */
static uint64_t find_data(const struct snp_runs *runs)
{
    off_t at = lseek(runs->fd, (off_t)runs->at, SEEK_DATA);

    if (at < 0) { /* without support for holes, all is data */
        return errno == ENXIO ? runs->size : runs->at;
    }
    at -= at % SNP_RUN_BLOCK;
    return (uint64_t)at > runs->at ? (uint64_t)at : runs->at;
}

static bool fill(struct snp_runs *runs)
{
    uint64_t at = runs->at >= runs->size ? runs->size : find_data(runs);
    uint64_t want = SNP_RUN_MAX - at % SNP_RUN_MAX;

    runs->n = runs->used = 0;
    if (at >= runs->size || runs->eno != 0) {
        runs->at = runs->size;
        return false;
    }
    want = want < runs->size - at ? want : runs->size - at;
    while (runs->n < want) {
        ssize_t n = SNP_RETRY(
            pread(runs->fd, runs->chunk + runs->n, want - runs->n, (off_t)(at + runs->n)));
        if (n <= 0) {
            runs->eno = n < 0 ? errno : EAGAIN;
            runs->n = 0;
            return false;
        }
        runs->n += (size_t)n;
    }
    runs->base = at;
    runs->at = at + want;
    return true;
}

bool snp_runs_next(struct snp_runs *runs, struct snp_extent *ret)
{
    do {
        while (runs->used < runs->n) {
            size_t begin = runs->used;
            size_t n = block_len(runs);

            while (n > 0 && !is_hole(runs->chunk + runs->used, n)) {
                runs->used += n;
                n = block_len(runs);
            }
            if (runs->used > begin) {
                *ret = (struct snp_extent){runs->base + begin, runs->chunk + begin,
                                           runs->used - begin};
                return true;
            }
            runs->used += n;
        }
    } while (fill(runs));
    return false;
}

/* 0 or errno. */
static int write_run(int to, const struct snp_extent *run)
{
    ssize_t done = SNP_RETRY(pwrite(to, run->bytes, run->n, (off_t)run->offset));

    return done == (ssize_t)run->n ? 0 : done < 0 ? errno : ENOSPC;
}

int snp_runs_copy(int from, int to, uint64_t size, uint64_t most, struct snp_sum *sum)
{
    static char chunk[SNP_RUN_MAX]; /* one thread */
    struct snp_runs runs = {.fd = from, .size = size, .chunk = chunk};
    struct snp_extent run;
    int r = 0;

    while (r == 0 && snp_runs_next(&runs, &run)) {
        if (sum != NULL) {
            snp_sum_run(sum, run.offset, run.n);
            snp_sum_data(sum, run.bytes, run.n);
        }
        r = sum != NULL && sum->bytes > most ? EFBIG : write_run(to, &run);
    }
    r = r == 0 ? runs.eno : r;
    return r == 0 && ftruncate(to, (off_t)size) < 0 ? errno : r;
}

void snp_sum_init(struct snp_sum *sum)
{
    XXH3_INITSTATE(&sum->data);
    XXH3_INITSTATE(&sum->map);
    (void)XXH3_128bits_reset(&sum->data);
    (void)XXH3_128bits_reset(&sum->map);
    sum->bytes = sum->runs = 0;
}

void snp_sum_run(struct snp_sum *sum, uint64_t offset, uint64_t n)
{
    const uint64_t head[2] = {offset, n};

    (void)XXH3_128bits_update(&sum->map, head, sizeof(head));
    sum->runs++;
}

void snp_sum_data(struct snp_sum *sum, const char *bytes, size_t n)
{
    (void)XXH3_128bits_update(&sum->data, bytes, n);
    sum->bytes += n;
}

void snp_sum_key(const struct snp_sum *sum, uint64_t size, uint64_t ret[2])
{
    XXH128_hash_t hash = XXH3_128bits_digest(&sum->data);

    if (sum->bytes != size) {
        XXH128_hash_t map = XXH3_128bits_digest(&sum->map);
        const uint64_t all[5] = {hash.high64, hash.low64, map.high64, map.low64, size};
        hash = XXH3_128bits(all, sizeof(all));
    }
    ret[0] = hash.high64;
    ret[1] = hash.low64;
}

uint64_t snp_sum_packed(const struct snp_sum *sum, uint64_t size)
{
    return sum->bytes == size ? size : sum->bytes + sum->runs * SNP_RUN_HEAD;
}

uint64_t snp_stored_bytes(const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size;
    uint64_t stored = (uint64_t)st->st_blocks * SECTOR;

    /* Small files may be stored in the inode, without a block. */
    return size <= SNP_RUN_BLOCK || stored > size ? size : stored;
}
