/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of methods.
 *
 * A row says what the request must look like and what must exist before its handler
 * runs, so that handlers start with everything checked. Methods that only pass through
 * to a session's tier have no handler of their own: `answer` describes what must come back.
 */
#include "daemon/front/dispatch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/caps.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/entry.h"
#include "daemon/session/end.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/recover.h"
#include "daemon/spec.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "store/journal.h"
#include "wire/rpc.h"

#ifndef SNP_VERSION
#    define SNP_VERSION "0.1.0"
#endif

enum {
    NEEDS_SESSION = 1 << 0, /* `session` exists (it may be asleep or lost) */
    NEEDS_LIVE = 1 << 1,    /* and has an executor; it is woken for it */
    NEEDS_TIER = 1 << 2,    /* a tier runs, or can be started */
    METHOD_MAX = 32,
};

struct snp_method {
    const char *name;
    void (*run)(const struct snp_work *work);
    unsigned needs;
    struct snp_record record;        /* of the request's head */
    size_t raw_max;                  /* bytes after it */
    const struct snp_record *answer; /* of a tier's answer, where the method passes through */
};

/* A method passed through to a tier. */
struct passing {
    struct snp_request *request; /* owned */
    const struct snp_record *answer;
    uint64_t raw_max;             /* bytes asked for */
    struct snp_session *put_into; /* one reference, and counted in n_putting; or NULL */
};

/* What requests look like -------------------------------------------------------------- */

#define FIELD_METHOD                    \
    {                                   \
        "method", SNP_T_STR, METHOD_MAX \
    }
#define FIELD_SESSION                              \
    {                                              \
        "session", SNP_T_STR, SNP_SESSION_NAME_MAX \
    }
#define FIELD_PATH                      \
    {                                   \
        "path", SNP_T_STR, SNP_CAP_PATH \
    }
#define FIELD_OFFSET                   \
    {                                  \
        "offset", SNP_T_INT, 1LL << 50 \
    }
#define FIELD_LENGTH                            \
    {                                           \
        "length", SNP_T_INT, SNP_FILE_CHUNK_MAX \
    }

static const struct snp_field plain_fields[] = {FIELD_METHOD};
static const struct snp_field hello_fields[] = {
    FIELD_METHOD,
    {"version", SNP_T_INT, 0},
};
static const struct snp_field session_fields[] = {FIELD_METHOD, FIELD_SESSION};
static const struct snp_field clear_fields[] = {
    FIELD_METHOD,
    FIELD_SESSION,
    {"idle_only", SNP_T_BOOL | SNP_T_OPT, 0},
};
#define FIELD_REF(name_)                \
    {                                   \
        (name_), SNP_T_STR, SNP_CAP_REF \
    }
static const struct snp_field snapshot_fields[] = {
    FIELD_METHOD,
    FIELD_SESSION,
    {"name", SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_SESSION_NAME_MAX},
    {"wait", SNP_T_BOOL | SNP_T_OPT,             0                   },
};
static const struct snp_field list_fields[] = {
    FIELD_METHOD,
    {"session", SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_SESSION_NAME_MAX},
};
static const struct snp_field remove_fields[] = {FIELD_METHOD, FIELD_REF("snapshot")};
static const struct snp_field rollback_fields[] = {
    FIELD_METHOD,
    FIELD_REF("snapshot"),
    {"session", SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_SESSION_NAME_MAX},
};
static const struct snp_field fork_fields[] = {
    FIELD_METHOD,
    FIELD_REF("from"),
    {"n",    SNP_T_INT | SNP_T_OPT,              SNP_CAP_FORKS       },
    {"name", SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_SESSION_NAME_MAX},
};
static const struct snp_field diff_fields[] = {FIELD_METHOD, FIELD_REF("a"), FIELD_REF("b")};
static const struct snp_field blob_fields[] = {
    FIELD_METHOD,
    {"hash", SNP_T_STR, SNP_STORE_HASH_LEN},
    FIELD_OFFSET,
    FIELD_LENGTH,
};
static const struct snp_field export_fields[] = {FIELD_METHOD, FIELD_REF("from")};
static const struct snp_field begin_fields[] = {
    FIELD_METHOD,
    {"name",           SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_SESSION_NAME_MAX},
    {"limits",         SNP_T_OBJ | SNP_T_OPT,              0                   },
    {"tier",           SNP_T_STR | SNP_T_OPT,              32                  },
    {"allow_degraded", SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"require_exact",  SNP_T_BOOL | SNP_T_OPT,             0                   },
};
static const struct snp_field token_fields[] = {
    FIELD_METHOD,
    {"token", SNP_T_STR, SNP_SESSION_ID_LEN},
};
static const struct snp_field gc_fields[] = {
    FIELD_METHOD,
    {"budget_bytes", SNP_T_INT | SNP_T_NULL | SNP_T_OPT, 0},
};
static const struct snp_field history_fields[] = {
    FIELD_METHOD,
    FIELD_SESSION,
    {"before", SNP_T_INT | SNP_T_NULL | SNP_T_OPT, 0                   },
    {"limit",  SNP_T_INT | SNP_T_NULL | SNP_T_OPT, SNP_JOURNAL_LIST_MAX},
};
static const struct snp_field cell_fields[] = {
    FIELD_METHOD,
    FIELD_SESSION,
    {"cell", SNP_T_INT, 0},
};
static const struct snp_field events_fields[] = {
    FIELD_METHOD,
    {"limit", SNP_T_INT | SNP_T_NULL | SNP_T_OPT, 0},
};
static const struct snp_field interrupt_fields[] = {
    FIELD_METHOD,
    {"session", SNP_T_STR | SNP_T_OPT, SNP_SESSION_NAME_MAX},
    {"request", SNP_T_INT | SNP_T_OPT, UINT32_MAX          },
};
static const struct snp_field answer_fields[] = {
    FIELD_METHOD,
    {"request", SNP_T_INT,  UINT32_MAX},
    {"call",    SNP_T_INT,  UINT32_MAX},
    {"ok",      SNP_T_BOOL, 0         },
};
static const struct snp_field put_fields[] = {
    FIELD_METHOD,
    FIELD_SESSION,
    FIELD_PATH,
    FIELD_OFFSET,
    {"truncate", SNP_T_BOOL | SNP_T_OPT, 0    },
    {"mode",     SNP_T_INT | SNP_T_OPT,  07777},
};
static const struct snp_field get_fields[] = {
    FIELD_METHOD, FIELD_SESSION, FIELD_PATH,
    FIELD_OFFSET, FIELD_LENGTH,  {"holes", SNP_T_BOOL | SNP_T_OPT, 0},
};
static const struct snp_field ls_fields[] = {FIELD_METHOD, FIELD_SESSION, FIELD_PATH};
static const struct snp_field output_fields[] = {
    FIELD_METHOD, {"handle", SNP_T_STR, SNP_CAP_HANDLE},
     {"stream", SNP_T_STR, 8             },
     FIELD_OFFSET,
    FIELD_LENGTH,
};

static const struct snp_field probe_fields[] = {
    FIELD_METHOD,
    {"tier", SNP_T_STR | SNP_T_OPT, 32},
};

/* What a tier must answer -------------------------------------------------------------- */

static const struct snp_field put_answer_fields[] = {
    {"size", SNP_T_INT, 0},
};
static const struct snp_record put_answer = SNP_RECORD("put", put_answer_fields);
static const struct snp_field get_answer_fields[] = {
    {"size",    SNP_T_INT,              0    },
    {"mode",    SNP_T_INT,              07777},
    {"eof",     SNP_T_BOOL,             0    },
    {"hole",    SNP_T_INT | SNP_T_OPT,  0    },
    {"room",    SNP_T_INT | SNP_T_OPT,  0    },
    {"project", SNP_T_BOOL | SNP_T_OPT, 0    },
};
static const struct snp_record get_answer = SNP_RECORD("get", get_answer_fields);
static const struct snp_field ls_answer_fields[] = {
    {"entries",   SNP_T_ARR,  0},
    {"truncated", SNP_T_BOOL, 0},
};
static const struct snp_record ls_answer = SNP_RECORD("ls", ls_answer_fields);
static const struct snp_field output_answer_fields[] = {
    {"size",      SNP_T_INT,              0},
    {"eof",       SNP_T_BOOL,             0},
    {"truncated", SNP_T_BOOL | SNP_T_OPT, 0},
};
static const struct snp_record output_answer = SNP_RECORD("output", output_answer_fields);
static const struct snp_field probe_answer_fields[] = {
    {"features", SNP_T_ARR,  256},
    {"usable",   SNP_T_BOOL, 0  },
};
static const struct snp_record probe_answer = SNP_RECORD("probe", probe_answer_fields);

/* The elements of an answer's list. */
static const struct snp_field entry_fields[] = {
    {"name",  SNP_T_TEXT,                                      0},
    {"type",  SNP_T_STR,                                       8},
    {"size",  SNP_T_INT,                                       0},
    {"mtime", SNP_T_INT | SNP_T_NEG | SNP_T_REAL | SNP_T_NULL, 0},
};
static const struct snp_field feature_fields[] = {
    {"name",   SNP_T_STR,              64  },
    {"ok",     SNP_T_BOOL,             0   },
    {"detail", SNP_T_STR | SNP_T_NULL, 4096},
    {"cost",   SNP_T_STR | SNP_T_NULL, 4096},
    {"fix",    SNP_T_STR | SNP_T_NULL, 4096},
};
static const struct {
    const char *member;
    struct snp_record record;
} lists[] = {
    {"entries",  SNP_RECORD("ls.entries",     entry_fields)  },
    {"features", SNP_RECORD("probe.features", feature_fields)},
};

static int answer_check(const struct passing *passing,
                        const struct snp_tier_answer *answer,
                        struct snp_err *ret_bad)
{
    int r = snp_record_check(answer->head, passing->answer, ret_bad);

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(lists); i++) {
        json_t *list = json_object_get(answer->head, lists[i].member);
        size_t j;
        json_t *item;

        json_array_foreach(list, j, item)
        {
            r = snp_record_check(item, &lists[i].record, ret_bad);
            if (r < 0) {
                return r;
            }
        }
    }
    if (r == 0 && answer->raw_len > passing->raw_max) {
        r = snp_fail(ret_bad, SNP_E_INVALID, "%s: more bytes than asked for",
                     passing->answer->what);
    }
    return r;
}

/* Passing through ---------------------------------------------------------------------- */

/* It is in the session, or never will be: whoever waited for that goes on. session: or NULL. */
static void put_ended(struct snp_session *session)
{
    if (session == NULL) {
        return;
    }
    session->unsaved.n_putting--;
    snp_checkpoint_go_on(session);
    snp_exec_pump(session);
    snp_session_unref(session);
}

static int pass_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct passing *passing = ctx;
    struct snp_request *request = passing->request;
    struct snp_err err;
    int r = 0;

    if (answer->head == NULL) {
        snp_request_fail(request, answer->err);
    } else {
        r = answer_check(passing, answer, ret_bad);
        if (r == 0) {
            snp_request_pass(request, answer->text, answer->text_len, answer->raw,
                             answer->raw_len);
        } else {
            (void)snp_fail(&err, SNP_E_PEER, "the tier gave a wrong answer: %s", ret_bad->msg);
            snp_request_fail(request, &err);
        }
    }
    put_ended(passing->put_into);
    free(passing);
    return r;
}

static const struct snp_tier_ops pass_ops = {pass_done, NULL};

/* put_into: with its count in n_putting, if this puts a file; else NULL. */
static void pass(const struct snp_work *work, struct snp_session *put_into)
{
    snp_autojson json_t *head = json_copy(work->head);
    struct passing *passing = calloc(1, sizeof(*passing));
    struct snp_tier_call call = {
        .method = work->method->name,
        .head = head,
        .raw = work->raw,
        .raw_len = work->raw_len,
        .timeout_ms = work->request->server->options.tier_ms,
        .ops = &pass_ops,
        .ctx = passing,
    };
    struct snp_err err;
    int r;

    if (head == NULL || passing == NULL ||
        (work->executor != NULL &&
         json_object_set_new(head, "session", json_string(work->executor->id)) < 0)) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else {
        passing->request = work->request;
        passing->answer = work->method->answer;
        passing->raw_max = (uint64_t)snp_json_int(head, "length", 0);
        passing->put_into = put_into;
        r = snp_tier_ask(work->tier, &call, &err);
    }
    if (r < 0) {
        free(passing);
        snp_request_fail(work->request, &err);
        put_ended(put_into);
        return;
    }
    if (work->session != NULL) {
        work->session->used_us = snp_now_us();
    }
    if (put_into != NULL) {
        snp_checkpoint_schedule(put_into);
    }
}

static void run_pass(const struct snp_work *work)
{
    pass(work, NULL);
}

/*
 * A file put into a session that lasts is noted first: until a checkpoint has it, it can be lost,
 * and then that must be told.
 */
struct putting {
    struct snp_work work;
    struct snp_session *session; /* one reference, and counted in n_putting */
    json_t *head;                /* one reference */
    char *raw;                   /* owned */
};

static void put_noted(void *ctx, const struct snp_err *err)
{
    struct putting *putting = ctx;
    struct snp_session *session = putting->session;
    struct snp_work *work = &putting->work;
    struct snp_err why;

    if (err != NULL) {
        (void)snp_fail(&why, err->code,
                       "the file was not put: the journal cannot be written (%.300s)",
                       err->msg);
        snp_request_fail(work->request, &why);
        put_ended(session);
    } else if (session->live.executor == NULL || session->live.executor->tier == NULL) {
        (void)snp_fail(&why, SNP_E_PEER,
                       "the file was not put: the session was lost meanwhile");
        snp_request_fail(work->request, &why);
        put_ended(session);
    } else {
        work->session = session;
        work->executor = session->live.executor;
        work->tier = session->live.executor->tier;
        pass(work, session);
    }
    json_decref(putting->head);
    free(putting->raw);
    free(putting);
}

static void run_put(const struct snp_work *work)
{
    struct putting *putting;
    struct snp_err err;

    if (work->session->name[0] == '\0') {
        run_pass(work);
        return;
    }
    if (work->request->server->store != NULL &&
        snp_store_room(work->request->server->store, work->raw_len, &err) < 0) {
        snp_request_fail(work->request, &err); /* what could not be saved is not taken */
        return;
    }
    putting = calloc(1, sizeof(*putting));
    if (putting != NULL) {
        putting->raw = malloc(work->raw_len + 1);
    }
    if (putting == NULL || putting->raw == NULL) {
        free(putting);
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_request_fail(work->request, &err);
        return;
    }
    if (work->raw_len > 0) {
        memcpy(putting->raw, work->raw, work->raw_len);
    }
    putting->work = *work;
    putting->work.raw = putting->raw;
    putting->head = json_incref(work->head);
    putting->session = work->session;
    snp_session_ref(work->session);
    work->session->unsaved.n_putting++;
    work->session->durable.has_puts = true;
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
    struct snp_err err;

    if (version != SNP_RPC_VERSION) {
        (void)snp_fail(&err, SNP_E_UNSUPPORTED,
                       "the client speaks protocol version %lld, this daemon (%s) speaks %d",
                       (long long)version, SNP_VERSION, SNP_RPC_VERSION);
        snp_request_fail(work->request, &err);
        return;
    }
    snp_request_answer(work->request,
                       json_pack("{s:i, s:s, s:I, s:I}", "version", SNP_RPC_VERSION, "program",
                                 SNP_VERSION, "pid", (json_int_t)getpid(), "uptime_ms",
                                 (json_int_t)((snp_now_us() - server->started_us) / 1000)));
}

static void run_exec(const struct snp_work *work)
{
    snp_exec_start(work->request, work->head, work->raw, work->raw_len);
}

static struct snp_exec *open_exec(const struct snp_request *request, int64_t id)
{
    for (size_t i = 0; request->peer != NULL && i < SNP_CAP_REQUESTS; i++) {
        const struct snp_request *other = request->peer->open[i];

        if (other != NULL && other != request && (int64_t)other->id == id) {
            return other->exec;
        }
    }
    return NULL;
}

static void run_interrupt(const struct snp_work *work)
{
    const char *name = snp_json_str(work->head, "session", NULL);
    struct snp_session *session = NULL;
    struct snp_exec *exec;
    struct snp_err err;

    if ((name == NULL) == (json_object_get(work->head, "request") == NULL)) {
        (void)snp_fail(&err, SNP_E_INVALID, "interrupt: give either 'session' or 'request'");
        snp_request_fail(work->request, &err);
        return;
    }
    if (name != NULL) {
        if (snp_sessions_meant(work->request->server, name, &session, &err) < 0) {
            snp_request_fail(work->request, &err);
            return;
        }
        exec = session->live.running;
    } else {
        exec = open_exec(work->request, snp_json_int(work->head, "request", 0));
    }
    if (exec != NULL) {
        snp_exec_interrupt(exec, work->request);
    } else {
        snp_request_answer(work->request, json_pack("{s:b}", "interrupted", 0));
    }
}

static void run_answer(const struct snp_work *work)
{
    struct snp_exec *exec = open_exec(work->request, snp_json_int(work->head, "request", 0));
    const struct snp_exec_answer answer = {
        .call = (uint32_t)snp_json_int(work->head, "call", 0),
        .is_ok = snp_json_bool(work->head, "ok", false),
        .raw = work->raw,
        .raw_len = work->raw_len,
    };

    if (exec != NULL) {
        snp_exec_answer(exec, &answer, work->request);
    } else {
        snp_request_answer(work->request, json_pack("{s:b}", "answered", 0));
    }
}

static void run_list(const struct snp_work *work)
{
    const struct snp_sessions *table = &work->request->server->sessions;
    struct snp_err err;
    json_t *list;

    if (snp_recover_check(work->request->server, &err) < 0) {
        snp_request_fail(work->request, &err);
        return;
    }
    list = json_array();
    for (size_t i = 0; i < table->n_slots; i++) {
        const struct snp_session *session = table->slots[i];

        if (session != NULL && session->state != SNP_SESSION_CLOSING) {
            /* A NULL row (out of memory) is refused and noticed. */
            if (json_array_append_new(list, snp_session_to_json(session, false)) < 0) {
                json_decref(list);
                list = NULL;
                break;
            }
        }
    }
    snp_request_answer(work->request,
                       list == NULL ? NULL : json_pack("{s:o}", "sessions", list));
}

static void run_show(const struct snp_work *work)
{
    snp_request_answer(work->request, snp_session_to_json(work->session, true));
}

static void run_destroy(const struct snp_work *work)
{
    snp_session_end(work->session, work->request);
}

static void run_clear(const struct snp_work *work)
{
    struct snp_err err;

    if (snp_json_bool(work->head, "idle_only", false) &&
        snp_session_unused_check(work->session, &err) < 0) {
        snp_request_fail(work->request, &err);
        return;
    }
    snp_session_clear(work->session, work->request);
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
    if (size == NULL) {
        return 0;
    }
    size++;
    end = strchr(size, ' ');
    if (end == NULL) {
        return 0;
    }
    *end = '\0';
    if (snp_parse_u64(size, &pages) < 0) {
        return 0;
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void run_stats(const struct snp_work *work)
{
    const struct snp_server *server = work->request->server;

    snp_request_answer(work->request,
                       json_pack("{s:I, s:I, s:I, s:I}", "sessions",
                                 (json_int_t)server->sessions.n_open, "clients",
                                 (json_int_t)server->n_peers, "rss_bytes",
                                 (json_int_t)rss_bytes(), "pid", (json_int_t)getpid()));
}

static void run_shutdown(const struct snp_work *work)
{
    snp_server_end(work->request->server, work->request);
}

/* The table ------------------------------------------------------------------------------ */

#define PLAIN(what) SNP_RECORD(what, plain_fields)

/* clang-format off */
static const struct snp_method methods[] = {
    {"hello", run_hello, 0, SNP_RECORD("hello", hello_fields), 0, NULL},
    {"exec", run_exec, 0, {NULL, NULL, 0, false}, SNP_FRAME_BODY_MAX, NULL},
    {"interrupt", run_interrupt, 0, SNP_RECORD("interrupt", interrupt_fields), 0, NULL},
    {"answer", run_answer, 0, SNP_RECORD("answer", answer_fields), SNP_CALL_BYTES_MAX, NULL},
    {"sessions.list", run_list, 0, PLAIN("sessions.list"), 0, NULL},
    {"sessions.show", run_show, NEEDS_SESSION, SNP_RECORD("sessions.show", session_fields), 0, NULL},
    {"sessions.destroy", run_destroy, NEEDS_SESSION, SNP_RECORD("sessions.destroy", session_fields), 0, NULL},
    {"sessions.clear", run_clear, NEEDS_SESSION, SNP_RECORD("sessions.clear", clear_fields), 0, NULL},
    {"checkpoint", snp_run_checkpoint, NEEDS_LIVE, SNP_RECORD("checkpoint", session_fields), 0, NULL},
    {"hibernate", snp_run_hibernate, NEEDS_SESSION, SNP_RECORD("hibernate", session_fields), 0, NULL},
    {"history", snp_run_history, NEEDS_SESSION, SNP_RECORD("history", history_fields), 0, NULL},
    {"cell.show", snp_run_cell_show, NEEDS_SESSION, SNP_RECORD("cell.show", cell_fields), 0, NULL},
    {"gc", snp_run_gc, 0, SNP_RECORD("gc", gc_fields), 0, NULL},
    {"journal.events", snp_run_events, 0, SNP_RECORD("journal.events", events_fields), 0, NULL},
    {"snapshot", snp_run_snapshot, NEEDS_SESSION, SNP_RECORD("snapshot", snapshot_fields), 0, NULL},
    {"snapshots.list", snp_run_snapshots_list, 0, SNP_RECORD("snapshots.list", list_fields), 0, NULL},
    {"snapshots.remove", snp_run_snapshots_remove, 0, SNP_RECORD("snapshots.remove", remove_fields), 0, NULL},
    {"rollback", snp_run_rollback, 0, SNP_RECORD("rollback", rollback_fields), 0, NULL},
    {"fork", snp_run_fork, 0, SNP_RECORD("fork", fork_fields), 0, NULL},
    {"diff", snp_run_diff, 0, SNP_RECORD("diff", diff_fields), 0, NULL},
    {"blob", snp_run_blob, 0, SNP_RECORD("blob", blob_fields), 0, NULL},
    {"export", snp_run_export, 0, SNP_RECORD("export", export_fields), 0, NULL},
    {"import.begin", snp_run_import_begin, 0, SNP_RECORD("import.begin", begin_fields), 0, NULL},
    {"import.data", snp_run_import_data, 0, SNP_RECORD("import.data", token_fields), SNP_FILE_CHUNK_MAX, NULL},
    {"import.end", snp_run_import_end, 0, SNP_RECORD("import.end", token_fields), 0, NULL},
    {"put", run_put, NEEDS_LIVE, SNP_RECORD("put", put_fields), SNP_FILE_CHUNK_MAX, &put_answer},
    {"get", run_pass, NEEDS_LIVE, SNP_RECORD("get", get_fields), 0, &get_answer},
    {"ls", run_pass, NEEDS_LIVE, SNP_RECORD("ls", ls_fields), 0, &ls_answer},
    {"output", run_pass, NEEDS_TIER, SNP_RECORD("output", output_fields), 0, &output_answer},
    {"stats", run_stats, 0, PLAIN("stats"), 0, NULL},
    {"probe", run_pass, NEEDS_TIER, SNP_RECORD("probe", probe_fields), 0, &probe_answer},
    {"shutdown", run_shutdown, 0, PLAIN("shutdown"), 0, NULL},
};
/* clang-format on */

static const struct snp_method *method_find(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(methods); i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

static int method_unknown(const char *name, struct snp_err *err)
{
    const char *names[SNP_ARRAY_LEN(methods)];
    const char *near;

    for (size_t i = 0; i < SNP_ARRAY_LEN(methods); i++) {
        names[i] = methods[i].name;
    }
    near = snp_suggest(name, names, SNP_ARRAY_LEN(names));
    if (near != NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "unknown method '%.64s'; did you mean '%s'?",
                        name, near);
    }
    return snp_fail(err, SNP_E_UNSUPPORTED, "unknown method '%.64s'", name);
}

int snp_method_check(json_t *head,
                     size_t raw_len,
                     const struct snp_method **ret,
                     struct snp_err *err)
{
    const char *name = snp_json_str(head, "method", NULL);
    const struct snp_method *method;
    int r;

    if (name == NULL) {
        return snp_fail(err, SNP_E_INVALID, "'method' must be a string");
    }
    method = method_find(name);
    if (method == NULL) {
        return method_unknown(name, err);
    }
    r = snp_record_check(
        head, method->record.fields != NULL ? &method->record : &snp_exec_request_form, err);
    if (r < 0) {
        return r;
    }
    if (raw_len > method->raw_max) {
        return snp_fail(err, SNP_E_INVALID, "%s: at most %zu raw bytes", name, method->raw_max);
    }
    *ret = method;
    return 0;
}

/* A file has one name, for the tier, the journal and whoever asks later. */
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

/* Of a method without a session: the tier it names, or the one that made the handle. */
static int tier_need(struct snp_work *work, struct snp_err *err)
{
    const char *handle = snp_json_str(work->head, "handle", NULL);
    const char *name = snp_json_str(work->head, "tier", snp_tier_name(SNP_TIER_AUTO));
    enum snp_tier_kind kind;
    int r = snp_tier_kind_read(name, &kind, err);

    if (r < 0) {
        return r;
    }
    /* "local/SESSION/CELL"; without a first part it is native's. */
    if (handle != NULL && snp_has_prefix(handle, "local/")) {
        kind = SNP_TIER_LOCAL;
    }
    return snp_tier_get(work->request->server, kind, &work->tier, err);
}

/* A request whose session has to be woken first. */
struct parked {
    struct snp_waiter waiter;
    struct snp_request *request;
    const struct snp_method *method;
    json_t *head; /* one reference */
    char *raw;    /* owned */
    size_t raw_len;
};

static void parked_run(struct snp_waiter *waiter,
                       struct snp_session *session,
                       const struct snp_err *err)
{
    struct parked *parked = snp_container_of(waiter, struct parked, waiter);
    struct snp_work work = {
        .request = parked->request,
        .method = parked->method,
        .head = parked->head,
        .raw = parked->raw,
        .raw_len = parked->raw_len,
        .session = session,
        .executor = session->live.executor,
    };

    if (err != NULL) {
        snp_request_fail(parked->request, err);
    } else {
        work.tier = session->live.executor->tier;
        parked->method->run(&work);
    }
    json_decref(parked->head);
    free(parked->raw);
    free(parked);
}

static void park(const struct snp_work *work)
{
    struct parked *parked = calloc(1, sizeof(*parked));
    struct snp_err err;

    if (parked != NULL) {
        parked->raw = malloc(work->raw_len + 1);
    }
    if (parked == NULL || parked->raw == NULL) {
        free(parked);
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_request_fail(work->request, &err);
        return;
    }
    if (work->raw_len > 0) {
        memcpy(parked->raw, work->raw, work->raw_len);
    }
    parked->raw_len = work->raw_len;
    parked->waiter.run = parked_run;
    parked->request = work->request;
    parked->method = work->method;
    parked->head = json_incref(work->head);
    snp_session_when_live(work->session, &parked->waiter);
}

/* Its executor can be asked now. */
static bool is_live(const struct snp_session *session)
{
    return session->live.executor != NULL && session->live.executor->tier != NULL &&
           (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_RUNNING) &&
           session->live.wake == NULL;
}

void snp_dispatch(struct snp_request *request, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_work work = {.request = request, .head = head, .raw = raw, .raw_len = raw_len};
    struct snp_err err;
    int r = snp_method_check(head, raw_len, &work.method, &err);

    SNP_ASSERT(r < 0 || work.method != NULL);
    if (r == 0 && request->server->is_ending) {
        r = snp_fail(&err, SNP_E_PEER, "the daemon is ending");
    }
    if (r == 0) {
        r = path_settle(head, &err);
    }
    if (r == 0 && (work.method->needs & (NEEDS_SESSION | NEEDS_LIVE)) != 0) {
        r = session_need(&work, &err);
    }
    if (r == 0 && (work.method->needs & NEEDS_TIER) != 0) {
        r = tier_need(&work, &err);
    }
    if (r < 0) {
        snp_request_fail(request, &err);
        return;
    }
    if ((work.method->needs & NEEDS_LIVE) != 0) {
        SNP_ASSERT(work.session != NULL);
        if (!is_live(work.session)) {
            park(&work);
            return;
        }
        work.executor = work.session->live.executor;
        work.tier = work.executor->tier;
    }
    work.method->run(&work);
}
