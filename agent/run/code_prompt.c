/* SPDX-License-Identifier: Apache-2.0 */
/* Runs without a model, on record. */
#include "run/code_prompt.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "run/run_priv.h"

struct snp_run_plain {
    struct snp_run run; /* without loop, model and session */
};

static const char tool_name[] = "execute_code";
static const char tool_call_id[] = "call_1";

bool snp_run_is_plain(const json_t *head)
{
    return json_object_get(head, "exec") != NULL && json_is_null(json_object_get(head, "provider"));
}

bool snp_run_is_open(const struct snp_trajectory_info *info)
{
    return (info->state == SNP_TRAJECTORY_FAILED || info->state == SNP_TRAJECTORY_INTERRUPTED) &&
           json_object_get(info->head, "exec") != NULL && !snp_run_is_plain(info->head);
}

/* Record a call of a model that passes the prompt as code. */
static int call_record(struct snp_run *run, const char *code)
{
    char call_id[SNP_UUID_LEN + 1] = "";
    json_t *calls = json_pack("[{s:s, s:s, s:{s:s}}]", "id", tool_call_id, "name", tool_name,
                              "arguments", "code", code);
    json_t *message =
        json_pack("{s:s, s:s, s:O?}", "role", "assistant", "content", "", "tool_calls", calls);
    json_t *answer =
        json_pack("{s:b, s:o?, s:o?, s:s, s:{s:i, s:i}, s:f, s:n, s:n, s:i}", "ok", 1, "message",
                  message, "tool_calls", calls, "stop", "tools", "usage", "input", 0, "output", 0,
                  "cost_usd", 0.0, "model", "provider", "duration_ms", 0);

    if (snp_run_uuid(call_id) < 0 ||
        snp_run_step(run, "ask",
                     json_pack("{s:s, s:n, s:i, s:i, s:i}", "call_id", call_id, "parent_call_id",
                               "turn", 0, "iteration", 0, "estimate", 0)) < 0) {
        json_decref(answer);
        return SNP_E_SYS;
    }
    if (snp_run_step(run, "answer",
                     json_pack("{s:s, s:o?}", "call_id", call_id, "answer", answer)) < 0) {
        return SNP_E_SYS;
    }
    return snp_run_step(run, "tool",
                        json_pack("{s:s, s:s, s:s, s:n, s:i}", "call_id", call_id, "tool_call_id",
                                  tool_call_id, "name", tool_name, "session", "after_cell", 0));
}

int snp_run_plain_new(const struct snp_run_spec *spec,
                      const unsigned char *key,
                      struct snp_run_plain **ret,
                      struct snp_err *err)
{
    struct snp_run_plain *plain = calloc(1, sizeof(*plain));
    int r;

    if (plain == NULL || snp_run_state_init(&plain->run.state) < 0) {
        free(plain);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    plain->run.with.key = key;
    plain->run.started_us = snp_now_us();
    r = snp_run_head_write(&plain->run, spec, NULL, err);
    if (r == 0 && call_record(&plain->run, spec->prompt) < 0) {
        r = plain->run.has_failed ? (*err = plain->run.err).code
                                  : snp_fail(err, SNP_E_SYS, "no random numbers");
    }
    if (r < 0) {
        snp_run_plain_free(plain);
        return r;
    }
    *ret = plain;
    return 0;
}

/* Its output, and the value of its last expression. NULL when out of memory. */
static json_t *answer_make(const json_t *result, const struct snp_feedback_output *output)
{
    const char *value = snp_json_str(result, "value", "");
    snp_autobuf struct snp_buf text = {0};

    snp_buf_init(&text, output->out->len + strlen(value) + 1);
    if ((output->out->len > 0 &&
         snp_buf_add(&text, snp_buf_bytes(output->out), output->out->len) < 0) ||
        snp_buf_adds(&text, value) < 0) {
        return NULL;
    }
    return snp_feedback_answer(text.len == 0 ? "" : snp_buf_bytes(&text), text.len);
}

int snp_run_plain_end(struct snp_run_plain *plain,
                      const json_t *result,
                      const struct snp_feedback_output *output,
                      struct snp_err *err)
{
    struct snp_run *run = &plain->run;
    bool is_ok = snp_streq(snp_json_str(result, "status", ""), "ok");
    struct snp_run_outcome outcome = {.result = result, .is_error = !is_ok};
    struct snp_err failed;

    outcome.content = snp_feedback_cell(result, output, &outcome.error);
    if (is_ok) {
        outcome.final = json_pack("{s:o, s:s}", "answer", answer_make(result, output),
                                  "answer_source", "python");
    } else {
        const char *text = json_string_value(outcome.error);

        (void)snp_fail(&failed, SNP_E_PEER, "the code failed: %.600s", text == NULL ? "" : text);
    }
    snp_run_result_record(run, &outcome);
    (void)snp_run_event_write(run);
    if (!is_ok) {
        snp_run_fail(run, &failed);
    }
    if (snp_run_end_record(run) < 0 || (is_ok && run->has_failed)) {
        *err = run->err;
        return err->code;
    }
    return 0;
}

void snp_run_plain_forget(struct snp_run_plain *plain)
{
    (void)unlink(snp_trajectory_path(plain->run.trajectory));
}

const char *snp_run_plain_id(const struct snp_run_plain *plain)
{
    return snp_json_str(plain->run.state.head, "trajectory_id", "");
}

void snp_run_plain_free(struct snp_run_plain *plain)
{
    if (plain == NULL) {
        return;
    }
    snp_trajectory_free(plain->run.trajectory);
    snp_run_state_done(&plain->run.state);
    free(plain);
}
