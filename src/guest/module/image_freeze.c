/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin: a copy that ends after writing. From its setjmp on nothing in it changes except the
 * stack below and the C library's error state.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "guest/module/image_parts.h"

#define PAGE SNP_IMAGE_PAGE

enum {
    RED_ZONE = 4096, /* below the stack pointer, where data may still be in use */
    SIGNALS = 64,
};

/* The target's list, and our memory. */
struct freezing {
    struct snp_image_room *theirs;
    struct snp_image_room *ours;
    struct snp_image_vma *vma;         /* the current one */
    const struct snp_image_vma *same;  /* theirs, at its start or later; NULL = none */
    uint64_t next_page;                /* of theirs */
    uint64_t n_hashes;                 /* of theirs, received so far */
    const struct snp_image_rest *rest; /* NULL = to a target */
    int fd;
    int in_fd; /* from the target */
    char *why;
};

/* Listing -------------------------------------------------------------------------------------- */

static int tell_page(void *data, uint64_t at, uint64_t n_own)
{
    struct freezing *f = data;
    struct snp_image_head *head = &f->ours->image.head;

    if (n_own == 0) {
        return 0;
    }
    if ((f->vma->prot & PROT_READ) == 0 || head->n_pages == SNP_IMAGE_PAGES_MAX) {
        return -1;
    }
    f->ours->pages[head->n_pages++] = at;
    return 0;
}

/* Send the hashes in pieces: the peer compares them as they arrive. */
static int tell_hashes(int fd, struct snp_image_room *room)
{
    const uint64_t n = room->image.head.n_pages;

    for (uint64_t i = 0; i < n;) {
        const uint64_t first = i;

        for (uint64_t end = i; i < n && i < first + SNP_IMAGE_HASHES; i++) {
            for (; end < n && room->pages[end] - room->pages[i] == (end - i) * PAGE; end++) {
            }
            room->hashes[i] = snp_image_hash(&room->view, room->pages[i], end - i);
        }
        SNP_TRY(snp_write_all(fd, &room->hashes[first], (i - first) * sizeof(room->hashes[0])));
    }
    return 0;
}

int snp_image_tell(int fd, struct snp_image_room *room, char why[SNP_IMAGE_WHY_MAX])
{
    snp_autoclose int page_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    struct snp_image_head *head = &room->image.head;
    struct freezing f = {.ours = room};

    if (snp_image_look(room, false, why) < 0) {
        return -1;
    }
    for (uint64_t i = 0; i < head->n_vmas; i++) {
        f.vma = &room->image.vmas[i];
        if (f.vma->kind != SNP_IMAGE_KERNEL &&
            snp_image_each_page(page_fd, f.vma, tell_page, &f) < 0) {
            return snp_image_fail(why, "the kernel does not report the pages of a process");
        }
    }
    if (snp_image_put_parts(fd, &room->image) < 0 ||
        snp_write_all(fd, room->pages, head->n_pages * sizeof(room->pages[0])) < 0 ||
        tell_hashes(fd, room) < 0) {
        return snp_image_fail(why, "the other process has ended");
    }
    return 0;
}

/* Freezing ------------------------------------------------------------------------------------- */

static int read_theirs(struct freezing *f)
{
    struct snp_image_room *room = f->theirs;
    const struct snp_image_head *head = &room->image.head;

    if (snp_image_receive(f->fd, &f->in_fd, &f->fd) < 0) {
        return snp_image_fail(f->why, "no pipes were received for the image");
    }
    if (snp_image_get_parts(f->in_fd, &room->image, f->why) < 0 ||
        head->n_pages > SNP_IMAGE_PAGES_MAX ||
        snp_image_get(f->in_fd, room->pages, head->n_pages * sizeof(room->pages[0])) < 0) {
        f->why[0] = '\0'; /* it reports the reason */
        return -1;
    }
    if (memcmp(head->template_id, f->ours->image.head.template_id, sizeof(head->template_id)) !=
        0) {
        return snp_image_fail(f->why, "the template was replaced since the session began");
    }
    if (head->n_filters != f->ours->image.head.n_filters) {
        return snp_image_fail(f->why, "the session has its own seccomp filter");
    }
    return 0;
}

static int add_page(struct freezing *f, uint64_t at, bool is_drop)
{
    return snp_image_add_page(&f->ours->image, f->vma, at, is_drop, SNP_IMAGE_RUN_MAX) < 0
               ? snp_image_fail(f->why, "the session's memory is in too many parts")
               : 0;
}

/* Read their next hashes. */
static int read_hashes(struct freezing *f)
{
    const uint64_t left = f->theirs->image.head.n_pages - f->n_hashes;
    const uint64_t n = left < SNP_IMAGE_HASHES ? left : SNP_IMAGE_HASHES;

    if (snp_image_get(f->in_fd, &f->theirs->hashes[f->n_hashes], n * sizeof(f->theirs->hashes[0])) <
        0) {
        return snp_image_fail(f->why, "the new sandbox has ended");
    }
    f->n_hashes += n;
    return 0;
}

/*
 * Does the page equal the next of theirs? Ours is hashed before theirs is awaited. 0 or 1; -1 =
 * unknown.
 */
static int is_page_same(struct freezing *f, uint64_t at, uint64_t n_own)
{
    const uint64_t hash = snp_image_hash(&f->ours->view, at, n_own);

    while (f->n_hashes <= f->next_page) {
        SNP_TRY(read_hashes(f));
    }
    return f->theirs->hashes[f->next_page] == hash ? 1 : 0;
}

/* A missing page reads as zeros, like this one. */
static bool is_zero_anyway(struct freezing *f, uint64_t at, uint64_t n_own)
{
    return (f->vma->kind == SNP_IMAGE_ANON || f->vma->kind == SNP_IMAGE_HEAP) &&
           snp_image_is_zero(snp_image_page(&f->ours->view, at, n_own));
}

/* Pages are visited in order, like theirs. */
static int freeze_page(void *data, uint64_t at, uint64_t n_own)
{
    struct freezing *f = data;
    const struct snp_image_room *theirs = f->theirs;
    const struct snp_image_vma *vmas_end = theirs->image.vmas + theirs->image.head.n_vmas;
    const uint64_t n_pages = theirs->image.head.n_pages;
    bool is_theirs;
    bool is_same;
    int is_equal;

    if (f->vma->kind == SNP_IMAGE_STACK && at + PAGE <= f->ours->image.head.stack_low) {
        return 0;
    }
    while (f->next_page < n_pages && theirs->pages[f->next_page] < at) {
        f->next_page++;
    }
    while (f->same < vmas_end && f->same->end <= at) {
        f->same++;
    }
    is_same = f->same < vmas_end && f->same->start <= at &&
              snp_image_is_same(&f->ours->image, f->vma, &theirs->image, f->same);
    is_theirs = is_same && f->next_page < n_pages && theirs->pages[f->next_page] == at;
    if (n_own == 0) {
        return is_theirs ? add_page(f, at, true) : 0;
    }
    if ((f->vma->prot & PROT_READ) == 0) {
        return snp_image_fail(f->why, "the session has unreadable memory");
    }
    if (f->rest != NULL && is_zero_anyway(f, at, n_own)) {
        return 0;
    }
    if (f->vma->kind == SNP_IMAGE_FILE && (f->vma->prot & PROT_EXEC) != 0 && !is_theirs) {
        return snp_image_fail(f->why, "the session has changed the code of a library");
    }
    /* The target keeps changing its stack after listing it. */
    is_equal = is_theirs && f->vma->kind != SNP_IMAGE_STACK ? is_page_same(f, at, n_own) : 0;
    if (is_equal != 0) {
        return is_equal < 0 ? -1 : 0;
    }
    return add_page(f, at, false);
}

/* Copy the bytes of one run through the view, after those already used. */
static int write_beside(int fd,
                        struct snp_image_view *view,
                        const struct snp_image_run *run,
                        size_t *used)
{
    int r = 0;

    for (uint64_t done = 0; r == 0 && done < run->len;) {
        const uint64_t left = run->len - done;
        const size_t n = left < SNP_IMAGE_BESIDE - *used ? left : SNP_IMAGE_BESIDE - *used;

        if (snp_image_beside(view, run->at + done, n, *used) == NULL) {
            memcpy(view->bytes + *used, snp_maps_at(run->at + done), n);
        }
        done += n;
        *used += n;
        if (*used == SNP_IMAGE_BESIDE) {
            *used = 0;
            r = snp_write_all(fd, view->bytes, SNP_IMAGE_BESIDE);
        }
    }
    return r;
}

static int write_all_beside(int fd, struct snp_image_room *room)
{
    const struct snp_image_run *runs = room->image.runs;
    size_t used = 0;
    int r = 0;

    for (uint64_t i = 0; r == 0 && i < room->image.head.n_runs; i++) {
        r = runs[i].is_drop != 0 ? 0 : write_beside(fd, &room->view, &runs[i], &used);
    }
    return r == 0 ? snp_write_all(fd, room->view.bytes, used) : r;
}

/* A mapping that only the kernel can make must already exist in the target. */
static int check_apart(const struct freezing *f)
{
    const struct snp_image *theirs = &f->theirs->image;
    bool is_there = f->vma->is_kept_apart == 0;

    for (uint64_t i = 0; i < theirs->head.n_vmas && !is_there; i++) {
        is_there = theirs->vmas[i].start <= f->vma->start && theirs->vmas[i].end >= f->vma->end &&
                   snp_image_is_same(&f->ours->image, f->vma, theirs, &theirs->vmas[i]);
    }
    return is_there
               ? 0
               : snp_image_fail(
                     f->why, "the session has memory that is locked, grows, or differs in a child");
}

void snp_image_keep_kernel(void)
{
    struct snp_image_kernel *kernel = &snp_image_self.kernel;
    const mode_t mask = umask(0);

    (void)umask(mask);
    kernel->umask = mask;
    for (int i = 1; i <= SIGNALS; i++) {
        (void)syscall(SYS_rt_sigaction, i, NULL, &kernel->actions[i], 8);
    }
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &kernel->mask, 8);
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        (void)getrlimit((__rlimit_resource_t)i, &kernel->limits[i]);
    }
    (void)sigaltstack(NULL, &kernel->signal_stack);
}

static rlim_t smaller(rlim_t a, rlim_t b)
{
    return a < b ? a : b;
}

/*
 * The limits of the session may have changed since the freeze, and the set-up has applied the new
 * ones. Restore limits that the code lowered, within the new ones.
 */
static struct rlimit limit_here(const struct rlimit *was,
                                const struct rlimit *opened,
                                const struct rlimit *now)
{
    const bool is_lowered = was->rlim_max < opened->rlim_max;
    const bool is_kept =
        was->rlim_cur == opened->rlim_cur || (was->rlim_cur == was->rlim_max && !is_lowered);
    const rlim_t most = is_lowered ? smaller(was->rlim_max, now->rlim_max) : now->rlim_max;

    return (struct rlimit){.rlim_cur = smaller(is_kept ? now->rlim_cur : was->rlim_cur, most),
                           .rlim_max = most};
}

static int restore_limits(struct snp_image_self *self)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit now;
        struct rlimit want;

        if (getrlimit((__rlimit_resource_t)i, &now) < 0) {
            return -1;
        }
        want = limit_here(&self->kernel.limits[i], &self->opened[i], &now);
        if (memcmp(&now, &want, sizeof(now)) != 0 && setrlimit((__rlimit_resource_t)i, &want) < 0) {
            return -1;
        }
        self->opened[i] = now;
    }
    return 0;
}

int snp_image_restore_kernel(void)
{
    const struct snp_image_kernel *kernel = &snp_image_self.kernel;
    int *number = NULL;

    if (prctl(PR_GET_TID_ADDRESS, &number, 0, 0, 0) < 0 || number == NULL) {
        return -1;
    }
    *number = (int)syscall(SYS_gettid);
    for (int i = 1; i <= SIGNALS; i++) {
        if (i != SIGKILL && i != SIGSTOP &&
            syscall(SYS_rt_sigaction, i, &kernel->actions[i], NULL, 8) < 0 && i != 32 && i != 33) {
            return -1;
        }
    }
    (void)umask(kernel->umask);
    if ((kernel->signal_stack.ss_flags & SS_DISABLE) == 0 &&
        sigaltstack(&kernel->signal_stack, NULL) < 0) {
        return -1;
    }
    return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kernel->mask, NULL, 8) < 0 ? -1 : 0;
}

static int look_and_write(struct freezing *f)
{
    const struct snp_image_rest *rest = f->rest;
    snp_autoclose int page_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    char *why = f->why;
    int r;

    if (snp_image_look(f->ours, true, why) < 0 || (rest == NULL && read_theirs(f) < 0)) {
        return -1;
    }
    f->ours->image.head.stack_low = (uintptr_t)__builtin_frame_address(0) - RED_ZONE;
    f->same = f->theirs->image.vmas;
    why[0] = '\0';
    for (uint64_t i = 0; i < f->ours->image.head.n_vmas; i++) {
        f->vma = &f->ours->image.vmas[i];
        r = f->vma->kind == SNP_IMAGE_KERNEL ? 0
            : check_apart(f) < 0             ? -1
                                             : snp_image_each_page(page_fd, f->vma, freeze_page, f);
        if (r < 0) {
            return why[0] != '\0'
                       ? -1
                       : snp_image_fail(why, "the kernel does not report the pages of a process");
        }
    }
    /* it reads nothing before all hashes are sent */
    while (f->n_hashes < f->theirs->image.head.n_pages) {
        SNP_TRY(read_hashes(f));
    }
    if (rest != NULL) {
        return snp_image_put_items(f->fd, f->ours, rest->known, rest->n_items);
    }
    SNP_TRY(snp_image_put_parts(f->fd, &f->ours->image));
    return f->ours->view.fd >= 0 ? write_all_beside(f->fd, f->ours)
                                 : snp_image_put_runs(f->fd, &f->ours->image);
}

static __attribute__((noinline)) int write_self(int fd,
                                                const struct snp_image_rest *rest,
                                                char *why)
{
    struct freezing f = {.theirs = snp_image_room(SNP_IMAGE_ROOM_THEIRS, sizeof(*f.theirs)),
                         .ours = snp_image_room(SNP_IMAGE_ROOM_OURS, sizeof(*f.ours)),
                         .rest = rest,
                         .fd = fd,
                         .why = why};
    int r;

    if (f.theirs == NULL || f.ours == NULL) {
        return snp_image_fail(why, "the session has memory where images are restored");
    }
    r = look_and_write(&f);
    snp_closep(&f.ours->view.fd);
    return r;
}

/* Free them: they would be taken for memory of the session. */
static void leave_rooms(void)
{
    struct snp_image_leftovers left = {.n_files = 0};

    for (unsigned i = 0; i < SNP_IMAGE_ROOMS_N; i++) {
        left.rooms[i].at = snp_maps_at(SNP_IMAGE_PLACE + i * SNP_IMAGE_ROOM_BYTES);
        left.rooms[i].len = SNP_IMAGE_ROOM_BYTES;
    }
    snp_image_clear(&left);
}

int snp_image_freeze(int fd,
                     const struct snp_image_rest *rest,
                     struct snp_image_given *ret,
                     char why[SNP_IMAGE_WHY_MAX])
{
    struct snp_image_self *self = &snp_image_self;

    snp_image_keep_kernel();
    if (setjmp(self->at) == 0) {
        const int r = write_self(fd, rest, why);

        leave_rooms();
        return r;
    }
    *ret = snp_image_self.given;
    snp_image_clear(&snp_image_self.leftovers);
    return snp_image_restore_kernel() < 0 || restore_limits(&snp_image_self) < 0 ? -1 : 1;
}
