/* SPDX-License-Identifier: Apache-2.0 */
/* The session of a run. */
#include "run/tool/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "base/text/image.h"
#include "sandbox/sandboxes.h"

enum {
    STREAM_MAX = 1 << 20, /* bytes kept of a stream; the daemon sends less */
    INPUT_MAX = 15 << 20,
    IMAGES_MAX = 4,            /* kept of a cell */
    IMAGE_BYTES_MAX = 1 << 20, /* of these together */
};

int snp_box_init(struct snp_box *box,
                 struct snipara *sandbox,
                 const char *session,
                 const json_t *exec)
{
    *box = (struct snp_box){
        .sandbox = sandbox, .exec = json_copy((json_t *)(uintptr_t)exec), .images = json_array()};
    snp_buf_init(&box->out, STREAM_MAX);
    snp_buf_init(&box->err_out, STREAM_MAX);
    (void)snprintf(box->session, sizeof(box->session), "%s", session);
    return box->exec == NULL || box->images == NULL ? SNP_E_NOMEM : 0;
}

void snp_box_done(struct snp_box *box)
{
    snipara_free(box->open);
    json_decref(box->exec);
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

static void on_called(
    void *ctx, struct snipara_call *call, uint32_t number, const void *request, size_t len)
{
    const struct snp_box *box = ctx;

    (void)call;
    box->call(box->call_ctx, number, request, len);
}

static void on_event(void *ctx, const char *json, const char *bytes, size_t len)
{
    struct snp_box *box = ctx;
    snp_autojson json_t *head = NULL;
    struct snp_err ignored;
    int r = snp_json_parse(json, strlen(json), &head, &ignored);
    const char *event = r < 0 ? "" : snp_json_str(head, "event", "");
    bool is_err = strcmp(snp_json_str(head, "stream", event), "stderr") == 0;
    struct snp_buf *stream = is_err ? &box->err_out : &box->out;
    struct snp_text_gap *gap = is_err ? &box->err_gap : &box->out_gap;
    size_t room = STREAM_MAX - stream->len;

    if (strcmp(event, "gap") == 0) {
        gap->at = stream->len;
        gap->chars = (size_t)snp_json_int(head, "omitted_chars", 0);
    } else if (strcmp(event, "display") == 0) {
        on_display(box, head, bytes, len);
    } else if (strcmp(event, "stderr") == 0 || strcmp(event, "stdout") == 0) {
        (void)!snp_buf_add(stream, bytes, len < room ? len : room);
    }
}

static void finish(struct snp_box *box, const struct snp_err *err, const json_t *result)
{
    void (*done)(void *ctx, const struct snp_err *err, const json_t *result) = box->done;

    box->done = NULL;
    done(box->ctx, err, result);
}

/* The answer of the open call, which is freed. */
static int open_end(struct snp_box *box, json_t **ret, struct snp_err *err)
{
    return snp_sandbox_answer(SNP_TAKE_PTR(box->open), ret, err);
}

static void on_done(void *ctx, struct snipara_call *call)
{
    struct snp_box *box = ctx;
    snp_autojson json_t *answer = NULL;
    struct snp_err err;
    int r = open_end(box, &answer, &err);

    (void)call;
    finish(box, r < 0 ? &err : NULL, answer);
}

static void begin(struct snp_box *box,
                  void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                  void *ctx)
{
    SNP_ASSERT(box->open == NULL);
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

/* Wait for a call; on failure nothing was begun. done: of the call. */
static int ask(struct snp_box *box,
               struct snipara_call *call,
               void (*done)(void *ctx, struct snipara_call *call),
               struct snp_err *err)
{
    box->open = call;
    if (snipara_is_done(call)) { /* it could not be sent */
        return open_end(box, NULL, err);
    }
    snipara_on_done(call, done, box);
    return 0;
}

/* Send another request: consumed, NULL = out of memory. */
static int request_ask(struct snp_box *box, json_t *request, struct snp_err *err)
{
    snp_autofree char *text = request == NULL ? NULL : snp_json_text(request);

    json_decref(request);
    return ask(box, text == NULL ? NULL : snipara_request(box->sandbox, text, NULL, 0), on_done,
               err);
}

/* Members of a cell's request that the library's structure lacks. NULL = out of memory. */
static char *members_make(const struct snp_box *box, const struct snp_box_cell *cell)
{
    snp_autojson json_t *request = json_copy(box->exec);

    (void)json_object_del(request, "limits"); /* of an older record */
    (void)json_object_set_new(request, "stream", json_false());
    if (cell->code == NULL) {
        (void)json_object_set_new(request, "kind", json_string("command"));
        (void)json_object_set(request, "argv", cell->argv);
    }
    return request == NULL ? NULL : snp_json_text(request);
}

int snp_box_run(struct snp_box *box,
                const struct snp_box_cell *cell,
                void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                void *ctx,
                struct snp_err *err)
{
    size_t code_len = cell->code == NULL ? 0 : strlen(cell->code);
    size_t input_len = cell->input == NULL ? 0 : strlen(cell->input);
    snp_autofree char *members = members_make(box, cell);

    if (code_len + input_len > INPUT_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "a cell can have at most %d MiB of code and input",
                        INPUT_MAX >> 20);
    }
    SNP_TRY_MEMORY(members != NULL, err);
    begin(box, done, ctx);
    return ask(box,
               snipara_run(
                   box->sandbox,
                   SNIPARA_RUN(.session = box->session, .code = cell->code, .input = cell->input,
                               .input_len = input_len, .timeout_ms = (int64_t)cell->wall_ms,
                               .event = on_event,
                               .called = cell->code != NULL && box->call != NULL ? on_called : NULL,
                               .ctx = box, .request = members)),
               on_done, err);
}

void snp_box_answer(struct snp_box *box, uint32_t number, bool is_ok, json_t *answer)
{
    static const char no_room[] = "{\"error\": \"out of memory\"}";
    snp_autofree char *text = answer == NULL ? NULL : snp_json_text(answer);
    const char *raw = text == NULL ? no_room : text;

    json_decref(answer);
    if (box->open != NULL) { /* the cell shows whether it arrived in time */
        snipara_free(snipara_answer(box->open, number, is_ok && text != NULL, raw, strlen(raw)));
    }
}

void snp_box_interrupt(struct snp_box *box)
{
    if (box->open != NULL && !box->is_interrupted) {
        box->is_interrupted = true;
        snipara_interrupt(box->open);
    }
}

int snp_box_keep(struct snp_box *box,
                 int64_t step,
                 void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                 void *ctx,
                 struct snp_err *err)
{
    begin(box, done, ctx);
    return request_ask(box,
                       json_pack("{s:s, s:s, s:s, s:I}", "method", "snapshot", "session",
                                 box->session, "run", box->session, "step", (json_int_t)step),
                       err);
}

int snp_box_destroy(struct snp_box *box,
                    void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                    void *ctx,
                    struct snp_err *err)
{
    begin(box, done, ctx);
    return request_ask(box,
                       json_pack("{s:s, s:s, s:b}", "method", "sessions.destroy", "session",
                                 box->session, "keep_steps", 1),
                       err);
}

/* The journal ------------------------------------------------------------------------------- */

/* The shown result, if any, has the form of docs/result.md. */
static void on_show(void *ctx, struct snipara_call *call)
{
    struct snp_box *box = ctx;
    snp_autojson json_t *shown = NULL;
    snp_autojson json_t *unknown = NULL;
    struct snp_err err;
    int r = open_end(box, &shown, &err);
    const json_t *result = json_object_get(shown, "result");

    (void)call;
    if (r == 0 && !json_is_object(result)) {
        unknown = json_pack("{s:O, s:O}", "status", json_object_get(shown, "status"), "cell",
                            json_object_get(shown, "cell"));
        result = unknown;
    }
    finish(box, r < 0 ? &err : NULL, result);
}

static void on_history(void *ctx, struct snipara_call *call)
{
    struct snp_box *box = ctx;
    snp_autojson json_t *history = NULL;
    struct snp_err err;
    int r = open_end(box, &history, &err);
    const json_t *row = json_array_get(json_object_get(history, "cells"), 0);
    int64_t number = snp_json_int(row, "cell", 0);
    bool is_unopened = r == SNP_E_NOT_FOUND && box->after == 0;

    (void)call;
    if (r == 0 && number > box->after && !snp_streq(snp_json_str(row, "status", ""), "refused")) {
        r = ask(box,
                snipara_show(box->sandbox, box->session, number,
                             SNIPARA_RUN(.event = on_event, .ctx = box)),
                on_show, &err);
        if (r == 0) {
            return;
        }
    }
    finish(box, r < 0 && !is_unopened ? &err : NULL, NULL);
}

int snp_box_recall(struct snp_box *box,
                   int64_t after,
                   void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                   void *ctx,
                   struct snp_err *err)
{
    begin(box, done, ctx);
    box->after = after;
    return ask(box, snipara_history(box->sandbox, box->session, 0, 1), on_history, err);
}
