/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    TEXT_MAX = 4096,
    START_FIELD = 20, /* fields after the state in /proc/PID/stat */
    NUMBER_MAX = 32,
};

char *snp_boot_id(void)
{
    char *text = NULL;
    struct snp_err err;

    if (snp_file_read("/proc/sys/kernel/random/boot_id", TEXT_MAX, &text, NULL, &err) < 0) {
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* *ret_start: 0 = a zombie. */
static int read_start(uint64_t pid, uint64_t *ret_start, struct snp_err *err)
{
    snp_autofree char *path = snp_format("/proc/%llu/stat", (unsigned long long)pid);
    snp_autofree char *text = NULL;
    const char *at;
    char number[NUMBER_MAX];

    *ret_start = 0;
    SNP_TRY_MEMORY(path, err);
    SNP_TRY(snp_file_read(path, TEXT_MAX, &text, NULL, err));
    at = strrchr(text, ')'); /* the name before it may contain anything */
    if (at != NULL && at[1] != '\0' && strchr("ZXx", at[2]) != NULL) {
        return 0;
    }
    for (int field = 0; at != NULL && field < START_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    (void)snprintf(number, sizeof(number), "%.*s", at == NULL ? 0 : (int)strcspn(at + 1, " \n"),
                   at == NULL ? "" : at + 1);
    return snp_parse_u64(number, ret_start) == 0
               ? 0
               : snp_fail(err, SNP_E_INVALID, "%s is not understood", path);
}

uint64_t snp_process_began(uint64_t pid)
{
    uint64_t start;
    struct snp_err err;

    return read_start(pid, &start, &err) < 0 ? 0 : start;
}

/* The scope of process numbers: "BOOT NAMESPACE"; NULL: unknown. */
static char *numbers_place(void)
{
    snp_autofree char *boot = snp_boot_id();
    struct stat st;

    return boot == NULL || stat("/proc/self/ns/pid", &st) < 0
               ? NULL
               : snp_format("%.48s %llu", boot, (unsigned long long)st.st_ino);
}

void snp_process_mark(uint64_t pid, char out[SNP_PROCESS_MARK_MAX])
{
    snp_autofree char *place = numbers_place();
    uint64_t start = 0;
    struct snp_err err;

    out[0] = '\0';
    if (pid == 0 || pid > INT_MAX || place == NULL ||
        (read_start(pid, &start, &err) < 0 && kill((pid_t)pid, 0) == 0)) {
        return;
    }
    (void)snprintf(out, SNP_PROCESS_MARK_MAX, "%llu %llu %s", (unsigned long long)pid,
                   (unsigned long long)start, place);
}

/* A number and the space after it. */
static bool take_number(const char **at, uint64_t *ret)
{
    char number[NUMBER_MAX];
    size_t len = strcspn(*at, " ");

    (void)snprintf(number, sizeof(number), "%.*s", (int)len, *at);
    *at += (*at)[len] == ' ' ? len + 1 : len;
    return snp_parse_u64(number, ret) == 0;
}

bool snp_process_is_over(const char *mark)
{
    snp_autofree char *place = numbers_place();
    uint64_t pid;
    uint64_t start;
    uint64_t now;
    struct snp_err err;

    if (place == NULL || !take_number(&mark, &pid) || !take_number(&mark, &start) ||
        pid > INT_MAX) {
        return false;
    }
    if (strncmp(place, mark, strcspn(place, " ")) != 0) {
        return true; /* from before the last boot */
    }
    if (strcmp(place, mark) != 0) {
        return false; /* its number means another process in this namespace */
    }
    return (kill((pid_t)pid, 0) < 0 && errno == ESRCH) ||
           (read_start(pid, &now, &err) == 0 && now != start);
}
