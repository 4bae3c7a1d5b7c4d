/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tar says of an archive of a file system before it is unpacked: a table, line by line. A
 * line that passes is a file, folder or link, whose path and link do not climb out, and all
 * that passed together is not too large.
 */
#include <string.h>

#include "fuzz/target.h"

/* NOLINTNEXTLINE(bugprone-suspicious-include): without the readers of the result */
#include "cli/setup/rootfs.c"

static bool climbs(const char *text, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i++) {
        if (memcmp(text + i, "/../", 4) == 0) {
            return true;
        }
    }
    return n >= 3 && memcmp(text + n - 3, "/..", 3) == 0;
}

/* Where the path begins: behind five fields. */
static size_t path_at(const char *line, size_t len)
{
    size_t at = 0;

    for (int field = 0; field < 5; field++) {
        while (at < len && line[at] != ' ') {
            at++;
        }
        while (at < len && line[at] == ' ') {
            at++;
        }
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;
    uint64_t total = 0;

    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t len = newline == NULL ? n - at : (size_t)(newline - text) - at;
        uint64_t before = total;
        struct snp_err err = {0};
        int r = line_check(text + at, len, &total, &err);

        SNP_ASSERT(total >= before);
        if (r == 0 && memchr(text + at, '\0', len) == NULL && len > 0) {
            size_t path = path_at(text + at, len);
            SNP_ASSERT(strchr("-dlh", text[at]) != NULL);
            SNP_ASSERT(path == len || text[at + path] != '/');
            SNP_ASSERT(!climbs(text + at + path, len - path));
            SNP_ASSERT(total <= UNPACKED_MAX);
        }
        if (r < 0) {
            SNP_ASSERT(err.msg[0] != '\0');
            break;
        }
        at += len + 1;
    }
    return 0;
}
