/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/module/image_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fd.h"

#define PAGE        UINT64_C(4096)
#define ADDRESS_MAX (UINT64_C(1) << 48)

enum {
    WINDOW = 512,    /* page entries read together */
    LOOKS_APART = 8, /* pages */
    SLOW_LOOKS = 8,  /* slow ones beyond the fast ones */
    SLOW_NS = 2500,
};

#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_SHARED  (UINT64_C(1) << 61) /* a file's, or shared memory */

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
    void *want = snp_image_at(SNP_IMAGE_PLACE + which * SNP_IMAGE_ROOM_BYTES);
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

void *snp_image_at(uint64_t address)
{
    uintptr_t number = (uintptr_t)address;
    void *at;

    memcpy(&at, &number, sizeof(at)); /* from a number it must come */
    return at;
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

static bool take_hex(const char **at, char end, uint64_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit;

    *ret = 0;
    for (; **at != '\0' && (digit = strchr(digits, **at)) != NULL; (*at)++) {
        *ret = *ret * 16 + (uint64_t)(digit - digits);
    }
    return *(*at)++ == end;
}

static uint64_t take_number(const char **at)
{
    uint64_t number = 0;

    for (; **at >= '0' && **at <= '9'; (*at)++) {
        number = number * 10 + (uint64_t)(**at - '0');
    }
    return number;
}

/* Neighbouring mappings mostly share a file. */
static int look_at_file(struct snp_image_room *room,
                        struct snp_image_vma *vma,
                        const char *path,
                        char why[SNP_IMAGE_WHY_MAX])
{
    struct snp_image_head *head = &room->head;
    const struct snp_image_vma *last = head->n_vmas == 0 ? NULL : &room->vmas[head->n_vmas - 1];
    size_t len = strlen(path) + 1;
    struct stat st;

    if (last != NULL && last->kind == SNP_IMAGE_FILE &&
        strcmp(room->paths + last->path, path) == 0) {
        vma->path = last->path;
        memcpy(vma->named, last->named, sizeof(vma->named));
        return 0;
    }
    if (stat(path, &st) < 0) { /* deleted: irrelevant if both map it */
        memset(&st, 0, sizeof(st));
    }
    if (head->paths_len + len > sizeof(room->paths) || len > SNP_IMAGE_PATH_MAX) {
        return snp_image_fail(why, "too many files are mapped");
    }
    vma->named[0] = st.st_dev;
    vma->named[1] = st.st_ino;
    vma->named[2] =
        (uint64_t)st.st_ctim.tv_sec * UINT64_C(1000000000) + (uint64_t)st.st_ctim.tv_nsec;
    vma->path = (uint32_t)head->paths_len;
    memcpy(room->paths + head->paths_len, path, len);
    head->paths_len += len;
    return 0;
}

static uint32_t kind_of(const char *name)
{
    static const struct {
        const char *name;
        uint32_t kind;
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

/* "start-end rw-p offset major:minor inode   name" */
static int read_line(struct snp_image_room *room,
                     const char *at,
                     struct snp_image_vma *ret,
                     char why[SNP_IMAGE_WHY_MAX])
{
    uint64_t device[2];
    char flags[4];

    *ret = (struct snp_image_vma){.kind = SNP_IMAGE_ANON};
    if (!take_hex(&at, '-', &ret->start) || !take_hex(&at, ' ', &ret->end) || strlen(at) < 6) {
        return snp_image_fail(why, "the list of mappings cannot be read");
    }
    memcpy(flags, at, sizeof(flags));
    at += 5;
    if (!take_hex(&at, ' ', &ret->offset) || !take_hex(&at, ':', &device[0]) ||
        !take_hex(&at, ' ', &device[1])) {
        return snp_image_fail(why, "the list of mappings cannot be read");
    }
    ret->mapped[0] = device[0] << 32U | device[1];
    ret->mapped[1] = take_number(&at);
    at += strspn(at, " ");
    ret->prot = (flags[0] == 'r' ? PROT_READ : 0U) | (flags[1] == 'w' ? PROT_WRITE : 0U) |
                (flags[2] == 'x' ? PROT_EXEC : 0U);
    ret->kind = kind_of(at);
    if (ret->kind == SNP_IMAGE_KERNEL) {
        return 0;
    }
    ret->is_shared = flags[3] != 'p' ? 1 : 0;
    if ((ret->is_shared != 0 && (ret->kind != SNP_IMAGE_FILE || flags[1] == 'w')) ||
        ret->kind == SNP_IMAGE_KINDS_N) {
        return snp_image_fail(why, "memory is shared: %.120s", *at == '\0' ? "a mapping" : at);
    }
    if (ret->kind != SNP_IMAGE_FILE) {
        ret->offset = 0;
        return 0;
    }
    return look_at_file(room, ret, at, why);
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

static uint64_t count_filters(struct snp_image_room *room)
{
    static const char name[] = "Seccomp_filters:";
    const char *at = read_list(room, "/proc/self/status") < 0 ? NULL : strstr(room->list, name);

    if (at == NULL) {
        return 0;
    }
    at += sizeof(name) - 1;
    at += strspn(at, " \t");
    return take_number(&at);
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
    struct snp_image_head *head = &room->head;
    struct snp_image_vma *last = NULL;
    struct utsname host;
    bool is_fork = false;
    char *at;
    char *end;

    *head = (struct snp_image_head){.magic = SNP_IMAGE_MAGIC};
    memcpy(head->template_id, snp_image_self.template_id, sizeof(head->template_id));
    memcpy(head->place_id, snp_image_self.place_id, sizeof(head->place_id));
    head->n_filters = count_filters(room);
    if (uname(&host) == 0) {
        (void)snprintf(head->kernel, sizeof(head->kernel), "%.63s", host.release);
    }
    head->heap_end = (uint64_t)syscall(SYS_brk, 0);
    for (size_t i = 0; i < sizeof(head->template_id); i++) {
        is_fork = is_fork || head->template_id[i] != 0;
    }
    if (!is_fork) {
        return snp_image_fail(why, "the interpreter was not forked from a template");
    }
    if (sysconf(_SC_PAGESIZE) != (long)PAGE ||
        read_list(room, has_flags ? "/proc/self/smaps" : "/proc/self/maps") < 0) {
        return snp_image_fail(why, "the session has too many mappings of memory");
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
        if (read_line(room, at, &vma, why) < 0) {
            return -1;
        }
        if (vma.start >= ADDRESS_MAX || is_own_room(&vma)) {
            continue;
        }
        if (snp_image_is_room(vma.start, vma.end)) {
            return snp_image_fail(why, "the session has memory where images are restored");
        }
        if (head->n_vmas == SNP_IMAGE_VMAS_MAX) {
            return snp_image_fail(why, "the session has more than %d mappings of memory",
                                  SNP_IMAGE_VMAS_MAX);
        }
        last = &room->vmas[head->n_vmas++];
        *last = vma;
    }
    return 0;
}

bool snp_image_is_same(const struct snp_image_room *a_room,
                       const struct snp_image_vma *a,
                       const struct snp_image_room *b_room,
                       const struct snp_image_vma *b)
{
    if (a->kind != b->kind || a->is_shared != b->is_shared) {
        return false;
    }
    return a->kind != SNP_IMAGE_FILE ||
           (a->mapped[1] == b->mapped[1] &&
            memcmp(&a->named[1], &b->named[1], 2 * sizeof(a->named[1])) == 0 &&
            a->offset - a->start == b->offset - b->start &&
            strcmp(a_room->paths + a->path, b_room->paths + b->path) == 0);
}

/* Pages --------------------------------------------------------------------------------------- */

static bool is_own(uint64_t entry)
{
    return ((entry & PAGE_PRESENT) != 0 && (entry & PAGE_SHARED) == 0) ||
           (entry & PAGE_SWAPPED) != 0;
}

int snp_image_each_page(int page_fd,
                        const struct snp_image_vma *vma,
                        int (*each)(void *data, uint64_t at, uint64_t n_own),
                        void *data)
{
    uint64_t entries[WINDOW];

    for (uint64_t at = vma->start; at < vma->end; at += WINDOW * PAGE) {
        uint64_t n = (vma->end - at) / PAGE < WINDOW ? (vma->end - at) / PAGE : WINDOW;

        if (SNP_RETRY(pread(page_fd, entries, n * sizeof(*entries),
                            (off_t)(at / PAGE * sizeof(*entries)))) !=
            (ssize_t)(n * sizeof(*entries))) {
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
    (void)*(const volatile uint8_t *)snp_image_at(at);
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
            return snp_image_at(at);
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

int snp_image_put(int fd, const void *part, size_t len)
{
    return snp_write_all(fd, part, len);
}

int snp_image_get(int fd, uint64_t n, size_t size, size_t max, void *ret)
{
    return n > max || snp_read_all(fd, ret, n * size) != (ssize_t)(n * size) ? -1 : 0;
}

void snp_image_skip(struct iovec *parts, size_t *n, size_t done)
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
