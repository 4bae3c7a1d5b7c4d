/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_SPARSE_H
#define SNP_GUEST_FILES_SPARSE_H

/*
 * The contents of a file as runs of bytes between holes. A hole is one or more blocks of zeros,
 * allocated or not: so equal contents have equal runs on any file system. Unallocated blocks are
 * not read. docs/wire.md describes the encoding of runs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    SNP_RUN_BLOCK = 4096,
    SNP_RUN_MAX = 128 << 10, /* runs end at multiples of this */
    SNP_RUN_HEAD = 16,       /* u64 offset, u64 length */
};

struct snp_extent {
    uint64_t offset;
    const char *bytes; /* borrowed until the next call */
    size_t n;
};

struct snp_runs {
    int fd;        /* borrowed */
    uint64_t size; /* of the file, when it was opened */
    char *chunk;   /* borrowed; SNP_RUN_MAX bytes */
    uint64_t base; /* offset of the chunk in the file */
    size_t n;
    size_t used;
    uint64_t at;
    int eno; /* EAGAIN: the file was truncated */
};

/* Read the next run. False at the end, or after a failure (eno). */
bool snp_runs_next(struct snp_runs *runs, struct snp_extent *ret);

/* The key of contents: XXH3-128 of the bytes, for a file without holes. */
struct snp_sum {
    XXH3_state_t data;
    XXH3_state_t map;
    uint64_t bytes;
    uint64_t runs;
};

void snp_sum_init(struct snp_sum *sum);
/* Add the head of a run, then its bytes, in one or more pieces. */
void snp_sum_run(struct snp_sum *sum, uint64_t offset, uint64_t n);
void snp_sum_data(struct snp_sum *sum, const char *bytes, size_t n);
/* The key of a file of this size. */
void snp_sum_key(const struct snp_sum *sum, uint64_t size, uint64_t ret[2]);
/* Encoded length: the runs with their heads if there are holes, else the size. */
uint64_t snp_sum_packed(const struct snp_sum *sum, uint64_t size);

/*
 * Copy the contents to an empty file, preserving holes. sum: initialized, is updated; or NULL. 0 or
 * errno: EFBIG if sum exceeds most bytes, EAGAIN as above.
 */
int snp_runs_copy(int from, int to, uint64_t size, uint64_t most, struct snp_sum *sum);

/* Allocated bytes, at most the file's size. */
uint64_t snp_stored_bytes(const struct stat *st);

#endif
