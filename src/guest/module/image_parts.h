/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_IMAGE_PARTS_H
#define SNP_GUEST_MODULE_IMAGE_PARTS_H

/*
 * What lies in an image, and how a process sees its own memory for it. All of it in memory of its
 * own (struct snp_image_room), which is in no image: nothing of the interpreter's is
 * used meanwhile.
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
    SNP_IMAGE_HASHES = 512,        /* told at once: the other side looks at as many meanwhile */
    SNP_IMAGE_PATHS_MAX = 512 << 10,
    SNP_IMAGE_PATH_MAX = 4096,
    SNP_IMAGE_FILES_MAX = 256,     /* mapped anew */
    SNP_IMAGE_RUN_MAX = 256 << 20, /* bytes of one */
    SNP_IMAGE_LIST_MAX = 8 << 20,  /* bytes of /proc/self/smaps */
    SNP_IMAGE_KERNEL_MAX = 64,
    SNP_IMAGE_BESIDE = 128 << 10, /* bytes read at once: they stay in the cache */
    SNP_IMAGE_BESIDE_MAX = 1 << 20,
};

/* Where all of this lies, which no image can have: far from what the kernel would choose. */
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
    SNP_IMAGE_KERNEL, /* the vdso and what belongs to it */
    SNP_IMAGE_KINDS_N,
};

struct snp_image_vma {
    uint64_t start;
    uint64_t end;
    uint64_t offset;    /* in its file */
    uint64_t mapped[2]; /* its device and number, as the list of mappings has them */
    uint64_t named[3];  /* device, number and time of change of what its path leads to */
    uint32_t kind;
    uint32_t prot;
    uint32_t path;          /* where its path begins, of files */
    uint32_t is_shared;     /* with the file, which is only read */
    uint32_t is_kept_apart; /* not as it is in a child, or it grows: only the kernel can make one */
};

struct snp_image_run {
    uint64_t at;
    uint64_t len;
    uint64_t is_drop; /* the other has pages here, we have none: as the mapping was at first */
};

/* What comes first from each side; then the parts, in this order, and the pages of the runs. */
struct snp_image_head {
    uint64_t magic;
    uint8_t template_id[16];
    uint8_t place_id[16];
    uint64_t heap_end;
    uint64_t stack_low; /* nothing that counts lies below it, on the stack */
    uint64_t n_filters; /* seccomp */
    uint64_t n_vmas;
    uint64_t paths_len;
    uint64_t n_pages;                  /* told */
    uint64_t n_runs;                   /* frozen */
    char kernel[SNP_IMAGE_KERNEL_MAX]; /* its release */
};

/*
 * How a process looks at its memory. Of some hypervisors (PVM) a page costs 8 us when a process
 * touches it first, and 1 us if the kernel is asked for it, which is what is done once that
 * is seen.
 */
struct snp_image_view {
    int fd; /* its memory as a file; -1 = where it lies */
    bool is_tried;
    unsigned n_looks;
    unsigned n_slow;
    uint64_t start; /* what bytes are of */
    uint64_t end;
    uint8_t bytes[SNP_IMAGE_BESIDE_MAX] __attribute__((aligned(64)));
};

struct snp_image_room {
    struct snp_image_head head;
    struct snp_image_view view;
    struct snp_image_vma vmas[SNP_IMAGE_VMAS_MAX + 1];
    uint64_t pages[SNP_IMAGE_PAGES_MAX]; /* where they are */
    uint64_t hashes[SNP_IMAGE_PAGES_MAX];
    struct snp_image_run runs[SNP_IMAGE_RUNS_MAX];
    char paths[SNP_IMAGE_PATHS_MAX];
    char list[SNP_IMAGE_LIST_MAX]; /* a text of /proc */
};

/* Of all that happens here, the rest of a process that the kernel has. */
struct snp_image_kernel {
    struct {
        uint64_t words[4];
    } actions[65];
    uint64_t mask;
    stack_t signal_stack;
    struct rlimit limits[RLIM_NLIMITS];
    uint32_t umask;
};

/* What it took to become another, of no use to that one. */
struct snp_image_leftovers {
    struct {
        void *at;
        size_t len;
    } rooms[SNP_IMAGE_ROOMS_N];
    size_t n_files;
    int files[SNP_IMAGE_FILES_MAX + 3]; /* with those that it all goes through */
};

/* One per process, and part of every image of it. */
struct snp_image_self {
    uint8_t template_id[16];
    uint8_t place_id[16];
    jmp_buf at;
    struct snp_image_given given;
    struct snp_image_leftovers leftovers;
    struct snp_image_kernel kernel;
    struct rlimit opened[RLIM_NLIMITS]; /* after the set-up */
};
extern struct snp_image_self snp_image_self;

int snp_image_fail(char why[SNP_IMAGE_WHY_MAX], const char *form, ...)
    __attribute__((format(printf, 2, 3)));

void *snp_image_at(uint64_t address);

/* A room at its place; NULL = it cannot be had. */
void *snp_image_room(unsigned which, size_t len);
/* Does it lie where rooms do? */
bool snp_image_is_room(uint64_t start, uint64_t end);

void snp_image_clear(struct snp_image_leftovers *left);

/* Fill in head and vmas, without rooms. has_flags: is_kept_apart too, which takes longer. */
int snp_image_look(struct snp_image_room *room,
                   bool has_flags,
                   char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/* Would a page that both have, and that is the same in both, be left as it is? */
bool snp_image_is_same(const struct snp_image_room *a_room,
                       const struct snp_image_vma *a,
                       const struct snp_image_room *b_room,
                       const struct snp_image_vma *b);

/*
 * Called for the pages of a mapping, in order; n_own: so many from here on it has for itself,
 * 0 = not this one.
 */
int snp_image_each_page(int page_fd,
                        const struct snp_image_vma *vma,
                        int (*each)(void *data, uint64_t at, uint64_t n_own),
                        void *data) SNP_NODISCARD;

/* Learn from a page of its own how slow it is to touch one; most pages are not touched. */
void snp_image_try(struct snp_image_view *view, uint64_t at);

/* A page that this process has, of n that it has from there on; until the next is asked for. */
const void *snp_image_page(struct snp_image_view *view, uint64_t at, uint64_t n);
uint64_t snp_image_hash(struct snp_image_view *view, uint64_t at, uint64_t n);

/* Some memory as it is, into bytes of the view; NULL = look where it lies. */
const void *snp_image_beside(struct snp_image_view *view, uint64_t at, size_t len, size_t offset);

/* Take the pipes to the other from the socket that they came by: to read from, to write to. */
int snp_image_receive(int fd, int *ret_in_fd, int *ret_out_fd) SNP_NODISCARD;

/*
 * What a process has, and what the other has to know of it: which pages first, then their hashes.
 */
int snp_image_tell(int fd, struct snp_image_room *room, char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/* The first `done` bytes of *n parts are dealt with. */
void snp_image_skip(struct iovec *parts, size_t *n, size_t done);

/*
 * All of an image as items of a checkpoint (docs/wire.md, bundle), into a pipe: those whose keys
 * are known, one a line, without their bytes.
 */
int snp_image_put_items(int fd, struct snp_image_room *room, const char *known, uint32_t *ret_items)
    SNP_NODISCARD;

/* All of a part, and all of one that is n of a size, at most max. */
int snp_image_put(int fd, const void *part, size_t len) SNP_NODISCARD;
int snp_image_get(int fd, uint64_t n, size_t size, size_t max, void *ret) SNP_NODISCARD;

#endif
