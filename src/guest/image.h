/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_IMAGE_H
#define SNP_GUEST_IMAGE_H

/*
 * The image of an interpreter's memory: records, and checks of them. Writer and reader are of one
 * build, so the records are plain. Two kinds of process have images:
 *
 *   a template  that has loaded its modules and waits for orders. guest/module/freeze.c writes the
 *               image, with hashes and all loaded files, and guest/thaw maps it into a new process
 *               of the same program. The supervisor stores it after its label.
 *   a session   guest/module/image.h. Written by untrusted code, and restored in its sandbox
 *               only.
 *
 * Order: the parts of struct snp_image, each as long as the head states, and the bytes of all runs
 * in sequence.
 *
 * The checks are inline and call no function, because guest/thaw has no C library.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define SNP_IMAGE_MAGIC UINT64_C(0x33474d4950494e53) /* "SNIPIMG3" */
#define SNP_IMAGE_PAGE  UINT64_C(4096)
/* addresses of a process */
#define SNP_IMAGE_START (UINT64_C(1) << 16U)
#ifdef __x86_64__
#    define SNP_IMAGE_END UINT64_C(0x7ffffffff000)
#else
#    define SNP_IMAGE_END (UINT64_C(1) << 48U)
#endif
#define SNP_TEMPLATE_IMAGE_KERNEL_MAX (UINT64_C(16) * SNP_IMAGE_PAGE)

enum {
    SNP_IMAGE_VMAS_MAX = 4096,
    SNP_IMAGE_FILES_MAX = 8192,
    SNP_IMAGE_TEXT_MAX = 1 << 20,
    SNP_IMAGE_RUNS_MAX = 65536,
    SNP_IMAGE_LARGE_MAX = 512,
    SNP_IMAGE_RUN_MAX = 256 << 20, /* bytes of a run */
    SNP_IMAGE_KERNEL_MAX = 64,
    SNP_IMAGE_PARTS = 7,
    SNP_TEMPLATE_IMAGE_FD = 7,      /* of a template started with an image */
    SNP_TEMPLATE_IMAGE_VECTOR = 64, /* of the auxiliary vector */
};

/* Identifies a template's image for the supervisor. */
struct snp_template_image_label {
    uint64_t magic;
    uint64_t key[2];
    uint64_t born_s; /* since 1970 */
    uint64_t len;    /* of the rest */
};

struct snp_image_head {
    uint64_t magic;
    uint64_t hash; /* a template's: of all parts, with 0 in this member */
    uint8_t template_id[16];
    uint8_t place_id[16];
    uint64_t heap_end;
    uint64_t stack_low; /* nothing on the stack below it is in use */
    uint64_t n_filters; /* seccomp filters */
    uint64_t n_processes;
    uint64_t n_vmas;
    uint64_t n_files;
    uint64_t text_len;
    uint64_t n_runs;
    uint64_t n_large;
    uint64_t bytes;                    /* of all runs */
    uint64_t n_pages;                  /* listed by a target (guest/module/image.h) */
    char kernel[SNP_IMAGE_KERNEL_MAX]; /* release */
};

/* The state of a template's process besides its memory. */
struct snp_image_process {
    /*
     * Where execution continues: entry(start, len), which unmaps the thawing program and restores
     * the rest (guest/module/image.h).
     */
    uint64_t entry;
    uint64_t stack;
    uint64_t fs_base;
    uint64_t thread_number; /* address of the C library's copy */
    uint64_t sequences;     /* the area of restartable sequences; 0 = none */
    uint64_t sequences_len;
    struct prctl_mm_map memory;
    uint64_t vector[SNP_TEMPLATE_IMAGE_VECTOR];
};

enum snp_image_kind {
    SNP_IMAGE_ANON = 0,
    SNP_IMAGE_HEAP,
    SNP_IMAGE_STACK, /* of the first thread: grows */
    SNP_IMAGE_FILE,
    SNP_IMAGE_SHARED, /* with a file, read-only */
    SNP_IMAGE_KERNEL, /* the vdso and its data; relocated in a template */
    SNP_IMAGE_KINDS_N,
};

struct snp_image_vma {
    uint64_t start;
    uint64_t end;
    uint64_t offset; /* in the file */
    uint64_t mapped; /* inode in the list of mappings */
    uint32_t file;   /* its index */
    uint8_t kind;
    uint8_t prot;
    uint8_t has_runs;
    uint8_t is_kept_apart; /* differs in a child, or grows: only the kernel can make it */
};

/* A file that must be unchanged, or the image is not used. */
struct snp_image_file {
    int64_t size; /* -1: missing; -2: a folder */
    /*
     * modified and changed: seconds, nanoseconds each; of a template in /etc, which is copied:
     * XXH3-64 of the content
     */
    int64_t changed[4];
    uint64_t inode;
    uint32_t path; /* offset in the text */
    uint32_t is_mapped;
};

/* Pages that differ from their file, from zero, or from the target's. */
struct snp_image_run {
    uint64_t at;
    uint32_t len;
    uint32_t is_drop; /* without bytes: only the target has pages here; restore the initial state */
    uint64_t hash;    /* XXH3-64; 0 in a session's */
};

/* Memory in huge pages. */
struct snp_image_large {
    uint64_t at;
    uint64_t len;
};

struct snp_image {
    struct snp_image_head head;
    struct snp_image_process process; /* of a template */
    struct snp_image_vma vmas[SNP_IMAGE_VMAS_MAX + 1];
    struct snp_image_file files[SNP_IMAGE_FILES_MAX];
    char text[SNP_IMAGE_TEXT_MAX]; /* of paths, each with its NUL */
    struct snp_image_run runs[SNP_IMAGE_RUNS_MAX];
    struct snp_image_large large[SNP_IMAGE_LARGE_MAX];
};

/* Do the parts fit into struct snp_image? */
static inline bool snp_image_fits(const struct snp_image_head *head)
{
    return head->magic == SNP_IMAGE_MAGIC && head->n_processes <= 1 &&
           head->n_vmas <= SNP_IMAGE_VMAS_MAX && head->n_files <= SNP_IMAGE_FILES_MAX &&
           head->text_len <= SNP_IMAGE_TEXT_MAX && head->n_runs <= SNP_IMAGE_RUNS_MAX &&
           head->n_large <= SNP_IMAGE_LARGE_MAX && head->bytes <= SNP_IMAGE_END;
}

/* The parts of an image that fits; returns its length. */
static inline uint64_t snp_image_parts(struct snp_image *image, struct iovec ret[SNP_IMAGE_PARTS])
{
    const struct snp_image_head *head = &image->head;
    const struct iovec parts[SNP_IMAGE_PARTS] = {
        {&image->head, sizeof(image->head)},
        {&image->process, head->n_processes * sizeof(image->process)},
        {image->vmas, head->n_vmas * sizeof(image->vmas[0])},
        {image->files, head->n_files * sizeof(image->files[0])},
        {image->text, head->text_len},
        {image->runs, head->n_runs * sizeof(image->runs[0])},
        {image->large, head->n_large * sizeof(image->large[0])},
    };
    uint64_t len = head->bytes;

    for (size_t i = 0; i < SNP_IMAGE_PARTS; i++) {
        ret[i] = parts[i];
        len += parts[i].iov_len;
    }
    return len;
}

static inline bool snp_image_has_file(const struct snp_image_vma *vma)
{
    return vma->kind == SNP_IMAGE_FILE || vma->kind == SNP_IMAGE_SHARED;
}

static inline bool snp_image_is_unchanged(const struct snp_image_file *file, const struct stat *st)
{
    const bool is_folder = (st->st_mode & S_IFMT) == S_IFDIR;

    return file->size == (is_folder ? -2 : st->st_size) && file->changed[0] == st->st_mtim.tv_sec &&
           file->changed[1] == st->st_mtim.tv_nsec &&
           (is_folder ||
            (file->changed[2] == st->st_ctim.tv_sec && file->changed[3] == st->st_ctim.tv_nsec));
}

/* Sorted, disjoint, of a known kind; paths are terminated, including the last. */
static inline bool snp_image_maps_fit(const struct snp_image *image)
{
    const struct snp_image_head *head = &image->head;
    uint64_t end = SNP_IMAGE_START;

    for (uint64_t i = 0; i < head->n_vmas; i++) {
        const struct snp_image_vma *vma = &image->vmas[i];

        if (vma->start < end || vma->end <= vma->start || vma->end > SNP_IMAGE_END ||
            (vma->start | vma->end | vma->offset) % SNP_IMAGE_PAGE != 0 ||
            vma->kind >= SNP_IMAGE_KINDS_N ||
            (vma->prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC)) != 0 ||
            (vma->kind == SNP_IMAGE_SHARED && (vma->prot & PROT_WRITE) != 0) ||
            (snp_image_has_file(vma) &&
             (vma->file >= head->n_files || image->files[vma->file].is_mapped == 0))) {
            return false;
        }
        end = vma->end;
    }
    for (uint64_t i = 0; i < head->n_files; i++) {
        if (image->files[i].path >= head->text_len) {
            return false;
        }
    }
    return head->text_len == 0 || image->text[head->text_len - 1] == '\0';
}

/* Sorted, disjoint, each within a mapping that has runs. */
static inline bool snp_image_runs_fit(const struct snp_image *image)
{
    const struct snp_image_vma *vma = image->vmas;
    const struct snp_image_vma *vmas_end = vma + image->head.n_vmas;
    uint64_t end = 0;
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < image->head.n_runs; i++) {
        const struct snp_image_run *run = &image->runs[i];

        while (vma < vmas_end && vma->end <= run->at) {
            vma++;
        }
        if (vma == vmas_end || run->at < end || run->at < vma->start || run->len == 0 ||
            run->len > SNP_IMAGE_RUN_MAX || run->len > vma->end - run->at ||
            (run->at | run->len) % SNP_IMAGE_PAGE != 0 || vma->kind > SNP_IMAGE_FILE ||
            vma->has_runs == 0) {
            return false;
        }
        end = run->at + run->len;
        bytes += run->is_drop != 0 ? 0 : run->len;
    }
    return bytes == image->head.bytes;
}

/* A template's: complete, with adjacent mappings of the kernel. */
static inline bool snp_template_image_fits(const struct snp_image *image)
{
    uint64_t first = 0;
    uint64_t last = 0;

    for (uint64_t i = 0; i < image->head.n_vmas; i++) {
        if (image->vmas[i].kind == SNP_IMAGE_KERNEL) {
            first = first == 0 ? image->vmas[i].start : first;
            last = image->vmas[i].end;
        }
    }
    for (uint64_t i = 0; i < image->head.n_runs; i++) {
        if (image->runs[i].is_drop != 0) {
            return false;
        }
    }
    return image->head.n_processes == 1 &&
           image->process.memory.auxv_size <= sizeof(image->process.vector) && first != 0 &&
           last - first <= SNP_TEMPLATE_IMAGE_KERNEL_MAX && snp_image_maps_fit(image) &&
           snp_image_runs_fit(image);
}

#endif
