/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_IMAGE_H
#define SNP_GUEST_IMAGE_H

/*
 * The image of a template: the memory of an interpreter that has loaded its modules and waits for
 * orders. guest/module/freeze.c writes it, guest/thaw maps it into a new process of the same
 * program. Both sides are of one build, so it consists of plain records.
 *
 * Order: struct snp_template_image_label (the supervisor's), struct snp_template_image, maps, runs,
 * files, large parts, text, and the bytes of all runs in sequence.
 */

#include <stddef.h>
#include <stdint.h>
#include <linux/prctl.h>

#define SNP_TEMPLATE_IMAGE_MAGIC UINT64_C(0x314547414d49504e)

enum {
    SNP_TEMPLATE_IMAGE_FD = 7, /* of a template started with an image */
    SNP_TEMPLATE_IMAGE_MAPS_MAX = 4096,
    SNP_TEMPLATE_IMAGE_RUNS_MAX = 32768,
    SNP_TEMPLATE_IMAGE_FILES_MAX = 8192,
    SNP_TEMPLATE_IMAGE_LARGE_MAX = 512,
    SNP_TEMPLATE_IMAGE_TEXT_MAX = 1 << 20,
    /* per run, so that it is still in the cache when it is checked */
    SNP_TEMPLATE_IMAGE_RUN_BYTES = 512 << 10,
    SNP_TEMPLATE_IMAGE_SIGNALS = 64,
    SNP_TEMPLATE_IMAGE_VECTOR = 64, /* of the auxiliary vector */
};

/* Identifies the image for the supervisor. */
struct snp_template_image_label {
    uint64_t magic;
    uint64_t key[2];
    uint64_t born_s; /* since 1970 */
    uint64_t len;    /* of the rest */
};

enum snp_template_image_kind {
    SNP_TEMPLATE_IMAGE_MEMORY, /* anonymous */
    SNP_TEMPLATE_IMAGE_STACK,  /* of the first thread: grows */
    SNP_TEMPLATE_IMAGE_FILE,
    SNP_TEMPLATE_IMAGE_SHARED, /* a file's, read-only */
    SNP_TEMPLATE_IMAGE_KERNEL, /* the kernel's code and data (vdso): relocated */
};

struct snp_template_image_map {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint32_t file; /* its index */
    uint8_t kind;
    uint8_t prot;
    uint8_t has_runs;
    uint8_t reserved;
};

/* Pages that differ from their file, or from zero. */
struct snp_template_image_run {
    uint64_t start;
    uint64_t len;
    uint64_t hash; /* XXH3-64 */
};

/* Memory in huge pages. */
struct snp_template_image_large {
    uint64_t start;
    uint64_t len;
};

/* A file that must be unchanged, or the image is not used. */
struct snp_template_image_file {
    int64_t size; /* -1: missing; -2: a folder */
    /*
     * modified and changed: seconds, nanoseconds each; in /etc, which is copied: XXH3-64 of the
     * content
     */
    int64_t changed[4];
    uint32_t path; /* offset in the text */
    uint32_t is_mapped;
};

/* A signal action in the kernel's format. */
struct snp_template_image_signal {
    uint64_t handler;
    uint64_t flags;
    uint64_t restorer;
    uint64_t mask;
};

struct snp_template_image {
    uint64_t magic;
    uint64_t tables_hash; /* of the tables, from this record to the bytes of runs */
    uint64_t hash;        /* of this record, with 0 in this member */
    uint64_t n_maps;
    uint64_t n_runs;
    uint64_t n_files;
    uint64_t n_large;
    uint64_t text_len;
    uint64_t bytes; /* of all runs */
    /* Where execution continues: entry(start, len), which unmaps the thawing program. */
    uint64_t entry;
    uint64_t stack;
    uint64_t fs_base;
    uint64_t thread_number; /* address of the C library's copy */
    uint64_t sequences;     /* the area of restartable sequences; 0 = none */
    uint64_t sequences_len;
    uint64_t signal_mask;
    struct snp_template_image_signal signals[SNP_TEMPLATE_IMAGE_SIGNALS];
    struct prctl_mm_map memory;
    uint64_t vector[SNP_TEMPLATE_IMAGE_VECTOR];
};

#endif
