/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    TEXT_MAX = 4096,
    START_FIELD = 20, /* fields behind the state in /proc/PID/stat */
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

uint64_t snp_process_began(uint64_t pid)
{
    snp_autofree char *path = snp_format("/proc/%llu/stat", (unsigned long long)pid);
    snp_autofree char *text = NULL;
    const char *at;
    char number[NUMBER_MAX];
    uint64_t start = 0;
    struct snp_err err;

    if (path == NULL || snp_file_read(path, TEXT_MAX, &text, NULL, &err) < 0) {
        return 0;
    }
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at == NULL || at[1] == '\0' || strchr("ZXx", at[2]) != NULL) {
        return 0;
    }
    for (int field = 0; at != NULL && field < START_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return 0;
    }
    (void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(at + 1, " \n"), at + 1);
    return snp_parse_u64(number, &start) == 0 ? start : 0;
}

void snp_process_mark(uint64_t pid, char out[SNP_PROCESS_MARK_MAX])
{
    snp_autofree char *boot = snp_boot_id();
    uint64_t start = pid == 0 || boot == NULL ? 0 : snp_process_began(pid);

    out[0] = '\0';
    if (start != 0) {
        (void)snprintf(out, SNP_PROCESS_MARK_MAX, "%llu %llu %.48s", (unsigned long long)pid,
                       (unsigned long long)start, boot);
    }
}

bool snp_process_is_over(const char *mark)
{
    char now[SNP_PROCESS_MARK_MAX];
    char number[NUMBER_MAX];
    uint64_t pid = 0;

    (void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(mark, " "), mark);
    snp_process_mark(snp_parse_u64(number, &pid) == 0 ? pid : 0, now);
    return strcmp(mark, now) != 0;
}
