/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/local/deleted.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/macro.h"
#include "tier/host/procs.h"

enum {
    FILES_MAX = 1 << 16,
    MAPPING_BYTES = 256
};

#define DELETED " (deleted)"

struct deleted_file {
    dev_t device;
    ino_t number;
    uint64_t bytes;
};

struct deleted_scan {
    const char *folder;
    dev_t device;         /* of the folder */
    struct snp_buf files; /* of struct deleted_file, once for each occurrence */
    uint64_t n_mappings;
    bool is_over; /* more than any limit */
};

static void add_file(struct deleted_scan *m, dev_t device, ino_t number, uint64_t bytes)
{
    const struct deleted_file file = {device, number, bytes};

    m->is_over |= snp_buf_add(&m->files, &file, sizeof(file)) < 0;
}

static void look_at_table(struct deleted_scan *m, pid_t pid, const char *thread)
{
    char path[80];
    struct dirent *entry;
    struct stat st;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/fd", (int)pid, thread);
    dir = opendir(path);
    while (dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
            st.st_nlink == 0 && st.st_dev == m->device) {
            add_file(m, st.st_dev, st.st_ino, (uint64_t)st.st_blocks * 512);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static uint64_t number_at(const char **at, unsigned base)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;

    for (; **at != '\0'; ++*at) {
        const char *digit = memchr(digits, **at, base);
        if (digit == NULL) {
            break;
        }
        value = value * base + (uint64_t)(digit - digits);
    }
    return value;
}

static const char *next_field(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

/* For all threads: each may have a separate descriptor table. */
static void look_at_descriptors(struct deleted_scan *m, pid_t pid)
{
    char path[48];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        if (entry->d_name[0] != '.') {
            look_at_table(m, pid, entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* One line of maps: range, permissions, offset, device, inode, name. */
static void look_at_mapping(struct deleted_scan *m, pid_t pid, const char *line)
{
    const char *name = strchr(line, '/');
    size_t n = strlen(line);
    char range[48];
    char path[128];
    struct stat st;
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t number;

    m->n_mappings++;
    if (name == NULL || strncmp(name, m->folder, strlen(m->folder)) != 0 || n < strlen(DELETED) ||
        strcmp(line + n - strlen(DELETED), DELETED) != 0) {
        return;
    }
    (void)snprintf(range, sizeof(range), "%.*s", (int)strcspn(line, " "), line);
    (void)snprintf(path, sizeof(path), "/proc/%d/map_files/%s", (int)pid, range);
    if (stat(path, &st) == 0) { /* root may read it */
        add_file(m, st.st_dev, st.st_ino, (uint64_t)st.st_blocks * 512);
        return;
    }
    start = number_at(&line, 16);
    line += *line == '-' ? 1 : 0;
    end = number_at(&line, 16);
    line = next_field(next_field(line));
    offset = number_at(&line, 16);
    line = next_field(next_field(line));
    number = number_at(&line, 10);
    add_file(m, m->device, (ino_t)number, offset + (end - start));
}

static void look_at_mappings(struct deleted_scan *m, pid_t pid)
{
    char path[48];
    char *line = NULL;
    size_t room = 0;
    FILE *maps;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    maps = fopen(path, "re");
    while (maps != NULL && (n = getline(&line, &room, maps)) > 0) {
        line[n - 1] = '\0';
        look_at_mapping(m, pid, line);
    }
    free(line);
    if (maps != NULL) {
        (void)fclose(maps);
    }
}

static int by_number(const void *left, const void *right)
{
    const struct deleted_file *a = left;
    const struct deleted_file *b = right;

    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number ? 1 : 0;
}

/* Sum each file once, with its largest observed size. */
static uint64_t sum(struct deleted_file *files, size_t n)
{
    uint64_t bytes = 0;
    uint64_t most = 0;

    qsort(files, n, sizeof(*files), by_number);
    for (size_t i = 0; i < n; i++) {
        most = files[i].bytes > most ? files[i].bytes : most;
        if (i + 1 == n || by_number(&files[i], &files[i + 1]) != 0) {
            bytes += most;
            most = 0;
        }
    }
    return bytes;
}

void snp_deleted_measure(pid_t top, const char *folder, struct snp_deleted *ret)
{
    struct deleted_scan m = {.folder = folder};
    struct snp_procs procs = {0};
    struct stat st;

    *ret = (struct snp_deleted){0};
    if (top <= 1 || stat(folder, &st) < 0) {
        return;
    }
    m.device = st.st_dev;
    snp_buf_init(&m.files, FILES_MAX * sizeof(struct deleted_file));
    snp_procs_below(top, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        look_at_descriptors(&m, procs.at[i].pid);
        look_at_mappings(&m, snp_proc_shown(procs.at[i].pid));
    }
    snp_procs_done(&procs);
    if (m.files.len > 0) {
        ret->file_bytes = sum((struct deleted_file *)(void *)snp_buf_bytes(&m.files),
                              m.files.len / sizeof(struct deleted_file));
    }
    ret->file_bytes = m.is_over ? UINT64_MAX / 2 : ret->file_bytes;
    ret->mapping_bytes = m.n_mappings * MAPPING_BYTES;
    snp_buf_done(&m.files);
}
