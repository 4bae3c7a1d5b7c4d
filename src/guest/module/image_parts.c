/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/module/image_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/err.h"
#include "base/fd.h"

#define PAGE SNP_IMAGE_PAGE

enum {
    WINDOW = 512, /* page entries read together */
    BATCH = 1024, /* parts per write */
    STATUS_CHARS = 8192,
    LOOKS_APART = 8, /* pages */
    SLOW_LOOKS = 8,  /* slow ones beyond the fast ones */
    SLOW_NS = 2500,
};

struct snp_image_self snp_image_self;

int snp_image_fail(char why[SNP_IMAGE_WHY_MAX], const char *form, ...)
{
    va_list args;

    va_start(args, form);
    (void)vsnprintf(why, SNP_IMAGE_WHY_MAX, form, args);
    va_end(args);
    return -1;
}

void snp_image_mark(bool is_new)
{
    (void)!getentropy(snp_image_self.template_id, sizeof(snp_image_self.template_id));
    if (is_new) {
        (void)!getentropy(snp_image_self.place_id, sizeof(snp_image_self.place_id));
    }
}

void snp_image_opened(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        (void)getrlimit((__rlimit_resource_t)i, &snp_image_self.opened[i]);
    }
}

void *snp_image_room(unsigned which, size_t len)
{
    void *want = snp_maps_at(SNP_IMAGE_PLACE + which * SNP_IMAGE_ROOM_BYTES);
    void *at = len > SNP_IMAGE_ROOM_BYTES
                   ? MAP_FAILED
                   : mmap(want, len, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == want) {
        if (which != SNP_IMAGE_ROOM_PLAN) {
            ((struct snp_image_room *)at)->view.fd = -1;
        }
        return at;
    }
    if (at != MAP_FAILED) {
        (void)munmap(at, len);
    }
    return NULL;
}

bool snp_image_is_room(uint64_t start, uint64_t end)
{
    return start < SNP_IMAGE_PLACE + SNP_IMAGE_ROOMS_N * SNP_IMAGE_ROOM_BYTES &&
           end > SNP_IMAGE_PLACE;
}

void snp_image_clear(struct snp_image_leftovers *left)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(left->rooms); i++) {
        if (left->rooms[i].at != NULL) {
            (void)munmap(left->rooms[i].at, left->rooms[i].len);
        }
    }
    for (size_t i = 0; i < left->n_files; i++) {
        (void)close(left->files[i]);
    }
    memset(left, 0, sizeof(*left));
}

/* Mappings ----------------------------------------------------------------------------------- */

struct snp_image_file *snp_image_add_file(struct snp_image *image, const char *path)
{
    struct snp_image_head *head = &image->head;
    struct snp_image_file *file = &image->files[head->n_files];
    const size_t len = strlen(path) + 1;
    struct stat st;

    if (head->n_files == SNP_IMAGE_FILES_MAX || len > sizeof(image->text) - head->text_len) {
        return NULL;
    }
    *file = (struct snp_image_file){.size = -1, .path = (uint32_t)head->text_len};
    if (stat(path, &st) == 0) {
        file->size = S_ISDIR(st.st_mode) ? -2 : (int64_t)st.st_size;
        file->changed[0] = st.st_mtim.tv_sec;
        file->changed[1] = st.st_mtim.tv_nsec;
        file->changed[2] = st.st_ctim.tv_sec;
        file->changed[3] = st.st_ctim.tv_nsec;
        file->inode = st.st_ino;
    }
    memcpy(image->text + head->text_len, path, len);
    head->text_len += len;
    head->n_files++;
    return file;
}

/* Neighbouring mappings mostly share a file. A missing one is irrelevant if both map it. */
static int look_at_file(struct snp_image *image,
                        struct snp_image_vma *vma,
                        const char *path,
                        char why[SNP_IMAGE_WHY_MAX])
{
    const uint64_t n = image->head.n_files;
    struct snp_image_file *file = n == 0 ? NULL : &image->files[n - 1];

    if (file == NULL || strcmp(image->text + file->path, path) != 0) {
        file = snp_image_add_file(image, path);
        if (file == NULL) {
            return snp_image_fail(why, "too many files are mapped");
        }
        file->is_mapped = 1;
    }
    vma->file = (uint32_t)(file - image->files);
    return 0;
}

static uint8_t kind_of(const char *name)
{
    static const struct {
        const char *name;
        uint8_t kind;
    } names[] = {
        {"[heap]", SNP_IMAGE_HEAP},          {"[stack]", SNP_IMAGE_STACK},
        {"[vdso]", SNP_IMAGE_KERNEL},        {"[vvar]", SNP_IMAGE_KERNEL},
        {"[vvar_vclock]", SNP_IMAGE_KERNEL}, {"[vsyscall]", SNP_IMAGE_KERNEL},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i].name) == 0) {
            return names[i].kind;
        }
    }
    return name[0] == '\0' || strncmp(name, "[anon:", 6) == 0 ? SNP_IMAGE_ANON
           : name[0] == '/'                                   ? SNP_IMAGE_FILE
                                                              : SNP_IMAGE_KINDS_N;
}

static int read_line(struct snp_image *image,
                     const char *line,
                     struct snp_image_vma *ret,
                     char why[SNP_IMAGE_WHY_MAX])
{
    struct snp_map map = {0};
    const bool is_read = snp_map_read(line, &map);

    *ret = (struct snp_image_vma){
        .start = map.start, .end = map.end, .mapped = map.file, .prot = (uint8_t)map.prot};
    if (!is_read) {
        return snp_image_fail(why, "the list of mappings cannot be read");
    }
    ret->kind = kind_of(map.name);
    if (ret->kind == SNP_IMAGE_KERNEL) {
        return 0;
    }
    if ((map.is_shared && (ret->kind != SNP_IMAGE_FILE || (map.prot & PROT_WRITE) != 0)) ||
        ret->kind == SNP_IMAGE_KINDS_N) {
        return snp_image_fail(why, "memory is shared: %.120s",
                              *map.name == '\0' ? "a mapping" : map.name);
    }
    if (ret->kind != SNP_IMAGE_FILE) {
        return 0;
    }
    ret->kind = map.is_shared ? SNP_IMAGE_SHARED : SNP_IMAGE_FILE;
    ret->offset = map.offset;
    return look_at_file(image, ret, map.name, why);
}

/* Returns its length, or -1. */
static ssize_t read_list(struct snp_image_room *room, const char *path)
{
    char *text = room->list;
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0 && len < SNP_IMAGE_LIST_MAX - 1) {
        n = SNP_RETRY(read(fd, text + len, SNP_IMAGE_LIST_MAX - 1 - len));
        len += n > 0 ? (size_t)n : 0;
    }
    text[len] = '\0';
    return n == 0 ? (ssize_t)len : -1;
}

uint64_t snp_image_filters(void)
{
    static const char name[] = "Seccomp_filters:";
    char text[STATUS_CHARS] = "";
    snp_autoclose int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const char *at =
        fd < 0 || snp_read_all(fd, text, sizeof(text) - 1) <= 0 ? NULL : strstr(text, name);

    at = at == NULL ? "" : at + sizeof(name) - 1;
    return strtoull(at, NULL, 10); /* banned-ok: the kernel's number */
}

/* A mapping at the start of a room: rooms never replace another mapping. */
static bool is_own_room(const struct snp_image_vma *vma)
{
    return snp_image_is_room(vma->start, vma->end) &&
           (vma->start - SNP_IMAGE_PLACE) % SNP_IMAGE_ROOM_BYTES == 0;
}

/* "VmFlags: rd wr mr mw me wf ": of the previous mapping. */
static void read_flags(struct snp_image_vma *last, const char *line)
{
    static const char name[] = "VmFlags:";

    if (last != NULL && last->kind != SNP_IMAGE_STACK &&
        strncmp(line, name, sizeof(name) - 1) == 0) {
        last->is_kept_apart = strstr(line, " wf") != NULL || strstr(line, " gd") != NULL ||
                                      strstr(line, " ht") != NULL || strstr(line, " lo") != NULL
                                  ? 1
                                  : 0;
    }
}

int snp_image_look(struct snp_image_room *room, bool has_flags, char why[SNP_IMAGE_WHY_MAX])
{
    struct snp_image_head *head = &room->image.head;
    static const uint8_t none[sizeof(head->template_id)] = {0};
    struct snp_image_vma *last = NULL;
    struct utsname host;
    char *at;
    char *end;

    *head = (struct snp_image_head){.magic = SNP_IMAGE_MAGIC};
    memcpy(head->template_id, snp_image_self.template_id, sizeof(head->template_id));
    memcpy(head->place_id, snp_image_self.place_id, sizeof(head->place_id));
    head->n_filters = snp_image_filters();
    if (uname(&host) == 0) {
        (void)snprintf(head->kernel, sizeof(head->kernel), "%.63s", host.release);
    }
    head->heap_end = (uint64_t)syscall(SYS_brk, 0);
    if (memcmp(head->template_id, none, sizeof(none)) == 0) {
        return snp_image_fail(why, "the interpreter was not forked from a template");
    }
    if (sysconf(_SC_PAGESIZE) != (long)PAGE ||
        read_list(room, has_flags ? "/proc/self/smaps" : "/proc/self/maps") < 0) {
        return snp_image_fail(why, "there are too many mappings of memory");
    }
    for (at = room->list; *at != '\0'; at = end + 1) {
        struct snp_image_vma vma;

        end = strchr(at, '\n');
        if (end == NULL) {
            break;
        }
        *end = '\0';
        if (*at >= 'A' && *at <= 'Z') {
            read_flags(last, at);
            continue;
        }
        last = NULL;
        if (read_line(&room->image, at, &vma, why) < 0) {
            return -1;
        }
        if (vma.start >= SNP_IMAGE_END || is_own_room(&vma)) {
            continue;
        }
        if (snp_image_is_room(vma.start, vma.end)) {
            return snp_image_fail(why, "there is memory where images are restored");
        }
        if (head->n_vmas == SNP_IMAGE_VMAS_MAX) {
            return snp_image_fail(why, "there are more than %d mappings of memory",
                                  SNP_IMAGE_VMAS_MAX);
        }
        last = &room->image.vmas[head->n_vmas++];
        *last = vma;
    }
    return 0;
}

bool snp_image_is_same(const struct snp_image *a_image,
                       const struct snp_image_vma *a,
                       const struct snp_image *b_image,
                       const struct snp_image_vma *b)
{
    const struct snp_image_file *a_file = &a_image->files[a->file];
    const struct snp_image_file *b_file = &b_image->files[b->file];

    return a->kind == b->kind &&
           (!snp_image_has_file(a) ||
            (a->mapped == b->mapped && a_file->inode == b_file->inode &&
             memcmp(a_file->changed, b_file->changed, sizeof(a_file->changed)) == 0 &&
             a->offset - a->start == b->offset - b->start &&
             strcmp(a_image->text + a_file->path, b_image->text + b_file->path) == 0));
}

/* Pages --------------------------------------------------------------------------------------- */

static bool is_own(uint64_t entry)
{
    return ((entry & SNP_PAGE_PRESENT) != 0 && (entry & SNP_PAGE_SHARED) == 0) ||
           (entry & SNP_PAGE_SWAPPED) != 0;
}

int snp_image_each_page(int page_fd,
                        const struct snp_image_vma *vma,
                        int (*each)(void *data, uint64_t at, uint64_t n_own),
                        void *data)
{
    uint64_t entries[WINDOW];

    for (uint64_t at = vma->start; at < vma->end; at += WINDOW * PAGE) {
        uint64_t n = (vma->end - at) / PAGE < WINDOW ? (vma->end - at) / PAGE : WINDOW;

        if (!snp_maps_pages(page_fd, at, n, entries)) {
            return -1;
        }
        for (uint64_t i = 0, end = 0; i < n; i++) {
            for (end = end < i ? i : end; end < n && is_own(entries[end]); end++) {
            }
            if (each(data, at + i * PAGE, end - i) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

bool snp_image_is_zero(const char *page)
{
    return *page == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

int snp_image_add_page(
    struct snp_image *image, struct snp_image_vma *vma, uint64_t at, bool is_drop, uint32_t max)
{
    struct snp_image_head *head = &image->head;
    struct snp_image_run *last = head->n_runs == 0 ? NULL : &image->runs[head->n_runs - 1];

    if (last != NULL && last->at + last->len == at && last->at >= vma->start && last->len < max &&
        (last->is_drop != 0) == is_drop) {
        last->len += PAGE;
    } else if (head->n_runs < SNP_IMAGE_RUNS_MAX) {
        image->runs[head->n_runs++] =
            (struct snp_image_run){.at = at, .len = PAGE, .is_drop = is_drop ? 1 : 0};
    } else {
        return -1;
    }
    head->bytes += is_drop ? 0 : PAGE;
    vma->has_runs = 1;
    return 0;
}

/* Contents ------------------------------------------------------------------------------ */

static uint64_t now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void snp_image_try(struct snp_image_view *view, uint64_t at)
{
    uint64_t start;

    if (view->is_tried || view->n_looks++ % LOOKS_APART != 0) {
        return;
    }
    start = now_ns();
    (void)*(const volatile uint8_t *)snp_maps_at(at);
    if (now_ns() - start > SLOW_NS) {
        view->n_slow++;
    } else if (view->n_slow > 0) {
        view->n_slow--;
    }
    if (view->n_slow == SLOW_LOOKS) {
        view->is_tried = true;
        view->fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    }
}

const void *snp_image_beside(struct snp_image_view *view, uint64_t at, size_t len, size_t offset)
{
    if (view->fd < 0 || len > sizeof(view->bytes) - offset ||
        pread(view->fd, view->bytes + offset, len, (off_t)at) != (ssize_t)len) {
        return NULL;
    }
    return view->bytes + offset;
}

const void *snp_image_page(struct snp_image_view *view, uint64_t at, uint64_t n)
{
    const size_t len = n < SNP_IMAGE_BESIDE / PAGE ? n * PAGE : SNP_IMAGE_BESIDE;

    if (at < view->start || at >= view->end) {
        snp_image_try(view, at);
        view->start = view->end = 0;
        if (snp_image_beside(view, at, len, 0) == NULL) {
            return snp_maps_at(at);
        }
        view->start = at;
        view->end = at + len;
    }
    return view->bytes + (at - view->start);
}

uint64_t snp_image_hash(struct snp_image_view *view, uint64_t at, uint64_t n)
{
    return XXH3_64bits(snp_image_page(view, at, n), PAGE);
}

/* Parts --------------------------------------------------------------------------------------- */

int snp_image_receive(int fd, int *ret_in_fd, int *ret_out_fd)
{
    int fds[SNP_FDS_MAX];
    size_t n = 0;
    char byte;

    if (snp_recv_fds(fd, &byte, 1, fds, &n) != 1 || n != 2) {
        return -1;
    }
    *ret_in_fd = fds[0];
    *ret_out_fd = fds[1];
    return 0;
}

/* Skip the first `done` bytes of *n parts. */
static void skip(struct iovec *parts, size_t *n, size_t done)
{
    size_t whole = 0;

    while (whole < *n && done >= parts[whole].iov_len) {
        done -= parts[whole++].iov_len;
    }
    *n -= whole;
    memmove(parts, parts + whole, *n * sizeof(*parts));
    if (*n > 0) {
        parts[0].iov_base = (char *)parts[0].iov_base + done;
        parts[0].iov_len -= done;
    }
}

int snp_image_put(int fd, struct iovec *parts, size_t n)
{
    long done = 0;

    for (skip(parts, &n, 0); n > 0; skip(parts, &n, (size_t)done)) {
        done = SNP_RETRY(syscall(SYS_writev, fd, parts, (long)n));
        if (done <= 0) {
            return -1;
        }
    }
    return 0;
}

int snp_image_put_parts(int fd, struct snp_image *image)
{
    struct iovec parts[SNP_IMAGE_PARTS];

    (void)snp_image_parts(image, parts);
    return snp_image_put(fd, parts, SNP_ARRAY_LEN(parts));
}

int snp_image_get_parts(int fd, struct snp_image *image, char why[SNP_IMAGE_WHY_MAX])
{
    struct iovec parts[SNP_IMAGE_PARTS];
    bool ok;

    if (snp_image_get(fd, &image->head, sizeof(image->head)) < 0) {
        return snp_image_fail(why, "the image is incomplete");
    }
    if (image->head.magic != SNP_IMAGE_MAGIC) {
        return snp_image_fail(why, "it was made by another version");
    }
    ok = snp_image_fits(&image->head);
    if (ok) {
        (void)snp_image_parts(image, parts);
    }
    for (size_t i = 1; i < SNP_ARRAY_LEN(parts) && ok; i++) {
        ok = snp_image_get(fd, parts[i].iov_base, parts[i].iov_len) == 0;
    }
    if (!ok) {
        return snp_image_fail(why, "the image is incomplete");
    }
    return snp_image_maps_fit(image) ? 0 : snp_image_fail(why, "the image has wrong mappings");
}

int snp_image_put_runs(int fd, const struct snp_image *image)
{
    struct iovec parts[BATCH];
    size_t n = 0;
    int r = 0;

    for (uint64_t i = 0; r == 0 && i < image->head.n_runs; i++) {
        if (image->runs[i].is_drop == 0) {
            parts[n++] = (struct iovec){snp_maps_at(image->runs[i].at), image->runs[i].len};
        }
        if (n == BATCH) {
            r = snp_image_put(fd, parts, n);
            n = 0;
        }
    }
    return r == 0 ? snp_image_put(fd, parts, n) : r;
}

int snp_image_get(int fd, void *part, size_t len)
{
    return snp_read_all(fd, part, len) != (ssize_t)len ? -1 : 0;
}
