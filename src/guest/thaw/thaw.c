/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the interpreter of a template (LD_PRELOAD): if the template has an image, and all
 * its source files are unchanged, the image's memory replaces that of this process. Else the
 * interpreter starts normally, and a line on standard error gives the reason.
 *
 * Nothing of the C library is used, because it is unmapped. A failure after that ends the process;
 * the supervisor then starts it without an image.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <asm/prctl.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

#include "base/macro.h"
#include "guest/image.h"

enum {
    STACK_BYTES = 64 << 10,
    HELPER_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                   CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
    PAGE = SNP_IMAGE_PAGE,
    ETC_MAX = 1 << 20,
    SEQUENCES_FLAG_END = 1,
    SEQUENCES_LEN = 32,
    STATUS_FAILED = 4,
};

#define SEQUENCES_MARK 0x53053053U /* the C library's, for x86-64 */

/* Offset of the C library's area from the thread's base; missing before 2.35. */
extern const ptrdiff_t sequences_at __asm__("__rseq_offset") __attribute__((weak));
extern const unsigned int sequences_used __asm__("__rseq_size") __attribute__((weak));
/* NOLINTBEGIN(readability-identifier-naming): the linker's */
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
/* NOLINTEND(readability-identifier-naming) */

static struct thaw {
    struct snp_image image;
    int fd[SNP_IMAGE_FILES_MAX];
    char etc[ETC_MAX];
    uint64_t data_at;                /* in the file */
    uint64_t at[SNP_IMAGE_RUNS_MAX]; /* of each run, in the file */
    uint64_t next;                   /* the next run without a reader */
    uint64_t vdso;                   /* its current address */
    uint32_t helper;                 /* 0 = none, or ended */
    char stack[STACK_BYTES] __attribute__((aligned(16)));
    char helper_stack[STACK_BYTES] __attribute__((aligned(16)));
} thaw;

static long call(long number, const long *args)
{
    register long r10 __asm__("r10") = args[3];
    register long r8 __asm__("r8") = args[4];
    register long r9 __asm__("r9") = args[5];
    long r = number;

    __asm__ volatile("syscall"
                     : "+a"(r)
                     : "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

#define CALL_(n, a, b, c, d, e, f, ...) \
    call(n, (const long[]){(long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)})
#define CALL(...) CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)

/* The compiler inserts calls of these. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

__attribute__((visibility("hidden"))) void *memcpy(void *to, const void *from, size_t n)
{
    void *at = to;

    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

__attribute__((visibility("hidden"))) void *memset(void *to, int byte, size_t n)
{
    void *at = to;

    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(byte) : "memory");
    return to;
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

static size_t length(const char *text)
{
    size_t n = 0;

    while (text[n] != '\0') {
        n++;
    }
    return n;
}

static bool begins(const char *text, const char *with)
{
    while (*with != '\0' && *text == *with) {
        text++;
        with++;
    }
    return *with == '\0';
}

/* Print a line to standard error, for the supervisor. */
static bool refuse(const char *what, const char *path)
{
    static const char head[] = "image: ";
    const struct iovec parts[] = {
        {(void *)(uintptr_t)head, sizeof(head) - 1},
        {(void *)(uintptr_t)path, length(path)},
        {(void *)(uintptr_t)what, length(what)},
        {(void *)(uintptr_t) "\n", 1},
    };

    (void)CALL(SYS_writev, 2, parts, SNP_ARRAY_LEN(parts));
    return false;
}

static SNP_NORETURN void fail(const char *what)
{
    (void)refuse(what, "");
    for (;;) {
        (void)CALL(SYS_exit_group, STATUS_FAILED);
    }
}

/* Reading ---------------------------------------------------------------------------------- */

static bool read_at(void *to, uint64_t n, uint64_t *at)
{
    bool ok = CALL(SYS_pread64, SNP_TEMPLATE_IMAGE_FD, to, n, *at) == (long)n;

    *at += n;
    return ok;
}

static bool read_image(void)
{
    struct snp_image_head *head = &thaw.image.head;
    struct iovec parts[SNP_IMAGE_PARTS];
    uint64_t at = sizeof(struct snp_template_image_label);
    uint64_t hash;
    uint64_t seed = 0;

    if (!read_at(head, sizeof(*head), &at) || !snp_image_fits(head)) {
        return false;
    }
    hash = head->hash;
    head->hash = 0;
    (void)snp_image_parts(&thaw.image, parts);
    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        if (i > 0 && !read_at(parts[i].iov_base, parts[i].iov_len, &at)) {
            return false;
        }
        seed = XXH3_64bits_withSeed(parts[i].iov_base, parts[i].iov_len, seed);
    }
    thaw.data_at = at;
    return seed == hash && snp_template_image_fits(&thaw.image);
}

/* Checking --------------------------------------------------------------------------------- */

static bool is_same_content(int fd, const struct snp_image_file *file)
{
    long n = CALL(SYS_pread64, fd, thaw.etc, sizeof(thaw.etc), 0);

    return n >= 0 && XXH3_64bits(thaw.etc, (size_t)n) == (uint64_t)file->changed[0];
}

static bool is_same(const struct snp_image_file *file, int *ret_fd)
{
    const char *path = thaw.image.text + file->path;
    bool is_etc = begins(path, "/etc/") && file->size >= 0;
    bool ok;
    struct stat st = {0};

    *ret_fd = -1;
    if (!is_etc && file->is_mapped == 0) {
        long r = CALL(SYS_newfstatat, AT_FDCWD, path, &st, 0);

        return r < 0 ? file->size == -1 : snp_image_is_unchanged(file, &st);
    }
    *ret_fd = (int)CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    ok = *ret_fd >= 0 &&
         (is_etc ? is_same_content(*ret_fd, file)
                 : CALL(SYS_fstat, *ret_fd, &st) == 0 && snp_image_is_unchanged(file, &st));
    if (file->is_mapped == 0 && *ret_fd >= 0) {
        (void)CALL(SYS_close, *ret_fd);
    }
    return ok;
}

static void close_files(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (thaw.image.files[i].is_mapped != 0) {
            (void)CALL(SYS_close, thaw.fd[i]);
        }
    }
}

static bool are_files_same(void)
{
    for (uint64_t i = 0; i < thaw.image.head.n_files; i++) {
        if (!is_same(&thaw.image.files[i], &thaw.fd[i])) {
            close_files(i);
            return refuse(" changed", thaw.image.text + thaw.image.files[i].path);
        }
    }
    return true;
}

/* Is our memory outside the image's? We stay in place until the end. */
static bool is_room(void)
{
    const uint64_t start = (uintptr_t)&__ehdr_start;
    const uint64_t end = (uintptr_t)&_end;

    for (uint64_t i = 0; i < thaw.image.head.n_vmas; i++) {
        if (thaw.image.vmas[i].start < end && start < thaw.image.vmas[i].end) {
            return refuse("the addresses are taken", "");
        }
    }
    return true;
}

/* End this process's restartable sequences before their area is unmapped. */
static bool end_sequences(void)
{
    uint64_t base = 0;

    if (&sequences_used == NULL || sequences_used == 0) {
        return true;
    }
    if (CALL(SYS_arch_prctl, ARCH_GET_FS, &base) < 0) {
        return false;
    }
    return CALL(SYS_rseq, base + (uint64_t)sequences_at, SEQUENCES_LEN, SEQUENCES_FLAG_END,
                SEQUENCES_MARK) == 0;
}

/* The point of no return ------------------------------------------------------------------- */

static void unmap(uint64_t start, uint64_t end)
{
    if (start < end && CALL(SYS_munmap, start, end - start) < 0) {
        fail("munmap");
    }
}

/* Unmap everything but us and the kernel's pages: [first, last). */
static void unmap_all(uint64_t first, uint64_t last)
{
    const uint64_t start = (uintptr_t)&__ehdr_start / PAGE * PAGE;
    const uint64_t end = ((uintptr_t)&_end + PAGE - 1) / PAGE * PAGE;
    const uint64_t low_start = start < first ? start : first;
    const uint64_t low_end = start < first ? end : last;
    const uint64_t high_start = start < first ? first : start;
    const uint64_t high_end = start < first ? last : end;

    unmap(0, low_start);
    unmap(low_end, high_start);
    unmap(high_end, SNP_IMAGE_END);
}

/* The kernel's pages have the same order and sizes: it is the same kernel. Its code is the last. */
static void move_kernel(void)
{
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t code = 0;
    uint64_t now;

    for (uint64_t i = 0; i < thaw.image.head.n_vmas; i++) {
        if (thaw.image.vmas[i].kind == SNP_IMAGE_KERNEL) {
            code = thaw.image.vmas[i].start;
            first = first == 0 ? code : first;
            last = thaw.image.vmas[i].end;
        }
    }
    now = thaw.vdso - (code - first);
    unmap_all(now, now + (last - first));
    for (uint64_t i = 0; now != first && i < thaw.image.head.n_vmas; i++) {
        const struct snp_image_vma *vma = &thaw.image.vmas[i];
        uint64_t len = vma->end - vma->start;

        if (vma->kind == SNP_IMAGE_KERNEL &&
            CALL(SYS_mremap, now + (vma->start - first), len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
                 vma->start) != (long)vma->start) {
            fail("mremap");
        }
    }
}

static void map_all(void)
{
    for (uint64_t i = 0; i < thaw.image.head.n_vmas; i++) {
        const struct snp_image_vma *vma = &thaw.image.vmas[i];
        static const int flags[] = {
            [SNP_IMAGE_ANON] = MAP_PRIVATE | MAP_ANONYMOUS,
            [SNP_IMAGE_HEAP] = MAP_PRIVATE | MAP_ANONYMOUS,
            [SNP_IMAGE_STACK] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN,
            [SNP_IMAGE_FILE] = MAP_PRIVATE,
            [SNP_IMAGE_SHARED] = MAP_SHARED,
        };
        int fd = snp_image_has_file(vma) ? thaw.fd[vma->file] : -1;
        int prot = vma->prot | (vma->has_runs != 0 ? PROT_WRITE : 0);

        if (vma->kind != SNP_IMAGE_KERNEL &&
            CALL(SYS_mmap, vma->start, vma->end - vma->start, prot,
                 flags[vma->kind] | MAP_FIXED_NOREPLACE, fd, vma->offset) != (long)vma->start) {
            fail("mmap");
        }
    }
    close_files(thaw.image.head.n_files);
}

/* Read runs that no other reader has taken. */
static __attribute__((used)) void read_some(void)
{
    uint64_t i;

    while ((i = __atomic_fetch_add(&thaw.next, 1, __ATOMIC_RELAXED)) < thaw.image.head.n_runs) {
        const struct snp_image_run *run = &thaw.image.runs[i];

        if (CALL(SYS_pread64, SNP_TEMPLATE_IMAGE_FD, run->at, run->len, thaw.at[i]) !=
            (long)run->len) {
            fail("it is cut short");
        }
        if (XXH3_64bits((const void *)run->at, run->len) != run->hash) {
            fail("it is damaged");
        }
    }
}

static SNP_NORETURN __attribute__((used)) void helper_main(void)
{
    read_some();
    for (;;) {
        (void)CALL(SYS_exit, 0);
    }
}

/* Start a thread that reads runs, too. It ends before the image runs. */
static void helper_start(void)
{
    register uint32_t *ended __asm__("r10") = &thaw.helper;
    register long none __asm__("r8") = 0;
    long r = SYS_clone;

    thaw.helper = 1;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%[begin]\n\t"
                     "1:"
                     : "+a"(r)
                     : "D"((long)HELPER_FLAGS), "S"(thaw.helper_stack + STACK_BYTES), "d"(0L),
                       "r"(ended), "r"(none), [begin] "r"(helper_main)
                     : "rcx", "r11", "memory");
    if (r < 0) {
        thaw.helper = 0;
    }
}

static void helper_wait(void)
{
    while (__atomic_load_n(&thaw.helper, __ATOMIC_ACQUIRE) != 0) {
        (void)CALL(SYS_futex, &thaw.helper, FUTEX_WAIT, 1, 0, 0, 0);
    }
}

static void read_runs(void)
{
    uint64_t at = thaw.data_at;

    for (uint64_t i = 0; i < thaw.image.head.n_large; i++) {
        (void)CALL(SYS_madvise, thaw.image.large[i].at, thaw.image.large[i].len, MADV_HUGEPAGE);
    }
    for (uint64_t i = 0; i < thaw.image.head.n_runs; i++) {
        thaw.at[i] = at;
        at += thaw.image.runs[i].len;
    }
    helper_start();
    read_some();
    helper_wait();
    for (uint64_t i = 0; i < thaw.image.head.n_large; i++) {
        (void)CALL(SYS_madvise, thaw.image.large[i].at, thaw.image.large[i].len, MADV_NOHUGEPAGE);
    }
}

static void protect(void)
{
    for (uint64_t i = 0; i < thaw.image.head.n_vmas; i++) {
        const struct snp_image_vma *vma = &thaw.image.vmas[i];

        if (vma->has_runs != 0 && (vma->prot & PROT_WRITE) == 0 &&
            CALL(SYS_mprotect, vma->start, vma->end - vma->start, vma->prot) < 0) {
            fail("mprotect");
        }
    }
}

/* Restore what the C library needs of the kernel; the entry restores the rest. */
static void tell_kernel(void)
{
    struct snp_image_process *process = &thaw.image.process;

    process->memory.auxv = (void *)process->vector;
    process->memory.exe_fd = (uint32_t)-1;
    if (CALL(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &process->memory, sizeof(process->memory)) < 0) {
        fail("prctl");
    }
    if (CALL(SYS_arch_prctl, ARCH_SET_FS, process->fs_base) < 0) {
        fail("arch_prctl");
    }
    (void)CALL(SYS_set_tid_address, process->thread_number);
    if (process->sequences != 0 &&
        CALL(SYS_rseq, process->sequences, process->sequences_len, 0, SEQUENCES_MARK) < 0) {
        fail("rseq");
    }
    (void)CALL(SYS_close, SNP_TEMPLATE_IMAGE_FD);
}

static SNP_NORETURN __attribute__((used)) void replace(void)
{
    const uint64_t start = (uintptr_t)&__ehdr_start / PAGE * PAGE;
    const uint64_t end = ((uintptr_t)&_end + PAGE - 1) / PAGE * PAGE;

    move_kernel();
    map_all();
    read_runs();
    protect();
    tell_kernel();
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "push $0\n\t"
                     "jmp *%1"
                     :
                     : "r"(thaw.image.process.stack), "r"(thaw.image.process.entry), "D"(start),
                       "S"(end - start)
                     : "memory");
    __builtin_unreachable();
}

/*
 * Remove our variable from the environment: neither the interpreter nor its children should load us
 * again.
 */
static void forget_variable(char **envp)
{
    char **to = envp;

    for (; *envp != NULL; envp++) {
        if (!begins(*envp, "LD_PRELOAD=")) {
            *to++ = *envp;
        }
    }
    *to = NULL;
}

static uint64_t find_vdso(char *const *envp)
{
    const uint64_t *at;

    while (*envp != NULL) {
        envp++;
    }
    for (at = (const uint64_t *)(envp + 1); at[0] != 0; at += 2) {
        if (at[0] == 33 /* AT_SYSINFO_EHDR */) {
            return at[1];
        }
    }
    return 0;
}

static __attribute__((constructor)) void begin(int argc, char **argv, char **envp)
{
    unsigned size = 0;

    (void)argc;
    (void)argv;
    thaw.vdso = find_vdso(envp);
    forget_variable(envp);
    if (!read_image()) {
        (void)refuse("it is damaged", "");
    } else if (thaw.vdso == 0 || CALL(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP_SIZE, &size) < 0 ||
               size != sizeof(thaw.image.process.memory)) {
        (void)refuse("the kernel cannot do it", "");
    } else if (is_room() && are_files_same()) {
        if (end_sequences()) {
            __asm__ volatile("mov %0, %%rsp\n\t"
                             "xor %%ebp, %%ebp\n\t"
                             "call *%1"
                             :
                             : "r"(thaw.stack + STACK_BYTES), "r"(replace)
                             : "memory");
            __builtin_unreachable();
        }
        close_files(thaw.image.head.n_files);
        (void)refuse("the C library is unusual", "");
    }
    (void)CALL(SYS_close, SNP_TEMPLATE_IMAGE_FD);
}
