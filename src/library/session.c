/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about sessions: each function writes a request of docs/wire.md. */
#include "base/wire/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/policy/engine_socket.h"
#include "base/policy/guarantee.h"
#include "base/policy/limits.h"
#include "base/project/project.h"
#include "base/str.h"
#include "base/wire/exec.h"
#include "base/wire/process.h"
#include "base/wire/snapshot.h"
#include "library/library.h"

enum {
    WRITE_WAIT_MS = 1000,
};

#define ASK(box, tag, ...) snp_call_ask(snp_call_new(box), SNP_WRITE(tag, __VA_ARGS__), NULL, 0)

/* Options ---------------------------------------------------------------------------------- */

static int limit_take(const char *text, json_t *ret, struct snp_err *err)
{
    const char *equals = strchr(text, '=');
    size_t len = equals == NULL ? 0 : (size_t)(equals - text);
    struct snp_limits limits;
    snp_autojson json_t *all = NULL;
    void *at;

    for (int i = 0; equals != NULL && i < SNP_LIMIT_N; i++) {
        const char *key = snp_limit_info((enum snp_limit)i)->key;

        if (strlen(key) != len || strncmp(key, text, len) != 0) {
            continue;
        }
        snp_limits_default(&limits);
        int r = snp_limit_parse((enum snp_limit)i, equals + 1, key, &limits.value[i], err);
        if (r < 0) {
            return r;
        }
        all = snp_limits_to_json(&limits);
        at = json_object_iter(all); /* members are in the order of enum snp_limit */
        for (int k = 0; k < i; k++) {
            at = json_object_iter_next(all, at);
        }
        return all == NULL || json_object_set(ret, json_object_iter_key(at),
                                              json_object_iter_value(at)) < 0
                   ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                   : 0;
    }
    return snp_fail(err, SNP_E_INVALID,
                    "\"%.80s\" is not a limit; write KEY=VALUE, as in memory=512m", text);
}

static int variable_take(const char *text, json_t *ret, struct snp_err *err)
{
    const char *equals = strchr(text, '=');
    snp_autofree char *name = equals == NULL ? NULL : strndup(text, (size_t)(equals - text));

    if (equals == NULL || equals == text) {
        return snp_fail(err, SNP_E_INVALID, "\"%.80s\" is not a variable; write NAME=VALUE", text);
    }
    return name == NULL || json_object_set_new(ret, name, json_string(equals + 1)) < 0
               ? snp_fail(err, SNP_E_INVALID, "variable \"%.80s\" is not UTF-8",
                          name == NULL ? "" : name)
               : 0;
}

static int guarantee_take(const char *text, json_t *ret, struct snp_err *err)
{
    SNP_TRY(snp_guarantee_check(text, err));
    return json_array_append_new(ret, json_string(text)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int list_take(const char *const *list,
                     int (*take)(const char *text, json_t *ret, struct snp_err *err),
                     json_t *ret,
                     struct snp_err *err)
{
    int r = 0;

    for (size_t i = 0; list != NULL && list[i] != NULL && r == 0; i++) {
        r = take(list[i], ret, err);
    }
    return r;
}

static int project_find(const char *given, char **ret, struct snp_err *err)
{
    const char *home = getenv("HOME");
    snp_autofree char *real_home = home == NULL ? NULL : realpath(home, NULL);
    snp_autofree char *path = realpath(given, NULL);
    struct stat st;
    int r;

    if (path == NULL || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return snp_fail(err, path == NULL && errno == ENOENT ? SNP_E_NOT_FOUND : SNP_E_INVALID,
                        "project: %.200s is not a folder", given);
    }
    r = snp_project_check(path, real_home, err);
    *ret = r == 0 ? SNP_TAKE_PTR(path) : NULL;
    return r;
}

/* Running code ----------------------------------------------------------------------------- */

struct exec_call {
    struct snp_exec_request exec;
    json_t *limits; /* owned, as all members */
    json_t *env;
    json_t *argv;
    json_t *defaults;
    char *project;
    char *rootfs; /* with the engine of DOCKER_HOST */
};

static void request_done(struct exec_call *rq)
{
    json_decref(rq->limits);
    json_decref(rq->env);
    json_decref(rq->argv);
    json_decref(rq->defaults);
    free(rq->project);
    free(rq->rootfs);
}

/* Session options without a member in the call. */
static int defaults_take(const struct snipara_session *with,
                         struct exec_call *rq,
                         struct snp_err *err)
{
    json_t *guarantees = json_array();

    rq->defaults = json_object();
    if (guarantees == NULL || json_object_set_new(rq->defaults, "guarantees", guarantees) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    rq->exec.defaults = rq->defaults;
    return list_take(with->guarantees, guarantee_take, guarantees, err);
}

/*
 * The engine in this program's DOCKER_HOST, which may differ from the daemon's:
 * IMAGE#RUNTIME#SOCKET. Without an image it is a default, because an open session may have another
 * one.
 */
static int engine_take(const struct snipara_session *with,
                       struct exec_call *rq,
                       struct snp_err *err)
{
    const char *host = getenv("DOCKER_HOST");
    const char *rootfs = with->rootfs == NULL ? "" : with->rootfs;
    char socket[SNP_ENGINE_PATH_MAX + 1];

    if (!snp_streq(with->tier, "docker") || host == NULL || host[0] == '\0') {
        return 0;
    }
    SNP_TRY(snp_engine_socket(socket, err));
    rq->rootfs = snp_format("%s%s%s", rootfs, strchr(rootfs, '#') == NULL ? "##" : "#", socket);
    SNP_TRY_MEMORY(rq->rootfs, err);
    if (with->rootfs != NULL) {
        rq->exec.rootfs = rq->rootfs;
    } else if (json_object_set_new(rq->defaults, "rootfs", json_string(rq->rootfs)) < 0) {
        return snp_fail(err, SNP_E_INVALID, "DOCKER_HOST is not UTF-8");
    }
    return 0;
}

static int policy_take(const struct snipara_session *given,
                       struct exec_call *rq,
                       struct snp_err *err)
{
    struct snipara_session with;
    int r;

    snp_library_take(&with, sizeof(with), given);
    r = list_take(with.limits, limit_take, rq->limits, err);
    r = r < 0 ? r : list_take(with.env, variable_take, rq->env, err);
    r = r < 0 ? r : defaults_take(&with, rq, err);
    if (r == 0 && with.project != NULL) {
        r = project_find(with.project, &rq->project, err);
    }
    rq->exec.tier = with.tier;
    rq->exec.template = with.template_name;
    rq->exec.project = rq->project;
    rq->exec.rootfs = with.rootfs;
    r = r < 0 ? r : engine_take(&with, rq, err);
    rq->exec.allow_degraded = with.allow_degraded;
    rq->exec.require_exact = with.require_exact;
    rq->exec.network = with.network;
    rq->exec.temporary = with.temporary;
    rq->exec.env = json_object_size(rq->env) > 0 ? rq->env : NULL;
    return r;
}

static int command_take(const struct snipara_cell *cell, struct exec_call *rq, struct snp_err *err)
{
    const char *const shell[] = {"/bin/sh", "-c", cell->code, NULL};
    const char *const *words = cell->shell ? shell : cell->argv;

    if (cell->shell && (cell->code == NULL || cell->argv != NULL)) {
        return snp_fail(err, SNP_E_INVALID, "shell needs code, and no argv");
    }
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        if (json_array_append_new(rq->argv, json_string(words[i])) < 0) {
            return snp_fail(err, SNP_E_INVALID, "argument %zu is not UTF-8", i);
        }
    }
    rq->exec.argv = words == NULL ? NULL : rq->argv;
    rq->exec.kind = words == NULL || (!cell->shell && cell->code != NULL) ? "python" : "command";
    return 0;
}

static int request_make(const struct snipara_cell *cell, struct exec_call *rq, struct snp_err *err)
{
    int r;

    *rq = (struct exec_call){.exec = {SNP_EXEC_DEFAULTS, .session = cell->session},
                             .limits = json_object(),
                             .env = json_object(),
                             .argv = json_array()};
    if (rq->limits == NULL || rq->env == NULL || rq->argv == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = policy_take(cell->with, rq, err);
    r = r < 0 ? r : command_take(cell, rq, err);
    if (r == 0 && cell->timeout_ms > 0 &&
        json_object_set_new(rq->limits, "timeout_ms", json_integer(cell->timeout_ms)) < 0) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    rq->exec.limits = json_object_size(rq->limits) > 0 ? rq->limits : NULL;
    rq->exec.stdin = cell->input != NULL;
    rq->exec.stream = cell->output != NULL || cell->event != NULL;
    rq->exec.transaction = !cell->no_rollback;
    rq->exec.atomic = cell->atomic;
    rq->exec.attached = cell->attached;
    rq->exec.calls = cell->called != NULL;
    rq->exec.durability = cell->quick ? "process" : NULL;
    rq->exec.recover = cell->recover;
    rq->exec.internal = cell->internal;
    return r;
}

static int process_make(const struct snipara_cell *cell, struct exec_call *rq, struct snp_err *err)
{
    if (snp_streq(rq->exec.kind, snp_exec_kinds[SNP_EXEC_PYTHON])) {
        return snp_fail(err, SNP_E_INVALID, "a process needs argv, or code and shell");
    }
    rq->exec.kind = snp_exec_kinds[SNP_EXEC_PROCESS];
    rq->exec.open_stdin = cell->open_input;
    return 0;
}

/* Write the request, with the caller's members. */
static int head_make(const struct snipara_cell *cell,
                     const struct snp_exec_request *exec,
                     json_t **ret,
                     struct snp_err *err)
{
    snp_autojson json_t *head = snp_record_write(&snp_exec_request_form, exec);
    snp_autojson json_t *own = NULL;

    SNP_TRY_MEMORY(head != NULL, err);
    if (cell->request != NULL) {
        if (snp_json_parse(cell->request, strlen(cell->request), &own, err) < 0) {
            return snp_err_wrap(err, "request");
        }
        SNP_TRY_MEMORY(json_object_update(head, own) == 0, err);
    }
    *ret = SNP_TAKE_PTR(head);
    return 0;
}

/* The request without its members that an older daemon refuses; NULL = it has none of them. */
static json_t *older_make(const json_t *head)
{
    snp_autojson json_t *older = json_deep_copy(head);
    bool is_less = json_object_del(older, "internal") == 0;

    is_less |= json_object_del(json_object_get(older, "defaults"), "configured") == 0;
    return is_less ? SNP_TAKE_PTR(older) : NULL;
}

static struct snipara_call *run(struct snipara *box,
                                const struct snipara_cell *cell,
                                enum snp_exec_kind kind)
{
    struct snipara_call *call = snp_call_new(box);
    snp_cleanup(request_done) struct exec_call rq = {0};
    snp_autojson json_t *head = NULL;
    snp_autobuf struct snp_buf raw = {0};
    const struct snp_buf *sent = &raw;
    struct snipara_cell *own = call == NULL ? NULL : &call->cell;
    struct snp_err err;
    size_t code_len;
    int r;

    if (call == NULL) {
        return NULL;
    }
    snp_library_take(own, sizeof(*own), cell);
    r = request_make(own, &rq, &err);
    if (r == 0 && kind == SNP_EXEC_PROCESS) {
        r = process_make(own, &rq, &err);
    }
    code_len = own->shell || own->code == NULL ? 0
               : own->code_len > 0             ? own->code_len
                                               : strlen(own->code);
    snp_buf_init(&raw, SIZE_MAX / 2);
    if (r == 0 && ((code_len > 0 && snp_buf_add(&raw, own->code, code_len) < 0) ||
                   (own->input_len > 0 && snp_buf_add(&raw, own->input, own->input_len) < 0))) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    }
    rq.exec.code_len = code_len;
    r = r < 0 ? r : head_make(own, &rq.exec, &head, &err);
    if (r < 0) {
        return snp_call_fail(call, &err);
    }
    call->older = older_make(head);
    if (call->older != NULL) {
        call->older_raw = SNP_TAKE(raw, (struct snp_buf){0});
        sent = &call->older_raw;
    }
    return snp_call_ask(call, SNP_TAKE_PTR(head), snp_buf_bytes(sent), sent->len);
}

struct snipara_call *snipara_run(struct snipara *box, const struct snipara_cell *cell)
{
    return run(box, cell, SNP_EXEC_PYTHON);
}

struct snipara_call *snipara_open(struct snipara *box,
                                  const char *session,
                                  const struct snipara_session *with)
{
    return snipara_run(box, SNIPARA_RUN(.session = session, .with = with));
}

/* Processes -------------------------------------------------------------------------------- */

struct snipara_call *snipara_start(struct snipara *box, const struct snipara_cell *cell)
{
    return run(box, cell, SNP_EXEC_PROCESS);
}

struct snipara_call *snipara_processes(struct snipara *box, const char *session)
{
    return ASK(box, snp_process_list_request, .session = session);
}

/* A number from the caller, for a request: a negative one is too large, so that it is refused. */
static uint64_t whole(int64_t number)
{
    return number < 0 ? UINT64_MAX : (uint64_t)number;
}

struct snipara_call *snipara_process_read(struct snipara *box,
                                          const char *session,
                                          int64_t process,
                                          int64_t out_from,
                                          int64_t err_from,
                                          int wait_ms)
{
    return ASK(box, snp_process_read_request, .session = session, .process = whole(process),
               .stdout = whole(out_from), .stderr = whole(err_from), .length = SNP_FILE_CHUNK_MAX,
               .wait_ms = whole(wait_ms));
}

struct snipara_call *snipara_process_write(struct snipara *box,
                                           const char *session,
                                           int64_t process,
                                           const void *data,
                                           size_t len,
                                           bool close_input)
{
    const size_t n = len < SNP_PROCESS_WRITE_MAX ? len : SNP_PROCESS_WRITE_MAX;

    return snp_call_ask(snp_call_new(box),
                        SNP_WRITE(snp_process_write_request, .session = session,
                                  .process = whole(process), .close = close_input && n == len,
                                  .wait_ms = WRITE_WAIT_MS),
                        data, n);
}

struct snipara_call *snipara_process_wait(struct snipara *box,
                                          const char *session,
                                          int64_t process,
                                          int wait_ms)
{
    return ASK(box, snp_process_read_request, .session = session, .process = whole(process),
               .wait_ms = whole(wait_ms));
}

struct snipara_call *snipara_process_signal(struct snipara *box,
                                            const char *session,
                                            int64_t process,
                                            int signal_number)
{
    return ASK(box, snp_process_signal_request, .session = session, .process = whole(process),
               .signal = whole(signal_number));
}

/* The rest --------------------------------------------------------------------------------- */

struct snipara_call *snipara_snapshot(struct snipara *box, const char *session, const char *name)
{
    return ASK(box, snp_snapshot_request, .session = session, .name = name);
}

struct snipara_call *snipara_snapshots(struct snipara *box, const char *session)
{
    return ASK(box, snp_snapshots_list_request, .session = session);
}

struct snipara_call *snipara_rollback(struct snipara *box,
                                      const char *session,
                                      const char *snapshot)
{
    return ASK(box, snp_rollback_request, .snapshot = snapshot, .session = session);
}

struct snipara_call *snipara_fork(struct snipara *box, const char *from, const char *name, int n)
{
    return ASK(box, snp_fork_request, .from = from, .n = n, .name = name);
}

struct snipara_call *snipara_diff(struct snipara *box, const char *a, const char *b)
{
    return ASK(box, snp_diff_request, .a = a, .b = b);
}

struct snipara_call *snipara_sessions(struct snipara *box)
{
    return ASK(box, snp_sessions_list_request, );
}

struct snipara_call *snipara_history(struct snipara *box,
                                     const char *session,
                                     int64_t before,
                                     int limit)
{
    return ASK(box, snp_history_request, .session = session,
               .before = before < 0 ? 0 : (uint64_t)before,
               .limit = limit <= 0 ? 50 : (uint64_t)limit);
}

struct snipara_call *snipara_set_limits(struct snipara *box,
                                        const char *session,
                                        const char *const *limits)
{
    struct snipara_call *call = snp_call_new(box);
    snp_autojson json_t *wire = json_object();
    struct snp_err err;

    if (call == NULL) {
        return NULL;
    }
    if (wire == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        return snp_call_fail(call, &err);
    }
    if (list_take(limits, limit_take, wire, &err) < 0) {
        return snp_call_fail(call, &err);
    }
    return snp_call_ask(
        call, SNP_WRITE(snp_sessions_set_request, .session = session, .limits = wire), NULL, 0);
}

struct snipara_call *snipara_show(struct snipara *box,
                                  const char *session,
                                  int64_t cell,
                                  const struct snipara_cell *callbacks)
{
    struct snipara_call *call = snp_call_new(box);

    if (call == NULL) {
        return NULL;
    }
    snp_library_take(&call->cell, sizeof(call->cell), callbacks);
    return snp_call_ask(
        call,
        SNP_WRITE(snp_cell_show_request, .session = session, .cell = cell < 0 ? 0 : (uint64_t)cell),
        NULL, 0);
}

struct snipara_call *snipara_hibernate(struct snipara *box, const char *session)
{
    return ASK(box, snp_hibernate_request, .session = session);
}

struct snipara_call *snipara_destroy(struct snipara *box, const char *session)
{
    return ASK(box, snp_sessions_destroy_request, .session = session);
}

struct snipara_call *snipara_request(struct snipara *box,
                                     const char *json,
                                     const void *data,
                                     size_t len)
{
    struct snipara_call *call = snp_call_new(box);
    json_t *head = NULL;
    struct snp_err err;

    if (call != NULL && snp_json_parse(json, strlen(json), &head, &err) < 0) {
        return snp_call_fail(call, &err);
    }
    if (call != NULL) {
        call->is_raw = true;
    }
    return snp_call_ask(call, head, data, len);
}
