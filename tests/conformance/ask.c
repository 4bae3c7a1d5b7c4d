/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of providers speak through: each line of standard input is a request as JSON (members
 * of struct snp_model_request; deadline_ms from now; cancel: after so many events), and its events
 * and answer come as lines. "parallel": the next one is asked without waiting for this one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/model.h"

enum {
    LINE_MAX_BYTES = 32 << 20,
    US_PER_MS = 1000,
};

struct ask {
    struct snp_model_call *call;
    json_t *request;
    int64_t n_events;
    int64_t cancel;
};

static size_t n_open;

static void print(const char *kind, json_t *value)
{
    snp_autojson json_t *line = json_pack("{s:o}", kind, value);
    snp_autofree char *text = line == NULL ? NULL : snp_json_text(line);

    SNP_ASSERT(text != NULL);
    (void)puts(text);
    (void)fflush(stdout);
}

static void on_event(void *ctx, const struct snp_model_event *event)
{
    static const char *const names[] = {"text", "reasoning", "call", "retry"};
    struct ask *ask = ctx;

    print(names[event->type],
          event->type == SNP_MODEL_EVENT_RETRY
              ? json_pack("{s:I, s:i, s:s}", "wait_ms", (json_int_t)event->wait_ms, "next_try",
                          (int)event->next_try, "why", event->err->msg)
              : json_stringn(event->text, event->len));
    ask->n_events++;
    if (ask->n_events == ask->cancel) {
        struct snp_model_usage lost = {0};

        snp_model_cancel(ask->call, &lost);
        print("cancelled", json_pack("{s:I, s:I}", "input", (json_int_t)lost.input, "output",
                                     (json_int_t)lost.output));
        n_open--;
    }
}

static void on_done(void *ctx, const struct snp_model_answer *answer)
{
    json_t *value = snp_model_answer_to_json(answer);

    (void)ctx;
    if (answer->parsed != NULL) {
        SNP_ASSERT(json_object_set(value, "parsed", answer->parsed) == 0);
    }
    SNP_ASSERT(!answer->is_ok || answer->tool_calls != NULL);
    print("answer", value);
    n_open--;
}

static void start(struct snp_models *models, struct ask *ask)
{
    const json_t *request = ask->request;
    int64_t deadline_ms = snp_json_int(request, "deadline_ms", 0);
    struct snp_err err;
    struct snp_model_request made = {
        .model = snp_json_str(request, "model", NULL),
        .messages = json_object_get(request, "messages"),
        .tools = json_object_get(request, "tools"),
        .tool_choice = snp_json_str(request, "tool_choice", NULL),
        .schema = json_object_get(request, "schema"),
        .temperature = -1,
        .max_tokens = (uint64_t)snp_json_int(request, "max_tokens", 0),
        .deadline_us = deadline_ms == 0 ? 0 : snp_now_us() + (uint64_t)deadline_ms * US_PER_MS,
        .max_tries = (unsigned)snp_json_int(request, "max_tries", 0),
        .label = snp_json_str(request, "label", NULL),
        .on_event = on_event,
        .on_done = on_done,
        .ctx = ask,
    };

    ask->cancel = snp_json_int(request, "cancel", -1);
    if (snp_json_bool(request, "skip", false)) {
        snp_model_skip(models, &made);
        return;
    }
    n_open++;
    if (snp_model_ask(models, &made, &ask->call, &err) < 0) {
        print("refused", json_string(err.msg));
        n_open--;
    }
}

int main(void)
{
    static struct ask asks[64];
    struct snp_models *models = NULL;
    struct snp_config *config = NULL;
    struct snp_err err;
    uv_loop_t loop;
    snp_autofree char *line = NULL;
    size_t cap = 0;
    size_t n_asks = 0;

    if (uv_loop_init(&loop) < 0 ||
        snp_config_load(&(struct snp_config_request){0}, &config, &err) < 0 ||
        snp_models_new(&loop, config, &models, &err) < 0) {
        (void)fprintf(stderr, "ask: %s\n", err.msg);
        return 1;
    }
    for (ssize_t n = 0; n_asks < SNP_ARRAY_LEN(asks) && (n = getline(&line, &cap, stdin)) > 0;) {
        struct ask *ask = &asks[n_asks++];

        SNP_ASSERT(n < LINE_MAX_BYTES);
        if (snp_json_parse(line, (size_t)n, &ask->request, &err) < 0) {
            (void)fprintf(stderr, "ask: %s\n", err.msg);
            return 1;
        }
        start(models, ask);
        while (n_open > 0 && !snp_json_bool(ask->request, "parallel", false)) {
            (void)uv_run(&loop, UV_RUN_ONCE);
        }
    }
    while (n_open > 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    snp_models_free(models);
    snp_config_free(config);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < n_asks; i++) {
        json_decref(asks[i].request);
    }
    return uv_loop_close(&loop) < 0 ? 2 : 0; /* 2: something was left open */
}
