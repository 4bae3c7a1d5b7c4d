/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limited to memory that keeps its purpose: the stack, the program's variables, and the
 * interpreter's memory from before the fork (heap.h). If the code unmaps a part of it, and maps a
 * shared file there, that file may appear written; its bytes stay the same.
 *
 * Learning takes as long as a few cells, so it is done at the third fork (before the first,
 * everything is shared with the template), and then at increasing intervals.
 */
#include "guest/module/hot.h"

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "guest/module/heap.h"
#include "guest/module/maps.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
    RUNS_MAX = 512,
    PAGES_MAX = 1024, /* in all runs */
    WINDOW = 512,     /* entries read together */
    LOOK_BYTES_MAX = 64 << 20,
    LOOKS_APART_MAX = 256, /* forks */
};

struct page_range {
    uintptr_t start;
    size_t n; /* pages */
};

static struct hot {
    struct page_range runs[RUNS_MAX];
    size_t n;
    size_t n_pages;
    uint64_t forks;
    uint64_t next_look; /* number of the fork at which to learn next */
} hot = {.next_look = 3};

static void add_page(uintptr_t at, size_t page_size)
{
    struct page_range *last = hot.n == 0 ? NULL : &hot.runs[hot.n - 1];

    if (hot.n_pages == PAGES_MAX) {
        return;
    }
    if (last != NULL && last->start + last->n * page_size == at) {
        last->n++;
    } else if (hot.n < RUNS_MAX) {
        hot.runs[hot.n++] = (struct page_range){.start = at, .n = 1};
    } else {
        return;
    }
    hot.n_pages++;
}

/* Find pages that only we map: they were written since the last fork. */
static void look_at(const struct snp_maps *maps, uintptr_t start, uintptr_t end, size_t page_size)
{
    const uint64_t what = SNP_PAGE_PRESENT | SNP_PAGE_OWN | SNP_PAGE_SHARED;
    uint64_t entries[WINDOW];

    for (uintptr_t at = start; at < end; at += WINDOW * page_size) {
        size_t n = (end - at) / page_size < WINDOW ? (end - at) / page_size : WINDOW;

        if (!snp_maps_pages(maps->page_fd, at, n, entries)) {
            return;
        }
        for (size_t i = 0; i < n; i++) {
            if ((entries[i] & what) == (SNP_PAGE_PRESENT | SNP_PAGE_OWN)) {
                add_page(at + i * page_size, page_size);
            }
        }
    }
}

void snp_hot_look(void)
{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct snp_maps maps;
    struct snp_map map;
    bool has_program = false;
    size_t looked = 0;

    if (++hot.forks < hot.next_look) {
        return;
    }
    hot.next_look += hot.next_look < LOOKS_APART_MAX ? hot.next_look : (uint64_t)LOOKS_APART_MAX;
    hot.n = hot.n_pages = 0;
    snp_maps_open(&maps);
    while (snp_maps_next(&maps, &map)) {
        /* The first writable mapping of a file is the program's. */
        bool is_program = map.is_private && map.has_file && !has_program;

        has_program = has_program || is_program;
        if (map.is_private && looked + (map.end - map.start) <= LOOK_BYTES_MAX &&
            (is_program || map.is_stack || snp_heap_has(map.start) || snp_heap_has(map.end - 1))) {
            look_at(&maps, map.start, map.end, page_size);
            looked += map.end - map.start;
        }
    }
    snp_maps_close(&maps);
}

/* With other threads, a page could be unmapped while it is read. */
static bool is_alone(void)
{
    struct stat st;

    return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

void snp_hot_touch(void)
{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    bool may_read = is_alone();

    for (size_t i = 0; i < hot.n; i++) {
        const struct page_range *run = &hot.runs[i];
        /* Skip unmapped runs. */
        bool is_there =
            madvise(snp_maps_at(run->start), run->n * page_size, MADV_POPULATE_WRITE) == 0;

        /*
         * Under a hypervisor with shadow page tables, the first access costs as much as the copy.
         */
        for (size_t k = 0; k < run->n && is_there && may_read; k++) {
            (void)*(const volatile char *)snp_maps_at(run->start + k * page_size);
        }
    }
}
