/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapses private anonymous memory into huge pages, where most of a huge page is in use. To get
 * many such pages, arenas are placed side by side in a block; their sizes differ between
 * interpreters, and few are freed. Older memory is not moved; the block is never unmapped (hot.h).
 */
#include "guest/module/heap.h"

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include <sys/mman.h>

#include "guest/module/maps.h"

#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum {
    BLOCK_BYTES = 256 << 20,
    SPARE_BYTES = 8 << 20, /* of the block, for the first arenas of forks */
    LARGE_MAX = 4 << 20,
    EARLY_MAX = 16,
    GATHERED_MAX = 256, /* huge pages */
    PAGES_MAX = 512,    /* small pages of a huge page, on supported processors */
};

/* The block of arenas; start is NULL if there is none. */
static struct block {
    char *start;
    size_t used;
    size_t len;
    /* Memory from before the block: arenas, mostly. */
    struct snp_map early[EARLY_MAX];
    size_t n_early;
} block;

/* A page table fills a page; a huge page is the memory that it maps. */
static size_t large_page(void)
{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);

    return page_size / sizeof(uint64_t) * page_size;
}

/* Are most of its small pages present? */
static bool is_in_use(const struct snp_maps *maps, uintptr_t start, size_t n)
{
    uint64_t entries[PAGES_MAX];
    size_t there = 0;

    if (!snp_maps_pages(maps->page_fd, start, n, entries)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        there += (entries[i] & SNP_PAGE_PRESENT) != 0 ? 1 : 0;
    }
    return there > n / 2;
}

/* Replace small pages with huge ones, where possible. */
static void gather(void)
{
    const size_t large = large_page();
    const size_t n = large / (size_t)sysconf(_SC_PAGESIZE);
    struct snp_maps maps;
    struct snp_map map;
    unsigned gathered = 0;

    snp_maps_open(&maps);
    while (n <= PAGES_MAX && snp_maps_next(&maps, &map)) {
        uintptr_t at = (map.start + large - 1) / large * large;

        if (!map.is_private || map.has_file || map.is_stack) {
            continue;
        }
        for (; at + large <= map.end && gathered < GATHERED_MAX; at += large) {
            if (is_in_use(&maps, at, n) && madvise(snp_maps_at(at), large, MADV_COLLAPSE) == 0) {
                gathered++;
            }
        }
    }
    snp_maps_close(&maps);
}

/* Arenas ------------------------------------------------------------------------------------- */

static void note_early(void)
{
    struct snp_maps maps;
    struct snp_map map;

    snp_maps_open(&maps);
    while (block.n_early < EARLY_MAX && snp_maps_next(&maps, &map)) {
        if (map.is_private && !map.has_file && !map.is_stack) {
            block.early[block.n_early++] = map;
        }
    }
    snp_maps_close(&maps);
}

void snp_heap_begin(void)
{
    const size_t large = large_page();
    char *at = MAP_FAILED;
    char *start;

    block = (struct block){.start = NULL};
    if (large <= LARGE_MAX) {
        note_early(); /* before the block: what snp_heap_end() unmaps may be mapped again */
        at = mmap(NULL, BLOCK_BYTES + large, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (at == MAP_FAILED) {
        block.n_early = 0;
        return;
    }
    start = at + (large - (uintptr_t)at % large) % large;
    (void)munmap(at, (size_t)(start - at));
    (void)munmap(start + BLOCK_BYTES, large - (size_t)(start - at));
    (void)madvise(start, BLOCK_BYTES, MADV_HUGEPAGE); /* EINVAL: no huge pages */
    block.start = start;
    block.len = BLOCK_BYTES;
}

void *snp_heap_arena(size_t n)
{
    if (block.start == NULL || n > block.len - block.used) {
        return NULL;
    }
    block.used += n;
    return block.start + block.used - n;
}

bool snp_heap_has(uintptr_t address)
{
    const uintptr_t start = (uintptr_t)block.start;

    for (size_t i = 0; i < block.n_early; i++) {
        if (address >= block.early[i].start && address < block.early[i].end) {
            return true;
        }
    }
    return start != 0 && address - start < block.len;
}

bool snp_heap_arena_free(void *arena, size_t n)
{
    if (!snp_heap_has((uintptr_t)arena)) {
        return false;
    }
    (void)madvise(arena, n, MADV_DONTNEED);
    return true;
}

void snp_heap_end(void)
{
    const size_t large = large_page();
    size_t kept;

    if (block.start == NULL) {
        return; /* the kernel's huge pages are too large */
    }
    kept = (block.used + large - 1) / large * large + SPARE_BYTES;
    kept = kept < block.len ? kept : block.len;
    (void)munmap(block.start + kept, block.len - kept);
    block.len = kept;
    gather();
    (void)madvise(block.start, kept, MADV_NOHUGEPAGE); /* memory for forks stays in small pages */
}
