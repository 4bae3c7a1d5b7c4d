/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fork writes the image, so that the template can continue. The fork's tables and stack lie in
 * separate memory, outside the image: the written memory must not change.
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
#    include "guest/image_check.h"
#    include "guest/module/maps.h"

enum {
    STACK_BYTES = 256 << 10,
    PAGE = 4096,
    LARGE = 2 << 20,
    WINDOW = LARGE / PAGE, /* pages inspected together */
    FDS_LOOKED_AT = 256,
    GIVEN_FDS = 4, /* of a zygote: standard streams, control socket */
    ETC_MAX = 1 << 20,
    STAT_CHARS = 1024,
    STATUS_CHARS = 8192,
    WHOLE_GRAIN_S = 2, /* for timestamps in whole seconds */
    NS_PER_S = 1000000000,
    GRAIN_NS = 20000000, /* two ticks: the kernel's timestamps lag behind the clock */
    SEQUENCES_LEN = 32,
    SEQUENCES_FLAG_END = 1,
    SEQUENCES_MARK = 0x53053053, /* the C library's, for x86-64 */
    SIGNAL_SET = 8,
};

/*
 * Offset of the C library's area for restartable sequences from the thread's base; missing before
 * 2.35.
 */
extern const ptrdiff_t sequences_at __asm__("__rseq_offset") __attribute__((weak));
extern const unsigned int sequences_used __asm__("__rseq_size") __attribute__((weak));

/* Allocated separately, outside the image. */
struct writer {
    const struct snp_template_image_source *source;
    int fd;
    int closed_fd;
    const struct iovec *hidden;
    size_t n_hidden;
    int pages_fd;
    struct snp_template_image_settings settings;
    struct snp_template_image image;
    struct snp_template_image_map maps[SNP_TEMPLATE_IMAGE_MAPS_MAX];
    struct snp_template_image_run runs[SNP_TEMPLATE_IMAGE_RUNS_MAX];
    struct snp_template_image_file files[SNP_TEMPLATE_IMAGE_FILES_MAX];
    struct snp_template_image_large large[SNP_TEMPLATE_IMAGE_LARGE_MAX];
    char text[SNP_TEMPLATE_IMAGE_TEXT_MAX];
    char etc[ETC_MAX];
    uint64_t entries[WINDOW];
    char stack[STACK_BYTES] __attribute__((aligned(16)));
};

static void *pointer(uint64_t address)
{
    void *at;

    memcpy(&at, &address, sizeof(at)); /* from a number it must come */
    return at;
}

/* Files ------------------------------------------------------------------------------------ */

static bool is_before(const struct timespec *stamp, const struct timespec *began)
{
    const bool is_whole = stamp->tv_nsec == 0;
    const long ns = began->tv_nsec - (is_whole ? 0 : GRAIN_NS);
    const time_t s = began->tv_sec - (is_whole ? WHOLE_GRAIN_S : 0) - (ns < 0 ? 1 : 0);

    return stamp->tv_sec < s ||
           (stamp->tv_sec == s && stamp->tv_nsec < (ns < 0 ? ns + NS_PER_S : ns));
}

/* Record a file's state. If it changed while it was loaded, memory may hold the old content. */
static bool note_stat(const struct writer *w,
                      const struct stat *st,
                      struct snp_template_image_file *file)
{
    const struct timespec *began = &w->source->began->started;
    bool is_folder = S_ISDIR(st->st_mode);

    file->size = is_folder ? -2 : (int64_t)st->st_size;
    file->changed[0] = st->st_mtim.tv_sec;
    file->changed[1] = st->st_mtim.tv_nsec;
    file->changed[2] = st->st_ctim.tv_sec;
    file->changed[3] = st->st_ctim.tv_nsec;
    return is_before(&st->st_mtim, began) && (is_folder || is_before(&st->st_ctim, began));
}

/* Record content: the template has copies of /etc. */
static bool note_content(struct writer *w, const char *path, struct snp_template_image_file *file)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : snp_read_all(fd, w->etc, sizeof(w->etc));

    file->size = 0;
    file->changed[0] = n < 0 ? 0 : (int64_t)XXH3_64bits(w->etc, (size_t)n);
    return n >= 0;
}

/* Index of a file in the table; -1: it cannot be in an image. */
static int64_t add_file(struct writer *w, const char *path, size_t len, bool is_mapped)
{
    struct snp_template_image *image = &w->image;
    struct snp_template_image_file *file = &w->files[image->n_files];
    struct stat st;
    bool ok = true;

    for (uint64_t i = image->n_files; is_mapped && i > 0; i--) {
        const char *known = w->text + w->files[i - 1].path;
        if (strncmp(known, path, len) == 0 && known[len] == '\0') {
            return (int64_t)i - 1;
        }
    }
    if (image->n_files == SNP_TEMPLATE_IMAGE_FILES_MAX ||
        len + 1 > SNP_TEMPLATE_IMAGE_TEXT_MAX - image->text_len) {
        return -1;
    }
    file->path = (uint32_t)image->text_len;
    file->is_mapped = is_mapped ? 1 : 0;
    memcpy(w->text + image->text_len, path, len);
    image->text_len += len + 1;
    path = w->text + file->path;
    if (stat(path, &st) < 0) {
        file->size = -1;
        ok = !is_mapped && (errno == ENOENT || errno == ENOTDIR);
    } else if (S_ISREG(st.st_mode) && strncmp(path, "/etc/", strlen("/etc/")) == 0) {
        ok = note_content(w, path, file);
    } else {
        ok = note_stat(w, &st, file);
    }
    return ok ? (int64_t)image->n_files++ : -1;
}

static bool add_loaded(struct writer *w)
{
    const char *at = w->source->files;
    const char *end = at + w->source->files_len;

    for (; at < end; at += strlen(at) + 1) {
        if (add_file(w, at, strlen(at), false) < 0) {
            return false;
        }
    }
    return true;
}

/* Memory ----------------------------------------------------------------------------------- */

static bool is_ours(const struct writer *w, const struct snp_map *map)
{
    return map->start == (uintptr_t)w;
}

/* "[vdso]\n" and its data; some kernels have several mappings of it. */
static bool is_kernel(const char *name)
{
    return strncmp(name, "[vdso]", 6) == 0 || strncmp(name, "[vvar", 5) == 0;
}

static bool note_map(struct writer *w, const struct snp_map *map)
{
    struct snp_template_image_map *to = &w->maps[w->image.n_maps];
    const char *end = strchr(map->name, '\n');
    int64_t file = 0;

    if (map->start >> 47U != 0) {
        return true; /* [vsyscall], the same in every process */
    }
    if (w->image.n_maps == SNP_TEMPLATE_IMAGE_MAPS_MAX || (map->name[0] != '\0' && end == NULL)) {
        return false;
    }
    *to = (struct snp_template_image_map){.start = map->start,
                                          .end = map->end,
                                          .offset = map->offset,
                                          .prot = (uint8_t)map->prot,
                                          .kind = SNP_TEMPLATE_IMAGE_MEMORY};
    if (map->has_file) {
        if ((map->is_shared && map->prot != PROT_READ) || end == NULL) {
            return false;
        }
        file = add_file(w, map->name, (size_t)(end - map->name), true);
        to->kind = map->is_shared ? SNP_TEMPLATE_IMAGE_SHARED : SNP_TEMPLATE_IMAGE_FILE;
    } else if (is_kernel(map->name)) {
        to->kind = SNP_TEMPLATE_IMAGE_KERNEL;
    } else if (map->is_stack) {
        to->kind = SNP_TEMPLATE_IMAGE_STACK;
    } else if (map->is_shared) {
        return false;
    }
    to->file = (uint32_t)file;
    w->image.n_maps++;
    return file >= 0;
}

static bool note_maps(struct writer *w)
{
    struct snp_maps maps;
    struct snp_map map;
    bool ok = true;

    snp_maps_open(&maps);
    ok = maps.list != NULL;
    while (ok && snp_maps_next(&maps, &map)) {
        ok = is_ours(w, &map) || note_map(w, &map);
    }
    snp_maps_close(&maps);
    return ok;
}

static bool is_zero(const char *at)
{
    return *at == 0 && memcmp(at, at + 1, PAGE - 1) == 0;
}

static bool add_page(struct writer *w, uint64_t at)
{
    struct snp_template_image_run *last = &w->runs[w->image.n_runs - 1];

    if (w->image.n_runs > 0 && last->start + last->len == at &&
        last->len < SNP_TEMPLATE_IMAGE_RUN_BYTES) {
        last->len += PAGE;
    } else if (w->image.n_runs < SNP_TEMPLATE_IMAGE_RUNS_MAX) {
        w->runs[w->image.n_runs++] = (struct snp_template_image_run){.start = at, .len = PAGE};
    } else {
        return false;
    }
    w->image.bytes += PAGE;
    return true;
}

static void add_large(struct writer *w, uint64_t at)
{
    struct snp_template_image_large *last = &w->large[w->image.n_large - 1];

    if (w->image.n_large > 0 && last->start + last->len == at) {
        last->len += LARGE;
    } else if (w->image.n_large < SNP_TEMPLATE_IMAGE_LARGE_MAX) {
        w->large[w->image.n_large++] = (struct snp_template_image_large){.start = at, .len = LARGE};
    }
}

/* Record the pages from start to end, which are within one huge page. */
static bool note_pages(struct writer *w,
                       struct snp_template_image_map *map,
                       uint64_t start,
                       uint64_t end)
{
    const uint64_t there = SNP_PAGE_PRESENT | SNP_PAGE_SWAPPED;
    const size_t n = (end - start) / PAGE;
    bool is_file = map->kind == SNP_TEMPLATE_IMAGE_FILE;
    size_t noted = 0;

    if (pread(w->pages_fd, w->entries, n * sizeof(w->entries[0]),
              (off_t)(start / PAGE * sizeof(w->entries[0]))) !=
        (ssize_t)(n * sizeof(w->entries[0]))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t at = start + i * PAGE;

        if ((w->entries[i] & there) == 0 ||
            (is_file ? (w->entries[i] & SNP_PAGE_SHARED) != 0 : is_zero(pointer(at)))) {
            continue;
        }
        if (!add_page(w, at)) {
            return false;
        }
        noted++;
    }
    map->has_runs = noted > 0 ? 1 : map->has_runs;
    if (!is_file && n == WINDOW && noted > WINDOW / 2) {
        add_large(w, start);
    }
    return true;
}

static bool note_runs(struct writer *w)
{
    for (uint64_t i = 0; i < w->image.n_maps; i++) {
        struct snp_template_image_map *map = &w->maps[i];
        uint64_t end;

        if (map->kind == SNP_TEMPLATE_IMAGE_KERNEL || map->kind == SNP_TEMPLATE_IMAGE_SHARED) {
            continue;
        }
        if ((map->prot & PROT_READ) == 0 &&
            snp_maps_protect(map->start, map->end - map->start, PROT_READ) < 0) {
            return false;
        }
        for (uint64_t at = map->start; at < map->end; at = end) {
            end = (at / LARGE + 1) * LARGE;
            end = end < map->end ? end : map->end;
            if (!note_pages(w, map, at, end)) {
                return false;
            }
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
    struct prctl_mm_map *m = &w->image.memory;
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
    ssize_t n = fd < 0 ? -1 : snp_read_all(fd, w->image.vector, sizeof(w->image.vector));

    w->image.memory.auxv_size = n < 0 ? 0 : (__u32)n;
    return n > 0 && n < (ssize_t)sizeof(w->image.vector);
}

static bool note_process(struct writer *w)
{
    struct snp_template_image *image = &w->image;
    unsigned size = 0;

    if (prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0) < 0 || size != sizeof(image->memory)) {
        return false;
    }
    for (int fd = GIVEN_FDS; fd < FDS_LOOKED_AT; fd++) {
        if (fd != w->fd && fcntl(fd, F_GETFD) >= 0) {
            return false;
        }
    }
    for (long i = 0; i < SNP_TEMPLATE_IMAGE_SIGNALS; i++) {
        if (syscall(SYS_rt_sigaction, i + 1, NULL, &image->signals[i], SIGNAL_SET) < 0) {
            return false;
        }
    }
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &image->signal_mask, SIGNAL_SET);
    image->entry = (uintptr_t)w->source->entry;
    if (syscall(SYS_arch_prctl, ARCH_GET_FS, &image->fs_base) < 0 || image->thread_number == 0) {
        return false;
    }
    if (&sequences_used != NULL && sequences_used != 0) {
        image->sequences = image->fs_base + (uint64_t)sequences_at;
        image->sequences_len = SEQUENCES_LEN;
        /* The kernel writes there. */
        (void)syscall(SYS_rseq, image->sequences, SEQUENCES_LEN, SEQUENCES_FLAG_END,
                      SEQUENCES_MARK);
    }
    return note_memory(w) && note_vector(w);
}

/* Writing ---------------------------------------------------------------------------------- */

/* Not by write(), which records a cancellation point in memory while it waits. */
static bool send_bytes(const struct writer *w, const void *bytes, size_t len)
{
    size_t sent = 0;

    while (sent < len) {
        long n = syscall(SYS_write, w->fd, (const char *)bytes + sent, len - sent);
        if (n <= 0) {
            return false;
        }
        sent += (size_t)n;
    }
    return true;
}

static bool write_tables(struct writer *w)
{
    struct snp_template_image *image = &w->image;
    const struct {
        const void *bytes;
        size_t len;
    } tables[] = {
        {w->maps, image->n_maps * sizeof(w->maps[0])},
        {w->runs, image->n_runs * sizeof(w->runs[0])},
        {w->files, image->n_files * sizeof(w->files[0])},
        {w->large, image->n_large * sizeof(w->large[0])},
        {w->text, image->text_len},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(tables); i++) {
        image->tables_hash =
            XXH3_64bits_withSeed(tables[i].bytes, tables[i].len, image->tables_hash);
    }
    image->hash = XXH3_64bits(image, sizeof(*image));
    if (!send_bytes(w, image, sizeof(*image))) {
        return false;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(tables); i++) {
        if (!send_bytes(w, tables[i].bytes, tables[i].len)) {
            return false;
        }
    }
    return true;
}

static void write_image(struct writer *w)
{
    struct snp_template_image *image = &w->image;

    image->magic = SNP_TEMPLATE_IMAGE_MAGIC;
    for (uint64_t i = 0; i < image->n_runs; i++) {
        w->runs[i].hash = XXH3_64bits(pointer(w->runs[i].start), w->runs[i].len);
    }
    if (!write_tables(w)) {
        return;
    }
    for (uint64_t i = 0; i < image->n_runs; i++) {
        if (!send_bytes(w, pointer(w->runs[i].start), w->runs[i].len)) {
            return;
        }
    }
}

static bool note_pagemap(struct writer *w)
{
    w->pages_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    return w->pages_fd >= 0 && note_runs(w) && close(w->pages_fd) == 0;
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

/* Refuse tables that guest/thaw would refuse, e.g. with moved kernel code. */
static bool check_tables(struct writer *w)
{
    return snp_template_image_tables_fit(&(struct snp_template_image_tables){
        .image = &w->image, .maps = w->maps, .runs = w->runs, .files = w->files, .text = w->text});
}

/* The main function of the copy. */
static int copy_main(void *arg)
{
    static const struct {
        const char *name;
        bool (*run)(struct writer *);
    } steps[] = {
        {"a mapping", note_maps},
        {"a file", add_loaded},
        {"pages", note_pagemap},
        {"the kernel", note_process},
        {"the order of mappings", check_tables},
        {"a seccomp filter that a module installed", check_filters},
        {"a umask that a module set", check_umask},
        {"a limit that a module set", check_limits},
    };
    struct writer *w = arg;

    (void)close(w->closed_fd);
    for (size_t i = 0; i < w->n_hidden; i++) {
        (void)munmap(w->hidden[i].iov_base, w->hidden[i].iov_len);
    }
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* or /proc/self is not accessible */
    (void)prctl(PR_SET_NAME, "image", 0, 0, 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(steps); i++) {
        if (!steps[i].run(w)) {
            const uint32_t path = w->files[w->image.n_files].path;
            (void)dprintf(w->fd, "%s %s", steps[i].name, path == 0 ? "" : w->text + path);
            _exit(0);
        }
    }
    write_image(w);
    _exit(0);
}

static long count_filters(void)
{
    char text[STATUS_CHARS] = "";
    snp_autoclose int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const char *at = fd < 0 || snp_read_all(fd, text, sizeof(text) - 1) <= 0
                         ? NULL
                         : strstr(text, "Seccomp_filters:");

    at = at == NULL ? NULL : at + strlen("Seccomp_filters:");
    return at == NULL ? -1 : strtol(at, NULL, 10); /* banned-ok: the kernel's number */
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
        .filters = count_filters(), .umask = umask(0), .started = process_start()};
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
    struct writer *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (w == MAP_FAILED) {
        return;
    }
    w->source = source;
    w->fd = fd;
    w->closed_fd = closed_fd;
    w->hidden = hidden;
    w->n_hidden = n_hidden;
    (void)prctl(PR_GET_TID_ADDRESS, &w->image.thread_number, 0, 0, 0);
    /* The thawed process needs this stack above here, and may use the part below. */
    w->image.stack = (uintptr_t)__builtin_frame_address(0) / 64 * 64;
    (void)clone(copy_main, w->stack + STACK_BYTES, SIGCHLD, w);
    (void)munmap(w, sizeof(*w));
}

#else

void snp_template_image_settings_now(struct snp_template_image_settings *ret)
{
    *ret = (struct snp_template_image_settings){.filters = -1};
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
