/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/cell/call.h"

#include "base/wire/session.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/tier.h"
#include "wire/tier.h"

/* ctx: the request to answer; NULL = none. */
static int answered(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct snp_request *request = ctx;

    (void)ret_bad;
    if (request != NULL && answer->head == NULL) {
        snp_request_fail(request, answer->err);
    } else if (request != NULL) {
        snp_request_pass(request, answer->text, answer->text_len, NULL, 0);
    }
    return 0;
}

static void ask(struct snp_tier *tier,
                const struct snp_tier_call *call,
                struct snp_request *request)
{
    struct snp_err err;

    if (snp_tier_ask(tier, call, &err) < 0 && request != NULL) {
        snp_request_fail(request, &err);
    }
}

void snp_exec_interrupt_running(struct snp_session *session, struct snp_request *request)
{
    const struct snp_executor *executor = session->live.running->executor;
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_interrupt_request, .session = executor->id),
        .timeout_ms = session->server->options.tier_ms,
        .is_urgent = true,
        .answer = &snp_tier_interrupt_answer_form,
        .done = answered,
        .ctx = request,
    };

    ask(executor->tier, &call, request);
}

/* Calls of the code ------------------------------------------------------------------- */

/* Answer the open call. request: is answered; NULL = none. */
static void call_answer(struct snp_exec *exec,
                        const struct snp_exec_answer *answer,
                        struct snp_request *request)
{
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_answer_request, .session = exec->executor->id,
                          .cell = exec->cell, .call = answer->call, .ok = answer->is_ok),
        .raw = answer->raw,
        .raw_len = answer->raw_len,
        .timeout_ms = exec->session->server->options.tier_ms,
        .is_urgent = true,
        .answer = &snp_tier_answer_answer_form,
        .done = answered,
        .ctx = request,
    };

    exec->open_call = 0;
    ask(exec->executor->tier, &call, request);
}

void snp_exec_call_refuse(struct snp_exec *exec)
{
    static const char gone[] =
        "{\"error\": \"the program that answers this cell's calls disconnected\"}";
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
        return snp_fail(ret_bad, SNP_E_INVALID, "call: this cell may not make calls");
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
