/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target, which becomes the origin. It reads, checks and plans everything first; the rest needs
 * only the plan, the call `syscall` and a stack below all of the origin's.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "guest/module/image_parts.h"

#define PAGE SNP_IMAGE_PAGE

enum {
    OPS_MAX = 4 * SNP_IMAGE_VMAS_MAX,
    BATCH = 1024,              /* parts per read */
    BUFFER = SNP_IMAGE_BESIDE, /* bytes per buffered read */
    BELOW = 64 << 10,          /* of the stack, below the origin's */
    STACK_MAX = 7 << 20,
    EXIT_TORN = 72,
};

enum op_kind {
    OP_UNMAP,
    OP_MAP,
    OP_PROTECT,
    OP_DROP,
};

struct op {
    uint64_t at;
    uint64_t len;
    uint64_t offset;
    int kind;
    int prot;
    int fd; /* -1 = anonymous */
    bool is_shared;
};

struct address_range {
    uint64_t at;
    uint64_t end;
};

/*
 * Bytes read into a buffer. Over an existing page they are written only if they differ: a write
 * makes the page private.
 */
struct beside {
    uint64_t at;
    uint64_t len;
    uint64_t *bytes;
    bool is_own;
};

struct plan {
    struct snp_image *image;
    struct snp_image_room *room;
    struct snp_image *ours; /* in the room */
    int fd;                 /* to read from */
    int out_fd;             /* to the origin; -1 = none, for an image at rest */
    struct snp_image_given given;
    struct snp_image_leftovers left;
    const char *opened; /* the last opened file: a library has several mappings */
    char *why;
    size_t n_before; /* ops */
    struct op before[OPS_MAX];
    size_t n_after;
    struct op after[OPS_MAX];
    struct op drops[SNP_IMAGE_RUNS_MAX];
    size_t n_drops;
    /* where both have pages: a subset, for an image at rest */
    struct address_range own[SNP_IMAGE_RUNS_MAX];
    size_t n_own;
    struct iovec parts[BATCH];
    struct beside beside[BATCH];
    uint64_t buffer[BUFFER / sizeof(uint64_t)];
    bool is_rest;
    bool is_readable; /* the current mapping of ours */
    int memory_fd;    /* through which it is written; -1 = directly */
    uint64_t run;     /* of the image, and its mapping, around our current page */
    uint64_t vma;
};

/* Reading -------------------------------------------------------------------------------------- */

static int read_image(struct plan *p)
{
    struct snp_image *image = p->image;
    struct snp_image_head *head = &image->head;

    SNP_TRY(snp_image_get_parts(p->fd, image, p->why));
    if (p->is_rest ? memcmp(head->place_id, p->ours->head.place_id, sizeof(head->place_id)) != 0
                   : memcmp(head->template_id, p->ours->head.template_id,
                            sizeof(head->template_id)) != 0) {
        return memcmp(head->kernel, p->ours->head.kernel, sizeof(head->kernel)) != 0
                   ? snp_image_fail(p->why, "it was made on another kernel; this one is %.63s",
                                    p->ours->head.kernel)
                   : snp_image_fail(p->why, "the template was restarted");
    }
    if (head->n_filters != p->ours->head.n_filters) {
        return snp_image_fail(p->why, "the session has its own seccomp filter");
    }
    for (uint64_t i = 0; i < head->n_vmas; i++) {
        if (snp_image_is_room(image->vmas[i].start, image->vmas[i].end)) {
            return snp_image_fail(p->why, "there is memory where images are restored");
        }
    }
    return snp_image_runs_fit(image) ? 0 : snp_image_fail(p->why, "the image has wrong parts");
}

/* Mappings ------------------------------------------------------------------------------------- */

static const struct snp_image_vma *last_of(const struct snp_image *image, uint8_t kind)
{
    for (uint64_t i = image->head.n_vmas; i-- > 0;) {
        if (image->vmas[i].kind == kind) {
            return &image->vmas[i];
        }
    }
    return NULL;
}

static int open_file(struct plan *p, const struct snp_image_vma *vma)
{
    const struct snp_image_file *file = &p->image->files[vma->file];
    const char *path = p->image->text + file->path;
    struct stat st;
    int fd;

    if (p->opened != NULL && strcmp(p->opened, path) == 0) {
        return p->left.files[p->left.n_files - 1];
    }
    if (p->left.n_files == SNP_IMAGE_OPEN_MAX) {
        return snp_image_fail(p->why, "the session has mapped more than %d files",
                              SNP_IMAGE_OPEN_MAX);
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return errno == EMFILE
                   ? snp_image_fail(
                         p->why,
                         "the session has mapped more files than the limit of open files allows")
                   : snp_image_fail(
                         p->why, "the mapped file %.120s does not exist in the new sandbox", path);
    }
    p->left.files[p->left.n_files++] = fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != file->inode ||
        !snp_image_is_unchanged(file, &st)) {
        return snp_image_fail(p->why, "the mapped file %.120s differs in the new sandbox", path);
    }
    p->opened = path;
    return fd;
}

static int add_before(struct plan *p, const struct op *op)
{
    struct op *last = p->n_before == 0 ? NULL : &p->before[p->n_before - 1];

    if (last != NULL && last->kind == op->kind && last->at + last->len == op->at &&
        op->kind == OP_UNMAP) {
        last->len += op->len;
        return 0;
    }
    if (p->n_before == OPS_MAX) {
        return snp_image_fail(p->why, "the image has too many mappings");
    }
    p->before[p->n_before++] = *op;
    return 0;
}

/* Plan the range from start to end, in which each side has one mapping or none. */
static int plan_piece(struct plan *p,
                      const struct snp_image_vma *theirs,
                      const struct snp_image_vma *own,
                      uint64_t start,
                      uint64_t end)
{
    struct op op = {.at = start, .len = end - start, .fd = -1};
    const uint8_t own_kind = own != NULL ? own->kind : SNP_IMAGE_KINDS_N;
    const uint8_t kind = theirs != NULL ? theirs->kind : own_kind;

    if (kind == SNP_IMAGE_STACK || (own != NULL && own->kind == SNP_IMAGE_STACK)) {
        return kind == SNP_IMAGE_STACK ? 0
                                       : snp_image_fail(p->why, "the session has moved its stack");
    }
    if (kind == SNP_IMAGE_KERNEL || (own != NULL && own->kind == SNP_IMAGE_KERNEL)) {
        return theirs != NULL && own != NULL && theirs->kind == own->kind &&
                       theirs->start == own->start && theirs->end == own->end
                   ? 0
                   : snp_image_fail(p->why, "the session has moved the kernel's mappings");
    }
    if (theirs == NULL) {
        op.kind = OP_UNMAP;
        return add_before(p, &op);
    }
    op.prot = (int)theirs->prot;
    if (own != NULL && snp_image_is_same(p->image, theirs, p->ours, own)) {
        op.kind = OP_PROTECT;
        return own->prot == theirs->prot ? 0 : add_before(p, &op);
    }
    op.kind = OP_MAP;
    if (snp_image_has_file(theirs)) {
        op.offset = theirs->offset + (start - theirs->start);
        op.is_shared = theirs->kind == SNP_IMAGE_SHARED;
        op.fd = open_file(p, theirs);
        if (op.fd < 0) {
            return -1;
        }
    }
    return add_before(p, &op);
}

/* A cursor over one side's mappings, by address. */
struct mapping_cursor {
    const struct snp_image_vma *vma; /* at it or before it */
    const struct snp_image_vma *end;
};

static const struct snp_image_vma *covering(const struct mapping_cursor *walk, uint64_t at)
{
    return walk->vma < walk->end && at >= walk->vma->start ? walk->vma : NULL;
}

/* The start of the next mapping, or the end of the one at `at`, if before `next`. */
static uint64_t nearer(const struct mapping_cursor *walk, uint64_t at, uint64_t next)
{
    const uint64_t edge = walk->vma == walk->end   ? UINT64_MAX
                          : at >= walk->vma->start ? walk->vma->end
                                                   : walk->vma->start;

    return edge < next ? edge : next;
}

static int plan_maps(struct plan *p)
{
    struct mapping_cursor theirs = {p->image->vmas, p->image->vmas + p->image->head.n_vmas};
    struct mapping_cursor own = {p->ours->vmas, p->ours->vmas + p->ours->head.n_vmas};
    uint64_t at = 0;

    while (theirs.vma < theirs.end || own.vma < own.end) {
        const uint64_t next = nearer(&own, at, nearer(&theirs, at, UINT64_MAX));
        const struct snp_image_vma *in_theirs = covering(&theirs, at);
        const struct snp_image_vma *in_own = covering(&own, at);

        if ((in_theirs != NULL || in_own != NULL) &&
            plan_piece(p, in_theirs, in_own, at, next) < 0) {
            return -1;
        }
        at = next;
        theirs.vma += theirs.vma < theirs.end && at >= theirs.vma->end ? 1 : 0;
        own.vma += own.vma < own.end && at >= own.vma->end ? 1 : 0;
    }
    return 0;
}

/* The C library's heap ends at the kernel's recorded end. */
static int move_heap(struct plan *p)
{
    struct snp_image *ours = p->ours;
    const struct snp_image_vma *own = last_of(ours, SNP_IMAGE_HEAP);
    const uint64_t want = p->image->head.heap_end;
    const uint64_t end = (want + PAGE - 1) / PAGE * PAGE;

    if (own == NULL || want <= own->start || (uint64_t)syscall(SYS_brk, want) != want) {
        return want == ours->head.heap_end
                   ? 0
                   : snp_image_fail(p->why,
                                    "the heap cannot grow to the size of the session's heap");
    }
    ours->vmas[own - ours->vmas].end = end;
    return 0;
}

/* The code and data in use must be at the same place. */
static int check_ours(const struct plan *p, const void *place)
{
    const uint64_t at = (uintptr_t)place;

    for (size_t i = 0; i < p->n_before; i++) {
        const struct op *op = &p->before[i];

        if (at >= op->at && at < op->at + op->len) {
            return snp_image_fail(p->why, "the session has moved the interpreter's own code");
        }
    }
    return 0;
}

/* Runs ----------------------------------------------------------------------------------------- */

/* Make read-only pages writable temporarily. */
static int open_to_write(struct plan *p, const struct snp_image_vma *vma)
{
    const struct op op = {.kind = OP_PROTECT,
                          .at = vma->start,
                          .len = vma->end - vma->start,
                          .prot = (int)vma->prot,
                          .fd = -1};
    struct op before = op;

    if ((vma->prot & PROT_WRITE) != 0 ||
        (p->n_after > 0 && p->after[p->n_after - 1].at == vma->start)) {
        return 0;
    }
    if (vma->kind == SNP_IMAGE_FILE && (vma->prot & PROT_EXEC) != 0) {
        return snp_image_fail(p->why, "the session has changed the code of a library");
    }
    if (p->n_after == OPS_MAX) {
        return snp_image_fail(p->why, "the image has too many mappings");
    }
    before.prot = PROT_READ | PROT_WRITE;
    p->after[p->n_after++] = op;
    return add_before(p, &before);
}

static int plan_runs(struct plan *p)
{
    const struct snp_image *image = p->image;
    const struct snp_image_vma *vma = image->vmas;

    for (uint64_t k = 0; k < image->head.n_runs; k++) {
        const struct snp_image_run *run = &image->runs[k];

        while (vma->end <= run->at) {
            vma++;
        }
        if (vma->kind == SNP_IMAGE_STACK && run->at + run->len <= image->head.stack_low) {
            return snp_image_fail(p->why, "the image has wrong parts");
        }
        if (run->is_drop != 0) {
            p->drops[p->n_drops++] =
                (struct op){.at = run->at, .len = run->len, .fd = -1, .kind = OP_DROP};
        } else if (open_to_write(p, vma) < 0) {
            return -1;
        }
    }
    return 0;
}

/* If there are too many, pages are written as they arrive. */
static void note_own(struct plan *p, uint64_t at)
{
    if (p->is_readable) {
        snp_image_try(&p->room->view, at);
    }
    if (p->n_own > 0 && p->own[p->n_own - 1].end == at) {
        p->own[p->n_own - 1].end += PAGE;
    } else if (p->n_own < SNP_IMAGE_RUNS_MAX) {
        p->own[p->n_own++] = (struct address_range){at, at + PAGE};
    }
}

/* Drop pages that an image at rest lacks; pages of both are mostly equal. */
static int drop_page(void *data, uint64_t at, uint64_t n_own)
{
    struct plan *p = data;
    const struct snp_image *image = p->image;
    struct op *last = p->n_drops == 0 ? NULL : &p->drops[p->n_drops - 1];
    const struct snp_image_vma *vma;

    while (p->run < image->head.n_runs && image->runs[p->run].at + image->runs[p->run].len <= at) {
        p->run++;
    }
    while (p->vma < image->head.n_vmas && image->vmas[p->vma].end <= at) {
        p->vma++;
    }
    vma = &image->vmas[p->vma];
    if (n_own == 0 || p->vma == image->head.n_vmas || vma->start > at ||
        vma->kind == SNP_IMAGE_KERNEL ||
        (vma->kind == SNP_IMAGE_STACK && at < image->head.stack_low)) {
        return 0;
    }
    if (p->run < image->head.n_runs && image->runs[p->run].at <= at) {
        note_own(p, at);
        return 0;
    }
    if (last != NULL && last->at + last->len == at) {
        last->len += PAGE;
        return 0;
    }
    if (p->n_drops == SNP_IMAGE_RUNS_MAX) {
        return snp_image_fail(p->why, "the new sandbox's memory is in too many parts");
    }
    p->drops[p->n_drops++] = (struct op){.at = at, .len = PAGE, .fd = -1, .kind = OP_DROP};
    return 0;
}

static int plan_drops(struct plan *p)
{
    snp_autoclose int page_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    for (uint64_t i = 0; p->is_rest && i < p->ours->head.n_vmas; i++) {
        const struct snp_image_vma *vma = &p->ours->vmas[i];

        p->is_readable = (vma->prot & PROT_READ) != 0;
        if (vma->kind != SNP_IMAGE_KERNEL && snp_image_each_page(page_fd, vma, drop_page, p) < 0) {
            return p->why[0] != '\0'
                       ? -1
                       : snp_image_fail(p->why,
                                        "the kernel does not report the pages of a process");
        }
    }
    return 0;
}

static int check_stack(const struct plan *p)
{
    const struct snp_image_vma *theirs = last_of(p->image, SNP_IMAGE_STACK);
    const struct snp_image_vma *own = last_of(p->ours, SNP_IMAGE_STACK);
    const uint64_t low = p->image->head.stack_low;
    struct rlimit limit;

    if (theirs == NULL || own == NULL || theirs->end != own->end || theirs->prot != own->prot ||
        low >= own->end || getrlimit(RLIMIT_STACK, &limit) < 0 || own->end - low > STACK_MAX ||
        own->end - low > limit.rlim_cur - limit.rlim_cur / 8) {
        return snp_image_fail(p->why, "the session's stack differs");
    }
    /* Nothing else may be where the stack grows. */
    for (uint64_t i = 0; i < p->image->head.n_vmas; i++) {
        const struct snp_image_vma *vma = &p->image->vmas[i];

        if (vma != theirs && vma->end > low - (1U << 20U) && vma->start < theirs->end) {
            return snp_image_fail(p->why, "the session has memory below its stack");
        }
    }
    return 0;
}

/*
 * Restoring
 * ----------------------------------------------------------------------------------------
 */

static void run_ops(const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &ops[i];
        const int flags = (op->is_shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED |
                          (op->fd < 0 ? MAP_ANONYMOUS : 0);
        long r = -1;

        switch (op->kind) {
        case OP_UNMAP:
            r = syscall(SYS_munmap, op->at, op->len);
            break;
        case OP_MAP:
            r = syscall(SYS_mmap, op->at, op->len, op->prot, flags, op->fd, op->offset);
            r = (uint64_t)r == op->at ? 0 : -1;
            break;
        case OP_PROTECT:
            r = syscall(SYS_mprotect, op->at, op->len, op->prot);
            break;
        default:
            r = syscall(SYS_madvise, op->at, op->len, MADV_DONTNEED);
            break;
        }
        if (r < 0) {
            _exit(EXIT_TORN);
        }
    }
}

/* No library function may be used here: its memory is being replaced. */
static void *place(uint64_t at)
{
    const union {
        uint64_t number;
        void *place;
    } u = {.number = at};

    return u.place;
}

static void read_parts(struct plan *p, size_t n)
{
    struct iovec *part = p->parts;
    struct iovec *end = p->parts + n;

    while (part < end) {
        long got = syscall(SYS_readv, p->fd, part, (long)(end - part));

        if (got <= 0) {
            _exit(EXIT_TORN);
        }
        for (; part < end && (size_t)got >= part->iov_len; part++) {
            got -= (long)part->iov_len;
        }
        if (part < end) {
            part->iov_base = (char *)part->iov_base + got;
            part->iov_len -= (size_t)got;
        }
    }
}

static bool is_equal(const uint64_t *a, const uint64_t *b)
{
    for (size_t i = 0; i < PAGE / sizeof(*a); i += 4) {
        if (((a[i] ^ b[i]) | (a[i + 1] ^ b[i + 1]) | (a[i + 2] ^ b[i + 2]) |
             (a[i + 3] ^ b[i + 3])) != 0) {
            return false;
        }
    }
    return true;
}

/* volatile, or the compiler would call memcpy */
static void copy_page(volatile uint64_t *to, const uint64_t *from)
{
    for (size_t i = 0; i < PAGE / sizeof(*from); i++) {
        to[i] = from[i];
    }
}

static void write_page(const struct plan *p, uint64_t at, const uint64_t *from)
{
    if (p->memory_fd < 0) {
        copy_page(place(at), from);
    } else if (syscall(SYS_pwrite64, p->memory_fd, from, PAGE, at) != (long)PAGE) {
        _exit(EXIT_TORN);
    }
}

/* The current content of our page, if it is quickly accessible: in the view, or directly. */
static const uint64_t *look_back(const struct plan *p, const struct beside *b)
{
    uint8_t *bytes = p->room->view.bytes;

    if (p->memory_fd < 0) {
        return place(b->at);
    }
    if (syscall(SYS_pread64, p->memory_fd, bytes, b->len, b->at) != (long)b->len) {
        _exit(EXIT_TORN);
    }
    return (const uint64_t *)(const void *)bytes;
}

static void write_changed(const struct plan *p, const struct beside *b)
{
    const uint64_t *to = look_back(p, b);

    for (uint64_t done = 0; done < b->len; done += PAGE) {
        const uint64_t i = done / sizeof(*to);

        if (!is_equal(b->bytes + i, to + i)) {
            write_page(p, b->at + done, b->bytes + i);
        }
    }
}

static void write_new(const struct plan *p, const struct beside *b)
{
    if (syscall(SYS_pwrite64, p->memory_fd, b->bytes, b->len, b->at) != (long)b->len) {
        _exit(EXIT_TORN);
    }
}

/* The state of the transfer. */
struct thaw_progress {
    uint64_t run;
    uint64_t done; /* bytes of the run */
    size_t own;
    size_t n_parts; /* of this read */
    size_t n_beside;
    size_t used; /* bytes of the buffer */
};

/* Add the next part of the run, read directly or into the buffer. */
static void add_part(struct plan *p, struct thaw_progress *t, const struct snp_image_run *run)
{
    const uint64_t start = run->at + t->done;
    const struct address_range none = {UINT64_MAX, UINT64_MAX};
    const struct address_range *own;
    uint64_t *bytes = p->buffer + t->used / sizeof(*bytes);
    uint64_t end = run->at + run->len;
    bool is_own;

    while (t->own < p->n_own && p->own[t->own].end <= start) {
        t->own++;
    }
    own = t->own < p->n_own ? &p->own[t->own] : &none;
    is_own = own->at <= start;
    if (is_own) {
        end = own->end < end ? own->end : end;
    } else {
        end = own->at < end ? own->at : end;
    }
    if (is_own || p->memory_fd >= 0) {
        end = end - start < BUFFER - t->used ? end : start + BUFFER - t->used;
        p->parts[t->n_parts++] = (struct iovec){bytes, end - start};
        p->beside[t->n_beside++] = (struct beside){start, end - start, bytes, is_own};
        t->used += end - start;
    } else {
        p->parts[t->n_parts++] = (struct iovec){place(start), end - start};
    }
    t->done = end - run->at;
}

static void take_in(struct plan *p)
{
    struct thaw_progress t = {.run = 0};

    while (t.run < p->image->head.n_runs) {
        const struct snp_image_run *run = &p->image->runs[t.run];

        if (run->is_drop == 0) {
            add_part(p, &t, run);
        }
        if (run->is_drop != 0 || t.done == run->len) {
            t.run++;
            t.done = 0;
        }
        if (t.run < p->image->head.n_runs && t.n_parts < BATCH && t.used < BUFFER) {
            continue;
        }
        read_parts(p, t.n_parts);
        for (size_t i = 0; i < t.n_beside; i++) {
            if (p->beside[i].is_own) {
                write_changed(p, &p->beside[i]);
            } else {
                write_new(p, &p->beside[i]);
            }
        }
        t.n_parts = t.n_beside = t.used = 0;
    }
}

static SNP_NORETURN __attribute__((noinline)) void become(struct plan *p)
{
    run_ops(p->before, p->n_before);
    run_ops(p->drops, p->n_drops);
    take_in(p);
    run_ops(p->after, p->n_after);
    snp_image_self.given = p->given;
    snp_image_self.leftovers = p->left;
    longjmp(snp_image_self.at, 1);
}

/* Move below the origin's stack, by as many frames as needed. */
/* NOLINTBEGIN(misc-no-recursion) */
static SNP_NORETURN __attribute__((noinline)) void go_low(struct plan *p)
{
    volatile char space[BELOW];

    space[0] = 0;
    if ((uintptr_t)space + sizeof(space) > p->image->head.stack_low) {
        go_low(p);
    }
    become(p);
}
/* NOLINTEND(misc-no-recursion) */

static int make_plan(struct plan *p)
{
    const void *const needed[] = {snp_maps_at((uintptr_t)become), snp_maps_at((uintptr_t)syscall),
                                  snp_maps_at((uintptr_t)longjmp)};
    int r;

    if (!p->is_rest && snp_image_receive(p->fd, &p->fd, &p->out_fd) < 0) {
        return snp_image_fail(p->why, "no pipes were received for the image");
    }
    r = p->is_rest ? snp_image_look(p->room, false, p->why)
                   : snp_image_tell(p->out_fd, p->room, p->why);
    snp_closep(&p->out_fd); /* the supervisor relays nothing before that */
    SNP_TRY(r);
    SNP_TRY(read_image(p));
    SNP_TRY(check_stack(p));
    SNP_TRY(move_heap(p));
    SNP_TRY(plan_maps(p));
    for (size_t i = 0; i < SNP_ARRAY_LEN(needed); i++) {
        SNP_TRY(check_ours(p, needed[i]));
    }
    SNP_TRY(plan_runs(p));
    return plan_drops(p);
}

void snp_image_thaw(int fd,
                    bool is_rest,
                    const struct snp_image_given *given,
                    char why[SNP_IMAGE_WHY_MAX])
{
    const size_t sizes[] = {
        [SNP_IMAGE_ROOM_OURS] = sizeof(struct snp_image_room),
        [SNP_IMAGE_ROOM_THEIRS] = sizeof(struct snp_image_room),
        [SNP_IMAGE_ROOM_PLAN] = sizeof(struct plan),
    };
    struct snp_image_leftovers left = {.n_files = 0};
    struct plan *p;
    const uint64_t none = UINT64_MAX;
    int r;

    for (unsigned i = 0; i < SNP_IMAGE_ROOMS_N; i++) {
        left.rooms[i].at = snp_image_room(i, sizes[i]);
        left.rooms[i].len = sizes[i];
        if (left.rooms[i].at == NULL) {
            (void)snp_image_fail(why, "the new sandbox has no room for an image");
            snp_image_clear(&left);
            return;
        }
    }
    p = left.rooms[SNP_IMAGE_ROOM_PLAN].at;
    p->image = &((struct snp_image_room *)left.rooms[SNP_IMAGE_ROOM_THEIRS].at)->image;
    p->room = left.rooms[SNP_IMAGE_ROOM_OURS].at;
    p->ours = &p->room->image;
    p->fd = fd;
    p->out_fd = -1;
    p->is_rest = is_rest;
    p->given = *given;
    p->left = left;
    p->why = why;
    r = make_plan(p);
    if (p->fd != fd) {
        p->left.files[p->left.n_files++] = p->fd;
    }
    if (r < 0) {
        snp_closep(&p->room->view.fd);
        left = p->left;
        snp_image_clear(&left);
        return;
    }
    p->memory_fd = p->room->view.fd;
    p->left.files[p->left.n_files++] = fd;
    if (p->memory_fd >= 0) {
        p->left.files[p->left.n_files++] = p->memory_fd;
    }
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
    go_low(p);
}
