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
#include "guest/image.h"
#include "guest/module/image.h"
#include "guest/module/maps.h"

enum {
    SNP_IMAGE_PAGES_MAX = 1 << 18, /* hashed: 1 GiB */
    SNP_IMAGE_HASHES = 512,        /* sent together, while the peer compares as many */
    SNP_IMAGE_OPEN_MAX = 256,      /* files to map again */
    SNP_IMAGE_LIST_MAX = 8 << 20,  /* bytes of /proc/self/smaps */
    SNP_IMAGE_BESIDE = 128 << 10,  /* bytes read together: they stay in the cache */
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
    struct snp_image image;
    struct snp_image_view view;
    uint64_t pages[SNP_IMAGE_PAGES_MAX]; /* their addresses */
    uint64_t hashes[SNP_IMAGE_PAGES_MAX];
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
    int files[SNP_IMAGE_OPEN_MAX + 3]; /* including those of the transfer */
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

/* Map a room at its place; NULL = failed. */
void *snp_image_room(unsigned which, size_t len);
/* Is it at the addresses of rooms? */
bool snp_image_is_room(uint64_t start, uint64_t end);

void snp_image_clear(struct snp_image_leftovers *left);

/* Seccomp filters of this process; 0 if unknown. */
uint64_t snp_image_filters(void);

/* Add a file in its current state; NULL = no room. errno: why it is missing. */
struct snp_image_file *snp_image_add_file(struct snp_image *image, const char *path);

/*
 * Fill in the head, the mappings without rooms, and their files. has_flags: is_kept_apart too,
 * which takes longer.
 */
int snp_image_look(struct snp_image_room *room,
                   bool has_flags,
                   char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/* Is a page that both have, with equal content, left unchanged? */
bool snp_image_is_same(const struct snp_image *a_image,
                       const struct snp_image_vma *a,
                       const struct snp_image *b_image,
                       const struct snp_image_vma *b);

/*
 * Call each for the pages of a mapping, in order; n_own: the number of private pages from here on,
 * 0 = not private.
 */
int snp_image_each_page(int page_fd,
                        const struct snp_image_vma *vma,
                        int (*each)(void *data, uint64_t at, uint64_t n_own),
                        void *data) SNP_NODISCARD;

/* Is it all zeros, like a missing one? */
bool snp_image_is_zero(const char *page);

/* Add a page of the mapping to the runs, each of at most max bytes; -1 = no room. */
int snp_image_add_page(struct snp_image *image,
                       struct snp_image_vma *vma,
                       uint64_t at,
                       bool is_drop,
                       uint32_t max) SNP_NODISCARD;

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

/*
 * Write a whole image as items of a checkpoint (docs/wire.md, bundle) into a pipe; items with a
 * known key, one a line, without their bytes.
 */
int snp_image_put_items(int fd, struct snp_image_room *room, const char *known, uint32_t *ret_items)
    SNP_NODISCARD;

/*
 * Write these parts, which change. By no function of the C library: those record in memory that
 * they wait.
 */
int snp_image_put(int fd, struct iovec *parts, size_t n) SNP_NODISCARD;
/* Write or read an image without its runs' bytes. */
int snp_image_put_parts(int fd, struct snp_image *image) SNP_NODISCARD;
int snp_image_get_parts(int fd, struct snp_image *image, char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;
/* Write the bytes of the runs directly from memory. */
int snp_image_put_runs(int fd, const struct snp_image *image) SNP_NODISCARD;

/* Read a whole part. */
int snp_image_get(int fd, void *part, size_t len) SNP_NODISCARD;

#endif
