/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_SPARSE_H
#define SNP_GUEST_FILES_SPARSE_H

/*
 * The contents of a file as runs of bytes between holes. A hole is one or more whole blocks of
 * zeros, whether the file system has them or not: so equal contents have equal runs, wherever
 * they lie. What the file system does not have is never read. docs/wire.md has how runs travel.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    SNP_RUN_BLOCK = 4096,
    SNP_RUN_MAX = 128 << 10, /* a run ends at its multiples */
    SNP_RUN_HEAD = 16,       /* u64 offset, u64 length */
};

struct snp_extent {
    uint64_t offset;
    const char *bytes; /* borrowed until the next call */
    size_t n;
};

struct snp_runs {
    int fd;        /* borrowed */
    uint64_t size; /* of the file, as it was looked at */
    char *chunk;   /* borrowed; SNP_RUN_MAX bytes */
    uint64_t base; /* where the chunk lies in the file */
    size_t n;
    size_t used;
    uint64_t at;
    int eno; /* EAGAIN: the file has become shorter */
};

/* False at the end, or after a failure (eno). */
bool snp_runs_next(struct snp_runs *runs, struct snp_extent *ret);

/* Which contents: of a file without holes XXH3-128 of its bytes. */
struct snp_sum {
    XXH3_state_t data;
    XXH3_state_t map;
    uint64_t bytes;
    uint64_t runs;
};

void snp_sum_init(struct snp_sum *sum);
/* The head of a run, then its bytes, in pieces if need be. */
void snp_sum_run(struct snp_sum *sum, uint64_t offset, uint64_t n);
void snp_sum_data(struct snp_sum *sum, const char *bytes, size_t n);
/* The key of a file of this size. */
void snp_sum_key(const struct snp_sum *sum, uint64_t size, uint64_t ret[2]);
/* Bytes of it on their way: the runs with their heads if it has holes, else its size. */
uint64_t snp_sum_packed(const struct snp_sum *sum, uint64_t size);

/*
 * The same bytes into another file, which is empty; holes stay holes. sum: begun, is told of them;
 * or NULL. 0 or errno: EFBIG when sum has more than most bytes, EAGAIN as above.
 */
int snp_runs_copy(int from, int to, uint64_t size, uint64_t most, struct snp_sum *sum);

/* What a file system gives for the file, and never more than the file has. */
uint64_t snp_stored_bytes(const struct stat *st);

#endif
