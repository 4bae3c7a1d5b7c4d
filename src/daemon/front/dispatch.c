/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers of methods.
 *
 * snp_methods has the form of requests and answers; a row here has the preconditions, so that
 * handlers start with everything checked. Methods that are only passed to a session's tier have no
 * handler.
 */
#include "daemon/front/dispatch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "base/wire/methods.h"
#include "base/wire/process.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "daemon/cell/call.h"
#include "daemon/cell/end.h"
#include "daemon/cell/start.h"
#include "daemon/front/end.h"
#include "daemon/request.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/unsaved.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/show.h"
#include "daemon/session/table.h"
#include "daemon/tier.h"
#include "daemon/tiers.h"
#include "daemon/work.h"
#include "store/store.h"

enum {
    NEEDS_SESSION = 1 << 0,               /* `session` exists (it may be asleep or lost) */
    NEEDS_LIVE = 1 << 1,                  /* and has an executor; wakes it if needed */
    NEEDS_TIER = 1 << 2,                  /* a tier runs, or can be started */
    CHANGES = 1 << 3 | NEEDS_LIVE,        /* and is not about to hibernate */
    NEEDS_AWAKE = 1 << 4 | NEEDS_SESSION, /* and has an executor; does not wake it */
};

/* The handlers, indexed as snp_methods. */
struct handler {
    void (*run)(const struct snp_work *work);
    unsigned needs;
};

/* A request that continues later, with its head and bytes. */
struct deferred_request {
    struct snp_turn turn;
    /* its head and raw are owned; the session has one reference, or is NULL */
    struct snp_work work;
};

/* NULL: out of memory. */
static struct deferred_request *kept_new(const struct snp_work *work)
{
    struct deferred_request *kept = calloc(1, sizeof(*kept));
    char *raw = malloc(work->raw_len + 1);

    if (kept == NULL || raw == NULL) {
        free(kept);
        free(raw);
        return NULL;
    }
    if (work->raw_len > 0) {
        memcpy(raw, work->raw, work->raw_len);
    }
    kept->work = *work;
    kept->work.raw = raw;
    (void)json_incref(work->head);
    if (work->session != NULL) {
        snp_session_ref(work->session);
    }
    return kept;
}

/* NULL: out of memory, and the request was ended. */
static struct deferred_request *work_keep(const struct snp_work *work)
{
    struct deferred_request *kept = kept_new(work);

    if (kept == NULL) {
        snp_request_answer(work->request, NULL);
    }
    return kept;
}

static void kept_free(struct deferred_request *kept)
{
    if (kept == NULL) {
        return;
    }
    json_decref(kept->work.head);
    free((char *)(uintptr_t)kept->work.raw);
    snp_session_unref(kept->work.session);
    free(kept);
}

/* The tier died before it read the request: dispatch it again. kept: consumed. */
static void kept_again(struct deferred_request *kept)
{
    kept->work.request->is_again = true;
    snp_dispatch(kept->work.request, kept->work.head, kept->work.raw, kept->work.raw_len);
    kept_free(kept);
}

/* A method passed through to a tier. */
struct passing {
    struct snp_request *request;    /* owned */
    struct deferred_request *again; /* owned: to dispatch it again; or NULL */
    uint64_t raw_max;               /* bytes requested */
    bool has_more;                  /* more files follow; the session is saved with the last */
    struct snp_session *put_into;   /* one reference, and included in n_putting; or NULL */
};

/* Passing through ---------------------------------------------------------------------- */

static void passing_free(struct passing *passing)
{
    if (passing != NULL) {
        kept_free(passing->again);
        free(passing);
    }
}

/* The transfer has ended or failed: continue what waited for it. session: or NULL. */
static void put_ended(struct snp_session *session)
{
    if (session == NULL) {
        return;
    }
    snp_checkpoint_put_end(session);
    snp_session_go_on(session);
    snp_session_unref(session);
}

/* A put whose answer waits until the session is saved. */
struct put_kept {
    struct snp_request *request; /* owned */
    struct snp_session *session; /* one reference */
    json_t *answer;              /* owned */
};

/* err: why the session was not saved, or NULL. */
static void put_answer(const struct put_kept *kept, const struct snp_err *err)
{
    if (err != NULL) {
        (void)json_object_set_new(kept->answer, "unsaved", snp_unsaved_why(kept->session, err));
    }
    snp_request_answer(kept->request, kept->answer);
}

static void put_saved(void *ctx, json_t *report, const struct snp_err *err)
{
    struct put_kept *kept = ctx;

    (void)report;
    put_answer(kept, err);
    snp_session_unref(kept->session);
    free(kept);
}

/* Check whether the session can be saved before the answer; err says why not. */
static int put_may_save(const struct snp_session *session, bool has_more, struct snp_err *err)
{
    if (has_more) {
        return snp_fail(err, SNP_E_LIMIT, "the file is saved with the next part or file");
    }
    if (session->unsaved.when == SNP_CHECKPOINT_OFF) {
        return snp_fail(err, SNP_E_DENIED, "automatic saving is off");
    }
    if (!snp_tier_can(session->policy.place.tier, "save")) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "the %s tier cannot save sessions",
                        session->policy.place.tier->name);
    }
    if (session->state == SNP_SESSION_RUNNING) {
        return snp_fail(err, SNP_E_LIMIT, "cell %llu runs; the file is saved after it",
                        (unsigned long long)session->cells);
    }
    return session->live.executor != NULL &&
                   (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_SAVING)
               ? 0
               : snp_fail(err, SNP_E_PEER, "the session was lost before it was saved");
}

/* The tier has written the file. With durability synced, the session is saved before the answer. */
static void put_end(const struct passing *passing, json_t *answer)
{
    struct snp_session *session = passing->put_into;
    struct put_kept now = {passing->request, session, json_incref(answer)};
    struct put_kept *kept = NULL;
    struct snp_err err;

    if (session->unsaved.is_unsynced) {
        put_answer(&now, NULL);
        return;
    }
    if (put_may_save(session, passing->has_more, &err) == 0) {
        kept = malloc(sizeof(*kept));
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
    }
    if (kept == NULL) {
        put_answer(&now, &err);
        return;
    }
    *kept = now;
    snp_session_ref(session);
    snp_checkpoint_make_aside(session, put_saved,
                              kept); /* the save starts when no transfer is pending */
}

/* The note is removed: put the file again, but not a third time. */
static void put_undone(void *ctx, const struct snp_err *err)
{
    struct deferred_request *putting = ctx;
    struct snp_session *session = putting->work.session;
    struct snp_request *request = putting->work.request;

    if (err == NULL && !request->is_again) {
        kept_again(putting);
        put_ended(session);
        return;
    }
    if (err != NULL) {
        snp_request_refuse(request, err->code,
                           "the file was not put: the sandbox ended before it read the file, "
                           "and the journal cannot be written (%.300s)",
                           err->msg);
    } else {
        snp_request_refuse(request, SNP_E_PEER,
                           "the file was not put: the sandbox ended twice before it read the "
                           "file; put it again");
    }
    put_ended(session);
    kept_free(putting);
}

/*
 * The file certainly did not reach the session, which includes it in n_putting. putting: consumed.
 */
static void put_undo(struct deferred_request *putting)
{
    struct snp_err err;

    if (snp_entry_put_undo(putting->work.session, snp_json_str(putting->work.head, "path", ""),
                           put_undone, putting, &err) < 0) {
        put_undone(putting, &err);
    }
}

static int pass_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct passing *passing = ctx;
    struct snp_request *request = passing->request;
    int r = 0;

    if (answer->is_unread && passing->again != NULL && passing->put_into != NULL) {
        put_undo(SNP_TAKE_PTR(passing->again));
        passing->put_into = NULL;
    } else if (answer->is_unread && passing->again != NULL) {
        kept_again(SNP_TAKE_PTR(passing->again));
    } else if (answer->head == NULL) {
        snp_request_fail(request, answer->err);
    } else if (answer->raw_len > passing->raw_max) {
        r = snp_fail(ret_bad, SNP_E_INVALID, "more bytes than requested");
        snp_request_refuse(request, SNP_E_PEER, "the tier sent an invalid answer: %s",
                           ret_bad->msg);
    } else if (passing->put_into != NULL) {
        put_end(passing, answer->head);
    } else {
        snp_request_pass(request, answer->text, answer->text_len, answer->raw, answer->raw_len);
    }
    put_ended(passing->put_into);
    passing_free(passing);
    return r;
}

/*
 * put_into: already included in n_putting, if this puts a file; else NULL. again: consumed; or
 * NULL.
 */
static void pass(const struct snp_work *work,
                 struct snp_session *put_into,
                 struct deferred_request *again)
{
    json_t *head = json_copy(work->head);
    struct passing *passing = calloc(1, sizeof(*passing));
    struct snp_tier_call call = {
        .head = head,
        .raw = work->raw,
        .raw_len = work->raw_len,
        .timeout_ms = work->request->server->options.tier_ms,
        .answer = work->method->answer,
        .done = pass_done,
        .ctx = passing,
    };
    struct snp_err err;
    int r;

    if (head == NULL || passing == NULL ||
        (work->executor != NULL &&
         json_object_set_new(head, "session", json_string(work->executor->id)) < 0)) {
        json_decref(head);
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else {
        passing->request = work->request;
        passing->raw_max = (uint64_t)snp_json_int(head, "length", 0);
        passing->put_into = put_into;
        passing->again = again;
        passing->has_more =
            work->raw_len == SNP_FILE_CHUNK_MAX || snp_json_bool(head, "more", false);
        (void)json_object_del(head, "more"); /* only the daemon needs it */
        r = snp_tier_ask(work->tier, &call, &err);
    }
    if (r < 0) {
        snp_request_fail(work->request, &err);
        put_ended(put_into);
        free(passing);
        kept_free(again);
        return;
    }
    if (work->session != NULL) {
        snp_session_use(work->session);
    }
    if (put_into != NULL) {
        snp_checkpoint_schedule(put_into);
    }
}

static void run_pass(const struct snp_work *work)
{
    pass(work, NULL, work->raw_len > 0 || work->request->is_again ? NULL : kept_new(work));
}

/* The session has an executor now, or has had one. */
static bool executor_find(struct snp_work *work)
{
    work->executor = work->session->live.executor;
    work->tier = work->executor == NULL ? NULL : work->executor->tier;
    return work->tier != NULL;
}

/*
 * A file put into a named session is noted first: until a checkpoint has it, it can be lost, and
 * the loss must be reported. The session has one more reference, and n_putting includes it.
 */
static void put_noted(void *ctx, const struct snp_err *err)
{
    struct deferred_request *putting = ctx;
    struct snp_work *work = &putting->work;

    if (err != NULL) {
        snp_request_refuse(work->request, err->code,
                           "the file was not put: the journal cannot be written (%.300s)",
                           err->msg);
        put_ended(work->session);
        kept_free(putting);
    } else if (!executor_find(work)) {
        put_undo(putting);
    } else {
        pass(work, work->session, putting);
    }
}

static void run_put(const struct snp_work *work)
{
    struct deferred_request *putting;
    struct snp_err err;

    if (work->session->name[0] == '\0') {
        run_pass(work);
        return;
    }
    if (work->request->server->store != NULL &&
        snp_store_room(work->request->server->store, work->raw_len, &err) < 0) {
        snp_request_fail(work->request, &err); /* a file that could not be noted is refused */
        return;
    }
    putting = work_keep(work);
    if (putting == NULL) {
        return;
    }
    snp_session_ref(work->session);
    snp_checkpoint_put_begin(work->session);
    if (snp_entry_put(work->session, snp_json_str(work->head, "path", ""), put_noted, putting,
                      &err) < 0) {
        put_noted(putting, &err);
    }
}

/* Handlers ------------------------------------------------------------------------------- */

static void run_hello(const struct snp_work *work)
{
    const struct snp_server *server = work->request->server;
    int64_t version = snp_json_int(work->head, "version", 0);
    char state_id[SNP_DIR_ID_MAX + 1];

    if (version != SNP_RPC_VERSION) {
        snp_request_refuse(work->request, SNP_E_UNSUPPORTED,
                           "the client speaks protocol version %lld, this daemon (%s) speaks %d",
                           (long long)version, SNP_VERSION, SNP_RPC_VERSION);
        return;
    }
    snp_request_answer(work->request,
                       SNP_WRITE(snp_hello_answer, .version = SNP_RPC_VERSION,
                                 .program = SNP_VERSION, .pid = (uint64_t)getpid(),
                                 .uptime_ms = (snp_now_us() - server->started_us) / 1000,
                                 .state_dir = server->options.state_dir,
                                 .state_id = snp_dir_id(server->options.state_dir, state_id)));
}

static void run_exec(const struct snp_work *work)
{
    snp_exec_start(work->request, work->head, work->raw, work->raw_len);
}

static struct snp_exec *open_exec(const struct snp_request *request, uint64_t id)
{
    for (size_t i = 0; request->peer != NULL && i < SNP_CAP_REQUESTS; i++) {
        const struct snp_request *other = request->peer->open[i];

        if (other != NULL && other != request && other->id == id) {
            return other->exec;
        }
    }
    return NULL;
}

static void run_interrupt(const struct snp_work *work)
{
    struct snp_interrupt_request asked;
    struct snp_session *session = NULL;
    struct snp_exec *exec;
    struct snp_err err;

    snp_record_read(work->head, &snp_interrupt_request_form, &asked);
    if ((asked.session == NULL) == (json_object_get(work->head, "request") == NULL)) {
        snp_request_refuse(work->request, SNP_E_INVALID,
                           "interrupt: give either 'session' or 'request'");
        return;
    }
    if (asked.session != NULL) {
        if (snp_sessions_meant(work->request->server, asked.session, &session, &err) < 0) {
            snp_request_fail(work->request, &err);
            return;
        }
        exec = session->live.running;
    } else {
        exec = open_exec(work->request, asked.request);
    }
    if (exec != NULL) {
        snp_exec_interrupt(exec, work->request);
    } else {
        snp_request_answer(work->request, SNP_WRITE(snp_interrupt_answer, .interrupted = false));
    }
}

static void run_answer(const struct snp_work *work)
{
    struct snp_answer_request asked;
    struct snp_exec_answer answer = {.raw = work->raw, .raw_len = work->raw_len};
    struct snp_exec *exec;

    snp_record_read(work->head, &snp_answer_request_form, &asked);
    answer.call = (uint32_t)asked.call;
    answer.is_ok = asked.ok;
    exec = open_exec(work->request, asked.request);
    if (exec != NULL) {
        snp_exec_answer(exec, &answer, work->request);
    } else {
        snp_request_answer(work->request, SNP_WRITE(snp_answer_answer, .answered = false));
    }
}

static void run_process(const struct snp_work *work)
{
    if (work->executor != NULL) {
        run_pass(work);
        return;
    }
    snp_request_refuse(work->request, SNP_E_NOT_FOUND,
                       "no process %llu: the session has no sandbox now, and its processes ended "
                       "with the last one",
                       (unsigned long long)snp_json_int(work->head, "process", 0));
}

/* Processes end with their sandbox, so a session without one has none. */
static void run_process_list(const struct snp_work *work)
{
    snp_autojson json_t *none = NULL;

    if (work->executor != NULL) {
        run_pass(work);
        return;
    }
    none = json_array();
    snp_request_answer(work->request, SNP_WRITE(snp_process_list_answer, .processes = none));
}

static void run_list(const struct snp_work *work)
{
    const struct snp_sessions *table = &work->request->server->sessions;
    struct snp_err err;
    json_t *list;

    if (snp_sessions_check(work->request->server, &err) < 0) {
        snp_request_fail(work->request, &err);
        return;
    }
    snp_store_look(work->request->server->store);
    list = json_array();
    for (size_t i = 0; i < table->n_slots; i++) {
        const struct snp_session *session = table->slots[i];

        if (session != NULL && session->state != SNP_SESSION_CLOSING) {
            json_t *row = snp_session_to_json(session, false);
            json_t *unsaved = snp_unsaved_row(session);

            if (unsaved != NULL) {
                (void)json_object_set_new(row, "unsaved", unsaved);
            }
            /* A NULL row (out of memory) is refused here, and the failure detected. */
            if (json_array_append_new(list, row) < 0) {
                json_decref(list);
                list = NULL;
                break;
            }
        }
    }
    snp_request_answer(work->request, SNP_WRITE(snp_sessions_list_answer, .sessions = list));
    json_decref(list);
}

static void run_show(const struct snp_work *work)
{
    snp_request_answer(work->request, snp_session_to_json(work->session, true));
}

/* Resident pages of this process. */
static uint64_t rss_bytes(void)
{
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    char *size;
    char *end;
    uint64_t pages = 0;

    if (snp_file_read("/proc/self/statm", 4096, &text, NULL, &ignored) < 0) {
        return 0;
    }
    size = strchr(text, ' ');
    end = size == NULL ? NULL : strchr(size + 1, ' ');
    if (end == NULL) {
        return 0;
    }
    *end = '\0';
    return snp_parse_u64(size + 1, &pages) < 0 ? 0 : pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void run_stats(const struct snp_work *work)
{
    const struct snp_server *server = work->request->server;
    snp_autojson json_t *unsaved = NULL;

    snp_store_look(server->store);
    unsaved = snp_unsaved_list(server);
    snp_request_answer(work->request,
                       SNP_WRITE(snp_stats_answer, .unsaved = unsaved,
                                 .sessions = snp_sessions_open(&server->sessions),
                                 .clients = server->n_peers, .rss_bytes = rss_bytes(),
                                 .pid = (uint64_t)getpid()));
}

static void run_shutdown(const struct snp_work *work)
{
    if (snp_json_bool(work->head, "force", false)) {
        snp_server_end(work->request->server, work->request);
    } else {
        snp_server_stop(work->request->server, work->request);
    }
}

/* The table ------------------------------------------------------------------------------ */

static const struct handler handlers[SNP_METHODS_N] = {
    [SNP_METHOD_HELLO] = {run_hello, 0},
    [SNP_METHOD_EXEC] = {run_exec, 0},
    [SNP_METHOD_INTERRUPT] = {run_interrupt, 0},
    [SNP_METHOD_ANSWER] = {run_answer, 0},
    [SNP_METHOD_SESSIONS_LIST] = {run_list, 0},
    [SNP_METHOD_SESSIONS_SHOW] = {run_show, NEEDS_SESSION},
    [SNP_METHOD_SESSIONS_DESTROY] = {snp_run_destroy, NEEDS_SESSION},
    [SNP_METHOD_SESSIONS_CLEAR] = {snp_run_clear, NEEDS_SESSION},
    [SNP_METHOD_SESSIONS_MOVE] = {snp_run_move, NEEDS_SESSION},
    [SNP_METHOD_SESSIONS_SET] = {snp_run_set, NEEDS_SESSION},
    [SNP_METHOD_CHECKPOINT] = {snp_run_checkpoint, CHANGES},
    [SNP_METHOD_HIBERNATE] = {snp_run_hibernate, NEEDS_SESSION},
    [SNP_METHOD_HISTORY] = {snp_run_history, NEEDS_SESSION},
    [SNP_METHOD_CELL_SHOW] = {snp_run_cell_show, NEEDS_SESSION},
    [SNP_METHOD_GC] = {snp_run_gc, 0},
    [SNP_METHOD_JOURNAL_EVENTS] = {snp_run_events, 0},
    [SNP_METHOD_SNAPSHOT] = {snp_run_snapshot, NEEDS_SESSION},
    [SNP_METHOD_SNAPSHOTS_LIST] = {snp_run_snapshots_list, 0},
    [SNP_METHOD_SNAPSHOTS_REMOVE] = {snp_run_snapshots_remove, 0},
    [SNP_METHOD_ROLLBACK] = {snp_run_rollback, 0},
    [SNP_METHOD_FORK] = {snp_run_fork, 0},
    [SNP_METHOD_DIFF] = {snp_run_diff, 0},
    [SNP_METHOD_BLOB] = {snp_run_blob, 0},
    [SNP_METHOD_EXPORT] = {snp_run_export, 0},
    [SNP_METHOD_IMPORT_BEGIN] = {snp_run_import_begin, 0},
    [SNP_METHOD_IMPORT_DATA] = {snp_run_import_data, 0},
    [SNP_METHOD_IMPORT_END] = {snp_run_import_end, 0},
    [SNP_METHOD_PUT] = {run_put, CHANGES},
    [SNP_METHOD_GET] = {run_pass, NEEDS_LIVE},
    [SNP_METHOD_LS] = {run_pass, NEEDS_LIVE},
    [SNP_METHOD_OUTPUT] = {run_pass, NEEDS_TIER},
    [SNP_METHOD_PROCESS_LIST] = {run_process_list, NEEDS_AWAKE},
    [SNP_METHOD_PROCESS_READ] = {run_process, NEEDS_AWAKE},
    [SNP_METHOD_PROCESS_WRITE] = {run_process, NEEDS_AWAKE},
    [SNP_METHOD_PROCESS_SIGNAL] = {run_process, NEEDS_AWAKE},
    [SNP_METHOD_STATS] = {run_stats, 0},
    [SNP_METHOD_PROBE] = {run_pass, NEEDS_TIER},
    [SNP_METHOD_SHUTDOWN] = {run_shutdown, 0},
};

static const struct handler *handler_of(const struct snp_method_form *method)
{
    return &handlers[method - snp_methods];
}

static const struct snp_method_form *method_find(const char *name)
{
    for (size_t i = 0; i < SNP_METHODS_N; i++) {
        if (strcmp(snp_methods[i].request->what, name) == 0) {
            return &snp_methods[i];
        }
    }
    return NULL;
}

static int method_unknown(const char *name, struct snp_err *err)
{
    const char *names[SNP_METHODS_N];
    const char *near;

    for (size_t i = 0; i < SNP_METHODS_N; i++) {
        names[i] = snp_methods[i].request->what;
    }
    near = snp_suggest(name, names, SNP_ARRAY_LEN(names));
    return snp_fail_near(err, SNP_E_UNSUPPORTED, near, "unknown method '%.64s'", name);
}

int snp_method_check(json_t *head,
                     size_t raw_len,
                     const struct snp_method_form **ret,
                     struct snp_err *err)
{
    const char *name = snp_json_str(head, "method", NULL);
    const struct snp_method_form *method;

    if (name == NULL) {
        return snp_fail(err, SNP_E_INVALID, "'method' must be a string");
    }
    method = method_find(name);
    if (method == NULL) {
        return method_unknown(name, err);
    }
    SNP_TRY(snp_record_check(head, method->request, err));
    if (raw_len > method->raw_max) {
        return snp_fail(err, SNP_E_INVALID, "%s: at most %zu raw bytes", name, method->raw_max);
    }
    *ret = method;
    return 0;
}

/* A file has one name, for the tier, the journal and later calls. */
static int path_settle(json_t *head, struct snp_err *err)
{
    const char *path = snp_json_str(head, "path", NULL);
    snp_autofree char *plain = path == NULL || path[0] == '\0' ? NULL : snp_path_plain(path);

    if (path == NULL || path[0] == '\0') {
        return 0;
    }
    return plain == NULL || json_object_set_new(head, "path", json_string(plain)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int session_need(struct snp_work *work, struct snp_err *err)
{
    const char *name = snp_json_str(work->head, "session", "");

    return snp_sessions_meant(work->request->server, name, &work->session, err);
}

/* For a method without a session: the tier it names, or the tier that made the handle. */
static int tier_need(struct snp_work *work, struct snp_err *err)
{
    const char *handle = snp_json_str(work->head, "handle", NULL);
    const char *name = snp_json_str(work->head, "tier", SNP_TIER_AUTO);
    struct snp_found_tier *found = NULL;

    SNP_TRY(handle == NULL
                ? snp_tiers_find(&work->request->server->tiers, name, &found, err)
                : snp_tiers_of_handle(&work->request->server->tiers, handle, &found, err));
    return snp_tier_get(work->request->server, found, &work->tier, err);
}

/* A request that waited for its session to wake. */
static void parked_run(struct snp_turn *turn,
                       struct snp_session *session,
                       const struct snp_err *err)
{
    struct deferred_request *parked = snp_container_of(turn, struct deferred_request, turn);

    (void)session;
    if (err != NULL) {
        snp_request_fail(parked->work.request, err);
    } else {
        (void)executor_find(&parked->work);
        handler_of(parked->work.method)->run(&parked->work);
    }
    kept_free(parked);
}

static void park(const struct snp_work *work)
{
    struct deferred_request *parked = work_keep(work);

    if (parked != NULL) {
        parked->turn = (struct snp_turn){.kind = SNP_TURN_LIVE, .run = parked_run};
        snp_turn_ask(work->session, &parked->turn);
    }
}

void snp_dispatch(struct snp_request *request, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_work work = {.request = request, .head = head, .raw = raw, .raw_len = raw_len};
    unsigned needs;
    struct snp_err err;
    int r = snp_method_check(head, raw_len, &work.method, &err);

    SNP_ASSERT(r < 0 || work.method != NULL);
    if (r == 0 && request->server->is_ending) {
        r = snp_fail(&err, SNP_E_PEER, "the daemon is ending");
    }
    SNP_THEN(r, path_settle(head, &err));
    needs = r == 0 ? handler_of(work.method)->needs : 0;
    if (r == 0 && (needs & (NEEDS_SESSION | NEEDS_LIVE)) != 0) {
        r = session_need(&work, &err);
        if (r == 0) {
            memcpy(request->session, work.session->id, sizeof(request->session));
        }
    }
    if (r == 0 && (needs & NEEDS_TIER) != 0) {
        r = tier_need(&work, &err);
    }
    if (r < 0) {
        snp_request_fail(request, &err);
        return;
    }
    if ((needs & NEEDS_LIVE) != 0) {
        SNP_ASSERT(work.session != NULL);
        if (!snp_session_is_live(work.session) ||
            ((needs & CHANGES) == CHANGES && work.session->unsaved.n_departing > 0)) {
            park(&work);
            return;
        }
        (void)executor_find(&work);
    } else if ((needs & NEEDS_AWAKE) == NEEDS_AWAKE) {
        SNP_ASSERT(work.session != NULL);
        if (snp_session_is_live(work.session) || work.session->state == SNP_SESSION_SAVING) {
            (void)executor_find(&work);
        }
    }
    handler_of(work.method)->run(&work);
}
