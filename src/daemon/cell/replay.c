/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare a replay by result and output. Output is compared per stream, because frame boundaries
 * are arbitrary. Tracebacks contain the cell's number and are not compared, nor is anything that
 * the journal no longer has.
 */
#include "daemon/cell/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "daemon/caps.h"
#include "store/journal.h"
#include "wire/frame.h"

enum {
    STDOUT = 0,
    STDERR,
    SHOWN,
    STREAMS,
};

struct outcome {
    json_t *result;                 /* owned; NULL = not in the journal */
    bool has_output;                /* the complete output */
    struct snp_buf output[STREAMS]; /* owned */
};

static void outcome_done(struct outcome *outcome)
{
    json_decref(outcome->result);
    for (size_t i = 0; i < STREAMS; i++) {
        snp_buf_done(&outcome->output[i]);
    }
}

static int frame_add(struct outcome *outcome, const struct snp_frame *frame)
{
    snp_autojson json_t *head = json_loadb(frame->head, frame->head_len, 0, NULL);
    const char *event = snp_json_str(head, "event", "");
    const bool is_gap = strcmp(event, "gap") == 0; /* its hash stands for the omitted part */
    const char *name = is_gap ? snp_json_str(head, "stream", "") : event;
    struct snp_buf *buf = &outcome->output[strcmp(name, "stdout") == 0   ? STDOUT
                                           : strcmp(name, "stderr") == 0 ? STDERR
                                                                         : SHOWN];
    int r = 0;

    if (strcmp(event, "call") == 0) {
        return 0; /* the request shows in its effects */
    }
    if (is_gap || buf == &outcome->output[SHOWN]) {
        r = snp_buf_add(buf, frame->head, frame->head_len);
    }
    return r < 0 ? r : snp_buf_add(buf, frame->raw, frame->raw_len);
}

static void output_split(struct outcome *outcome, struct snp_buf *events)
{
    struct snp_frame frame;
    struct snp_err ignored;
    size_t size = 0;
    bool has = true;

    for (size_t i = 0; i < STREAMS; i++) {
        snp_buf_init(&outcome->output[i], SNP_CAP_SHOWN_BYTES);
    }
    while (outcome->has_output && events->len > 0) {
        outcome->has_output =
            snp_frame_peek(events, SNP_FRAME_BODY_MAX, &frame, &size, &has, &ignored) == 0 && has &&
            frame_add(outcome, &frame) == 0;
        snp_buf_consume(events, outcome->has_output ? size : 0);
    }
}

static int outcome_read(
    struct snp_tx *tx, const char *session, uint64_t cell, struct outcome *ret, struct snp_err *err)
{
    snp_autobuf struct snp_buf result = {0};
    snp_autobuf struct snp_buf events = {0};
    struct snp_journal_cell row;
    struct snp_err gone;
    int r;

    r = snp_journal_cell_get(tx, session, cell, &row, err);
    if (r < 0) {
        return r == SNP_E_NOT_FOUND ? 0 : r;
    }
    ret->has_output = row.has_result && !row.is_dropped;
    snp_buf_init(&result, (size_t)2 * SNP_FRAME_HEAD_MAX);
    snp_buf_init(&events, SNP_CAP_SHOWN_BYTES);
    if (row.has_result &&
        snp_journal_cell_part(tx, session, cell, SNP_PART_RESULT, &result, &gone) == 0) {
        ret->result = json_loadb(snp_buf_bytes(&result), result.len, 0, NULL);
    }
    r = snp_journal_cell_part(tx, session, cell, SNP_PART_RAW, &events, &gone);
    ret->has_output = ret->has_output && (r == 0 || r == SNP_E_NOT_FOUND);
    output_split(ret, &events);
    return 0;
}

static bool is_same(const json_t *a, const json_t *b, const char *name)
{
    const json_t *one = json_object_get(a, name);
    const json_t *other = json_object_get(b, name);

    return json_equal(one, other) != 0 ||
           (json_is_object(a) == json_is_object(b) && (one == NULL || json_is_null(one)) &&
            (other == NULL || json_is_null(other)));
}

static bool is_same_error(const json_t *a, const json_t *b)
{
    const json_t *one = json_object_get(a, "error");
    const json_t *other = json_object_get(b, "error");

    return is_same(one, other, "type") && is_same(one, other, "message");
}

static bool is_same_output(const struct outcome *a, const struct outcome *b, size_t stream)
{
    const struct snp_buf *one = &a->output[stream];
    const struct snp_buf *other = &b->output[stream];

    return !a->has_output || !b->has_output ||
           (one->len == other->len &&
            (one->len == 0 || memcmp(snp_buf_bytes(one), snp_buf_bytes(other), one->len) == 0));
}

static void name_add(char out[SNP_REPLAY_TEXT], bool is_equal, const char *name)
{
    size_t used = strlen(out);

    if (!is_equal) {
        (void)snprintf(out + used, SNP_REPLAY_TEXT - used, "%s%s", used > 0 ? ", " : "", name);
    }
}

int snp_replay_compare(struct snp_tx *tx,
                       const char *session,
                       uint64_t cell,
                       uint64_t replay,
                       char out[SNP_REPLAY_TEXT],
                       struct snp_err *err)
{
    static const char *const members[] = {"value", "result", "exit_code"};
    static const char *const streams[STREAMS] = {"stdout", "stderr", "displays"};
    struct outcome was = {0};
    struct outcome is = {0};
    int r = outcome_read(tx, session, cell, &was, err);

    SNP_THEN(r, outcome_read(tx, session, replay, &is, err));
    out[0] = '\0';
    if (r == 0 && was.result != NULL && is.result != NULL) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
            name_add(out, is_same(was.result, is.result, members[i]), members[i]);
        }
        name_add(out, is_same_error(was.result, is.result), "error");
        name_add(out, is_same(was.result, is.result, "files"), "files");
    }
    for (size_t i = 0; r == 0 && i < STREAMS; i++) {
        name_add(out, is_same_output(&was, &is, i), streams[i]);
    }
    outcome_done(&was);
    outcome_done(&is);
    return r;
}
