/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/host/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macro.h"
#include "tier/engine/ops.h"
#include "tier/engine/sandbox.h"

enum {
    STOP_ROUNDS = 8,
    QUIET_ROUNDS = 2,
    PROCS_MAX = 65536,
    CHILDREN_LEN = 40 << 10, /* 4,096 pids of 8 characters, with room to spare */
    STAT_START = 22,         /* numbers of fields in /proc/PID/stat */
    STAT_UTIME = 14,
    STAT_LAST = STAT_START
};

void snp_procs_done(struct snp_procs *procs)
{
    free(procs->at);
    *procs = (struct snp_procs){0};
}

static void add(struct snp_procs *procs, const struct snp_proc *p)
{
    if (procs->n == procs->cap) {
        size_t cap = procs->cap == 0 ? 64 : procs->cap * 2;
        struct snp_proc *grown = cap > PROCS_MAX ? NULL : realloc(procs->at, cap * sizeof(*grown));
        if (grown == NULL) {
            return;
        }
        procs->at = grown;
        procs->cap = cap;
    }
    procs->at[procs->n++] = *p;
}

/* The text of a file below /proc, NUL-terminated; false if it is gone. */
static bool read_text(const char *path, char *text, size_t len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : snp_read_all(fd, text, len - 1); /* one read returns a page */

    snp_closep(&fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t number_at(const char *text)
{
    uint64_t value = 0;

    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

bool snp_proc_read(pid_t pid, struct snp_proc *ret)
{
    char path[48];
    char text[1024];
    uint64_t field[STAT_LAST + 1] = {0};
    const char *at;
    long per_second = sysconf(_SC_CLK_TCK);

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!read_text(path, text, sizeof(text))) {
        return false;
    }
    at = strrchr(text, ')'); /* ends field 2, which may contain anything */
    if (at == NULL || at[1] != ' ' || per_second <= 0) {
        return false;
    }
    at += 2;
    *ret = (struct snp_proc){.pid = pid, .state = *at};
    for (int i = 3; i <= STAT_LAST && at != NULL; i++) {
        field[i] = number_at(at);
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    ret->parent = (pid_t)field[4];
    ret->group = (pid_t)field[5];
    ret->start = field[STAT_START];
    for (int i = STAT_UTIME; i < STAT_UTIME + 4; i++) {
        ret->cpu_us += field[i] * (1000000U / (uint64_t)per_second);
    }
    return true;
}

static pid_t pid_of(const char *name)
{
    uint64_t pid = number_at(name);

    return name[strspn(name, "0123456789")] == '\0' && pid > 0 && pid < INT32_MAX ? (pid_t)pid : -1;
}

/* Add the children of pid's threads to procs. False if the kernel has no such list. */
static bool add_children(pid_t pid, struct snp_procs *procs)
{
    char path[80];
    char text[CHILDREN_LEN];
    struct dirent *entry;
    bool known = false;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL) {
        return true; /* gone */
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        pid_t tid = pid_of(entry->d_name);
        struct snp_proc child;

        if (tid < 0) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)tid);
        known = known || access(path, R_OK) == 0;
        if (!read_text(path, text, sizeof(text))) {
            continue;
        }
        for (const char *at = text; *at >= '0' && *at <= '9';) {
            if (snp_proc_read((pid_t)number_at(at), &child) && child.parent == pid) {
                add(procs, &child);
            }
            at += strspn(at, "0123456789");
            at += *at == ' ' ? 1 : 0;
        }
    }
    (void)closedir(dir);
    return known;
}

/* List every visible process. */
static void scan(struct snp_procs *ret)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    while (dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        pid_t pid = pid_of(entry->d_name);
        struct snp_proc p;

        if (pid > 1 && snp_proc_read(pid, &p)) {
            add(ret, &p);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static bool is_in(const struct snp_procs *procs, pid_t pid)
{
    for (size_t i = 0; i < procs->n; i++) {
        if (procs->at[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* Add the descendants of top, and of processes in ret, to ret. */
static void add_descendants(const struct snp_procs *all, pid_t top, struct snp_procs *ret)
{
    for (size_t before = SIZE_MAX; before != ret->n;) {
        before = ret->n;
        for (size_t i = 0; i < all->n; i++) {
            const struct snp_proc *p = &all->at[i];
            if (p->pid != top && !is_in(ret, p->pid) &&
                (p->parent == top || is_in(ret, p->parent))) {
                add(ret, p);
            }
        }
    }
}

void snp_procs_below(pid_t top, struct snp_procs *ret)
{
    struct snp_procs all = {0};

    if (!add_children(top, ret)) {
        scan(&all);
        add_descendants(&all, top, ret);
        snp_procs_done(&all);
        return;
    }
    for (size_t i = 0; i < ret->n && ret->n < PROCS_MAX; i++) {
        (void)add_children(ret->at[i].pid, ret);
    }
}

pid_t snp_proc_first_child(pid_t pid)
{
    struct snp_procs procs = {0};
    pid_t first = -1;

    snp_procs_below(pid, &procs);
    for (size_t i = 0; i < procs.n && first < 0; i++) {
        first = procs.at[i].parent == pid ? procs.at[i].pid : -1;
    }
    snp_procs_done(&procs);
    return first;
}

/* The last number of the line that begins with key; -1 if there is none. */
static pid_t last_number(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (at == NULL) {
        return -1;
    }
    for (at += strlen(key); at[strcspn(at, "\t\n")] == '\t';) {
        at += strcspn(at, "\t") + 1;
    }
    return *at == '-' ? -1 : (pid_t)number_at(at);
}

pid_t snp_proc_inner(pid_t pid)
{
    char path[32];
    char text[4096];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    return read_text(path, text, sizeof(text)) ? last_number(text, "\nNSpid:") : -1;
}

pid_t snp_pidfd_number(int pidfd)
{
    char path[48];
    char text[1024];
    pid_t pid;

    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    if (!read_text(path, text, sizeof(text)) || strstr(text, "\nPid:") == NULL) {
        return -EBADF;
    }
    pid = last_number(text, "\nPid:");
    return pid > 0 ? pid : -ESRCH;
}

/* The pid namespace of a pidfd's process, and its pid there. 0 or -errno. */
static int pidfd_place(int pidfd, ino_t *ret_namespace, pid_t *ret_inner)
{
    char path[48];
    char text[4096];
    struct stat st;
    pid_t pid = snp_pidfd_number(pidfd);

    if (pid < 0) {
        return pid;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
    if (stat(path, &st) < 0) {
        return errno == ENOENT ? -ESRCH : -EPERM;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (!read_text(path, text, sizeof(text)) || snp_pidfd_number(pidfd) != pid) {
        return -ESRCH; /* the pid may have been reused while reading */
    }
    *ret_namespace = st.st_ino;
    *ret_inner = last_number(text, "\nNStgid:");
    return *ret_inner > 0 ? 0 : -ESRCH;
}

pid_t snp_pidfd_inner(int pidfd, int peer_pidfd)
{
    ino_t namespaces[2];
    pid_t inner[2];
    int r = pidfd_place(pidfd, &namespaces[0], &inner[0]);

    if (r == 0 && pidfd_place(peer_pidfd, &namespaces[1], &inner[1]) < 0) {
        r = -EPERM;
    }
    return r < 0 ? r : namespaces[0] == namespaces[1] ? inner[0] : -EPERM;
}

pid_t snp_proc_leader(pid_t tid)
{
    char path[32];
    char text[4096];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    return read_text(path, text, sizeof(text)) ? last_number(text, "\nTgid:") : -1;
}

static bool is_other(const struct snp_family *f, pid_t pid)
{
    for (size_t i = 0; i < f->n_others; i++) {
        if (f->others[i] == pid) {
            return true;
        }
    }
    return false;
}

static bool has_user(pid_t pid, uid_t uid)
{
    char path[32];
    char text[2048];
    const char *at;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (!read_text(path, text, sizeof(text))) {
        return false;
    }
    at = strstr(text, "\nUid:");
    return at != NULL && number_at(at + strlen("\nUid:") + 1) == uid;
}

/*
 * The processes that a sweep must end: descendants of top, or those that the keeper has adopted
 * from an ended top.
 */
static void members(const struct snp_family *f, struct snp_procs *ret)
{
    struct snp_procs below = {0};
    pid_t top = f->top > 1 ? f->top : f->keeper;

    if (top <= 1) {
        return;
    }
    snp_procs_below(top, &below);
    for (size_t i = 0; i < below.n; i++) {
        const struct snp_proc *p = &below.at[i];
        bool is_adopted = p->parent == top ? !is_other(f, p->pid) : is_in(ret, p->parent);
        if (!snp_spared_has(f->spared, p->pid) && (f->top > 1 || is_adopted)) {
            add(ret, p);
        }
    }
    snp_procs_done(&below);
}

int snp_proc_signal(const struct snp_proc *p, int number)
{
    struct snp_proc now;
    int pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    int r = 0;

    if (pidfd < 0) {
        return errno;
    }
    /* Data read while the pidfd is open belongs to its process, if that is still alive. */
    if (!snp_proc_read(p->pid, &now) || now.start != p->start) {
        r = ESRCH;
    } else if (syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0) {
        r = errno;
    }
    snp_closep(&pidfd);
    return r;
}

static bool is_over(const struct snp_proc *p)
{
    return p->state == 'Z' || p->state == 'X';
}

/* Count live members of the family; send number to those that are not stopped yet. */
static size_t signal_all(const struct snp_family *f, int number, size_t *ret_running)
{
    struct snp_procs procs = {0};
    size_t alive = 0;
    size_t running = 0;

    members(f, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        const struct snp_proc *p = &procs.at[i];
        bool is_stopped = p->state == 'T' || p->state == 't';
        if (is_over(p)) {
            continue;
        }
        alive++;
        running += is_stopped ? 0 : 1;
        if (number == SIGKILL || !is_stopped) {
            (void)snp_proc_signal(p, number);
        }
    }
    snp_procs_done(&procs);
    *ret_running = running;
    return alive;
}

int snp_family_sweep(const struct snp_family *family, unsigned ms)
{
    const uint64_t end = snp_now_us() + (uint64_t)ms * 1000;
    size_t running = 1;
    unsigned quiet = 0;

    for (int round = 0; round < STOP_ROUNDS && running > 0; round++) {
        (void)signal_all(family, SIGSTOP, &running);
    }
    do {
        /* A list read while processes end can miss one, but hardly twice. */
        quiet = signal_all(family, SIGKILL, &running) == 0 ? quiet + 1 : 0;
        if (quiet == QUIET_ROUNDS) {
            return 0;
        }
        (void)poll(NULL, 0, quiet == 0 ? 1 : 0);
    } while (snp_now_us() < end);
    return EAGAIN;
}

static uint64_t kb_field(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (at == NULL) {
        return 0;
    }
    at += strlen(key);
    return number_at(at + strspn(at, " \t")) * 1024;
}

static bool has_memory(pid_t pid, char *text, size_t len)
{
    char path[48];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    return read_text(path, text, len) && strstr(text, "\nVmPTE:") != NULL;
}

/*
 * The tid under which the kernel shows a process's memory, and its status: another thread's if the
 * first has ended. 0 = none.
 */
static pid_t with_memory(pid_t pid, char *text, size_t len)
{
    char path[48];
    struct dirent *entry;
    pid_t found = has_memory(pid, text, len) ? pid : 0;
    DIR *dir = NULL;

    if (found == 0) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        dir = opendir(path);
    }
    while (dir != NULL && found == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        pid_t tid = pid_of(entry->d_name);
        found = tid > 0 && has_memory(tid, text, len) ? tid : 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return found;
}

pid_t snp_proc_shown(pid_t pid)
{
    char text[4096];

    return with_memory(pid, text, sizeof(text));
}

/* Page tables, anonymous and shared memory of a process: in full, or its share. */
static uint64_t memory_of(pid_t pid, bool divided)
{
    char path[48];
    char status[4096];
    char text[4096];
    uint64_t tables;

    pid = with_memory(pid, status, sizeof(status));
    if (pid == 0) {
        return 0;
    }
    tables = kb_field(status, "\nVmPTE:");
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    if (divided && read_text(path, text, sizeof(text))) {
        return tables + kb_field(text, "\nPss_Anon:") + kb_field(text, "\nPss_Shmem:");
    }
    return tables + kb_field(status, "\nRssAnon:") + kb_field(status, "\nRssShmem:");
}

void snp_family_usage(pid_t top, uint64_t limit, struct snp_family_usage *ret)
{
    struct snp_procs procs = {0};
    struct snp_proc first;

    *ret = (struct snp_family_usage){0};
    if (snp_proc_read(top, &first)) {
        ret->cpu_us = first.cpu_us;
    }
    snp_procs_below(top, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        ret->cpu_us += procs.at[i].cpu_us;
        ret->processes += is_over(&procs.at[i]) ? 0 : 1;
    }
    /* The cheap sum first; if it is near the limit, count shared pages once. */
    for (int divided = 0; limit != 0 && divided < 2; divided++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < procs.n; i++) {
            bytes += memory_of(procs.at[i].pid, divided != 0);
        }
        ret->memory_bytes = bytes;
        if (bytes <= limit / 2) {
            break;
        }
    }
    snp_procs_done(&procs);
}

uint64_t snp_proc_own_memory(pid_t top, pid_t inner)
{
    struct snp_procs procs = {0};
    uint64_t bytes = UINT64_MAX;

    snp_procs_below(top, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        char path[48];
        char text[4096];
        if (snp_proc_inner(procs.at[i].pid) != inner) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)procs.at[i].pid);
        if (read_text(path, text, sizeof(text))) {
            bytes = kb_field(text, "\nPrivate_Clean:") + kb_field(text, "\nPrivate_Dirty:");
        }
        break;
    }
    snp_procs_done(&procs);
    return bytes;
}

static bool is_one_of(pid_t inner, const pid_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == inner) {
            return true;
        }
    }
    return false;
}

void snp_copies_usage(pid_t top, const pid_t *inner, size_t n, struct snp_copies_usage *ret)
{
    struct snp_procs procs = {0};
    uint64_t largest = 0; /* of processes that are no copies: the interpreter */

    *ret = (struct snp_copies_usage){0};
    snp_procs_below(top, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        pid_t pid = procs.at[i].pid;

        ret->bytes += memory_of(pid, true);
        if (!is_one_of(snp_proc_inner(pid), inner, n)) {
            uint64_t mapped = memory_of(pid, false);

            largest = mapped > largest ? mapped : largest;
        }
    }
    snp_procs_done(&procs);
    ret->copies_bytes = n > 0 && ret->bytes > largest ? ret->bytes - largest : 0;
}

unsigned snp_procs_of_user(uid_t uid)
{
    struct snp_procs all = {0};
    unsigned n = 0;

    scan(&all);
    for (size_t i = 0; i < all.n; i++) {
        char path[48];
        struct stat st;
        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)all.at[i].pid);
        if (has_user(all.at[i].pid, uid) && stat(path, &st) == 0 && st.st_nlink > 2) {
            n += (unsigned)st.st_nlink - 2; /* one folder for each thread */
        }
    }
    snp_procs_done(&all);
    return n;
}
