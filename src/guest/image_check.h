/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_IMAGE_CHECK_H
#define SNP_GUEST_IMAGE_CHECK_H

/*
 * Are the tables of a template's image valid? Checked by the supervisor before it stores an image,
 * and by guest/thaw before it uses one; guest/thaw has no C library, so all is inline and calls no
 * function.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "guest/image.h"

#define SNP_TEMPLATE_IMAGE_PAGE 4096U
/* end of a process's address space */
#define SNP_TEMPLATE_IMAGE_END        UINT64_C(0x7ffffffff000)
#define SNP_TEMPLATE_IMAGE_BYTES_MAX  (UINT64_C(1) << 30U)
#define SNP_TEMPLATE_IMAGE_KERNEL_MAX (UINT64_C(16) * SNP_TEMPLATE_IMAGE_PAGE)

struct snp_template_image_tables {
    const struct snp_template_image *image;
    const struct snp_template_image_map *maps;
    const struct snp_template_image_run *runs;
    const struct snp_template_image_file *files;
    const struct snp_template_image_large *large;
    const char *text;
};

/* Do the tables fit into their buffers? */
static inline bool snp_template_image_fits(const struct snp_template_image *image)
{
    return image->magic == SNP_TEMPLATE_IMAGE_MAGIC &&
           image->n_maps <= SNP_TEMPLATE_IMAGE_MAPS_MAX &&
           image->n_runs <= SNP_TEMPLATE_IMAGE_RUNS_MAX &&
           image->n_files <= SNP_TEMPLATE_IMAGE_FILES_MAX &&
           image->n_large <= SNP_TEMPLATE_IMAGE_LARGE_MAX &&
           image->text_len <= SNP_TEMPLATE_IMAGE_TEXT_MAX &&
           image->bytes <= SNP_TEMPLATE_IMAGE_BYTES_MAX &&
           image->memory.auxv_size <= sizeof(image->vector);
}

/* Length of an image that fits. */
static inline uint64_t snp_template_image_len(const struct snp_template_image *image)
{
    return sizeof(*image) + image->n_maps * sizeof(struct snp_template_image_map) +
           image->n_runs * sizeof(struct snp_template_image_run) +
           image->n_files * sizeof(struct snp_template_image_file) +
           image->n_large * sizeof(struct snp_template_image_large) + image->text_len +
           image->bytes;
}

static inline bool snp_template_image_range_fits(uint64_t start, uint64_t len)
{
    return len != 0 && start % SNP_TEMPLATE_IMAGE_PAGE == 0 && len % SNP_TEMPLATE_IMAGE_PAGE == 0 &&
           len <= SNP_TEMPLATE_IMAGE_END && start <= SNP_TEMPLATE_IMAGE_END - len;
}

/* Sorted, disjoint, of a known kind; the kernel's are adjacent. */
static inline bool snp_template_image_maps_fit(const struct snp_template_image_tables *t)
{
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t end = 0;

    for (uint64_t i = 0; i < t->image->n_maps; i++) {
        const struct snp_template_image_map *map = &t->maps[i];

        if (map->start < end || map->end <= map->start ||
            !snp_template_image_range_fits(map->start, map->end - map->start) ||
            map->kind > SNP_TEMPLATE_IMAGE_KERNEL ||
            (map->prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC)) != 0) {
            return false;
        }
        if ((map->kind == SNP_TEMPLATE_IMAGE_FILE || map->kind == SNP_TEMPLATE_IMAGE_SHARED) &&
            (map->file >= t->image->n_files || t->files[map->file].is_mapped == 0)) {
            return false;
        }
        end = map->end;
        if (map->kind == SNP_TEMPLATE_IMAGE_KERNEL) {
            first = first == 0 ? map->start : first;
            last = map->end;
        }
    }
    return first != 0 && last - first <= SNP_TEMPLATE_IMAGE_KERNEL_MAX;
}

/* Sorted, disjoint, within writable mappings. */
static inline bool snp_template_image_runs_fit(const struct snp_template_image_tables *t)
{
    uint64_t map = 0;
    uint64_t end = 0;
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < t->image->n_runs; i++) {
        const struct snp_template_image_run *run = &t->runs[i];

        if (run->start < end || run->len > SNP_TEMPLATE_IMAGE_RUN_BYTES ||
            !snp_template_image_range_fits(run->start, run->len)) {
            return false;
        }
        end = run->start + run->len;
        bytes += run->len;
        for (uint64_t at = run->start; at < end; at = t->maps[map].end) {
            while (map < t->image->n_maps && t->maps[map].end <= at) {
                map++;
            }
            if (map == t->image->n_maps || at < t->maps[map].start || t->maps[map].has_runs == 0 ||
                t->maps[map].kind > SNP_TEMPLATE_IMAGE_FILE) {
                return false;
            }
        }
    }
    return bytes == t->image->bytes;
}

/* Names are terminated, including the last. */
static inline bool snp_template_image_files_fit(const struct snp_template_image_tables *t)
{
    const uint64_t len = t->image->text_len;

    for (uint64_t i = 0; i < t->image->n_files; i++) {
        if (t->files[i].path >= len) {
            return false;
        }
    }
    return len == 0 || t->text[len - 1] == '\0';
}

static inline bool snp_template_image_tables_fit(const struct snp_template_image_tables *t)
{
    return snp_template_image_files_fit(t) && snp_template_image_maps_fit(t) &&
           snp_template_image_runs_fit(t);
}

#endif
