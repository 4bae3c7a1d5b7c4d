/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays are compared by result and output, the latter per stream, because frame boundaries are
 * arbitrary. Tracebacks contain the cell's number and are not compared, nor is anything that
 * the journal no longer has.
 */
#include "daemon/cell/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/say.h"
#include "base/wire/frame.h"
#include "daemon/caps.h"
#include "daemon/session.h"
#include "daemon/session/exec.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "store/journal.h"

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

enum {
    NAMES_SHOWN = 8, /* files */
    NAME_CHARS = 256,
    REASON_BYTES = 16 << 10
};

static void name_add(struct snp_say *out, bool is_equal, const char *name)
{
    if (!is_equal) {
        snp_say(out, "%s%s", out->buf.len > 0 ? ", " : "", name);
    }
}

/* The i-th name of a list of files; the rest is a number. */
static void file_add(struct snp_say *out, const char *before, size_t i, const json_t *name)
{
    if (i < NAMES_SHOWN) {
        snp_say(out, "%s%s", out->buf.len > 0 ? ", " : "", i == 0 ? before : "");
        snp_say_string(out, name, NAME_CHARS);
    } else if (i == NAMES_SHOWN) {
        snp_say(out, " and more");
    }
}

/* Compare the contents of files that both runs changed. */
static void contents_compare(const json_t *was,
                             const json_t *is,
                             struct snp_say *differs,
                             struct snp_say *unread)
{
    static const char *const kinds[] = {"created", "modified"};
    const json_t *hashes[] = {json_object_get(was, "hashes"), json_object_get(is, "hashes")};
    size_t n_different = 0;
    size_t n_unread = 0;
    size_t i;
    json_t *name;

    for (size_t k = 0; k < SNP_ARRAY_LEN(kinds) && is_same(was, is, kinds[k]); k++) {
        json_array_foreach(json_object_get(is, kinds[k]), i, name)
        {
            const json_t *one = json_object_get(hashes[0], json_string_value(name));
            const json_t *other = json_object_get(hashes[1], json_string_value(name));

            if (one == NULL || other == NULL) {
                file_add(unread, "", n_unread++, name);
            } else if (json_equal(one, other) == 0) {
                file_add(differs, "contents of ", n_different++, name);
            }
        }
    }
}

static void reason_add(json_t *reasons, const char *before, struct snp_say *text)
{
    if (text->buf.len > 0) {
        (void)json_array_append_new(reasons, json_sprintf("%s: %s", before, snp_say_cstr(text)));
    }
}

/* Both ended with the same status. */
static int compare(struct snp_tx *tx, struct snp_cell_replay *replay, struct snp_err *err)
{
    static const char *const members[] = {"value", "result", "exit_code"};
    static const char *const lists[] = {"created", "modified", "deleted", "truncated"};
    static const char *const streams[STREAMS] = {"stdout", "stderr", "displays"};
    snp_autosay struct snp_say differs = SNP_SAY(REASON_BYTES);
    snp_autosay struct snp_say unread = SNP_SAY(REASON_BYTES);
    struct outcome was = {0};
    struct outcome is = {0};
    int r = outcome_read(tx, replay->session, replay->last, &was, err);

    SNP_THEN(r, outcome_read(tx, replay->session, replay->last_replay, &is, err));
    if (r == 0 && was.result != NULL && is.result != NULL) {
        const json_t *files[] = {json_object_get(was.result, "files"),
                                 json_object_get(is.result, "files")};
        bool same_files = true;

        for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
            name_add(&differs, is_same(was.result, is.result, members[i]), members[i]);
        }
        for (size_t i = 0; i < SNP_ARRAY_LEN(lists); i++) {
            same_files = same_files && is_same(files[0], files[1], lists[i]);
        }
        name_add(&differs, is_same_error(was.result, is.result), "error");
        name_add(&differs, same_files, "files");
        contents_compare(files[0], files[1], &differs, &unread);
    }
    for (size_t i = 0; r == 0 && i < STREAMS; i++) {
        name_add(&differs, is_same_output(&was, &is, i), streams[i]);
    }
    if (r == 0) {
        replay->differs = json_array();
        reason_add(replay->differs, "its replay differs from its first run", &differs);
        reason_add(replay->differs, "contents of files not compared with its first run", &unread);
    }
    outcome_done(&was);
    outcome_done(&is);
    return r;
}

/* Reading ------------------------------------------------------------------------------------- */

int snp_replay_read(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_cell_replay *replay = arg;
    struct snp_journal_cell row;
    int r;

    snp_replay_done(replay);
    SNP_TRY(replay->last == 0 ? 0 : compare(tx, replay, err));
    if (replay->cell == 0) {
        return 0;
    }
    SNP_TRY(snp_journal_cell_get(tx, replay->session, replay->cell, &row, err));
    replay->argv = row.argv == NULL ? NULL : strdup(row.argv);
    replay->spec = row.spec == NULL ? NULL : strdup(row.spec);
    (void)snprintf(replay->kind, sizeof(replay->kind), "%s", row.kind);
    snp_buf_init(&replay->code, SNP_FRAME_BODY_MAX);
    r = snp_journal_cell_part(tx, replay->session, replay->cell, SNP_PART_CODE, &replay->code, err);
    if (r == SNP_E_NOT_FOUND && strcmp(replay->kind, "python") != 0) {
        r = 0; /* it has none */
    }
    replay->code_len = replay->code.len;
    if (r == 0 && row.stdin_bytes > 0) {
        r = snp_journal_cell_part(tx, replay->session, replay->cell, SNP_PART_STDIN, &replay->code,
                                  err);
    }
    return r;
}

void snp_replay_done(struct snp_cell_replay *replay)
{
    json_decref(SNP_TAKE_PTR(replay->differs));
    free(SNP_TAKE_PTR(replay->argv));
    free(SNP_TAKE_PTR(replay->spec));
    snp_buf_done(&replay->code);
}

/* An imported file may have written it. */
static int stored_parse(const char *text, json_t **ret, struct snp_err *err)
{
    return text == NULL ? 0 : snp_json_parse_any(text, strlen(text), ret, err);
}

int snp_replay_exec(const struct snp_cell_replay *replay,
                    struct snp_session *session,
                    struct snp_exec **ret,
                    struct snp_err *err)
{
    snp_autojson json_t *argv = NULL;
    snp_autojson json_t *was = NULL;
    snp_autojson json_t *head = NULL;
    struct snp_exec *exec;
    const char *bytes = snp_buf_bytes(&replay->code);
    int r;

    SNP_TRY(stored_parse(replay->argv, &argv, err));
    SNP_TRY(stored_parse(replay->spec, &was, err));
    head = SNP_WRITE(snp_exec_request, SNP_EXEC_DEFAULTS, .kind = replay->kind,
                     .code_len = replay->code_len, .stdin = snp_json_bool(was, "stdin", false),
                     .open_stdin = snp_json_bool(was, "open_stdin", false),
                     .internal = snp_json_bool(was, "internal", false), .argv = argv);
    exec = calloc(1, sizeof(*exec));
    if (exec == NULL || head == NULL) {
        free(exec);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_exec_spec_read(head, replay->code.len, &exec->spec, err);
    if (r == 0) {
        exec->raw = malloc(replay->code.len + 1);
        r = exec->raw == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    if (r < 0) {
        snp_exec_spec_done(&exec->spec);
        free(exec);
        return r;
    }
    SNP_ASSERT(exec->raw != NULL);
    if (bytes != NULL) {
        memcpy(exec->raw, bytes, replay->code.len);
    }
    exec->raw_len = replay->code.len;
    exec->wall_ms = (uint64_t)snp_json_int(was, "wall_ms",
                                           (int64_t)session->policy.limits.value[SNP_LIMIT_WALL]);
    exec->replay_of = replay->cell;
    snp_session_ref(session);
    exec->session = session;
    *ret = exec;
    return 0;
}
