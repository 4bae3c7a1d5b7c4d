/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tier process and its open calls.
 *
 * Invariants: found->running is the tier that takes calls, cleared as soon as its stream ends,
 * before any call is notified. The memory stays until the loop has released the stream, the timer
 * and the process. A call's id is its slot and a generation, so a late answer to a forgotten call
 * cannot be taken for another's.
 */
#include "daemon/tier.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rundir.h"
#include "base/str.h"
#include "base/wire/frame.h"
#include "base/wire/process.h"
#include "base/wire/result.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "daemon/co.h"
#include "daemon/server.h"
#include "wire/tier.h"

enum {
    SLOT_BITS = 12,
    TIER_FD = 3, /* the stream's number in the tier */
    CHECK_MS = 1000,
    REASON_MAX = 128,
};

_Static_assert(SNP_CAP_TIER_CALLS == 1 << SLOT_BITS, "a slot fits its bits");

struct tier_call {
    uint32_t id; /* 0 = free slot */
    uint32_t next_free;
    uint64_t deadline_us;
    uint64_t end; /* of its frame, in the stream */
    const struct snp_record *answer;
    snp_tier_told *done;
    snp_tier_told *event;
    void *ctx;
};

struct snp_tier {
    struct snp_conn conn;
    struct snp_server *server;    /* borrowed */
    struct snp_found_tier *found; /* borrowed */
    uv_process_t process;
    uv_timer_t timer; /* of overdue calls; after the end, of the process's exit */
    unsigned n_parts; /* stream, timer, process: still held by the loop */
    int inside_fd; /* owned; the tier's end of the stream until the process was started, then -1 */
    bool has_handle; /* the loop has the process handle */
    bool has_exited; /* no process: it has ended, or was not started */
    bool is_over;    /* the stream is closed, all calls were ended */
    int64_t exit_status;
    uint32_t generation;
    uint32_t n_calls;
    uint32_t n_slots;    /* slots ever used */
    uint32_t first_free; /* of a chain through next_free, which SNP_CAP_TIER_CALLS ends */
    struct tier_call calls[SNP_CAP_TIER_CALLS];
};

/* Lifetime ------------------------------------------------------------------------- */

static void part_gone(struct snp_tier *tier)
{
    struct snp_server *server = tier->server;

    tier->n_parts--;
    if (tier->n_parts == 0) {
        snp_closep(&tier->inside_fd);
        free(tier);
        server->hooks->tier_gone(server);
    }
}

static void conn_released(struct snp_conn *conn)
{
    part_gone(snp_container_of(conn, struct snp_tier, conn));
}

static void handle_released(uv_handle_t *handle)
{
    part_gone(handle->data);
}

/* The stream and the process have ended: let the loop release the rest. */
static void tier_finish(struct snp_tier *tier)
{
    if (!tier->is_over || !tier->has_exited || uv_is_closing((uv_handle_t *)&tier->timer)) {
        return;
    }
    uv_close((uv_handle_t *)&tier->timer, handle_released);
    if (tier->has_handle) {
        uv_close((uv_handle_t *)&tier->process, handle_released);
    }
}

static void successor_start(struct snp_found_tier *found);

static void process_exited(uv_process_t *process, int64_t exit_status, int term_signal)
{
    struct snp_tier *tier = process->data;

    tier->has_exited = true;
    tier->exit_status = exit_status;
    snp_log(SNP_LOG_INFO, "tier-exit", "tier=%s pid=%d status=%lld signal=%d", tier->found->name,
            (int)process->pid, (long long)exit_status, term_signal);
    if (!tier->is_over) {
        struct snp_err why;

        /* A descendant may still hold the stream, which is useless now. */
        (void)snp_fail(&why, SNP_E_PEER, "the process ended (%s %d)",
                       term_signal != 0 ? "signal" : "status",
                       term_signal != 0 ? term_signal : (int)exit_status);
        snp_conn_abort(&tier->conn, &why);
    }
    tier->found->n_processes--;
    successor_start(tier->found);
    tier_finish(tier);
}

static void exit_overdue(uv_timer_t *timer)
{
    struct snp_tier *tier = timer->data;

    if (!tier->has_exited) {
        snp_log(SNP_LOG_WARN, "tier-kill", "tier=%s pid=%d", tier->found->name,
                (int)tier->process.pid);
        (void)uv_process_kill(&tier->process, SIGKILL);
    }
}

/* Calls ------------------------------------------------------------------------------ */

static struct tier_call *call_find(struct snp_tier *tier, uint32_t id)
{
    uint32_t slot = id & (SNP_CAP_TIER_CALLS - 1);

    return id != 0 && slot < tier->n_slots && tier->calls[slot].id == id ? &tier->calls[slot]
                                                                         : NULL;
}

static struct tier_call *call_new(struct snp_tier *tier)
{
    uint32_t slot = tier->first_free;

    if (slot != SNP_CAP_TIER_CALLS) {
        tier->first_free = tier->calls[slot].next_free;
    } else if (tier->n_slots < SNP_CAP_TIER_CALLS) {
        slot = tier->n_slots++;
    } else {
        return NULL;
    }
    tier->generation = tier->generation % ((1U << (32 - SLOT_BITS)) - 1) + 1;
    tier->calls[slot].id = tier->generation << SLOT_BITS | slot;
    tier->n_calls++;
    return &tier->calls[slot];
}

static void call_free(struct snp_tier *tier, struct tier_call *call)
{
    call->next_free = tier->first_free;
    call->id = 0;
    tier->first_free = (uint32_t)(call - tier->calls);
    tier->n_calls--;
}

/* End a call: its slot is free before the callee runs, which may start another call. */
static int call_done(struct snp_tier *tier,
                     struct tier_call *call,
                     const struct snp_tier_answer *answer,
                     struct snp_err *ret_bad)
{
    snp_tier_told *done = call->done;
    void *ctx = call->ctx;

    call_free(tier, call);
    if (tier->n_calls == 0 && !tier->is_over) {
        (void)uv_timer_stop(&tier->timer);
    }
    return done == NULL ? 0 : done(ctx, answer, ret_bad);
}

static int response_take(struct snp_tier *tier,
                         struct tier_call *call,
                         const struct snp_tier_answer *answer,
                         struct snp_err *ret_bad)
{
    struct snp_err failure;
    struct snp_err ignored;
    int r = call->answer == NULL ? 0 : snp_record_check(answer->head, call->answer, ret_bad);

    if (r == 0) {
        return call_done(tier, call, answer, ret_bad);
    }
    (void)snp_fail(&failure, SNP_E_PEER, "the tier sent an invalid answer: %s", ret_bad->msg);
    (void)call_done(tier, call, &(struct snp_tier_answer){.err = &failure}, &ignored);
    return r;
}

static void on_check(uv_timer_t *timer)
{
    struct snp_tier *tier = timer->data;
    uint64_t now = snp_now_us();

    for (uint32_t i = 0; i < tier->n_slots; i++) {
        if (tier->calls[i].id != 0 && tier->calls[i].deadline_us < now) {
            struct snp_err why;

            (void)snp_fail(&why, SNP_E_TIMEOUT, "it did not answer in time");
            snp_conn_abort(&tier->conn, &why);
            return;
        }
    }
}

/* Frames ------------------------------------------------------------------------------ */

static int handle_process(struct snp_tier *tier, json_t *head, struct snp_err *ret_bad)
{
    struct snp_event_process ended;
    char how[32];

    SNP_TRY(snp_record_check(head, &snp_event_process_form, ret_bad));
    snp_record_read(head, &snp_event_process_form, &ended);
    (void)snprintf(how, sizeof(how), "%lld", (long long)ended.exit_code);
    tier->server->hooks->process_ended(tier, tier->server, ended.session, ended.process,
                                       ended.signal == NULL ? how : ended.signal);
    return 0;
}

static int handle_gone(struct snp_tier *tier, json_t *head, struct snp_err *ret_bad)
{
    struct snp_server *server = tier->server;
    int r = snp_record_check(head, &snp_event_gone_form, ret_bad);

    if (r < 0 || !snp_streq(snp_json_str(head, "event", ""), "gone")) {
        return r < 0 ? r : snp_fail(ret_bad, SNP_E_INVALID, "an unknown event without a request");
    }
    server->hooks->sandbox_gone(tier, server, snp_json_str(head, "session", ""),
                                snp_json_str(head, "reason", ""));
    return 0;
}

static int handle_frame(struct snp_tier *tier,
                        const struct snp_frame *frame,
                        struct snp_err *ret_bad)
{
    struct tier_call *call = call_find(tier, frame->id);
    snp_autojson json_t *head = NULL;
    struct snp_tier_answer answer;
    struct snp_err failure;

    SNP_TRY(snp_json_parse(frame->head, frame->head_len, &head, ret_bad));
    answer = (struct snp_tier_answer){.head = head,
                                      .text = frame->head,
                                      .text_len = frame->head_len,
                                      .raw = frame->raw,
                                      .raw_len = frame->raw_len};
    if (frame->id == 0 && frame->type == SNP_RPC_EVENT) {
        return snp_streq(snp_json_str(head, "event", ""), "process")
                   ? handle_process(tier, head, ret_bad)
                   : handle_gone(tier, head, ret_bad);
    }
    if (call == NULL) {
        return snp_fail(ret_bad, SNP_E_INVALID, "an answer to a request that is not open");
    }
    switch (frame->type) {
    case SNP_RPC_RESPONSE:
        return response_take(tier, call, &answer, ret_bad);
    case SNP_RPC_ERROR:
        (void)snp_json_to_err(head, &failure);
        answer = (struct snp_tier_answer){.err = &failure};
        return call_done(tier, call, &answer, ret_bad);
    case SNP_RPC_EVENT:
        if (call->event != NULL) {
            return call->event(call->ctx, &answer, ret_bad);
        }
        return snp_fail(ret_bad, SNP_E_INVALID, "an event for a request that has none");
    default:
        return snp_fail(ret_bad, SNP_E_INVALID, "a frame of type %u", frame->type);
    }
}

static void conn_frame(struct snp_conn *conn, const struct snp_frame *frame)
{
    struct snp_tier *tier = snp_container_of(conn, struct snp_tier, conn);
    struct snp_err bad;

    if (handle_frame(tier, frame, &bad) < 0) {
        (void)snp_err_wrap(&bad, "it broke the protocol");
        snp_conn_abort(conn, &bad);
    }
}

static void conn_closed(struct snp_conn *conn, const struct snp_err *why)
{
    struct snp_tier *tier = snp_container_of(conn, struct snp_tier, conn);
    struct snp_server *server = tier->server;
    struct snp_tier_answer answer = {0};
    struct snp_err lost;
    bool in_order = server->is_ending && why->code == SNP_OK;
    char reason[REASON_MAX];

    (void)snprintf(reason, sizeof(reason), "%.120s",
                   in_order              ? "the daemon is ending"
                   : why->code == SNP_OK ? "it closed its stream"
                                         : why->msg);
    snp_log(in_order ? SNP_LOG_INFO : SNP_LOG_ERROR, "tier-end", "tier=%s pid=%d why=\"%s\"",
            tier->found->name, (int)tier->process.pid, reason);
    tier->is_over = true;
    if (tier->found->running == tier) {
        tier->found->running = NULL;
    }
    server->hooks->tier_lost(tier, server, reason);
    (void)snp_fail(&lost, SNP_E_PEER, "the %s tier ended: %s", tier->found->name, reason);
    answer.err = &lost;
    answer.has_died = why->code == SNP_OK || why->code == SNP_E_PEER || why->code == SNP_E_SYS;
    for (uint32_t i = 0; i < tier->n_slots; i++) {
        struct snp_err ignored;

        if (tier->calls[i].id != 0) {
            answer.is_unread = answer.has_died && snp_conn_is_unread(conn, tier->calls[i].end);
            (void)call_done(tier, &tier->calls[i], &answer, &ignored);
        }
    }
    (void)uv_timer_start(&tier->timer, exit_overdue, in_order ? SNP_CAP_TIER_EXIT_MS : 0, 0);
    tier_finish(tier);
}

static const struct snp_conn_ops conn_ops = {conn_frame, conn_closed, conn_released};

/* Start ------------------------------------------------------------------------------- */

static int tier_spawn(struct snp_tier *tier, struct snp_err *err)
{
    struct snp_server *server = tier->server;
    /* Each tier has a separate state folder, because each clears what it finds there. */
    snp_autofree char *state =
        strcmp(tier->found->name, SNP_TIER_FIRST) == 0
            ? strdup(server->options.state_dir)
            : snp_format("%s/%s", server->options.state_dir, tier->found->name);
    char flag[] = "--state";
    char outputs_flag[] = "--outputs";
    snp_autofree char *outputs = snp_format("%llu", (unsigned long long)server->outputs_bytes);
    char *argv[] = {tier->found->path, flag, state, outputs_flag, outputs, NULL};
    uv_stdio_container_t stdio[TIER_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = tier->inside_fd},
    };
    uv_process_options_t options = {
        .exit_cb = process_exited,
        .file = tier->found->path,
        .args = argv,
        .stdio_count = TIER_FD + 1,
        .stdio = stdio,
    };
    int r;

    SNP_TRY_MEMORY(state != NULL && outputs != NULL, err);
    SNP_TRY(strcmp(tier->found->name, SNP_TIER_FIRST) == 0 ? 0 : snp_private_dir(state, err));
    r = uv_spawn(&server->loop, &tier->process, &options);
    /* libuv leaves a handle that must be closed even on failure. */
    tier->has_handle = true;
    tier->n_parts++;
    snp_closep(&tier->inside_fd);
    tier->inside_fd = -1;
    if (r < 0) {
        return snp_fail_sys(err, -r, "start %s", tier->found->path);
    }
    tier->has_exited = false;
    tier->found->n_processes++;
    snp_log(SNP_LOG_INFO, "tier-start", "tier=%s pid=%d", tier->found->name,
            (int)tier->process.pid);
    return 0;
}

/*
 * Start the tier that waited for the last process of its kind to be reaped. Not before: the old
 * one's sandboxes must be gone, and both use the same state folder.
 */
static void successor_start(struct snp_found_tier *found)
{
    struct snp_tier *tier = found->running;
    struct snp_err err;

    if (tier == NULL || tier->inside_fd < 0 || found->n_processes > 0) {
        return;
    }
    if (tier_spawn(tier, &err) < 0) {
        snp_conn_abort(&tier->conn, &err);
    }
}

static int tier_start(struct snp_server *server,
                      struct snp_found_tier *found,
                      struct snp_tier **ret,
                      struct snp_err *err)
{
    snp_autoclose int ours = -1;
    snp_autoclose int theirs = -1;
    int pair[2];
    struct snp_tier *tier;
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return snp_fail_sys(err, errno, "socketpair");
    }
    ours = pair[0];
    theirs = pair[1];
    if (snp_set_nonblock(ours, true) < 0) {
        return snp_fail_sys(err, errno, "set a stream non-blocking");
    }
    tier = calloc(1, sizeof(*tier));
    SNP_TRY_MEMORY(tier, err);
    tier->server = server;
    tier->found = found;
    tier->first_free = SNP_CAP_TIER_CALLS;
    tier->process.data = tier;
    tier->has_exited = true;
    tier->inside_fd = SNP_TAKE_FD(theirs);
    r = snp_conn_open(&tier->conn, &server->loop, SNP_TAKE_FD(ours), &conn_ops, err);
    if (r < 0) {
        snp_closep(&tier->inside_fd);
        free(tier);
        return r;
    }
    tier->n_parts = 2;
    server->n_tiers++;
    (void)uv_timer_init(&server->loop, &tier->timer);
    tier->timer.data = tier;
    if (found->n_processes == 0) {
        r = tier_spawn(tier, err);
    }
    if (r < 0) {
        snp_conn_abort(&tier->conn, err);
        return r;
    }
    *ret = tier;
    return 0;
}

/* The description that a user's tier gives. It gets no other call before. */
static int about_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct snp_found_tier *found = ctx;

    (void)ret_bad;
    if (answer->head != NULL) {
        json_decref(found->about);
        found->about = json_incref(answer->head);
    }
    return 0;
}

static int about_ask(struct snp_tier *tier, struct snp_err *err)
{
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_probe_request, .tier = NULL),
        .timeout_ms = SNP_CAP_TIER_OPEN_MS,
        .answer = &snp_probe_answer_form,
        .done = about_done,
        .ctx = tier->found,
    };

    return snp_tier_ask(tier, &call, err);
}

int snp_tier_get(struct snp_server *server,
                 struct snp_found_tier *found,
                 struct snp_tier **ret,
                 struct snp_err *err)
{
    int r;

    if (server->is_ending) {
        return snp_fail(err, SNP_E_PEER, "the daemon is ending");
    }
    if (found->running == NULL) {
        r = snp_tiers_check(&server->tiers, found, err);
        r = r < 0 ? r : tier_start(server, found, &found->running, err);
        r = r < 0 || !found->is_claimed ? r : about_ask(found->running, err);
        if (r < 0) {
            return snp_err_wrap(err, "%s tier", found->name);
        }
    }
    *ret = found->running;
    return 0;
}

void snp_tier_warm(struct snp_server *server)
{
    struct snp_found_tier *found = snp_tiers_first(&server->tiers);
    struct snp_err ignored;

    if (found != NULL && found->running == NULL) {
        (void)tier_start(server, found, &found->running, &ignored);
    }
    (void)!snp_tiers_find(&server->tiers, SNP_TIER_AUTO, &found, &ignored);
}

/* Name an installed tier that has the verb. */
static int unsupported(const struct snp_tier *tier, const char *verb, struct snp_err *err)
{
    const struct snp_found_tier *other = snp_tiers_weaker(&tier->server->tiers, NULL, verb);

    return snp_fail(err, SNP_E_UNSUPPORTED, "the %s tier does not support \"%s\"%s%s%s",
                    tier->found->name, verb, other == NULL ? "" : "; the ",
                    other == NULL ? "" : other->name, other == NULL ? "" : " tier does");
}

/* The verb that a tier must have for a request: its method, but processes are started by `exec`. */
static const char *verb_of(const json_t *head)
{
    return snp_streq(snp_json_str(head, "kind", NULL), "process")
               ? snp_process_list_request_form.what
               : snp_json_str(head, "method", "");
}

int snp_tier_ask(struct snp_tier *tier, const struct snp_tier_call *asked, struct snp_err *err)
{
    snp_autojson json_t *head = asked->head;
    const char *verb = verb_of(head);
    snp_autofree char *text = NULL;
    snp_autoclose int fd = asked->has_fd ? asked->fd : -1;
    struct snp_frame frame = {
        .type = SNP_RPC_REQUEST, .raw = asked->raw, .raw_len = asked->raw_len};
    struct tier_call *call;
    uint64_t begin;

    SNP_TRY_MEMORY(head, err);
    if (!snp_tier_can(tier->found, verb)) {
        return unsupported(tier, verb, err);
    }
    text = snp_json_text(head);
    SNP_TRY_MEMORY(text, err);
    frame.head = text;
    frame.head_len = strlen(text);
    if (!asked->is_urgent &&
        snp_conn_queued(&tier->conn) + frame.raw_len + frame.head_len > SNP_CAP_QUEUE_BYTES / 2) {
        return snp_fail(err, SNP_E_LIMIT, "the %s tier is busy; try again", tier->found->name);
    }
    call = call_new(tier);
    if (call == NULL) {
        return snp_fail(err, SNP_E_LIMIT, "the %s tier has %d requests open; try again",
                        tier->found->name, SNP_CAP_TIER_CALLS);
    }
    frame.id = call->id;
    begin = snp_conn_end_of(&tier->conn);
    if (snp_conn_send_fd(&tier->conn, &frame, SNP_TAKE_FD(fd)) < 0) {
        call_free(tier, call);
        return snp_fail(err, SNP_E_LIMIT, "the request is larger than a frame");
    }
    /* A broken stream takes no frames. */
    call->end = snp_conn_end_of(&tier->conn) > begin ? snp_conn_end_of(&tier->conn) : UINT64_MAX;
    call->answer = asked->answer;
    call->done = asked->done;
    call->event = asked->event;
    call->ctx = asked->ctx;
    call->deadline_us = snp_now_us() + asked->timeout_ms * 1000;
    if (tier->n_calls == 1) {
        (void)uv_timer_start(&tier->timer, on_check, CHECK_MS, CHECK_MS);
    }
    return 0;
}

int snp_tier_answered(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    (void)ret_bad;
    snp_await_end(ctx, answer->head, answer->err);
    return 0;
}

int snp_tier_await(struct snp_tier *tier,
                   const struct snp_tier_call *asked,
                   json_t **ret_answer,
                   struct snp_err *err)
{
    struct snp_await wait = {0};
    struct snp_tier_call call = *asked;

    call.done = snp_tier_answered;
    call.ctx = &wait;
    SNP_TRY(snp_tier_ask(tier, &call, err));
    return snp_await(&wait, ret_answer, err);
}

/* Send the request, which is taken over, to every running tier that supports its method. */
static void tell_all(struct snp_server *server, json_t *request)
{
    snp_autojson json_t *head = request;

    for (struct snp_found_tier *at = server->tiers.first; at != NULL && head != NULL;
         at = at->next) {
        struct snp_tier_call call = {.timeout_ms = server->options.tier_ms, .is_urgent = true};
        const char *method = snp_json_str(head, "method", "");
        struct snp_err err;

        if (at->running == NULL || !snp_tier_can(at, method)) {
            continue;
        }
        call.head = json_incref(head);
        if (snp_tier_ask(at->running, &call, &err) < 0) { /* full outputs end with their tier */
            snp_log(SNP_LOG_WARN, "tier-outputs", "method=%s why=\"%s\"", method, err.msg);
        }
    }
}

void snp_tier_forget(struct snp_server *server, const char *session)
{
    tell_all(server, SNP_WRITE(snp_tier_forget_request, .session = session));
}

void snp_tier_bound_outputs(struct snp_server *server)
{
    tell_all(server, SNP_WRITE(snp_tier_outputs_request, .bytes = server->outputs_bytes));
}

void snp_tier_end(struct snp_tier *tier)
{
    snp_conn_end(&tier->conn);
}
