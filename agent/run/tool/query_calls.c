/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by code in the sandbox: llm_query and llm_query_batched. They are hostile: JSON of a fixed
 * form, bounded, and each becomes a query under the same budgets as any sub-call. One call is open
 * at a time, enforced by the supervisor and here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/sub.h"
#include "run/tool/feedback.h"

enum {
    PARALLEL = 3,
    BODY_MAX = 4 << 20, /* bytes of a call */
    PROMPTS_MAX = 100,
    PROMPT_MAX = 1 << 20,   /* bytes */
    RESPONSE_MAX = 1 << 20, /* the same, of one answer */
};

struct snp_run_inside {
    uint32_t number;
    json_t *request; /* owned */
    json_t *rows;    /* owned: the result of each prompt, or null */
    size_t first;    /* number of its first query among those of the tool call */
    size_t next;     /* the first prompt not sent yet */
    size_t n_open;
};

static void inside_free(struct snp_run *run)
{
    struct snp_run_inside *inside = SNP_TAKE_PTR(run->inside);

    if (inside != NULL) {
        json_decref(inside->request);
        json_decref(inside->rows);
        free(inside);
    }
}

void snp_run_inside_drop(struct snp_run *run)
{
    if (run->inside != NULL) {
        (void)snp_run_queries_drop(run);
        inside_free(run);
    }
}

static void refuse(struct snp_run *run, uint32_t number, const char *why)
{
    snp_box_answer(&run->box, number, false, json_pack("{s:s}", "error", why));
}

/* The request -------------------------------------------------------------------------------- */

static bool is_text(const json_t *value, size_t min)
{
    return json_is_string(value) && json_string_length(value) >= min &&
           json_string_length(value) <= PROMPT_MAX &&
           strlen(json_string_value(value)) == json_string_length(value);
}

static bool is_sound(const json_t *request)
{
    const json_t *prompts = json_object_get(request, "prompts");
    const json_t *system = json_object_get(request, "system");
    const json_t *max = json_object_get(request, "max_tokens");
    size_t i;
    json_t *prompt;

    if (json_array_size(prompts) == 0 || json_array_size(prompts) > PROMPTS_MAX) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)prompts, i, prompt)
    {
        if (!is_text(prompt, 1)) {
            return false;
        }
    }
    return (system == NULL || json_is_null(system) || is_text(system, 0)) &&
           (max == NULL || json_is_null(max) ||
            (json_is_integer(max) && json_integer_value(max) >= 1));
}

int snp_run_inside_read(const char *raw, size_t raw_len, json_t **ret)
{
    snp_autojson json_t *request = NULL;
    struct snp_err err;

    if (raw_len > BODY_MAX || snp_json_parse(raw, raw_len, &request, &err) < 0 ||
        !is_sound(request)) {
        return SNP_E_INVALID;
    }
    *ret = SNP_TAKE_PTR(request);
    return 0;
}

/* Redact prompts: a secret that is redacted in output must not leave in a prompt either. */
static int safe_make(json_t *request)
{
    json_t *prompts = json_object_get(request, "prompts");
    const json_t *system = json_object_get(request, "system");
    size_t i;
    json_t *prompt;

    json_array_foreach(prompts, i, prompt)
    {
        if (json_array_set_new(
                prompts, i,
                snp_feedback_answer(json_string_value(prompt), json_string_length(prompt))) < 0) {
            return SNP_E_NOMEM;
        }
    }
    return !json_is_string(system) ||
                   json_object_set_new(request, "system",
                                       snp_feedback_answer(json_string_value(system),
                                                           json_string_length(system))) == 0
               ? 0
               : SNP_E_NOMEM;
}

static int inside_new(const char *raw, size_t raw_len, struct snp_run_inside **ret)
{
    struct snp_run_inside *inside;
    json_t *request = NULL;
    int r = snp_run_inside_read(raw, raw_len, &request);

    if (r < 0) {
        return r;
    }
    inside = safe_make(request) < 0 ? NULL : calloc(1, sizeof(*inside));
    if (inside == NULL) {
        json_decref(request);
        return SNP_E_NOMEM;
    }
    inside->request = request;
    inside->rows = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(request, "prompts")); i++) {
        if (json_array_append_new(inside->rows, json_null()) < 0) {
            json_decref(inside->request);
            json_decref(inside->rows);
            free(inside);
            return SNP_E_NOMEM;
        }
    }
    *ret = inside;
    return 0;
}

/* The answers -------------------------------------------------------------------------------- */

static json_t *answer_row(const struct snp_model_answer *answer)
{
    bool is_cut = answer->is_ok && answer->stop == SNP_MODEL_STOP_LENGTH;
    size_t n = answer->is_ok ? strlen(answer->text) : 0;

    if (!answer->is_ok) {
        return json_pack("{s:s}", "error", answer->err.msg);
    }
    if (answer->stop == SNP_MODEL_STOP_FILTER) {
        return json_pack("{s:s}", "error", "the provider withheld the answer");
    }
    if (n > RESPONSE_MAX) {
        return json_pack("{s:s}", "error", "the answer has more than 1 MiB");
    }
    return json_pack("{s:s, s:b}", "response", answer->text, "cut_off", is_cut);
}

static void go_on(struct snp_run *run);

static void on_answer(struct snp_run *run, uint64_t tag, const struct snp_model_answer *answer)
{
    struct snp_run_inside *inside = run->inside;

    SNP_ASSERT(inside != NULL && tag < json_array_size(inside->rows));
    inside->n_open--;
    (void)json_array_set_new(inside->rows, (size_t)tag, answer_row(answer));
    go_on(run);
}

static enum snp_run_query_then prompt_ask(struct snp_run *run, struct snp_run_stop *stop)
{
    const struct snp_run_inside *inside = run->inside;
    const json_t *prompts = json_object_get(inside->request, "prompts");
    const struct snp_run_query_spec spec = {
        .type = "llm_query",
        .index = inside->first + inside->next,
        .prompt = json_string_value(json_array_get(prompts, inside->next)),
        .system = snp_json_str(inside->request, "system", NULL),
        .wanted_tokens = snp_json_int(inside->request, "max_tokens", 0),
        .done = on_answer,
        .tag = inside->next,
    };

    return snp_run_query_ask(run, &spec, stop);
}

/* Send calls up to the limit of open ones; refused ones may be possible after others end. */
static void go_on(struct snp_run *run)
{
    struct snp_run_inside *inside = run->inside;
    size_t n = json_array_size(inside->rows);
    struct snp_run_stop stop;

    while (!run->has_failed && inside->next < n && inside->n_open < PARALLEL) {
        enum snp_run_query_then then = prompt_ask(run, &stop);

        if (then == SNP_RUN_QUERY_REFUSED && inside->n_open > 0) {
            return;
        }
        if (then == SNP_RUN_QUERY_REFUSED) {
            (void)json_array_set_new(inside->rows, inside->next,
                                     json_pack("{s:s}", "error", stop.told));
        }
        inside->n_open += then == SNP_RUN_QUERY_ASKED ? 1 : 0;
        inside->next++;
    }
    if (run->has_failed) { /* the record cannot be written: the end of the cell ends the run */
        snp_run_inside_drop(run);
        snp_box_interrupt(&run->box);
    } else if (inside->n_open == 0) {
        snp_box_answer(&run->box, inside->number, true,
                       json_pack("{s:O}", "results", inside->rows));
        inside_free(run);
    }
}

void snp_run_inside_call(void *ctx, uint32_t number, const char *raw, size_t raw_len)
{
    struct snp_run *run = ctx;
    const struct snp_run_state *state = &run->state;
    int r = SNP_E_INVALID;

    if (run->is_cancelled || run->has_failed || run->is_ending) {
        refuse(run, number, "the run is ending");
        return;
    }
    if (run->inside != NULL || state->tool == NULL || state->answer == NULL) {
        refuse(run, number, "another call is open");
        return;
    }
    r = inside_new(raw, raw_len, &run->inside);
    if (r < 0) {
        refuse(run, number, r == SNP_E_NOMEM ? "out of memory" : "the call is malformed");
        return;
    }
    run->inside->number = number;
    run->inside->first = json_array_size(state->sub_done) + json_array_size(state->sub_open);
    go_on(run);
}
