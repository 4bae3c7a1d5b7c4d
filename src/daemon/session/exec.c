/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells before they run, and what stops them.
 *
 * exec -> find or open its session -> wait for its turn -> run (cell.c).
 * Invariants: a cell is in exactly one place: session->live.waiting or session->live.running. It
 * holds one reference of its session and owns its request, which is ended exactly once.
 * Only an IDLE session starts a cell; one without an executor is woken first.
 */
#include "daemon/session/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/server.h"
#include "daemon/session/cell.h"
#include "daemon/session/end.h"
#include "daemon/session/executor.h"
#include "daemon/session/open.h"
#include "daemon/session/turn.h"
#include "daemon/session/wake.h"
#include "daemon/spec.h"
#include "daemon/tier.h"
#include "wire/record.h"
#include "wire/session.h"

/* Cells ------------------------------------------------------------------------------- */

void snp_exec_uncount_raw(struct snp_exec *exec)
{
    struct snp_peer *peer = exec->request == NULL ? NULL : exec->request->peer;

    if (peer != NULL) {
        peer->waiting_bytes -= exec->waiting_bytes;
    }
    exec->waiting_bytes = 0;
}

void snp_exec_drop_raw(struct snp_exec *exec)
{
    snp_exec_uncount_raw(exec);
    free(SNP_TAKE_PTR(exec->raw));
}

void snp_exec_free(struct snp_exec *exec)
{
    SNP_ASSERT(exec->request == NULL);
    free(exec->raw);
    free(exec->record);
    snp_buf_done(&exec->events);
    snp_exec_spec_done(&exec->spec);
    if (exec->executor != NULL) {
        snp_executor_unref(exec->executor);
    }
    if (exec->session != NULL) {
        snp_session_unref(exec->session);
    }
    free(exec);
}

void snp_exec_fail(struct snp_exec *exec, const struct snp_err *err)
{
    snp_exec_drop_raw(exec);
    if (exec->ended != NULL) {
        exec->ended(exec->ctx, NULL, err);
    } else {
        snp_request_fail(SNP_TAKE_PTR(exec->request), err);
    }
    snp_exec_free(exec);
}

static bool waiting_remove(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    for (unsigned i = 0; i < session->live.n_waiting; i++) {
        if (session->live.waiting[i] == exec) {
            session->live.n_waiting--;
            for (unsigned j = i; j < session->live.n_waiting; j++) {
                session->live.waiting[j] = session->live.waiting[j + 1];
            }
            return true;
        }
    }
    return false;
}

bool snp_exec_put_back(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    if (session->live.n_waiting == SNP_CAP_WAITING) {
        return false;
    }
    for (unsigned i = session->live.n_waiting; i > 0; i--) {
        session->live.waiting[i] = session->live.waiting[i - 1];
    }
    session->live.waiting[0] = exec;
    session->live.n_waiting++;
    return true;
}

/* Whether those who need its executor may have it. */
static bool is_live(const struct snp_session *session)
{
    return session->live.executor != NULL && session->live.wake == NULL &&
           (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_RUNNING);
}

/* err: NULL = the session is live; they are called as long as it is, which each of them may change. */
static void waiters_run(struct snp_session *session, const struct snp_err *err)
{
    while (session->live.waiters != NULL && (err != NULL || is_live(session))) {
        struct snp_waiter *waiter = session->live.waiters;

        session->live.waiters = waiter->next;
        waiter->run(waiter, session, err);
    }
}

void snp_exec_fail_first(struct snp_session *session, const struct snp_err *err)
{
    waiters_run(session, err);
    if (session->live.n_waiting > 0) {
        struct snp_exec *exec = session->live.waiting[0];

        (void)waiting_remove(exec);
        snp_exec_fail(exec, err);
    }
}

static void cells_fail(struct snp_session *session, const struct snp_err *err)
{
    while (session->live.n_waiting > 0) {
        struct snp_exec *exec = session->live.waiting[0];

        (void)waiting_remove(exec);
        snp_exec_fail(exec, err);
    }
}

bool snp_exec_fail_waiting(struct snp_session *session, const struct snp_err *err)
{
    bool any = session->live.n_waiting > 0;

    waiters_run(session, err);
    cells_fail(session, err);
    return any;
}

/* Whose turn it is --------------------------------------------------------------------- */

static void next_start(struct snp_session *session)
{
    while (session->state == SNP_SESSION_IDLE && session->live.n_waiting > 0) {
        struct snp_exec *exec = session->live.waiting[0];
        struct snp_err err;

        (void)waiting_remove(exec);
        if (snp_cell_run(exec, &err) < 0) {
            snp_exec_fail(exec, &err);
            if (session->name[0] == '\0') {
                snp_session_end(session, NULL);
                return;
            }
        }
    }
}

/* Nothing begins any more; files on their way into one that is live still come. */
static void refuse_waiting(struct snp_session *session)
{
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the daemon is ending");
    if (snp_session_is_asleep(session)) {
        waiters_run(session, &err);
    }
    cells_fail(session, &err);
}

void snp_exec_pump(struct snp_session *session)
{
    snp_session_ref(session);
    snp_turns_run(session);
    if (session->server->is_ending && session->live.wake == NULL) {
        refuse_waiting(session);
    }
    if (session->live.wake != NULL) {
        snp_wake_go_on(session);
    } else if (snp_session_is_asleep(session)) {
        if (session->live.running == NULL &&
            (session->live.n_waiting > 0 || session->live.waiters != NULL)) {
            snp_wake_start(session);
        }
    } else if (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_RUNNING) {
        waiters_run(session, NULL);
        next_start(session);
    }
    snp_session_unref(session);
}

void snp_session_when_live(struct snp_session *session, struct snp_waiter *waiter)
{
    struct snp_waiter **at = &session->live.waiters;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    waiter->next = NULL;
    *at = waiter;
    snp_exec_pump(session);
}

/* Put it at the end of its session's line. */
static int exec_enqueue(struct snp_exec *exec, const char *raw, struct snp_err *err)
{
    struct snp_peer *peer = exec->request->peer;
    struct snp_session *session = exec->session;

    if (session->live.n_waiting == SNP_CAP_WAITING) {
        return snp_fail(err, SNP_E_LIMIT,
                        "%d cells wait for session %s already, as many as may; try again when "
                        "some have ended",
                        SNP_CAP_WAITING,
                        session->name[0] == '\0' ? session->id : session->name);
    }
    if (exec->raw_len > SNP_CAP_WAITING_BYTES - peer->waiting_bytes) {
        return snp_fail(err, SNP_E_LIMIT,
                        "more than %d MiB of code and input of this client wait for sessions; "
                        "try again when some cells have ended",
                        SNP_CAP_WAITING_BYTES >> 20);
    }
    exec->raw = malloc(exec->raw_len + 1);
    if (exec->raw == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (exec->raw_len > 0) {
        memcpy(exec->raw, raw, exec->raw_len);
    }
    peer->waiting_bytes += exec->raw_len;
    exec->waiting_bytes = exec->raw_len;
    session->live.waiting[session->live.n_waiting++] = exec;
    return 0;
}

/* What a session does that cells wait for; NULL: it is being started, which is nobody else's work. */
static const char *busy_with(const struct snp_session *session)
{
    if (session->live.running != NULL) {
        return "run";
    }
    return session->state == SNP_SESSION_SAVING         ? "save"
           : session->state == SNP_SESSION_ROLLING_BACK ? "rollback"
                                                        : NULL;
}

static void tell_wait(struct snp_exec *exec, unsigned ahead)
{
    const struct snp_session *session = exec->session;
    const struct snp_exec *running = session->live.running;
    uint64_t now = snp_wall_us();
    uint64_t us = running != NULL && now > running->started_us ? now - running->started_us
                                                               : snp_now_us() - exec->asked_us;
    snp_autojson json_t *head = json_pack(
        "{s:s, s:s, s:o, s:I, s:I}", "event", "waiting", "for", busy_with(session), "cell",
        running == NULL ? json_null() : json_integer((json_int_t)running->cell), "ms",
        (json_int_t)(us / 1000), "ahead", (json_int_t)ahead);
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);

    exec->asked_us = 0;
    if (text != NULL && exec->request != NULL) {
        snp_request_event(exec->request, text, strlen(text), NULL, 0);
    }
}

static void waits_tell(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;
    uint64_t now = snp_now_us();
    bool is_more = false;

    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        for (unsigned j = 0; session != NULL && j < session->live.n_waiting; j++) {
            struct snp_exec *exec = session->live.waiting[j];

            if (exec->asked_us != 0 && busy_with(session) != NULL &&
                now - exec->asked_us >= (uint64_t)SNP_CAP_WAIT_TOLD_MS * 900) {
                tell_wait(exec, j);
            }
            is_more |= exec->asked_us != 0;
        }
    }
    if (is_more) {
        (void)uv_timer_start(timer, waits_tell, SNP_CAP_WAIT_TOLD_MS / 2, 0);
    }
}

/* It is first in line by now, if it need not wait. */
static void wait_note(struct snp_exec *exec)
{
    uv_timer_t *waits = &exec->session->server->waits;

    exec->asked_us = exec->spec.asked.tell_wait ? snp_now_us() : 0;
    if (exec->asked_us != 0 && !exec->session->server->is_ending &&
        !uv_is_active((uv_handle_t *)waits)) {
        (void)uv_timer_start(waits, waits_tell, SNP_CAP_WAIT_TOLD_MS, 0);
    }
}

void snp_exec_start(struct snp_request *request, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_exec *exec = calloc(1, sizeof(*exec));
    struct snp_session *session = NULL;
    struct snp_err err;
    int r;

    if (exec == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_request_fail(request, &err);
        return;
    }
    exec->request = request;
    exec->raw_len = raw_len;
    r = snp_exec_spec_read(head, raw_len, &exec->spec, &err);
    if (r == 0) {
        r = snp_session_for(request->server, &exec->spec, &session, &exec->wall_ms, &err);
    }
    if (r < 0) {
        snp_exec_fail(exec, &err);
        return;
    }
    SNP_ASSERT(session != NULL);
    snp_session_ref(session);
    exec->session = session;
    if (exec_enqueue(exec, raw, &err) < 0) {
        if (session->name[0] == '\0' && session->state == SNP_SESSION_OPENING) {
            snp_session_end(session, NULL);
        }
        snp_exec_fail(exec, &err);
        return;
    }
    request->exec = exec;
    wait_note(exec);
    snp_exec_pump(session);
}

/* Interrupts and clients that go ------------------------------------------------------ */

static int interrupt_done(void *ctx,
                          const struct snp_tier_answer *answer,
                          struct snp_err *ret_bad)
{
    static const struct snp_field fields[] = {
        {"interrupted", SNP_T_BOOL, 0},
    };
    static const struct snp_record record = SNP_RECORD("interrupt", fields);
    struct snp_request *request = ctx;
    int r;

    if (answer->head == NULL) {
        snp_request_fail(request, answer->err);
        return 0;
    }
    r = snp_record_check(answer->head, &record, ret_bad);
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

/* request: is answered; NULL = nobody is. */
static void running_interrupt(struct snp_session *session, struct snp_request *request)
{
    snp_autojson json_t *head =
        json_pack("{s:s}", "session", session->live.running->executor->id);
    struct snp_tier_call call = {
        .method = "interrupt",
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
    static const struct snp_field fields[] = {
        {"answered", SNP_T_BOOL, 0},
    };
    static const struct snp_record record = SNP_RECORD("answer", fields);
    struct snp_request *request = ctx;
    int r = answer->head == NULL ? 0 : snp_record_check(answer->head, &record, ret_bad);

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
    snp_autojson json_t *head = json_pack("{s:s, s:I, s:I, s:b}", "session", exec->executor->id,
                                          "cell", (json_int_t)exec->cell, "call",
                                          (json_int_t)answer->call, "ok", answer->is_ok);
    const struct snp_tier_call call = {
        .method = "answer",
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

/* Who could answer has gone: the code is told, and need not wait. */
static void call_refuse(struct snp_exec *exec)
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
        call_refuse(exec);
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

/* Take a waiting cell out; its unnamed session has no further use. */
static void waiting_drop(struct snp_exec *exec, const struct snp_err *err)
{
    struct snp_session *session = exec->session;

    snp_session_ref(session);
    snp_exec_fail(exec, err);
    if (session->name[0] == '\0' && session->state != SNP_SESSION_CLOSING &&
        session->state != SNP_SESSION_LOST) {
        snp_session_end(session, NULL);
    }
    snp_session_unref(session);
}

void snp_exec_interrupt(struct snp_exec *exec, struct snp_request *request)
{
    struct snp_err err;

    if (exec->session->live.running == exec && exec->executor->tier != NULL) {
        running_interrupt(exec->session, request);
        return;
    }
    if (exec->session->live.running == exec) {
        snp_request_answer(request, SNP_WRITE(snp_interrupt_answer, .interrupted = false));
        return;
    }
    (void)snp_fail(&err, SNP_E_TIMEOUT, "interrupted before it started");
    if (waiting_remove(exec)) {
        waiting_drop(exec, &err);
    }
    snp_request_answer(request, SNP_WRITE(snp_interrupt_answer, .interrupted = true));
}

void snp_exec_abandon(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the client has gone");
    if (waiting_remove(exec)) {
        waiting_drop(exec, &err);
    } else if (session->live.running == exec && session->name[0] == '\0' &&
               session->state == SNP_SESSION_RUNNING) {
        snp_session_end(session, NULL);
    } else if (session->live.running == exec && exec->spec.asked.attached &&
               exec->executor->tier != NULL) {
        running_interrupt(session, NULL); /* else it ends by its limits */
    } else if (session->live.running == exec) {
        call_refuse(exec);
    }
}
