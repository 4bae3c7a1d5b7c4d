/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fork writes the image, so that the template can continue. The written memory must not change:
 * the fork's tables lie in a room, and its stack below the image's.
 *
 * Unwritten pages of a file are not in the image; the file is mapped again.
 */
#include "guest/module/freeze.h"

#ifdef __x86_64__

#    include <errno.h>
#    include <fcntl.h>
#    include <sched.h>
#    include <signal.h>
#    include <stdbool.h>
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>
#    include <unistd.h>
#    include <asm/prctl.h>
#    include <sys/mman.h>
#    include <sys/prctl.h>
#    include <sys/stat.h>
#    include <sys/syscall.h>

#    define XXH_INLINE_ALL
#    include <xxhash.h>

#    include "base/fd.h"
#    include "base/macro.h"
#    include "guest/module/image_parts.h"

enum {
    LARGE = 2 << 20,
    LARGE_PAGES = LARGE / SNP_IMAGE_PAGE,
    RUN_BYTES = 512 << 10, /* so that it is still in the cache when it is checked */
    FDS_LOOKED_AT = 256,
    GIVEN_FDS = 4, /* of a zygote: standard streams, control socket */
    ETC_MAX = 1 << 20,
    STAT_CHARS = 1024,
    WHOLE_GRAIN_S = 2, /* for timestamps in whole seconds */
    NS_PER_S = 1000000000,
    GRAIN_NS = 20000000, /* two ticks: the kernel's timestamps lag behind the clock */
    SEQUENCES_LEN = 32,
    SEQUENCES_FLAG_END = 1,
    SEQUENCES_MARK = 0x53053053, /* the C library's, for x86-64 */
};

/*
 * Offset of the C library's area for restartable sequences from the thread's base; missing before
 * 2.35.
 */
extern const ptrdiff_t sequences_at __asm__("__rseq_offset") __attribute__((weak));
extern const unsigned int sequences_used __asm__("__rseq_size") __attribute__((weak));

struct writer {
    const struct snp_template_image_source *source;
    int fd;
    int closed_fd;
    const struct iovec *hidden;
    size_t n_hidden;
    struct snp_image_room *room;
    struct snp_image *image; /* in the room */
    struct snp_image_process process;
    struct snp_template_image_settings settings;
    struct snp_image_vma *vma; /* the current one */
    uint64_t large;            /* the huge page around the current page */
    size_t n_there;            /* its pages so far */
    char why[SNP_IMAGE_WHY_MAX];
    char space[SNP_IMAGE_PAGE]; /* of stack, between the image's and that of called functions */
};

/* Files ------------------------------------------------------------------------------------ */

static bool is_before(const int64_t *stamp, const struct timespec *began)
{
    const bool is_whole = stamp[1] == 0;
    const long ns = began->tv_nsec - (is_whole ? 0 : GRAIN_NS);
    const time_t s = began->tv_sec - (is_whole ? WHOLE_GRAIN_S : 0) - (ns < 0 ? 1 : 0);

    return stamp[0] < s || (stamp[0] == s && stamp[1] < (ns < 0 ? ns + NS_PER_S : ns));
}

/* Record content: the template has copies of /etc. */
static bool note_content(struct writer *w, const char *path, struct snp_image_file *file)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : snp_read_all(fd, w->room->list, ETC_MAX);

    file->size = 0;
    file->changed[0] = n < 0 ? 0 : (int64_t)XXH3_64bits(w->room->list, (size_t)n);
    return n >= 0;
}

/* If a file changed while it was loaded, memory may hold the old content. */
static bool check_file(struct writer *w, struct snp_image_file *file)
{
    const struct timespec *began = &w->source->began->started;
    const char *path = w->image->text + file->path;
    bool ok = is_before(file->changed, began) &&
              (file->size == -2 || is_before(file->changed + 2, began));

    if (file->size == -1) {
        ok = file->is_mapped == 0 && (errno == ENOENT || errno == ENOTDIR);
    } else if (file->size >= 0 && strncmp(path, "/etc/", strlen("/etc/")) == 0) {
        ok = note_content(w, path, file);
    }
    return ok || snp_image_fail(w->why, "%.190s", path) == 0;
}

static bool note_files(struct writer *w)
{
    const char *at = w->source->files;
    const char *end = at + w->source->files_len;
    const uint64_t n_mapped = w->image->head.n_files;

    for (uint64_t i = 0; i < n_mapped; i++) {
        if (!check_file(w, &w->image->files[i])) {
            return false;
        }
    }
    for (; at < end; at += strlen(at) + 1) {
        struct snp_image_file *file = snp_image_add_file(w->image, at);

        if (file == NULL || !check_file(w, file)) {
            return false;
        }
    }
    return true;
}

/* Memory ----------------------------------------------------------------------------------- */

static bool note_maps(struct writer *w)
{
    const int r = snp_image_look(w->room, false, w->why);

    w->image->head.stack_low = w->process.stack / SNP_IMAGE_PAGE * SNP_IMAGE_PAGE;
    return r == 0;
}

static void add_large(struct snp_image *image, uint64_t at)
{
    struct snp_image_large *last = &image->large[image->head.n_large - 1];

    if (image->head.n_large > 0 && last->at + last->len == at) {
        last->len += LARGE;
    } else if (image->head.n_large < SNP_IMAGE_LARGE_MAX) {
        image->large[image->head.n_large++] = (struct snp_image_large){.at = at, .len = LARGE};
    }
}

static int note_page(void *data, uint64_t at, uint64_t n_own)
{
    struct writer *w = data;
    const struct snp_image_vma *vma = w->vma;

    if (n_own == 0 || (vma->kind == SNP_IMAGE_STACK && at < w->image->head.stack_low) ||
        (vma->kind != SNP_IMAGE_FILE && snp_image_is_zero(snp_maps_at(at)))) {
        return 0;
    }
    w->n_there = at / LARGE == w->large ? w->n_there + 1 : 1;
    w->large = at / LARGE;
    if (w->n_there == LARGE_PAGES / 2 + 1 && vma->kind != SNP_IMAGE_FILE &&
        w->large * LARGE >= vma->start && (w->large + 1) * LARGE <= vma->end) {
        add_large(w->image, w->large * LARGE);
    }
    return snp_image_add_page(w->image, w->vma, at, false, RUN_BYTES);
}

static bool note_runs(struct writer *w)
{
    snp_autoclose int page_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    struct snp_image *image = w->image;

    for (uint64_t i = 0; i < image->head.n_vmas; i++) {
        struct snp_image_vma *vma = w->vma = &image->vmas[i];

        if (vma->kind > SNP_IMAGE_FILE) {
            continue;
        }
        if ((vma->prot & PROT_READ) == 0 &&
            mprotect(snp_maps_at(vma->start), vma->end - vma->start, PROT_READ) < 0) {
            return false;
        }
        if (snp_image_each_page(page_fd, vma, note_page, w) < 0) {
            return false;
        }
    }
    return true;
}

/* The process ------------------------------------------------------------------------------ */

struct stat_field {
    int number;
    __u64 *to;
};

/* Read fields of /proc/self/stat, in ascending order. The second may contain any characters. */
static bool read_stat(const struct stat_field *fields, size_t n)
{
    char text[STAT_CHARS] = "";
    snp_autoclose int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    char *at;
    size_t found = 0;

    if (fd < 0 || snp_read_all(fd, text, sizeof(text) - 1) <= 0) {
        return false;
    }
    at = strrchr(text, ')');
    for (int number = 3; at != NULL && found < n; number++) {
        at = strchr(at + 1, ' ');
        if (at != NULL && number == fields[found].number) {
            *fields[found++].to = strtoull(at, NULL, 10);
        }
    }
    return found == n;
}

static bool note_memory(struct writer *w)
{
    struct prctl_mm_map *m = &w->process.memory;
    const struct stat_field fields[] = {
        {26, &m->start_code}, {27, &m->end_code},  {28, &m->start_stack}, {45, &m->start_data},
        {46, &m->end_data},   {47, &m->start_brk}, {48, &m->arg_start},   {49, &m->arg_end},
        {50, &m->env_start},  {51, &m->env_end},
    };
    bool ok = read_stat(fields, SNP_ARRAY_LEN(fields));

    m->brk = (__u64)syscall(SYS_brk, 0);
    return ok && m->start_code != 0;
}

static bool note_vector(struct writer *w)
{
    snp_autoclose int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : snp_read_all(fd, w->process.vector, sizeof(w->process.vector));

    w->process.memory.auxv_size = n < 0 ? 0 : (__u32)n;
    return n > 0 && n < (ssize_t)sizeof(w->process.vector);
}

static bool note_process(struct writer *w)
{
    struct snp_image_process *process = &w->process;
    unsigned size = 0;

    if (prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0) < 0 || size != sizeof(process->memory)) {
        return false;
    }
    for (int fd = GIVEN_FDS; fd < FDS_LOOKED_AT; fd++) {
        if (fd != w->fd && fcntl(fd, F_GETFD) >= 0) {
            return false;
        }
    }
    process->entry = (uintptr_t)w->source->entry;
    if (!note_memory(w) || !note_vector(w) ||
        syscall(SYS_arch_prctl, ARCH_GET_FS, &process->fs_base) < 0 ||
        process->thread_number == 0) {
        return false;
    }
    if (&sequences_used != NULL && sequences_used != 0) {
        process->sequences = process->fs_base + (uint64_t)sequences_at;
        process->sequences_len = SEQUENCES_LEN;
        /* The kernel writes there. */
        (void)syscall(SYS_rseq, process->sequences, SEQUENCES_LEN, SEQUENCES_FLAG_END,
                      SEQUENCES_MARK);
    }
    w->image->head.n_processes = 1;
    w->image->process = *process;
    return true;
}

/* Writing ---------------------------------------------------------------------------------- */

static void write_image(struct writer *w)
{
    struct snp_image *image = w->image;
    struct iovec parts[SNP_IMAGE_PARTS];
    uint64_t hash = 0;

    for (uint64_t i = 0; i < image->head.n_runs; i++) {
        image->runs[i].hash = XXH3_64bits(snp_maps_at(image->runs[i].at), image->runs[i].len);
    }
    (void)snp_image_parts(image, parts);
    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        hash = XXH3_64bits_withSeed(parts[i].iov_base, parts[i].iov_len, hash);
    }
    image->head.hash = hash;
    if (snp_image_put_parts(w->fd, image) == 0) {
        (void)!snp_image_put_runs(w->fd, image);
    }
}

/* A module may have installed a seccomp filter, which a thawed process would lack. */
static bool check_filters(struct writer *w)
{
    snp_template_image_settings_now(&w->settings);
    return w->settings.filters == w->source->began->filters;
}

static bool check_umask(struct writer *w)
{
    return w->settings.umask == w->source->began->umask;
}

static bool check_limits(struct writer *w)
{
    return memcmp(w->settings.limits, w->source->began->limits, sizeof(w->settings.limits)) == 0;
}

/* Refuse an image that guest/thaw would refuse, e.g. with moved kernel code. */
static bool check_image(struct writer *w)
{
    return snp_template_image_fits(w->image);
}

static bool make_room(struct writer *w)
{
    w->room = snp_image_room(SNP_IMAGE_ROOM_OURS, sizeof(*w->room));
    w->image = w->room == NULL ? NULL : &w->room->image;
    return w->room != NULL;
}

/* The main function of the copy. */
static SNP_NORETURN __attribute__((noinline)) void copy_main(struct writer *w)
{
    static const struct {
        const char *name;
        bool (*run)(struct writer *);
    } steps[] = {
        {"memory where images are restored", make_room},
        {"a mapping", note_maps},
        {"a file", note_files},
        {"pages", note_runs},
        {"the kernel", note_process},
        {"the order of mappings", check_image},
        {"a seccomp filter that a module installed", check_filters},
        {"a umask that a module set", check_umask},
        {"a limit that a module set", check_limits},
    };

    (void)close(w->closed_fd);
    for (size_t i = 0; i < w->n_hidden; i++) {
        (void)munmap(w->hidden[i].iov_base, w->hidden[i].iov_len);
    }
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* or /proc/self is not accessible */
    (void)prctl(PR_SET_NAME, "image", 0, 0, 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(steps); i++) {
        if (!steps[i].run(w)) {
            (void)dprintf(w->fd, "%s%s%s", steps[i].name, w->why[0] == '\0' ? "" : ": ", w->why);
            _exit(0);
        }
    }
    write_image(w);
    _exit(0);
}

/* The start time of this process, before it loaded anything; 1970 if unknown. */
static struct timespec process_start(void)
{
    __u64 ticks = 0; /* since boot */
    struct timespec now = {0};
    struct timespec up = {0};
    int64_t ns;

    if (!read_stat(&(struct stat_field){22, &ticks}, 1) || clock_gettime(CLOCK_BOOTTIME, &up) < 0 ||
        clock_gettime(CLOCK_REALTIME, &now) < 0) {
        return (struct timespec){0};
    }
    ns = (now.tv_sec - up.tv_sec) * NS_PER_S + now.tv_nsec - up.tv_nsec +
         (int64_t)ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

void snp_template_image_settings_now(struct snp_template_image_settings *ret)
{
    *ret = (struct snp_template_image_settings){
        .filters = snp_image_filters(), .umask = umask(0), .started = process_start()};
    (void)umask(ret->umask);
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        (void)getrlimit((__rlimit_resource_t)i, &ret->limits[i]);
    }
}

void snp_template_image_send(const struct snp_template_image_source *source,
                             int fd,
                             int closed_fd,
                             const struct iovec *hidden,
                             size_t n_hidden)
{
    /* The thawed process needs this stack above here, and may use the part below. */
    struct writer w = {.source = source,
                       .fd = fd,
                       .closed_fd = closed_fd,
                       .hidden = hidden,
                       .n_hidden = n_hidden,
                       .process.stack = (uintptr_t)__builtin_frame_address(0) / 64 * 64};

    snp_image_keep_kernel();
    (void)prctl(PR_GET_TID_ADDRESS, &w.process.thread_number, 0, 0, 0);
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
        copy_main(&w);
    }
}

#else

void snp_template_image_settings_now(struct snp_template_image_settings *ret)
{
    *ret = (struct snp_template_image_settings){.filters = 0};
}

void snp_template_image_send(const struct snp_template_image_source *source,
                             int fd,
                             int closed_fd,
                             const struct iovec *hidden,
                             size_t n_hidden)
{
    (void)source;
    (void)fd;
    (void)closed_fd;
    (void)hidden;
    (void)n_hidden;
}

#endif
