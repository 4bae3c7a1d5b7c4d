/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/cell/call.h"

#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/tier.h"
#include "wire/session.h"
#include "wire/tier.h"

static int interrupt_done(void *ctx,
                          const struct snp_tier_answer *answer,
                          struct snp_err *ret_bad)
{
    struct snp_request *request = ctx;
    int r;

    if (answer->head == NULL) {
        snp_request_fail(request, answer->err);
        return 0;
    }
    r = snp_record_check(answer->head, &snp_tier_interrupt_answer_form, ret_bad);
    if (r < 0) {
        snp_request_fail(request, ret_bad);
        return r;
    }
    snp_request_pass(request, answer->text, answer->text_len, NULL, 0);
    return 0;
}

/* Nobody waits for this one's answer. */
static int orphan_interrupted(void *ctx,
                              const struct snp_tier_answer *answer,
                              struct snp_err *ret_bad)
{
    (void)ctx;
    (void)answer;
    (void)ret_bad;
    return 0;
}

static const struct snp_tier_ops interrupt_ops = {interrupt_done, NULL};
static const struct snp_tier_ops orphan_ops = {orphan_interrupted, NULL};

void snp_exec_interrupt_running(struct snp_session *session, struct snp_request *request)
{
    snp_autojson json_t *head =
        SNP_WRITE(snp_tier_interrupt_request, .session = session->live.running->executor->id);
    struct snp_tier_call call = {
        .head = head,
        .timeout_ms = session->server->options.tier_ms,
        .is_urgent = true,
        .ops = request == NULL ? &orphan_ops : &interrupt_ops,
        .ctx = request,
    };
    struct snp_err err;
    int r = head == NULL ? snp_fail(&err, SNP_E_NOMEM, "out of memory")
                         : snp_tier_ask(session->live.running->executor->tier, &call, &err);

    if (r < 0 && request != NULL) {
        snp_request_fail(request, &err);
    }
}

/* Calls of the code ------------------------------------------------------------------- */

static int answer_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct snp_request *request = ctx;
    int r = answer->head == NULL
                ? 0
                : snp_record_check(answer->head, &snp_tier_answer_answer_form, ret_bad);

    if (request == NULL) {
        return r;
    }
    if (answer->head == NULL || r < 0) {
        snp_request_fail(request, answer->head == NULL ? answer->err : ret_bad);
        return r;
    }
    snp_request_pass(request, answer->text, answer->text_len, NULL, 0);
    return 0;
}

static const struct snp_tier_ops answer_ops = {answer_done, NULL};

/* To the open call. request: is answered; NULL = nobody is. */
static void call_answer(struct snp_exec *exec,
                        const struct snp_exec_answer *answer,
                        struct snp_request *request)
{
    snp_autojson json_t *head =
        SNP_WRITE(snp_tier_answer_request, .session = exec->executor->id, .cell = exec->cell,
                  .call = answer->call, .ok = answer->is_ok);
    const struct snp_tier_call call = {
        .head = head,
        .raw = answer->raw,
        .raw_len = answer->raw_len,
        .timeout_ms = exec->session->server->options.tier_ms,
        .is_urgent = true,
        .ops = &answer_ops,
        .ctx = request,
    };
    struct snp_err err;
    int r = head == NULL ? snp_fail(&err, SNP_E_NOMEM, "out of memory")
                         : snp_tier_ask(exec->executor->tier, &call, &err);

    exec->open_call = 0;
    if (r < 0 && request != NULL) {
        snp_request_fail(request, &err);
    }
}

void snp_exec_call_refuse(struct snp_exec *exec)
{
    static const char gone[] =
        "{\"error\": \"the program that answers calls of this cell has gone\"}";
    const struct snp_exec_answer answer = {
        .call = exec->open_call, .raw = gone, .raw_len = sizeof(gone) - 1};

    if (exec->open_call != 0 && exec->executor != NULL && exec->executor->tier != NULL) {
        call_answer(exec, &answer, NULL);
    }
}

int snp_exec_call(struct snp_exec *exec,
                  const struct snp_tier_answer *event,
                  struct snp_err *ret_bad)
{
    if (!exec->spec.asked.calls) {
        return snp_fail(ret_bad, SNP_E_INVALID, "call: of a cell that may make none");
    }
    exec->open_call = (uint32_t)snp_json_int(event->head, "call", 0);
    if (exec->request == NULL || exec->request->peer == NULL) {
        snp_exec_call_refuse(exec);
        return 0;
    }
    snp_request_event(exec->request, event->text, event->text_len, event->raw, event->raw_len);
    return 0;
}

void snp_exec_answer(struct snp_exec *exec,
                     const struct snp_exec_answer *answer,
                     struct snp_request *request)
{
    if (exec->open_call == 0 || exec->open_call != answer->call ||
        exec->session->live.running != exec || exec->executor == NULL ||
        exec->executor->tier == NULL) {
        snp_request_answer(request, SNP_WRITE(snp_answer_answer, .answered = false));
        return;
    }
    call_answer(exec, answer, request);
}
