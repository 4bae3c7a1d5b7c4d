/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "guest/dir.h"
#include "guest/pid1/frame.h"
#include "guest/pid1/process.h"
#include "guest/pid1/wire.h"
#include "guest/sockets.h"
#include "guest/spec.h"

enum {
    MAPPINGS_EVERY = 16, /* samples */
    SOCKETS_EVERY = 4,
    MAPPINGS_MAX = 65530, /* per process: the kernel's default */
    MAPPING_BYTES = 256,  /* of kernel memory each, approximate */
    THREAD_BYTES = 24 << 10,
    PAGE_BYTES = 4096
};

/*
 * The number after key in text, in bytes from kB; 0 if missing. Keys begin with their newline,
 * because the line with the name of the process may contain anything.
 */
static uint64_t kb_field(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    uint64_t value = 0;

    if (at == NULL) {
        return 0;
    }
    at += strlen(key);
    at += strspn(at, " \t");
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    return value * 1024;
}

/* The totals of a sample. */
struct memory_sample {
    const struct snp_sleepers *sleepers; /* not counted */
    uint64_t anonymous;                  /* bytes, with page tables */
    uint64_t shared; /* bytes: of /dev/shm, /tmp and the workspace if mapped, or anonymous */
    uint64_t threads;
    bool is_shared; /* divide shared pages: more expensive */
};

/*
 * Read the status of a process. If its first thread has ended, the kernel shows no memory there:
 * read another thread's. Returns the tid read; 0 = gone.
 */
static pid_t read_status(pid_t pid, char *text, size_t text_len)
{
    char path[48];
    const char *name;

    if (!snp_proc_text(pid, "status", text, text_len)) {
        return 0;
    }
    if (strstr(text, "\nVmPTE:") != NULL) {
        return pid;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    snp_autodir DIR *dir = opendir(path);
    while ((name = snp_dir_next(dir)) != NULL) {
        pid_t tid = snp_pid_of(name);

        if (snp_proc_text(tid, "status", text, text_len) && strstr(text, "\nVmPTE:") != NULL) {
            return tid;
        }
    }
    return 0;
}

/*
 * Add the memory of one process. Divided: shared pages, also those of the template, count in part,
 * unless the process may not be inspected.
 */
static void add_memory(pid_t pid, void *data)
{
    struct memory_sample *sample = data;
    char status[4096];
    char text[2048];

    pid = snp_sleepers_has(sample->sleepers, pid) ? 0 : read_status(pid, status, sizeof(status));
    if (pid == 0) {
        return;
    }
    sample->threads += kb_field(status, "\nThreads:") / 1024;
    sample->anonymous += kb_field(status, "\nVmPTE:");
    if (sample->is_shared && snp_proc_text(pid, "smaps_rollup", text, sizeof(text))) {
        sample->anonymous += kb_field(text, "\nPss_Anon:");
        sample->shared += kb_field(text, "\nPss_Shmem:");
    } else {
        sample->anonymous += kb_field(status, "\nRssAnon:");
        sample->shared += kb_field(status, "\nRssShmem:");
    }
}

/* Add the kernel memory for mappings of one process. */
static void add_mappings(pid_t pid, void *data)
{
    struct memory_sample *sample = data;
    char path[48];
    char text[8192];
    uint64_t n = 0;

    pid = snp_sleepers_has(sample->sleepers, pid) ? 0 : read_status(pid, text, sizeof(text));
    if (pid == 0) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) { /* it may not be inspected: assume the maximum */
        n = kb_field(text, "\nVmSize:") / PAGE_BYTES;
    }
    for (ssize_t got = 1; fd >= 0 && got > 0;) {
        got = read(fd, text, sizeof(text));
        for (ssize_t i = 0; i < got; i++) {
            n += text[i] == '\n' ? 1 : 0;
        }
    }
    sample->anonymous += (n < MAPPINGS_MAX ? n : MAPPINGS_MAX) * MAPPING_BYTES;
}

static uint64_t used_bytes(const struct statfs *fs)
{
    return (uint64_t)(fs->f_blocks - fs->f_bfree) * (uint64_t)fs->f_bsize;
}

/* Bytes of files in memory, mapped or not. */
static uint64_t files_in_memory(const struct snp_init *in)
{
    const int held[] = {SNP_INIT_UPPER_FD, in->has_store ? SNP_INIT_COPIES_FD : -1};
    static const char *const mounts[] = {"/tmp", "/dev/shm"};
    struct statfs fs;
    uint64_t bytes = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(held); i++) {
        bytes += statfs(mounts[i], &fs) < 0 ? 0 : used_bytes(&fs);
        bytes += fstatfs(held[i], &fs) < 0 || fs.f_type != TMPFS_MAGIC ? 0 : used_bytes(&fs);
    }
    return bytes;
}

/*
 * Shared pages mostly belong to files, which are counted whether mapped or not. So the larger of
 * both numbers is used, and no process is killed for memory counted twice.
 */
static uint64_t sample_bytes(const struct snp_init *in, const struct memory_sample *sample)
{
    uint64_t files = files_in_memory(in);

    return sample->anonymous + in->mappings_bytes + in->sockets_bytes +
           sample->threads * THREAD_BYTES + (sample->shared > files ? sample->shared : files);
}

void snp_memory_watch(struct snp_init *in)
{
    struct memory_sample sample = {.sleepers = &in->sleepers};
    uint64_t bytes;
    bool is_news;
    char body[9]; /* u64 bytes, u8: crowded? */

    if (in->n_samples % SOCKETS_EVERY == 0 && in->watch_limit != 0 && in->diag_fd >= 0) {
        in->sockets_bytes = snp_sockets_bytes(in->diag_fd);
    }
    if (in->n_samples++ % MAPPINGS_EVERY == 0) {
        (void)snp_processes_each(in, add_mappings, &sample);
        in->mappings_bytes = sample.anonymous;
        sample.anonymous = 0;
    }
    (void)snp_processes_each(in, add_memory, &sample);
    is_news = !in->was_crowded && in->most_threads > 1 && sample.threads >= in->most_threads;
    in->was_crowded |= is_news;
    bytes = in->watch_limit == 0 ? 0 : sample_bytes(in, &sample);
    if (bytes > in->watch_limit / 2) { /* too close to estimate */
        sample = (struct memory_sample){.sleepers = &in->sleepers, .is_shared = true};
        (void)snp_processes_each(in, add_memory, &sample);
        bytes = sample_bytes(in, &sample);
    }
    is_news |= bytes > in->watched + (1 << 20) || bytes + (1 << 20) < in->watched;
    if (is_news) {
        in->watched = bytes;
        memcpy(body, &bytes, sizeof(bytes));
        body[8] = in->was_crowded ? 1 : 0;
        snp_frame_send(SNP_INIT_MEMORY, 0, body, sizeof(body));
    }
}
