/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling: chunks are asked for from large to small until one comes from the heap's end: then
 * there is no hole of that size. What was taken is never given back; the list of it is in the
 * chunks.
 *
 * Gathering: private memory of no file, in the units for which the kernel has large pages,
 * where most of such a unit is in use. So that there are many such units, arenas lie side by
 * side in a block; they are of different sizes in different interpreters, and few are given back.
 */
#include "guest/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/fd.h"

#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum {
    LARGEST = 64 << 10, /* below what the C library maps apart */
    SMALLEST = 24,      /* its smallest chunk */
    CHUNKS_MAX = 1 << 20,
    BLOCK_BYTES = 256 << 20,
    LARGE_MAX = 4 << 20,
    GATHERED_MAX = 256, /* large pages */
    PAGES_MAX = 512,    /* small pages that make a large one, on the processors we know */
    LINE_MAX_CHARS = 512,
};

#define IS_PRESENT (UINT64_C(1) << 63) /* in /proc/self/pagemap */

/* Where arenas lie; start is NULL where there is none. */
static struct block {
    char *start;
    size_t used;
    size_t len;
} block;

/* A table of pages fills a page: a large page is what it describes. */
static size_t large_page(void)
{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);

    return page_size / sizeof(uint64_t) * page_size;
}

void snp_heap_fill(void)
{
#ifdef __GLIBC__
    static void **taken; /* the last chunk; each holds the address of the one before */
    const uintptr_t brk_end = (uintptr_t)sbrk(0);
    unsigned n = 0;

    if (brk_end == UINTPTR_MAX) {
        return;
    }
    const uintptr_t top = brk_end - mallinfo2().keepcost - LARGEST;
    for (size_t size = LARGEST; size >= SMALLEST; size -= size > 1024 ? size / 4 : 8) {
        for (; n < CHUNKS_MAX; n++) {
            void **chunk = malloc(size);
            if (chunk == NULL || (uintptr_t)chunk >= top) {
                free(chunk);
                break;
            }
            *chunk = taken;
            taken = chunk;
        }
    }
#endif
}

/* A hexadecimal number at *at, which goes on behind it and the character end. */
static bool read_hex(const char **at, char end, uintptr_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit;

    *ret = 0;
    for (; **at != '\0' && (digit = strchr(digits, **at)) != NULL; (*at)++) {
        *ret = *ret * 16 + (uintptr_t)(digit - digits);
    }
    return *(*at)++ == end;
}

/* Whether a line of /proc/self/maps is of memory that is private, written, and no file's. */
static bool is_own_memory(const char *line, uintptr_t *ret_start, uintptr_t *ret_end)
{
    const char *at = line;
    uintptr_t offset;

    return read_hex(&at, '-', ret_start) && read_hex(&at, ' ', ret_end) &&
           strncmp(at, "rw-p ", 5) == 0 && (at += 5, read_hex(&at, ' ', &offset)) &&
           strncmp(at, "00:00 0 ", 8) == 0 && strstr(at, "[stack]") == NULL;
}

/* Most of its small pages are there. */
static bool is_in_use(int pagemap_fd, uintptr_t start, size_t n, size_t page_size)
{
    uint64_t entries[PAGES_MAX];
    size_t there = 0;

    if (SNP_RETRY(pread(pagemap_fd, entries, n * sizeof(*entries),
                        (off_t)(start / page_size * sizeof(*entries)))) !=
        (ssize_t)(n * sizeof(*entries))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        there += (entries[i] & IS_PRESENT) != 0 ? 1 : 0;
    }
    return there > n / 2;
}

static bool collapse(uintptr_t start, size_t len)
{
    void *at;

    memcpy(&at, &start, sizeof(at));
    return madvise(at, len, MADV_COLLAPSE) == 0;
}

/* One large page in the place of many small ones, where there can be one. */
static void gather(void)
{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    const size_t large = large_page();
    const size_t n = large / page_size;
    snp_autoclose int pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[LINE_MAX_CHARS];
    unsigned gathered = 0;

    while (maps != NULL && pagemap_fd >= 0 && n <= PAGES_MAX &&
           fgets(line, sizeof(line), maps) != NULL) {
        uintptr_t start;
        uintptr_t end;

        if (!is_own_memory(line, &start, &end)) {
            continue;
        }
        start = (start + large - 1) / large * large;
        for (; start + large <= end && gathered < GATHERED_MAX; start += large) {
            if (is_in_use(pagemap_fd, start, n, page_size) && collapse(start, large)) {
                gathered++;
            }
        }
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
}

/* Arenas ------------------------------------------------------------------------------------- */

void snp_heap_begin(void)
{
    const size_t large = large_page();
    char *at = MAP_FAILED;
    char *start;

    if (large <= LARGE_MAX) {
        at = mmap(NULL, BLOCK_BYTES + large, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (at == MAP_FAILED) {
        return;
    }
    start = at + (large - (uintptr_t)at % large) % large;
    (void)munmap(at, (size_t)(start - at));
    (void)munmap(start + BLOCK_BYTES, large - (size_t)(start - at));
    (void)madvise(start, BLOCK_BYTES, MADV_HUGEPAGE); /* EINVAL: there are none */
    block = (struct block){.start = start, .len = BLOCK_BYTES};
}

void *snp_heap_arena(size_t n)
{
    if (block.start == NULL || n > block.len - block.used) {
        return NULL;
    }
    block.used += n;
    return block.start + block.used - n;
}

bool snp_heap_arena_free(void *arena, size_t n)
{
    const uintptr_t at = (uintptr_t)arena - (uintptr_t)block.start;

    if (block.start == NULL || at >= block.len) {
        return false;
    }
    (void)munmap(arena, n);
    return true;
}

void snp_heap_end(void)
{
    const size_t large = large_page();
    size_t kept;

    if (block.start == NULL) {
        return; /* the kernel's large pages are too large */
    }
    kept = (block.used + large - 1) / large * large;
    (void)munmap(block.start + kept, block.len - kept);
    block.len = block.used;
    gather();
    (void)madvise(block.start, kept, MADV_NOHUGEPAGE); /* what forks write gets small ones */
}
