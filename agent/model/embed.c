/* SPDX-License-Identifier: Apache-2.0 */
/* One request at a time, without retries: an interrupted index continues the next time. */
#include "model/embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/http/http.h"
#include "base/json.h"
#include "base/str.h"
#include "model/keyring.h"
#include "model/retry.h"

enum {
    REPLY_MAX = 32 << 20, /* bytes */
    OK_FIRST = 200,
    OK_LAST = 299,
};

struct snp_embedder {
    uv_loop_t loop;
    struct snp_model_target target;
    struct snp_keyring *keyring;
    struct snp_http *http;
    const char *key; /* borrowed from keyring; NULL = none */
    bool has_key;
    size_t len;     /* 0 = not known yet */
    float *numbers; /* owned: SNP_EMBED_TEXTS_MAX vectors */
    /* the pending reply */
    struct snp_buf body;
    struct snp_err err;
    int status;
    bool is_over;
    int r;
};

static void over(struct snp_embedder *e, const struct snp_err *err)
{
    e->is_over = true;
    e->r = err == NULL ? 0 : err->code;
    if (err != NULL) {
        e->err = *err;
    }
}

/* Run the loop until over() is called. */
static int wait_for(struct snp_embedder *e, struct snp_err *err)
{
    while (!e->is_over && uv_run(&e->loop, UV_RUN_ONCE) != 0) {
    }
    if (!e->is_over) {
        return snp_fail(err, SNP_E_INTERNAL, "nothing is waited for");
    }
    if (e->r < 0) {
        *err = e->err;
    }
    return e->r;
}

static void on_key(void *ctx, const char *key, const struct snp_err *err)
{
    struct snp_embedder *e = ctx;

    e->key = key;
    over(e, err);
}

static int key_get(struct snp_embedder *e, struct snp_err *err)
{
    const struct snp_key_ask ask = {.target = &e->target, .on_key = on_key, .ctx = e};
    struct snp_key_wait *wait = NULL;

    if (e->has_key) {
        return 0;
    }
    e->is_over = false;
    SNP_TRY(snp_keyring_get(e->keyring, &ask, &e->key, &wait, err));
    SNP_TRY(wait == NULL ? 0 : wait_for(e, err));
    e->has_key = true;
    return 0;
}

int snp_embedder_open(const struct snp_config *config,
                      const char *model,
                      struct snp_embedder **ret,
                      struct snp_err *err)
{
    struct snp_embedder *e = calloc(1, sizeof(*e));
    int r;

    SNP_TRY_MEMORY(e, err);
    if (uv_loop_init(&e->loop) != 0) {
        free(e);
        return snp_fail(err, SNP_E_SYS, "no event loop");
    }
    snp_buf_init(&e->body, REPLY_MAX);
    r = snp_model_route(config, NULL, model, &e->target, err);
    if (r == 0 && (e->target.route->driver != &snp_model_openai || e->target.api_version != NULL)) {
        r = snp_fail(err, SNP_E_INVALID,
                     "%s has no embeddings in OpenAI's form; use openai/NAME, ollama/NAME, "
                     "hosted_vllm/NAME, ...",
                     e->target.route->name);
    }
    SNP_THEN(r, snp_keyring_new(&e->loop, &e->keyring, err));
    SNP_THEN(r, snp_http_new(&e->loop, &e->http, err));
    if (r < 0) {
        snp_embedder_close(e);
        return r;
    }
    *ret = e;
    return 0;
}

void snp_embedder_close(struct snp_embedder *embedder)
{
    if (embedder == NULL) {
        return;
    }
    if (embedder->http != NULL) {
        snp_http_free(embedder->http);
    }
    if (embedder->keyring != NULL) {
        snp_keyring_free(embedder->keyring);
    }
    while (uv_run(&embedder->loop, UV_RUN_DEFAULT) != 0) {
    }
    (void)uv_loop_close(&embedder->loop);
    snp_model_target_done(&embedder->target);
    snp_buf_done(&embedder->body);
    free(embedder->numbers);
    free(embedder);
}

/* Asking --------------------------------------------------------------------------------- */

static bool on_data(void *ctx, const char *bytes, size_t n)
{
    struct snp_embedder *e = ctx;

    return snp_buf_add(&e->body, bytes, n) == 0; /* REPLY_MAX ends the reply before */
}

static void on_done(void *ctx, struct snp_http_call *call, const struct snp_err *err)
{
    struct snp_embedder *e = ctx;

    e->status = snp_http_status(call);
    over(e, err);
}

static int post(struct snp_embedder *e,
                const json_t *request,
                uint64_t timeout_ms,
                struct snp_err *err)
{
    snp_autofree char *url = snp_format("%s/embeddings", e->target.base_url);
    snp_autofree char *body = snp_json_text(request);
    char *key = snp_format("%s%s", e->target.route->key_header, e->key == NULL ? "" : e->key);
    const char *const headers[] = {"Content-Type: application/json", e->key == NULL ? NULL : key,
                                   NULL};
    const struct snp_http_spec spec = {.url = url,
                                       .headers = headers,
                                       .body = body,
                                       .body_len = body == NULL ? 0 : strlen(body),
                                       .total_ms = timeout_ms,
                                       .max_bytes = REPLY_MAX,
                                       .data = on_data,
                                       .done = on_done,
                                       .ctx = e};
    struct snp_http_call *call = NULL;
    int r = url == NULL || body == NULL || key == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                                       : 0;

    snp_buf_clear(&e->body);
    e->is_over = false;
    SNP_THEN(r, snp_http_start(e->http, &spec, &call, err));
    SNP_THEN(r, wait_for(e, err));
    if (key != NULL) {
        explicit_bzero(key, strlen(key));
        free(key);
    }
    return r;
}

/* Report the provider's refusal. */
static int refused(const struct snp_embedder *e, struct snp_err *err)
{
    snp_autojson json_t *body = NULL;
    struct snp_err ignored;
    char why[SNP_MODEL_WHY_MAX];
    enum snp_model_failure failure;

    if (e->body.len > 0 &&
        snp_json_parse_any(snp_buf_bytes(&e->body), e->body.len, &body, &ignored) < 0) {
        body = NULL;
    }
    failure = snp_model_classify(e->status, json_object_get(body, "error"), why);
    return snp_fail(err, failure == SNP_MODEL_FAILED_AUTH ? SNP_E_DENIED : SNP_E_PEER, "%s", why);
}

/* Reading -------------------------------------------------------------------------------- */

/* Copy a vector to its place, scaled to length 1. */
static int vector_read(struct snp_embedder *e, const json_t *row, size_t at, struct snp_err *err)
{
    const json_t *from = json_object_get(row, "embedding");
    size_t len = json_array_size(from);
    float *to = e->numbers + at * SNP_EMBED_LEN_MAX;
    double sum = 0;

    if (len == 0 || len > SNP_EMBED_LEN_MAX) {
        return snp_fail(err, SNP_E_PEER, "the answer has no vector of 1 to %d numbers",
                        SNP_EMBED_LEN_MAX);
    }
    if (e->len != 0 && e->len != len) {
        return snp_fail(err, SNP_E_PEER, "vectors have %zu and %zu numbers", e->len, len);
    }
    e->len = len;
    for (size_t i = 0; i < len; i++) {
        const json_t *number = json_array_get(from, i);

        if (!json_is_number(number) || !isfinite(json_number_value(number)) ||
            fabs(json_number_value(number)) > 1e6) {
            return snp_fail(err, SNP_E_PEER, "a vector contains a value that is not a number");
        }
        to[i] = (float)json_number_value(number);
        sum += (double)to[i] * (double)to[i];
    }
    if (sum <= 0) {
        return snp_fail(err, SNP_E_PEER, "a vector has only zeros");
    }
    for (size_t i = 0; i < len; i++) {
        to[i] = (float)((double)to[i] / sqrt(sum));
    }
    return 0;
}

static int vectors_read(struct snp_embedder *e, size_t n, struct snp_err *err)
{
    snp_autojson json_t *body = NULL;
    bool has[SNP_EMBED_TEXTS_MAX] = {0};
    const json_t *rows;

    if (e->body.len == 0 ||
        snp_json_parse_any(snp_buf_bytes(&e->body), e->body.len, &body, err) < 0) {
        return snp_fail(err, SNP_E_PEER, "returned no JSON; check base_url");
    }
    rows = json_object_get(body, "data");
    if (json_array_size(rows) != n) {
        return snp_fail(err, SNP_E_PEER, "returned %zu vectors for %zu texts",
                        json_array_size(rows), n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t at = snp_json_int(row, "index", (int64_t)i);

        if (at < 0 || (uint64_t)at >= n || has[at]) {
            return snp_fail(err, SNP_E_PEER, "returned no vector for some text");
        }
        has[at] = true;
        SNP_TRY(vector_read(e, row, (size_t)at, err));
    }
    return 0;
}

static int ask(struct snp_embedder *e,
               const json_t *request,
               size_t n,
               uint64_t timeout_ms,
               struct snp_err *err)
{
    SNP_TRY(key_get(e, err));
    SNP_TRY(post(e, request, timeout_ms, err));
    return e->status < OK_FIRST || e->status > OK_LAST ? refused(e, err) : vectors_read(e, n, err);
}

static json_t *request_make(const char *model, const char *const *texts, size_t n)
{
    json_t *input = json_array();

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(input, json_string(texts[i]));
    }
    if (json_array_size(input) != n) {
        json_decref(input);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o}", "model", model, "encoding_format", "float", "input", input);
}

int snp_embed(struct snp_embedder *embedder,
              const struct snp_embed_ask *what,
              const float **ret,
              size_t *ret_len,
              struct snp_err *err)
{
    struct snp_embedder *e = embedder;
    snp_autojson json_t *request = request_make(e->target.model, what->texts, what->n);
    int r;

    SNP_ASSERT(what->n > 0 && what->n <= SNP_EMBED_TEXTS_MAX);
    if (e->numbers == NULL) {
        e->numbers = calloc(SNP_EMBED_TEXTS_MAX * (size_t)SNP_EMBED_LEN_MAX, sizeof(float));
    }
    SNP_TRY_MEMORY(request != NULL && e->numbers != NULL, err);
    r = ask(e, request, what->n, what->timeout_ms, err);
    if (r < 0) {
        snp_model_scrub(err->msg, e->key);
        return snp_err_wrap(err, "%s/%.100s", e->target.route->name, e->target.model);
    }
    for (size_t i = 1; i < what->n; i++) {
        memmove(e->numbers + i * e->len, e->numbers + i * SNP_EMBED_LEN_MAX,
                e->len * sizeof(float));
    }
    *ret = e->numbers;
    *ret_len = e->len;
    return 0;
}
