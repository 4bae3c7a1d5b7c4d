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

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/str.h"
#include "daemon/result.h"
#include "daemon/server.h"
#include "daemon/spec.h"
#include "daemon/tier.h"
#include "policy/project.h"

struct snp_exec {
    struct snp_request *request; /* owned; NULL once ended */
    struct snp_session *session; /* one reference */
    struct snp_exec_spec spec;   /* owned */
    char *raw;                   /* owned: code, then standard input; gone once sent */
    size_t raw_len;
    uint64_t wall_ms;
    uint64_t cell; /* its number; 0 = has not started */
};

/* sessions.destroy or an internal end on its way. */
struct closing {
    struct snp_session *session; /* one reference */
    struct snp_request *request; /* owned, or NULL */
};

static void session_pump(struct snp_session *session);

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

/* Fail all that wait; true if there was any. */
static bool waiting_fail(struct snp_session *session, const struct snp_err *err)
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

static int result_answer(struct snp_exec *exec,
                         const struct snp_tier_answer *answer,
                         struct snp_err *ret_bad)
{
    const struct snp_session *session = exec->session;
    int r = snp_result_check(answer->head, answer->raw_len, ret_bad);

    if (r == 0 && (strcmp(snp_json_str(answer->head, "session", ""), session->id) != 0 ||
                   (uint64_t)snp_json_int(answer->head, "cell", 0) != exec->cell)) {
        r = snp_fail(ret_bad, SNP_E_INVALID, "result: of another cell");
    }
    if (r < 0) {
        struct snp_err err;

        (void)snp_fail(&err, SNP_E_PEER, "the tier gave a wrong answer: %s", ret_bad->msg);
        snp_request_fail(SNP_TAKE_PTR(exec->request), &err);
        return r;
    }
    result_send(exec, answer);
    return 0;
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
            session_pump(session);
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
    snp_autojson json_t *head =
        json_pack("{s:s, s:I, s:s, s:I, s:b, s:O?, s:I, s:b, s:b}", "session", session->id,
                  "cell", (json_int_t)session->cells + 1, "kind", spec->kind, "code_len",
                  (json_int_t)spec->code_len, "stdin", spec->has_stdin, "argv", spec->argv,
                  "wall_ms", (json_int_t)exec->wall_ms, "stream", spec->stream, "require_exact",
                  spec->require_exact);
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
    return snp_tier_ask(session->tier, &call, err);
}

/* Start the next cell if the session is free for it. */
static void session_pump(struct snp_session *session)
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
        session->running = exec;
        snp_session_set_state(session, SNP_SESSION_RUNNING);
    }
}

/* Opening ----------------------------------------------------------------------------- */

static int open_check(const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    static const struct snp_field fields[] = {
        {"manifest", SNP_T_OBJ,             0},
        {"open_us",  SNP_T_INT | SNP_T_OPT, 0},
    };
    static const struct snp_record record = SNP_RECORD("open", fields);
    int r = snp_record_check(answer->head, &record, ret_bad);

    return r < 0 ? r : snp_manifest_check(json_object_get(answer->head, "manifest"), ret_bad);
}

static int session_ask_open(struct snp_session *session, struct snp_err *err);

/*
 * The strongest tier cannot run here. The next takes its place only where that was allowed,
 * and where it can do what was asked (not: another file system); its manifest then says
 * why. 0 when it was asked; else err says what can be done.
 */
static int open_weaker(struct snp_session *session, struct snp_err *err)
{
    if (err->code != SNP_E_UNSUPPORTED || !session->is_auto ||
        session->kind != SNP_TIER_NATIVE || session->state != SNP_SESSION_OPENING ||
        session->rootfs != NULL) {
        return err->code;
    }
    if (!session->allow_degraded) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%.340s; --env local runs it in the weaker local tier", err->msg);
    }
    session->instead_of = strdup(err->msg);
    session->kind = SNP_TIER_LOCAL;
    if (session->instead_of == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    session->tier = NULL;
    if (snp_tier_get(session->server, session->kind, &session->tier, err) < 0) {
        return err->code;
    }
    return session_ask_open(session, err);
}

static int open_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct snp_session *session = ctx;
    struct snp_err err = {.code = SNP_OK};
    int r = 0;

    if (answer->head == NULL) {
        err = *answer->err;
    } else {
        r = open_check(answer, ret_bad);
        if (r < 0) {
            (void)snp_fail(&err, SNP_E_PEER, "the tier gave a wrong answer: %s", ret_bad->msg);
        }
    }
    if (session->state == SNP_SESSION_OPENING) {
        if (answer->head != NULL && r == 0) {
            const json_t *manifest = json_object_get(answer->head, "manifest");

            session->manifest = snp_json_text(manifest);
            if (session->manifest == NULL) {
                (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
            }
            (void)snprintf(session->template_name, sizeof(session->template_name), "%s",
                           snp_json_str(manifest, "template", ""));
        }
        if (session->manifest != NULL) {
            snp_session_set_state(session, SNP_SESSION_IDLE);
            session_pump(session);
        } else if (answer->head != NULL && r == 0) {
            /* It is open in the tier. */
            (void)waiting_fail(session, &err);
            snp_session_end(session, NULL);
        } else if (r < 0 || open_weaker(session, &err) < 0) {
            /* Nothing of it is left in the tier. */
            (void)waiting_fail(session, &err);
            snp_session_remove(session);
        }
    }
    snp_session_unref(session);
    return r;
}

static const struct snp_tier_ops open_ops = {open_done, NULL};

static int session_ask_open(struct snp_session *session, struct snp_err *err)
{
    snp_autojson json_t *head = json_pack(
        "{s:s, s:s?, s:o, s:s?, s:s?, s:O, s:b, s:b, s:b, s:s?}", "session", session->id,
        "template", session->template_name[0] == '\0' ? NULL : session->template_name, "limits",
        snp_limits_to_json(&session->limits), "project", session->project, "rootfs",
        session->rootfs, "env", session->env, "allow_degraded", session->allow_degraded,
        "require_exact", session->require_exact, "lasting", session->name[0] != '\0',
        "instead_of", session->instead_of);
    struct snp_tier_call call = {
        .method = "open",
        .head = head,
        .timeout_ms = SNP_CAP_TIER_OPEN_MS,
        .ops = &open_ops,
        .ctx = session,
    };
    int r;

    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_tier_ask(session->tier, &call, err);
    if (r == 0) {
        snp_session_ref(session);
    }
    return r;
}

/* The client has resolved the path; what it says is checked all the same. */
static int project_look(const char *path, const char *home, struct snp_err *err)
{
    char real[PATH_MAX];
    struct stat st;
    int r = snp_project_check(path, home, err);

    if (r < 0) {
        return r;
    }
    if (realpath(path, real) == NULL || stat(real, &st) < 0) {
        return snp_fail_sys(err, errno, "project %s", path);
    }
    if (strcmp(real, path) != 0) {
        return snp_fail(err, SNP_E_INVALID, "the project path goes through a link: %s is %s",
                        path, real);
    }
    if (!S_ISDIR(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "the project is not a folder: %s", path);
    }
    return 0;
}

static int session_fill(struct snp_session *session,
                        const struct snp_exec_spec *spec,
                        struct snp_err *err)
{
    const char *name =
        spec->template_name != NULL ? spec->template_name : spec->default_template;

    (void)snprintf(session->template_name, sizeof(session->template_name), "%s",
                   name == NULL ? "" : name);
    session->project = spec->project == NULL ? NULL : strdup(spec->project);
    session->rootfs = spec->rootfs == NULL ? NULL : strdup(spec->rootfs);
    session->env = spec->env == NULL ? json_object() : json_incref(spec->env);
    session->limits = spec->limits;
    session->allow_degraded = spec->allow_degraded;
    session->require_exact = spec->require_exact;
    if (session->env == NULL || (spec->project != NULL && session->project == NULL) ||
        (spec->rootfs != NULL && session->rootfs == NULL)) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

static int session_open(struct snp_server *server,
                        const struct snp_exec_spec *spec,
                        struct snp_session **ret,
                        struct snp_err *err)
{
    struct snp_session *session = NULL;
    struct snp_tier *tier = NULL;
    int r = 0;

    if (spec->project != NULL) {
        r = project_look(spec->project, server->options.home, err);
    }
    if (r == 0) {
        r = snp_tier_get(server, spec->tier, &tier, err);
    }
    if (r == 0) {
        r = snp_session_new(server, spec->session, &session, err);
    }
    if (r < 0) {
        return r;
    }
    SNP_ASSERT(session != NULL);
    session->tier = tier;
    session->is_auto = spec->tier == SNP_TIER_AUTO;
    session->kind = session->is_auto ? SNP_TIER_NATIVE : spec->tier;
    r = session_fill(session, spec, err);
    if (r == 0) {
        r = session_ask_open(session, err);
    }
    if (r < 0) {
        snp_session_remove(session);
        return r;
    }
    *ret = session;
    return 0;
}

/* The loss of a session is told once; after that its name is free. */
static int lost_tell(struct snp_session *session, struct snp_err *err)
{
    if (session->loss_told) {
        snp_session_remove(session);
        return 0;
    }
    session->loss_told = true;
    return snp_fail(
        err, SNP_E_NOT_FOUND,
        "session %s was lost with its variables and files (%s); the next cell starts "
        "it anew",
        session->name[0] != '\0' ? session->name : session->id, session->loss);
}

static int session_for(struct snp_server *server,
                       const struct snp_exec_spec *spec,
                       struct snp_session **ret,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err)
{
    struct snp_session *session =
        spec->session == NULL ? NULL : snp_sessions_find(server, spec->session);
    struct snp_session_policy policy;
    int r;

    if (session != NULL && session->state == SNP_SESSION_LOST) {
        r = lost_tell(session, err);
        if (r < 0) {
            return r;
        }
        session = NULL;
    }
    if (session == NULL) {
        if (spec->session != NULL && snp_session_is_id(spec->session)) {
            return snp_fail(err, SNP_E_NOT_FOUND, "there is no session %s", spec->session);
        }
        *ret_wall_ms = spec->limits.value[SNP_LIMIT_WALL];
        return session_open(server, spec, ret, err);
    }
    policy =
        (struct snp_session_policy){session->kind,   session->template_name, session->project,
                                    session->rootfs, session->env,           &session->limits};
    r = snp_exec_spec_fits(spec, &policy, ret_wall_ms, err);
    if (r == 0) {
        *ret = session;
    }
    return r;
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
        r = session_for(request->server, &exec->spec, &session, &exec->wall_ms, &err);
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
    session_pump(session);
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
    snp_autojson json_t *head = json_pack("{s:s}", "session", session->id);
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
    } else if (snp_tier_ask(session->tier, &call, &err) < 0) {
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

/* The end of sessions ----------------------------------------------------------------- */

static int close_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct closing *closing = ctx;

    (void)ret_bad;
    snp_session_remove(closing->session);
    snp_session_unref(closing->session);
    if (closing->request == NULL) {
        /* nobody waits */
    } else if (answer->head == NULL && answer->err->code != SNP_E_NOT_FOUND &&
               answer->err->code != SNP_E_PEER) {
        snp_request_fail(closing->request, answer->err);
    } else {
        snp_request_answer(closing->request, json_pack("{s:b}", "destroyed", 1));
    }
    free(closing);
    return 0;
}

static const struct snp_tier_ops close_ops = {close_done, NULL};

static int session_ask_close(struct snp_session *session,
                             struct snp_request *request,
                             struct snp_err *err)
{
    snp_autojson json_t *head = json_pack("{s:s}", "session", session->id);
    struct closing *closing = calloc(1, sizeof(*closing));
    struct snp_tier_call call = {
        .method = "close",
        .head = head,
        .timeout_ms = SNP_CAP_TIER_MS,
        .is_urgent = true,
        .ops = &close_ops,
        .ctx = closing,
    };
    int r;

    if (head == NULL || closing == NULL) {
        free(closing);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    closing->session = session;
    closing->request = request;
    r = snp_tier_ask(session->tier, &call, err);
    if (r < 0) {
        free(closing);
        return r;
    }
    snp_session_ref(session);
    return 0;
}

void snp_session_end(struct snp_session *session, struct snp_request *request)
{
    struct snp_err err;

    if (session->state == SNP_SESSION_LOST) {
        snp_session_remove(session);
        if (request != NULL) {
            snp_request_answer(request, json_pack("{s:b}", "destroyed", 1));
        }
        return;
    }
    snp_session_set_state(session, SNP_SESSION_CLOSING);
    (void)snp_fail(&err, SNP_E_NOT_FOUND, "the session was destroyed");
    (void)waiting_fail(session, &err);
    if (session_ask_close(session, request, &err) < 0) {
        snp_log(SNP_LOG_ERROR, "session-close", "session=%s error=\"%s\"", session->id,
                err.msg);
        snp_session_remove(session);
        if (request != NULL) {
            snp_request_fail(request, &err);
        }
    }
}

void snp_exec_session_lost(struct snp_session *session, const char *reason)
{
    enum snp_session_state before = session->state;
    struct snp_err err;

    if (before == SNP_SESSION_LOST || before == SNP_SESSION_CLOSING) {
        return;
    }
    snp_log(session->server->is_ending ? SNP_LOG_INFO : SNP_LOG_WARN, "session-lost",
            "session=%s why=\"%s\"", session->id, reason);
    (void)snprintf(session->loss, sizeof(session->loss), "%.190s", reason);
    snp_session_set_state(session, SNP_SESSION_LOST);
    session->tier = NULL;
    (void)snp_fail(&err, SNP_E_PEER, "the session was lost: %s", session->loss);
    if (waiting_fail(session, &err)) {
        session->loss_told = true;
    }
    if (before == SNP_SESSION_OPENING || session->name[0] == '\0') {
        snp_session_remove(session);
    }
}

void snp_exec_tier_lost(struct snp_server *server, struct snp_tier *tier, const char *reason)
{
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        if (session != NULL && session->tier == tier) {
            snp_exec_session_lost(session, reason);
        }
    }
}
