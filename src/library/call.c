/* SPDX-License-Identifier: Apache-2.0 */
/* A call: its request and its answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/text/hint.h"
#include "base/wire/result.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "library/library.h"

_Static_assert((int)SNIPARA_INTERNAL == (int)SNP_E_INTERNAL &&
                   (int)SNIPARA_LOST == (int)SNP_E_PEER &&
                   (int)SNIPARA_INVALID == (int)SNP_E_INVALID,
               "codes are the same");

enum {
    PARTS_MAX = 32,
    PATH_PART_MAX = 128,
};

static const struct snipara_error no_memory = {.code = SNIPARA_NO_MEMORY,
                                               .name = "no_memory",
                                               .message = "out of memory",
                                               .object = "",
                                               .limit = "",
                                               .remedy = "",
                                               .remedy_name = ""};

static void link_to(struct snipara_call *call, struct snipara *box)
{
    call->box = box;
    call->prev = NULL;
    call->next = box->first;
    if (box->first != NULL) {
        box->first->prev = call;
    }
    box->first = call;
}

static void unlink_from(struct snipara_call *call)
{
    *(call->prev == NULL ? &call->box->first : &call->prev->next) = call->next;
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
}

void snp_call_move(struct snipara_call *call, struct snipara *box)
{
    unlink_from(call);
    link_to(call, box);
}

struct snipara_call *snp_call_new(struct snipara *box)
{
    struct snipara_call *call = box == NULL ? NULL : calloc(1, sizeof(*call));

    if (call != NULL) {
        link_to(call, box);
        snp_buf_init(&call->data, SIZE_MAX / 2);
    }
    return call;
}

void snipara_free(struct snipara_call *call)
{
    if (call == NULL) {
        return;
    }
    if (call->box != NULL) {
        struct snp_library_wait *wait = snp_library_root(call->box)->wait;

        if (wait != NULL && wait->call == call) {
            wait->call = NULL;
        }
        if (call->id != 0) {
            snp_calls_forget(&call->box->connection.calls, call->id);
        }
        unlink_from(call);
    }
    json_decref(call->answer);
    json_decref(call->notes);
    json_decref(call->older);
    snp_buf_done(&call->older_raw);
    free(call->json);
    snp_buf_done(&call->data);
    free(call->session);
    free(call->path);
    free(call);
}

/* It may free the call. */
static void finish(struct snipara_call *call)
{
    call->id = 0;
    call->is_done = true;
    if (call->done != NULL) {
        call->done(call->done_ctx, call);
    }
}

struct snipara_call *snp_call_fail(struct snipara_call *call, const struct snp_err *err)
{
    call->err = *err;
    snp_library_error(&call->err, &call->error);
    finish(call);
    return call;
}

/* Asking --------------------------------------------------------------------------------- */

static void on_display(const struct snipara_call *call,
                       const json_t *head,
                       const char *raw,
                       size_t raw_len)
{
    struct snipara_part parts[PARTS_MAX];
    const json_t *mime = json_object_get(head, "mime");
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(mime) && n < PARTS_MAX; i++) {
        const json_t *row = json_array_get(mime, i);
        const char *type = json_string_value(json_array_get(row, 0));
        json_int_t len = json_integer_value(json_array_get(row, 1));

        if (type == NULL || len < 0 || (size_t)len > raw_len) {
            return;
        }
        parts[n++] = (struct snipara_part){type, raw, (size_t)len};
        raw += len;
        raw_len -= (size_t)len;
    }
    call->cell.display(call->cell.ctx, parts, n);
}

/* A callback may free the call: it is not used afterwards. */
static void on_event(void *ctx, const json_t *head, const char *raw, size_t raw_len)
{
    struct snipara_call *call = ctx;
    const struct snipara_cell *cell = &call->cell;
    const char *event = snp_json_str(head, "event", "");
    bool is_stderr = strcmp(event, "stderr") == 0;

    if (call->event != NULL) {
        call->event(call, head, raw, raw_len);
    } else if (cell->event != NULL && strcmp(event, "call") != 0) {
        snp_autofree char *text = snp_json_text(head);

        if (text != NULL) { /* else out of memory */
            cell->event(cell->ctx, text, raw, raw_len);
        }
    } else if (is_stderr || strcmp(event, "stdout") == 0) {
        if (cell->output != NULL) {
            cell->output(cell->ctx, is_stderr ? SNIPARA_STDERR : SNIPARA_STDOUT, raw, raw_len);
        }
    } else if (strcmp(event, "display") == 0 && cell->display != NULL) {
        on_display(call, head, raw, raw_len);
    } else if (strcmp(event, "call") == 0 && cell->called != NULL) {
        cell->called(cell->ctx, call, (uint32_t)snp_json_int(head, "call", 0), raw, raw_len);
    }
}

/*
 * The daemon has refused the cell because it is older than this library: retry without the unknown
 * member.
 */
static void older_ask(struct snipara_call *call)
{
    snp_autobuf struct snp_buf raw = SNP_TAKE(call->older_raw, (struct snp_buf){0});

    (void)snp_call_ask(call, SNP_TAKE_PTR(call->older), snp_buf_bytes(&raw), raw.len);
}

static void on_done(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    struct snipara_call *call = ctx;
    struct snp_err own;

    call->id = 0;
    if (err != NULL && call->older != NULL && snp_calls_is_older(err)) {
        older_ask(call);
        return;
    }
    if (err != NULL) {
        (void)snp_call_fail(call, err);
        return;
    }
    if (call->more != NULL && call->more(call, head, raw, raw_len)) {
        return;
    }
    if (call->is_done) {
        return;
    }
    if (call->more == NULL && raw_len > 0 && snp_buf_add(&call->data, raw, raw_len) < 0) {
        (void)snp_fail(&own, SNP_E_NOMEM, "out of memory");
        (void)snp_call_fail(call, &own);
        return;
    }
    if (call->answer == NULL) {
        snp_hints_fill(head, SNP_HINT_LIBRARY);
        call->answer = json_incref(head);
    }
    finish(call);
}

struct snipara_call *snp_call_ask(struct snipara_call *call,
                                  json_t *head,
                                  const void *raw,
                                  size_t raw_len)
{
    const struct snp_async_call begun = {.head = head,
                                         .raw = raw,
                                         .raw_len = raw_len,
                                         .event = on_event,
                                         .done = on_done,
                                         .ctx = call,
                                         .is_raw = call != NULL && call->is_raw};
    struct snp_err err;
    int r;

    if (call == NULL || head == NULL) {
        json_decref(head);
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        return call == NULL ? NULL : snp_call_fail(call, &err);
    }
    r = snp_library_connect(call->box, &err);
    if (r < 0) {
        json_decref(head);
        return snp_call_fail(call, &err);
    }
    r = snp_connection_call(&call->box->connection, &begun, &call->id, &err);
    return r < 0 ? snp_call_fail(call, &err) : call;
}

void snipara_interrupt(struct snipara_call *call)
{
    if (call != NULL && call->id != 0 && call->box->pid == getpid()) {
        snp_connection_interrupt(&call->box->connection, call->id);
    }
}

struct snipara_call *snipara_answer(
    struct snipara_call *run, uint32_t number, bool ok, const void *data, size_t len)
{
    struct snipara_call *call = run == NULL || run->box == NULL ? NULL : snp_call_new(run->box);
    char text[96];

    if (len > SNP_CALL_BYTES_MAX) { /* the daemon would refuse it and leave the code waiting */
        len = (size_t)snprintf(text, sizeof(text), "the result has %zu bytes; at most %d MiB", len,
                               SNP_CALL_BYTES_MAX >> 20);
        data = text;
        ok = false;
    }
    return snp_call_ask(call,
                        SNP_WRITE(snp_answer_request, .request = run == NULL ? 0 : run->id,
                                  .call = number, .ok = ok),
                        data, len);
}

/* State ---------------------------------------------------------------------------------- */

bool snipara_is_done(const struct snipara_call *call)
{
    return call == NULL || call->is_done;
}

const struct snipara_error *snipara_call_error(const struct snipara_call *call)
{
    if (call == NULL) {
        return &no_memory;
    }
    return call->err.code == SNP_OK ? NULL : &call->error;
}

void snipara_on_done(struct snipara_call *call,
                     void (*done)(void *ctx, struct snipara_call *call),
                     void *ctx)
{
    if (call != NULL && call->is_done) {
        done(ctx, call);
    } else if (call != NULL) {
        call->done = done;
        call->done_ctx = ctx;
    }
}

/* Answers -------------------------------------------------------------------------------- */

static const json_t *find(const struct snipara_call *call, const char *path)
{
    const json_t *at = call == NULL ? NULL : call->answer;

    while (at != NULL && *path != '\0') {
        size_t len = strcspn(path, ".");
        char part[PATH_PART_MAX];

        if (len >= sizeof(part)) {
            return NULL;
        }
        memcpy(part, path, len);
        part[len] = '\0';
        if (json_is_array(at)) {
            uint64_t i = 0;
            at = snp_parse_u64(part, &i) == 0 ? json_array_get(at, i) : NULL;
        } else {
            at = json_object_get(at, part);
        }
        path += len + (path[len] == '.' ? 1 : 0);
    }
    return at;
}

const char *snipara_text(const struct snipara_call *call, const char *path, size_t *ret_len)
{
    const json_t *at = find(call, path);

    if (ret_len != NULL) {
        *ret_len = json_string_length(at);
    }
    return json_string_value(at);
}

int64_t snipara_int(const struct snipara_call *call, const char *path, int64_t fallback)
{
    const json_t *at = find(call, path);

    return json_is_integer(at)   ? json_integer_value(at)
           : json_is_boolean(at) ? (json_is_true(at) ? 1 : 0)
                                 : fallback;
}

double snipara_real(const struct snipara_call *call, const char *path, double fallback)
{
    const json_t *at = find(call, path);

    return json_is_number(at) ? json_number_value(at) : fallback;
}

size_t snipara_count(const struct snipara_call *call, const char *path)
{
    const json_t *at = find(call, path);

    return json_is_array(at) ? json_array_size(at) : json_object_size(at);
}

const char *snipara_json(const struct snipara_call *call)
{
    struct snipara_call *own = (struct snipara_call *)(uintptr_t)call; /* only the cache changes */

    if (call == NULL || call->answer == NULL) {
        return NULL;
    }
    if (own->json == NULL) {
        own->json = snp_json_text(call->answer);
    }
    return own->json;
}

const void *snipara_data(const struct snipara_call *call, size_t *ret_len)
{
    struct snipara_call *own = (struct snipara_call *)(uintptr_t)call;

    *ret_len = call == NULL ? 0 : call->data.len;
    return call == NULL ? NULL : snp_buf_cstr(&own->data);
}
