/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor reads from pid 1, which code that broke it could say: the first byte
 * chooses the record ('C' changes, 'L' a listing, 'E' an exit, 'M' memory), the rest is its
 * body. Answers are JSON that fits a frame, with texts that are UTF-8 and lists of the
 * promised lengths.
 */
#include <string.h>

#include "base/str.h"
#include "base/wire/frame.h"
#include "fuzz/target.h"
#include "guest/pid1/wire.h"
#include "tier/engine/cell/cell.h"
#include "tier/engine/cell/result.h"
#include "tier/engine/program.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"
#include "tier/native/native.h"

enum {
    FILES_MAX = 1000 /* of all lists of a result together */
};

static void check_fits(const json_t *answer)
{
    snp_autofree char *text = snp_json_text(answer);

    SNP_ASSERT(text != NULL);
    SNP_ASSERT(strlen(text) <= SNP_FRAME_HEAD_MAX);
    SNP_ASSERT(snp_utf8_valid(text, strlen(text)));
}

static void changes(const char *bytes, size_t n)
{
    static const char *const kinds[] = {"created", "modified", "deleted"};
    struct snp_changes_head head = {0};
    snp_autojson json_t *files = snp_result_files(bytes, n, -1, &head);
    size_t total = 0;

    if (files == NULL) {
        SNP_ASSERT(n < 17);
        return;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        SNP_ASSERT(json_is_array(json_object_get(files, kinds[i])));
        total += json_array_size(json_object_get(files, kinds[i]));
    }
    SNP_ASSERT(total <= FILES_MAX && total <= n / 18);
    SNP_ASSERT(json_is_boolean(json_object_get(files, "truncated")));
    SNP_ASSERT((head.flags & SNP_CHANGES_TRUNCATED) == 0 ||
               json_is_true(json_object_get(files, "truncated")));
    check_fits(files);
}

static void listing(const char *bytes, size_t n)
{
    snp_autojson json_t *answer = snp_result_entries(bytes, n);
    size_t i;
    json_t *entry;

    SNP_ASSERT(json_is_boolean(json_object_get(answer, "truncated")));
    SNP_ASSERT(json_array_size(json_object_get(answer, "entries")) <= n / 18);
    json_array_foreach(json_object_get(answer, "entries"), i, entry)
    {
        SNP_ASSERT(json_is_string(json_object_get(entry, "name")));
        SNP_ASSERT(json_is_string(json_object_get(entry, "type")));
        SNP_ASSERT(snp_json_int(entry, "size", -1) >= 0);
    }
    check_fits(answer);
}

/* Without a cell these only change what is remembered of the session. */
static void idle_record(char kind, const char *bytes, size_t n)
{
    struct snp_supervisor supervisor = {.ops = &snp_native_ops.tier, .events = &snp_tier_events};
    struct snp_sandbox sandbox = {.supervisor = &supervisor, .has_interpreter = true};
    uint64_t value;

    if (kind == 'E' && n == 21) {
        snp_cell_on_exit(&sandbox, 0, bytes);
        SNP_ASSERT(sandbox.has_interpreter == (bytes[0] != SNP_INIT_INTERPRETER));
    } else if (kind == 'M' && n == sizeof(value) + 1) {
        memcpy(&value, bytes, sizeof(value));
        snp_cell_on_memory(&sandbox, value, bytes[sizeof(value)] != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *body = (const char *)bytes + 1;

    if (n == 0) {
        return 0;
    }
    if (bytes[0] == 'C') {
        changes(body, n - 1);
    } else if (bytes[0] == 'L') {
        listing(body, n - 1);
    } else {
        idle_record((char)bytes[0], body, n - 1);
    }
    return 0;
}
