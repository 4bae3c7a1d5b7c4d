/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_IMAGE_PARTS_H
#define SNP_GUEST_MODULE_IMAGE_PARTS_H

/*
 * Parts of an image, and a process's view of its memory. It all lies in separate memory (struct
 * snp_image_room), which is in no image: nothing of the interpreter is used.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "base/macro.h"
#include "guest/module/image.h"

enum {
    SNP_IMAGE_VMAS_MAX = 4096,
    SNP_IMAGE_RUNS_MAX = 65536,
    SNP_IMAGE_PAGES_MAX = 1 << 18, /* hashed: 1 GiB */
    SNP_IMAGE_HASHES = 512,        /* sent together, while the peer compares as many */
    SNP_IMAGE_PATHS_MAX = 512 << 10,
    SNP_IMAGE_PATH_MAX = 4096,
    SNP_IMAGE_FILES_MAX = 256,     /* to map again */
    SNP_IMAGE_RUN_MAX = 256 << 20, /* bytes of a run */
    SNP_IMAGE_LIST_MAX = 8 << 20,  /* bytes of /proc/self/smaps */
    SNP_IMAGE_KERNEL_MAX = 64,
    SNP_IMAGE_BESIDE = 128 << 10, /* bytes read together: they stay in the cache */
    SNP_IMAGE_BESIDE_MAX = 1 << 20,
};

/* Addresses of rooms, outside every image: far from those that the kernel chooses. */
#define SNP_IMAGE_PLACE      UINT64_C(0x10000000000)
#define SNP_IMAGE_ROOM_BYTES (UINT64_C(64) << 20)
enum {
    SNP_IMAGE_ROOM_OURS,
    SNP_IMAGE_ROOM_THEIRS,
    SNP_IMAGE_ROOM_PLAN,
    SNP_IMAGE_ROOMS_N,
};

#define SNP_IMAGE_MAGIC UINT64_C(0x32474d4950494e53) /* "SNIPIMG2" */

enum snp_image_kind {
    SNP_IMAGE_ANON = 0,
    SNP_IMAGE_HEAP,
    SNP_IMAGE_STACK,
    SNP_IMAGE_FILE,
    SNP_IMAGE_KERNEL, /* the vdso and its data */
    SNP_IMAGE_KINDS_N,
};

struct snp_image_vma {
    uint64_t start;
    uint64_t end;
    uint64_t offset;    /* in the file */
    uint64_t mapped[2]; /* device and inode in the list of mappings */
    uint64_t named[3];  /* device, inode and change time of the file at its path */
    uint32_t kind;
    uint32_t prot;
    uint32_t path;          /* of files: offset of the path */
    uint32_t is_shared;     /* with the file, read-only */
    uint32_t is_kept_apart; /* differs in a child, or grows: only the kernel can make it */
};

struct snp_image_run {
    uint64_t at;
    uint64_t len;
    uint64_t is_drop; /* the target has pages here, we have none: restore the initial state */
};

/* The head, sent first by each side; then the parts, in this order, and the pages of the runs. */
struct snp_image_head {
    uint64_t magic;
    uint8_t template_id[16];
    uint8_t place_id[16];
    uint64_t heap_end;
    uint64_t stack_low; /* nothing on the stack below it is in use */
    uint64_t n_filters; /* seccomp filters */
    uint64_t n_vmas;
    uint64_t paths_len;
    uint64_t n_pages;                  /* listed */
    uint64_t n_runs;                   /* frozen */
    char kernel[SNP_IMAGE_KERNEL_MAX]; /* release */
};

/*
 * A process's view of its memory. Under some hypervisors (PVM) the first access to a page takes 8
 * us, but 1 us if the kernel reads it; once that is measured, the kernel is used.
 */
struct snp_image_view {
    int fd; /* its memory as a file; -1 = read directly */
    bool is_tried;
    unsigned n_looks;
    unsigned n_slow;
    uint64_t start; /* address of bytes */
    uint64_t end;
    uint8_t bytes[SNP_IMAGE_BESIDE_MAX] __attribute__((aligned(64)));
};

struct snp_image_room {
    struct snp_image_head head;
    struct snp_image_view view;
    struct snp_image_vma vmas[SNP_IMAGE_VMAS_MAX + 1];
    uint64_t pages[SNP_IMAGE_PAGES_MAX]; /* their addresses */
    uint64_t hashes[SNP_IMAGE_PAGES_MAX];
    struct snp_image_run runs[SNP_IMAGE_RUNS_MAX];
    char paths[SNP_IMAGE_PATHS_MAX];
    char list[SNP_IMAGE_LIST_MAX]; /* a text of /proc */
};

/* The rest of a process's state: that kept by the kernel. */
struct snp_image_kernel {
    struct {
        uint64_t words[4];
    } actions[65];
    uint64_t mask;
    stack_t signal_stack;
    struct rlimit limits[RLIM_NLIMITS];
    uint32_t umask;
};

/* Resources of the transfer, unused by the restored process. */
struct snp_image_leftovers {
    struct {
        void *at;
        size_t len;
    } rooms[SNP_IMAGE_ROOMS_N];
    size_t n_files;
    int files[SNP_IMAGE_FILES_MAX + 3]; /* including those of the transfer */
};

/* One for each process, and part of each of its images. */
struct snp_image_self {
    uint8_t template_id[16];
    uint8_t place_id[16];
    jmp_buf at;
    struct snp_image_given given;
    struct snp_image_leftovers leftovers;
    struct snp_image_kernel kernel;
    struct rlimit opened[RLIM_NLIMITS]; /* after set-up */
};
extern struct snp_image_self snp_image_self;

int snp_image_fail(char why[SNP_IMAGE_WHY_MAX], const char *form, ...)
    __attribute__((format(printf, 2, 3)));

void *snp_image_at(uint64_t address);

/* Map a room at its place; NULL = failed. */
void *snp_image_room(unsigned which, size_t len);
/* Is it at the addresses of rooms? */
bool snp_image_is_room(uint64_t start, uint64_t end);

void snp_image_clear(struct snp_image_leftovers *left);

/* Fill in head and vmas, without rooms. has_flags: is_kept_apart too, which takes longer. */
int snp_image_look(struct snp_image_room *room,
                   bool has_flags,
                   char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/* Is a page that both have, with equal content, left unchanged? */
bool snp_image_is_same(const struct snp_image_room *a_room,
                       const struct snp_image_vma *a,
                       const struct snp_image_room *b_room,
                       const struct snp_image_vma *b);

/*
 * Call each for the pages of a mapping, in order; n_own: the number of private pages from here on,
 * 0 = not private.
 */
int snp_image_each_page(int page_fd,
                        const struct snp_image_vma *vma,
                        int (*each)(void *data, uint64_t at, uint64_t n_own),
                        void *data) SNP_NODISCARD;

/* Measure on a private page how slow an access is; most pages are not accessed. */
void snp_image_try(struct snp_image_view *view, uint64_t at);

/* One of n private pages; valid until the next call. */
const void *snp_image_page(struct snp_image_view *view, uint64_t at, uint64_t n);
uint64_t snp_image_hash(struct snp_image_view *view, uint64_t at, uint64_t n);

/* Copy memory into bytes of the view; NULL = read it directly. */
const void *snp_image_beside(struct snp_image_view *view, uint64_t at, size_t len, size_t offset);

/* Receive the pipes from the socket: to read from, to write to. */
int snp_image_receive(int fd, int *ret_in_fd, int *ret_out_fd) SNP_NODISCARD;

/* List our memory for the peer: pages first, then their hashes. */
int snp_image_tell(int fd, struct snp_image_room *room, char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/* Skip the first `done` bytes of *n parts. */
void snp_image_skip(struct iovec *parts, size_t *n, size_t done);

/*
 * Write a whole image as items of a checkpoint (docs/wire.md, bundle) into a pipe; items with a
 * known key, one a line, without their bytes.
 */
int snp_image_put_items(int fd, struct snp_image_room *room, const char *known, uint32_t *ret_items)
    SNP_NODISCARD;

/* Write a whole part; read n entries of a size, at most max. */
int snp_image_put(int fd, const void *part, size_t len) SNP_NODISCARD;
int snp_image_get(int fd, uint64_t n, size_t size, size_t max, void *ret) SNP_NODISCARD;

#endif
