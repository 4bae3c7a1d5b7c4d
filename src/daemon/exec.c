/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a cell.
 *
 * exec -> find or open its session -> wait for its turn -> ask the tier -> answer.
 * Invariants: a cell is in exactly one place: session->waiting or session->running. It
 * holds one reference of its session and owns its request, which is ended exactly once.
 * A session whose state is CLOSING or LOST starts no cell.
 */
#include "daemon/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "daemon/executor.h"
#include "daemon/result.h"
#include "daemon/server.h"
#include "daemon/session_end.h"
#include "daemon/session_open.h"
#include "daemon/spec.h"
#include "daemon/tier.h"

struct snp_exec {
    struct snp_request *request;   /* owned; NULL once ended */
    struct snp_session *session;   /* one reference */
    struct snp_executor *executor; /* that runs it; one reference; NULL = has not started */
    struct snp_exec_spec spec;     /* owned */
    char *raw;                     /* owned: code, then standard input; gone once sent */
    size_t raw_len;
    uint64_t wall_ms;
    uint64_t cell; /* its number; 0 = has not started */
};

/* Cells ------------------------------------------------------------------------------- */

static void raw_drop(struct snp_exec *exec)
{
    struct snp_peer *peer = exec->request == NULL ? NULL : exec->request->peer;

    if (peer != NULL && exec->raw != NULL) {
        peer->held_bytes -= exec->raw_len;
    }
    free(SNP_TAKE_PTR(exec->raw));
}

static void exec_free(struct snp_exec *exec)
{
    SNP_ASSERT(exec->request == NULL);
    free(exec->raw);
    snp_exec_spec_done(&exec->spec);
    if (exec->executor != NULL) {
        snp_executor_unref(exec->executor);
    }
    if (exec->session != NULL) {
        snp_session_unref(exec->session);
    }
    free(exec);
}

/* End a cell that is in neither place any more. */
static void exec_fail(struct snp_exec *exec, const struct snp_err *err)
{
    raw_drop(exec);
    snp_request_fail(SNP_TAKE_PTR(exec->request), err);
    exec_free(exec);
}

static bool waiting_remove(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    for (unsigned i = 0; i < session->n_waiting; i++) {
        if (session->waiting[i] == exec) {
            session->n_waiting--;
            for (unsigned j = i; j < session->n_waiting; j++) {
                session->waiting[j] = session->waiting[j + 1];
            }
            return true;
        }
    }
    return false;
}

bool snp_exec_fail_waiting(struct snp_session *session, const struct snp_err *err)
{
    bool any = session->n_waiting > 0;

    while (session->n_waiting > 0) {
        struct snp_exec *exec = session->waiting[0];

        (void)waiting_remove(exec);
        exec_fail(exec, err);
    }
    return any;
}

/* Running ----------------------------------------------------------------------------- */

/*
 * The tier's text as it came, plus what we know: the name, and the manifest of `open`, unless
 * the tier gave another. Nothing is written anew, since most of it is of no concern to us.
 */
static void result_send(struct snp_exec *exec, const struct snp_tier_answer *answer)
{
    const struct snp_session *session = exec->session;
    const char *quote = session->name[0] == '\0' ? "" : "\"";
    const char *name = session->name[0] == '\0' ? "null" : session->name;
    snp_autobuf struct snp_buf text = {0};
    size_t n = answer->text_len;
    int r;

    while (n > 0 && answer->text[n - 1] != '}') { /* it is an object, with members */
        n--;
    }
    SNP_ASSERT(n > 0);
    snp_buf_init(&text, (size_t)2 * SNP_FRAME_HEAD_MAX);
    r = snp_buf_add(&text, answer->text, n - 1);
    if (r == 0) {
        /* A name holds nothing that JSON would escape. */
        r = snp_buf_addf(&text, ",\"name\":%s%s%s", quote, name, quote);
    }
    if (r == 0 && json_object_get(answer->head, "manifest") == NULL) {
        r = snp_buf_adds(&text, ",\"manifest\":");
        r = r == 0 ? snp_buf_adds(&text, session->manifest) : r;
    }
    if (r == 0) {
        r = snp_buf_adds(&text, "}");
    }
    if (r < 0) {
        struct snp_err err;

        (void)snp_fail(&err, (enum snp_code)r, "no room for the answer");
        snp_request_fail(SNP_TAKE_PTR(exec->request), &err);
        return;
    }
    snp_request_pass(SNP_TAKE_PTR(exec->request), snp_buf_bytes(&text), text.len, NULL, 0);
}

/*
 * Is it the answer to this cell, from the executor the session had last? One that has been
 * replaced has no say, whatever it says and whenever.
 */
static int answer_check(const struct snp_exec *exec,
                        const struct snp_tier_answer *answer,
                        struct snp_err *ret_bad)
{
    const struct snp_executor *executor = exec->executor;
    int r = snp_result_check(answer->head, answer->raw_len, ret_bad);

    if (r == 0 && (strcmp(snp_json_str(answer->head, "session", ""), executor->id) != 0 ||
                   (uint64_t)snp_json_int(answer->head, "cell", 0) != exec->cell)) {
        return snp_fail(ret_bad, SNP_E_INVALID, "result: of another cell");
    }
    if (r == 0 && (uint64_t)snp_json_int(answer->head, "epoch", (int64_t)executor->epoch) !=
                      executor->epoch) {
        return snp_fail(ret_bad, SNP_E_INVALID, "result: of another epoch");
    }
    return r;
}

static int result_answer(struct snp_exec *exec,
                         const struct snp_tier_answer *answer,
                         struct snp_err *ret_bad)
{
    struct snp_err err;
    int r = answer_check(exec, answer, ret_bad);

    if (r < 0) {
        (void)snp_fail(&err, SNP_E_PEER, "the tier gave a wrong answer: %s", ret_bad->msg);
    } else if (exec->session->epoch != exec->executor->epoch) {
        snp_log(SNP_LOG_WARN, "late-result", "session=%s executor=%s epoch=%llu cell=%llu",
                exec->session->id, exec->executor->id,
                (unsigned long long)exec->executor->epoch, (unsigned long long)exec->cell);
        (void)snp_fail(&err, SNP_E_PEER,
                       "the cell ended after its session had been taken from it");
    } else {
        result_send(exec, answer);
        return 0;
    }
    snp_request_fail(SNP_TAKE_PTR(exec->request), &err);
    return r;
}

static int exec_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct snp_exec *exec = ctx;
    struct snp_session *session = exec->session;
    int r = 0;

    exec->request->exec = NULL;
    if (answer->head != NULL) {
        r = result_answer(exec, answer, ret_bad);
    } else {
        struct snp_err err = *answer->err;

        if (session->state == SNP_SESSION_LOST) {
            session->loss_told = true;
            (void)snp_err_wrap(&err, "cell killed, session lost");
        }
        snp_request_fail(SNP_TAKE_PTR(exec->request), &err);
    }
    session->running = NULL;
    if (session->state == SNP_SESSION_RUNNING) {
        snp_session_set_state(session, SNP_SESSION_IDLE);
        if (session->name[0] == '\0') {
            snp_session_end(session, NULL);
        } else {
            snp_exec_pump(session);
        }
    }
    exec_free(exec);
    return r;
}

static int exec_event(void *ctx, const struct snp_tier_answer *event, struct snp_err *ret_bad)
{
    struct snp_exec *exec = ctx;
    int r = snp_event_check(event->head, event->raw_len, ret_bad);

    if (r == 0) {
        snp_request_event(exec->request, event->text, event->text_len, event->raw,
                          event->raw_len);
    }
    return r;
}

static const struct snp_tier_ops exec_ops = {exec_done, exec_event};

static int exec_send(struct snp_exec *exec, struct snp_err *err)
{
    struct snp_session *session = exec->session;
    const struct snp_exec_spec *spec = &exec->spec;
    snp_autojson json_t *head = json_pack(
        "{s:s, s:I, s:s, s:I, s:b, s:O?, s:I, s:b, s:b, s:I}", "session", session->executor->id,
        "cell", (json_int_t)session->cells + 1, "kind", spec->kind, "code_len",
        (json_int_t)spec->code_len, "stdin", spec->has_stdin, "argv", spec->argv, "wall_ms",
        (json_int_t)exec->wall_ms, "stream", spec->stream, "require_exact", spec->require_exact,
        "epoch", (json_int_t)session->epoch);
    struct snp_tier_call call = {
        .method = "exec",
        .head = head,
        .raw = exec->raw,
        .raw_len = exec->raw_len,
        .timeout_ms = exec->wall_ms + SNP_CAP_TIER_MS,
        .ops = &exec_ops,
        .ctx = exec,
    };

    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_tier_ask(session->executor->tier, &call, err);
}

/* Start the next cell if the session is free for it. */
void snp_exec_pump(struct snp_session *session)
{
    while (session->state == SNP_SESSION_IDLE && session->n_waiting > 0) {
        struct snp_exec *exec = session->waiting[0];
        struct snp_err err;

        (void)waiting_remove(exec);
        if (exec_send(exec, &err) < 0) {
            exec_fail(exec, &err);
            if (session->name[0] == '\0') {
                snp_session_end(session, NULL);
                return;
            }
            continue;
        }
        raw_drop(exec);
        session->cells++;
        exec->cell = session->cells;
        exec->executor = session->executor;
        snp_executor_ref(exec->executor);
        session->running = exec;
        snp_session_set_state(session, SNP_SESSION_RUNNING);
    }
}

/* Put it at the end of its session's line. */
static int exec_enqueue(struct snp_exec *exec, const char *raw, struct snp_err *err)
{
    struct snp_peer *peer = exec->request->peer;
    struct snp_session *session = exec->session;

    if (session->n_waiting == SNP_CAP_WAITING) {
        return snp_fail(err, SNP_E_LIMIT, "%d cells wait for this session already",
                        SNP_CAP_WAITING);
    }
    if (exec->raw_len > SNP_CAP_HELD_BYTES - peer->held_bytes) {
        return snp_fail(err, SNP_E_LIMIT,
                        "more than %d MiB of code and input wait for sessions",
                        SNP_CAP_HELD_BYTES >> 20);
    }
    exec->raw = malloc(exec->raw_len + 1);
    if (exec->raw == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (exec->raw_len > 0) {
        memcpy(exec->raw, raw, exec->raw_len);
    }
    peer->held_bytes += exec->raw_len;
    session->waiting[session->n_waiting++] = exec;
    return 0;
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
        exec_fail(exec, &err);
        return;
    }
    SNP_ASSERT(session != NULL);
    snp_session_ref(session);
    exec->session = session;
    if (exec_enqueue(exec, raw, &err) < 0) {
        if (session->name[0] == '\0' && session->state == SNP_SESSION_OPENING) {
            snp_session_end(session, NULL);
        }
        exec_fail(exec, &err);
        return;
    }
    request->exec = exec;
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

static const struct snp_tier_ops interrupt_ops = {interrupt_done, NULL};

static void running_interrupt(struct snp_session *session, struct snp_request *request)
{
    snp_autojson json_t *head = json_pack("{s:s}", "session", session->executor->id);
    struct snp_tier_call call = {
        .method = "interrupt",
        .head = head,
        .timeout_ms = SNP_CAP_TIER_MS,
        .is_urgent = true,
        .ops = &interrupt_ops,
        .ctx = request,
    };
    struct snp_err err;

    if (head == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_request_fail(request, &err);
    } else if (snp_tier_ask(session->executor->tier, &call, &err) < 0) {
        snp_request_fail(request, &err);
    }
}

/* Take a waiting cell out; its unnamed session has no further use. */
static void waiting_drop(struct snp_exec *exec, const struct snp_err *err)
{
    struct snp_session *session = exec->session;

    snp_session_ref(session);
    exec_fail(exec, err);
    if (session->name[0] == '\0' && session->state != SNP_SESSION_CLOSING &&
        session->state != SNP_SESSION_LOST) {
        snp_session_end(session, NULL);
    }
    snp_session_unref(session);
}

void snp_exec_interrupt(struct snp_exec *exec, struct snp_request *request)
{
    struct snp_err err;

    if (exec->session->running == exec) {
        running_interrupt(exec->session, request);
        return;
    }
    (void)snp_fail(&err, SNP_E_TIMEOUT, "interrupted before it started");
    if (waiting_remove(exec)) {
        waiting_drop(exec, &err);
    }
    snp_request_answer(request, json_pack("{s:b}", "interrupted", 1));
}

void snp_exec_abandon(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the client has gone");
    if (waiting_remove(exec)) {
        waiting_drop(exec, &err);
    } else if (session->running == exec && session->name[0] == '\0' &&
               session->state == SNP_SESSION_RUNNING) {
        snp_session_end(session, NULL);
    }
}
