/* SPDX-License-Identifier: Apache-2.0 */
/* The session of a run. */
#include "run/tool/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "base/text/image.h"
#include "wire/exec.h"
#include "wire/session.h"
#include "wire/snapshot.h"

enum {
    STREAM_MAX = 1 << 20, /* bytes kept of a stream; the daemon sends less */
    INPUT_MAX = 15 << 20,
    IMAGES_MAX = 4,            /* kept of a cell */
    IMAGE_BYTES_MAX = 1 << 20, /* of these together */
};

int snp_box_init(struct snp_box *box,
                 struct snp_async *async,
                 const char *session,
                 const json_t *exec)
{
    *box = (struct snp_box){
        .async = async, .exec = json_copy((json_t *)(uintptr_t)exec), .images = json_array()};
    snp_buf_init(&box->out, STREAM_MAX);
    snp_buf_init(&box->err_out, STREAM_MAX);
    (void)snprintf(box->session, sizeof(box->session), "%s", session);
    return box->exec == NULL || box->images == NULL ? SNP_E_NOMEM : 0;
}

void snp_box_done(struct snp_box *box)
{
    json_decref(box->exec);
    json_decref(box->shown);
    json_decref(box->images);
    snp_buf_done(&box->out);
    snp_buf_done(&box->err_out);
    *box = (struct snp_box){0};
}

void snp_box_cell_done(struct snp_box_cell *cell)
{
    json_decref(cell->argv);
    cell->argv = NULL;
}

/* Calls ------------------------------------------------------------------------------------- */

static void image_keep(struct snp_box *box, const char *bytes, size_t n)
{
    const char *type = snp_image_type(bytes, n);
    snp_autofree char *data = NULL;

    if (type == NULL) {
        return;
    }
    if (json_array_size(box->images) >= IMAGES_MAX || n > IMAGE_BYTES_MAX - box->image_bytes) {
        box->images_omitted++;
        return;
    }
    data = snp_base64(bytes, n);
    if (data == NULL || json_array_append_new(
                            box->images, json_pack("{s:s, s:s}", "type", type, "data", data)) < 0) {
        box->images_omitted++;
        return;
    }
    box->image_bytes += n;
}

/* The type is detected from the bytes, not taken from the code. */
static void on_display(struct snp_box *box, const json_t *head, const char *raw, size_t raw_len)
{
    const json_t *parts = json_object_get(head, "mime");
    size_t at = 0;
    size_t i;
    json_t *part;

    json_array_foreach((json_t *)(uintptr_t)parts, i, part)
    {
        json_int_t n = json_integer_value(json_array_get(part, 1));

        if (n < 0 || (uint64_t)n > raw_len - at) {
            return;
        }
        image_keep(box, raw + at, (size_t)n);
        at += (size_t)n;
    }
}

static void on_event(void *ctx, const json_t *head, const char *raw, size_t raw_len)
{
    struct snp_box *box = ctx;
    const char *event = snp_json_str(head, "event", "");
    bool is_err = strcmp(snp_json_str(head, "stream", event), "stderr") == 0;
    struct snp_buf *stream = is_err ? &box->err_out : &box->out;
    struct snp_text_gap *gap = is_err ? &box->err_gap : &box->out_gap;
    size_t room = STREAM_MAX - stream->len;

    if (strcmp(event, "call") == 0 && box->call != NULL) {
        box->call(box->call_ctx, (uint32_t)snp_json_int(head, "call", 0), raw, raw_len);
    } else if (strcmp(event, "gap") == 0) {
        gap->at = stream->len;
        gap->chars = (size_t)snp_json_int(head, "omitted_chars", 0);
    } else if (strcmp(event, "display") == 0) {
        on_display(box, head, raw, raw_len);
    } else if (strcmp(event, "stderr") == 0 || strcmp(event, "stdout") == 0) {
        (void)!snp_buf_add(stream, raw, raw_len < room ? raw_len : room);
    }
}

static void finish(struct snp_box *box, const struct snp_err *err, const json_t *result)
{
    void (*done)(void *ctx, const struct snp_err *err, const json_t *result) = box->done;

    box->open_id = 0;
    box->done = NULL;
    done(box->ctx, err, result);
}

static void on_done(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    (void)raw;
    (void)raw_len;
    finish(ctx, err, head);
}

static void begin(struct snp_box *box,
                  void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                  void *ctx)
{
    SNP_ASSERT(box->done == NULL);
    box->done = done;
    box->ctx = ctx;
    box->is_interrupted = false;
    box->out_gap = (struct snp_text_gap){0};
    box->err_gap = (struct snp_text_gap){0};
    box->image_bytes = 0;
    box->images_omitted = 0;
    (void)json_array_clear(box->images);
    snp_buf_clear(&box->out);
    snp_buf_clear(&box->err_out);
}

/* Send a request; on failure nothing was begun. */
static int ask(struct snp_box *box, const struct snp_async_call *call, struct snp_err *err)
{
    int r = call->head == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                               : snp_async_call(box->async, call, &box->open_id, err);

    if (r < 0) {
        box->done = NULL;
    }
    return r;
}

static json_t *exec_head(const struct snp_box *box, const struct snp_box_cell *cell)
{
    snp_autojson json_t *limits = cell->wall_ms > 0
                                      ? json_pack("{s:I}", "timeout_ms", (json_int_t)cell->wall_ms)
                                      : json_object();
    struct snp_exec_request request;

    snp_record_read(box->exec, &snp_exec_request_form, &request);
    request.session = box->session;
    request.kind = cell->code == NULL ? "command" : "python";
    request.code_len = cell->code == NULL ? 0 : strlen(cell->code);
    request.stdin = cell->input != NULL;
    request.stream = false;
    request.limits = limits;
    request.argv = cell->argv;
    request.calls = cell->code != NULL && box->call != NULL;
    return limits == NULL ? NULL : snp_record_write(&snp_exec_request_form, &request);
}

int snp_box_run(struct snp_box *box,
                const struct snp_box_cell *cell,
                void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                void *ctx,
                struct snp_err *err)
{
    snp_autobuf struct snp_buf raw = SNP_BUF(INPUT_MAX);
    struct snp_async_call call = {.event = on_event, .done = on_done, .ctx = box};
    int r = 0;

    if (cell->code != NULL) {
        r = snp_buf_adds(&raw, cell->code);
    }
    if (r == 0 && cell->input != NULL) {
        r = snp_buf_adds(&raw, cell->input);
    }
    if (r < 0) {
        return snp_fail(err, r, "a cell can have at most %d MiB of code and input",
                        INPUT_MAX >> 20);
    }
    begin(box, done, ctx);
    call.head = exec_head(box, cell);
    call.raw = raw.len == 0 ? "" : snp_buf_bytes(&raw);
    call.raw_len = raw.len;
    return ask(box, &call, err);
}

/* The cell shows whether it arrived in time. */
static void on_answered(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    (void)ctx;
    (void)err;
    (void)head;
    (void)raw;
    (void)raw_len;
}

void snp_box_answer(struct snp_box *box, uint32_t number, bool is_ok, json_t *answer)
{
    static const char no_room[] = "{\"error\": \"out of memory\"}";
    snp_autofree char *text = answer == NULL ? NULL : snp_json_text(answer);
    const char *raw = text == NULL ? no_room : text;
    const struct snp_async_call call = {
        .head = SNP_WRITE(snp_answer_request, .request = box->open_id, .call = number,
                          .ok = is_ok && text != NULL),
        .raw = raw,
        .raw_len = strlen(raw),
        .done = on_answered,
        .ctx = box,
    };
    struct snp_err ignored;
    uint32_t id;

    json_decref(answer);
    if (box->open_id != 0 && call.head != NULL) {
        (void)!snp_async_call(box->async, &call, &id, &ignored);
    } else {
        json_decref(call.head);
    }
}

void snp_box_interrupt(struct snp_box *box)
{
    if (box->open_id != 0 && !box->is_interrupted) {
        box->is_interrupted = true;
        snp_async_interrupt(box->async, box->open_id);
    }
}

int snp_box_keep(struct snp_box *box,
                 int64_t step,
                 void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                 void *ctx,
                 struct snp_err *err)
{
    const struct snp_async_call call = {
        .head = SNP_WRITE(snp_snapshot_request, .session = box->session, .run = box->session,
                          .step = (uint64_t)step),
        .done = on_done,
        .ctx = box,
    };

    begin(box, done, ctx);
    return ask(box, &call, err);
}

int snp_box_destroy(struct snp_box *box,
                    void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                    void *ctx,
                    struct snp_err *err)
{
    const struct snp_async_call call = {
        .head =
            SNP_WRITE(snp_sessions_destroy_request, .session = box->session, .keep_steps = true),
        .done = on_done,
        .ctx = box,
    };

    begin(box, done, ctx);
    return ask(box, &call, err);
}

/* The journal ------------------------------------------------------------------------------- */

/* Handle cell.show. Its result, if any, has the form of docs/result.md. */
static void on_show(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_box *box = ctx;
    const json_t *result = json_object_get(head, "result");

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        finish(box, err, NULL);
        return;
    }
    json_decref(box->shown);
    box->shown = json_is_object(result)
                     ? json_incref((json_t *)(uintptr_t)result)
                     : json_pack("{s:O, s:O}", "status", json_object_get(head, "status"), "cell",
                                 json_object_get(head, "cell"));
    finish(box, NULL, box->shown);
}

static void show_ask(struct snp_box *box, int64_t cell)
{
    struct snp_err err;
    const struct snp_async_call call = {
        .head = SNP_WRITE(snp_cell_show_request, .session = box->session, .cell = (uint64_t)cell),
        .event = on_event,
        .done = on_show,
        .ctx = box,
    };

    if (call.head == NULL || snp_async_call(box->async, &call, &box->open_id, &err) < 0) {
        (void)snp_fail(&err, SNP_E_NOMEM, "the journal could not be asked");
        finish(box, &err, NULL);
    }
}

static void on_history(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_box *box = ctx;
    const json_t *row = json_array_get(json_object_get(head, "cells"), 0);
    int64_t number = snp_json_int(row, "cell", 0);
    bool is_unopened = err != NULL && err->code == SNP_E_NOT_FOUND && box->after == 0;

    (void)raw;
    (void)raw_len;
    if (err != NULL && !is_unopened) {
        finish(box, err, NULL);
    } else if (is_unopened || number <= box->after ||
               snp_streq(snp_json_str(row, "status", ""), "refused")) {
        finish(box, NULL, NULL);
    } else {
        show_ask(box, number);
    }
}

int snp_box_recall(struct snp_box *box,
                   int64_t after,
                   void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                   void *ctx,
                   struct snp_err *err)
{
    const struct snp_async_call call = {
        .head = SNP_WRITE(snp_history_request, .session = box->session, .limit = 1),
        .done = on_history,
        .ctx = box,
    };

    begin(box, done, ctx);
    box->after = after;
    return ask(box, &call, err);
}
