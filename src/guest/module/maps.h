/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's mappings, one by one, and its pages, from /proc/self. If it cannot be read, there
 * are none.
 */
#ifndef SNP_GUEST_MODULE_MAPS_H
#define SNP_GUEST_MODULE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macro.h"

/* Bits of a page's entry. */
#define SNP_PAGE_PRESENT (UINT64_C(1) << 63)
#define SNP_PAGE_SWAPPED (UINT64_C(1) << 62)
#define SNP_PAGE_SHARED  (UINT64_C(1) << 61) /* a file's, or shared memory */
#define SNP_PAGE_OWN     (UINT64_C(1) << 56) /* no other process has it mapped */

struct snp_map {
    uintptr_t start;
    uintptr_t end;
    int prot; /* PROT_ bits */
    bool is_shared;
    bool is_private; /* private, readable and writable, not executable */
    bool has_file;
    uint64_t file; /* inode on its device; 0 = none */
    bool is_stack; /* the first thread's stack */
    uintptr_t offset;
    const char *name; /* the rest of the line; valid until the next */
};

enum {
    SNP_MAPS_BUFFER = 8 << 10, /* the kernel returns a page at a time */
    SNP_MAPS_LINE = 512
};

struct snp_maps {
    FILE *list;  /* owned; NULL = cannot be read */
    int page_fd; /* owned */
    char buffer[SNP_MAPS_BUFFER];
    char line[SNP_MAPS_LINE];
};

void snp_maps_open(struct snp_maps *maps);
void snp_maps_close(struct snp_maps *maps);
bool snp_maps_next(struct snp_maps *maps, struct snp_map *ret) SNP_NODISCARD;
/* Read a line of /proc/self/maps, to which the name then points. */
bool snp_map_read(const char *line, struct snp_map *ret) SNP_NODISCARD;

/* Read the entries of n small pages from start; false: not readable. */
bool snp_maps_pages(int page_fd, uintptr_t start, size_t n, uint64_t *ret) SNP_NODISCARD;

void *snp_maps_at(uint64_t address);

#endif
