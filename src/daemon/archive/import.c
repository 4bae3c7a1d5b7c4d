/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importing:
 *
 *   the client's bytes -> an unnamed file, complete -> its manifest -> a row without a name,
 *   state "importing" -> the bundle (the store reads and checks it) -> cells and name, in one
 *   job -> a session in the table -> waking, which reads its variables inside its sandbox ->
 *   the answer
 *
 * A row in state "importing" is no session: it is removed if any step fails, and at the next start.
 */
#include "daemon/archive/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/snapshot.h"
#include "daemon/archive/archive.h"
#include "daemon/archive/sum.h"
#include "daemon/cell/end.h"
#include "daemon/request.h"
#include "daemon/save/durable.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/snapshot/source.h"
#include "daemon/store_wait.h"
#include "daemon/work.h"
#include "store/checkpoint.h"
#include "store/journal.h"

static const char importing_state[] = "importing";

struct snp_import {
    struct snp_import *next;
    struct snp_server *server;   /* borrowed */
    const struct snp_peer *peer; /* NULL once disconnected, or after import.end */
    char token[SNP_SESSION_ID_LEN + 1];
    int fd; /* owned: of the bytes received */
    uint64_t size;
    struct snp_archive_sum sum;          /* owned: of the bytes received */
    char name[SNP_SESSION_NAME_MAX + 1]; /* "" = the file's */
    struct snp_archive_policy policy;
    json_t *notes; /* owned */
    struct snp_archive archive;
    char *spec; /* owned */
    char id[SNP_SESSION_ID_LEN + 1];
    bool has_row;
    uint64_t now_us;
    uint64_t checkpoint;
    json_t *lost;                /* owned: losses that the file reports */
    struct snp_await bundle;     /* until it is read */
    struct snp_session *session; /* one reference, or NULL */
};

/* Its life ------------------------------------------------------------------------------------- */

static void import_leave(struct snp_import *import)
{
    struct snp_import **at = &import->server->imports;

    while (*at != NULL && *at != import) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = import->next;
    }
}

static void import_free(struct snp_import *import)
{
    if (import == NULL) {
        return;
    }
    import_leave(import);
    snp_session_unref(import->session);
    snp_closep(&import->fd);
    snp_archive_sum_done(&import->sum);
    snp_archive_done(&import->archive);
    json_decref(import->policy.given);
    json_decref(import->notes);
    json_decref(import->lost);
    free(import->spec);
    free(import);
}

SNP_DEFINE_CLEANUP(struct snp_import *, import_free)

void snp_import_peer_gone(struct snp_server *server, const struct snp_peer *peer)
{
    struct snp_import *next;

    for (struct snp_import *import = server->imports; import != NULL; import = next) {
        next = import->next;
        if (import->peer == peer) {
            import_free(import); /* import.end was not called: no step is pending */
        }
    }
}

static struct snp_import *import_find(const struct snp_work *work)
{
    struct snp_import_data_request asked; /* import.end has the same members */

    snp_record_read(work->head, &snp_import_data_request_form, &asked);
    for (struct snp_import *i = work->request->server->imports; i != NULL; i = i->next) {
        if (i->peer == work->request->peer && strcmp(i->token, asked.token) == 0) {
            return i;
        }
    }
    return NULL;
}

/* The beginning and the bytes ------------------------------------------------------------------ */

static int policy_read(struct snp_server *server,
                       const struct snp_import_begin_request *asked,
                       struct snp_archive_policy *ret,
                       struct snp_err *err)
{
    const char *name = asked->tier == NULL ? SNP_TIER_AUTO : asked->tier;
    struct snp_found_tier *found;

    SNP_TRY(snp_tiers_choose(&server->tiers, name, asked->allow_degraded, &found, err));
    ret->is_auto = strcmp(name, SNP_TIER_AUTO) == 0;
    ret->tier = found->name;
    ret->allow_degraded = asked->allow_degraded;
    ret->require_exact = asked->require_exact;
    ret->given = json_incref(asked->given);
    snp_limits_default(&ret->limits);
    SNP_TRY(asked->limits == NULL ? 0 : snp_limits_from_json(asked->limits, &ret->limits, err));
    return ret->given == NULL ? 0 : snp_limits_from_json(ret->given, &ret->limits, err);
}

static int import_fill(struct snp_import *import, const json_t *head, struct snp_err *err)
{
    struct snp_import_begin_request asked;
    const char *name;

    snp_record_read(head, &snp_import_begin_request_form, &asked);
    name = asked.name == NULL ? "" : asked.name;
    SNP_TRY(policy_read(import->server, &asked, &import->policy, err));

    if (name[0] != '\0') {
        SNP_TRY(snp_session_is_id(name)
                    ? snp_fail(err, SNP_E_INVALID, "'%s' looks like an id; give another name", name)
                    : snp_session_name_check(name, err));
    }
    if (strcmp(name, "default") == 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "cannot import a session as 'default'; give another name");
    }
    if (snp_random_id(import->token) < 0 || snp_random_id(import->id) < 0) {
        return snp_fail_sys(err, errno, "random id");
    }
    SNP_TRY(snp_archive_sum_init(&import->sum, err));
    (void)snprintf(import->name, sizeof(import->name), "%s", name);
    import->notes = json_array();
    SNP_TRY_MEMORY(import->notes, err);
    return snp_archive_file(import->server->options.state_dir, &import->fd, err);
}

void snp_run_import_begin(const struct snp_work *work)
{
    struct snp_server *server = work->request->server;
    struct snp_import *import = calloc(1, sizeof(*import));
    unsigned n = 0;
    struct snp_err err;
    int r;

    for (const struct snp_import *i = server->imports; i != NULL; i = i->next) {
        n++;
    }
    if (import == NULL) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else {
        import->server = server;
        import->peer = work->request->peer;
        import->fd = -1;
        import->now_us = snp_wall_us();
        r = n >= SNP_CAP_IMPORTS
                ? snp_fail(
                      &err, SNP_E_LIMIT,
                      "%u imports are already running (the limit); try again when one has ended", n)
                : import_fill(import, work->head, &err);
    }
    if (r < 0) {
        import_free(import);
        snp_request_fail(work->request, &err);
        return;
    }
    SNP_ASSERT(import != NULL);
    import->next = server->imports;
    server->imports = import;
    snp_request_answer(work->request, SNP_WRITE(snp_import_begin_answer, .token = import->token));
}

/* Refuse early what does not fit into the state folder. */
static bool is_over_budget(const struct snp_server *server, uint64_t more)
{
    for (const struct snp_import *i = server->imports; i != NULL; i = i->next) {
        more += i->size;
    }
    return server->options.budget_bytes != 0 && more > server->options.budget_bytes;
}

void snp_run_import_data(const struct snp_work *work)
{
    struct snp_import *import = import_find(work);
    struct snp_err err;

    if (import == NULL) {
        (void)snp_fail(&err, SNP_E_NOT_FOUND,
                       "this import has ended or never began; import the file again");
    } else if (work->raw_len > SNP_CAP_ARCHIVE_BYTES - import->size) {
        (void)snp_fail(&err, SNP_E_LIMIT, "the file is larger than %llu GiB",
                       (unsigned long long)SNP_CAP_ARCHIVE_BYTES >> 30U);
    } else if (is_over_budget(import->server, work->raw_len)) {
        (void)snp_fail_with(&err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "journal_budget", 0,
                            "the files being imported take more than %llu MiB together",
                            (unsigned long long)import->server->options.budget_bytes >> 20U);
    } else if (snp_archive_begins(import->size, work->raw, work->raw_len, &err) < 0) {
        import_free(import);
    } else if (snp_write_all(import->fd, work->raw, work->raw_len) < 0) {
        (void)snp_fail_sys(&err, errno, "write the temporary file");
    } else if (snp_archive_sum_add(&import->sum, work->raw, work->raw_len, &err) == 0) {
        import->size += work->raw_len;
        snp_request_answer(work->request, json_object());
        return;
    }
    snp_request_fail(work->request, &err);
}

/* Failing -------------------------------------------------------------------------------------- */

static int run_remove(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_import *import = arg;
    int r = snp_journal_session_remove(tx, import->id, err);

    return r == SNP_E_NOT_FOUND ? 0 : r;
}

/* Remove the whole import. */
static void import_undo(const struct snp_import *import)
{
    struct snp_err err;

    if (import->session != NULL) {
        snp_session_end(import->session);
    }
    if (import->has_row && snp_store_await_synced(import->server->store, run_remove,
                                                  (void *)(uintptr_t)import, &err) < 0) {
        snp_log(SNP_LOG_ERROR, "import", "error=\"%s\"", err.msg);
    }
}

/* Steps ---------------------------------------------------------------------------------------- */

static int session_enter(struct snp_import *import, struct snp_err *err)
{
    struct snp_session *session = NULL;
    int r;

    if (snp_sessions_find(import->server, import->name) != NULL) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_OTHER_NAME, NULL, 0,
                             "session %s already exists", import->name);
    }
    SNP_TRY(snp_session_known(import->server, import->id, import->name, &session, err));
    r = snp_session_spec_read(session, import->spec, err);
    if (r < 0) {
        snp_session_remove(session);
        return r;
    }
    session->epoch = 1;
    session->cells = import->archive.cell;
    session->created_wall_us = import->now_us;
    session->used_wall_us = import->now_us;
    snp_durable_known(session, import->checkpoint, import->archive.cell, import->lost);
    snp_session_ref(session);
    import->session = session;
    return 0;
}

/* Write cells and name: from now on it is a session. */
static int run_name(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_import *import = arg;
    struct snp_journal_session row = {0};

    SNP_TRY(snp_archive_cells(tx, import->fd, &import->archive, import->id, err));
    SNP_TRY(snp_journal_session_get(tx, import->id, &row, err));
    if (row.cells > import->archive.cell) {
        return snp_fail(err, SNP_E_INVALID,
                        "the file is damaged: it has more cells than its manifest says");
    }
    row.name = import->name;
    row.state = "idle";
    row.cells = import->archive.cell;
    return snp_journal_session_put(tx, &row, err);
}

static void bundle_read(void *arg,
                        const struct snp_checkpoint_report *report,
                        const struct snp_err *err)
{
    struct snp_import *import = arg;

    import->checkpoint = err->code == SNP_OK ? report->checkpoint : 0;
    snp_await_ended(&import->bundle, err);
}

/* The store reads the bundle, and checks it. */
static int bundle_save(struct snp_import *import, struct snp_err *err)
{
    const struct snp_checkpoint_save spec = {
        .session = import->id,
        .cell = import->archive.cell,
        .epoch = 1,
        .bytes_max = SNP_CAP_ARCHIVE_BYTES,
        .done = bundle_read,
        .arg = import,
    };
    snp_autoclose int fd = fcntl(import->fd, F_DUPFD_CLOEXEC, 3);

    if (fd < 0 || lseek(fd, import->archive.bundle_at, SEEK_SET) < 0) {
        return snp_fail_sys(err, errno, "the temporary file");
    }
    SNP_TRY(snp_checkpoint_save(import->server->store, SNP_TAKE_FD(fd), &spec, err));
    return snp_await(&import->bundle, NULL, err) < 0 ? snp_err_wrap(err, "the file") : 0;
}

static int run_row(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_import *import = arg;
    const struct snp_journal_session row = {
        .id = import->id,
        .spec = import->spec,
        .state = importing_state,
        .epoch = 1,
        .created_us = import->now_us,
        .used_us = import->now_us,
    };
    struct snp_journal_session other;
    int r = snp_journal_session_get(tx, import->name, &other, err);

    if (r == 0) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_OTHER_NAME, NULL, 0,
                             "session %s already exists", import->name);
    }
    return r == SNP_E_NOT_FOUND ? snp_journal_session_add(tx, &row, err) : r;
}

/* Check the file against its checksum; old files have none. */
static int file_check(struct snp_import *import, bool *ret_has_sum, struct snp_err *err)
{
    SNP_TRY(snp_archive_sum_check(&import->sum, ret_has_sum, err));
    if (*ret_has_sum && ftruncate(import->fd, (off_t)(import->size - SNP_ARCHIVE_SUM_LEN)) < 0) {
        return snp_fail_sys(err, errno, "the temporary file");
    }
    return 0;
}

static int file_read(struct snp_import *import, struct snp_err *err)
{
    bool has_sum = false;

    SNP_TRY(file_check(import, &has_sum, err));
    SNP_TRY(snp_archive_read(import->fd, &import->archive, err));
    if (!has_sum && import->archive.version >= SNP_ARCHIVE_VERSION_SUMMED) {
        return snp_fail(err, SNP_E_INVALID,
                        "the file is incomplete: the checksum at its end is missing or "
                        "damaged; copy or export it again");
    }
    import->lost = json_incref(import->archive.lost);
    if (import->name[0] == '\0') {
        (void)snprintf(import->name, sizeof(import->name), "%s", import->archive.name);
    }
    if (import->name[0] == '\0') {
        return snp_fail_with(err, SNP_E_INVALID, SNP_REMEDY_OTHER_NAME, NULL, 0,
                             "the file does not name its session");
    }
    return snp_archive_spec(&import->archive, &import->policy, import->notes, &import->spec, err);
}

static int import_make(struct snp_import *import, struct snp_err *err)
{
    struct snp_store *store = import->server->store;

    SNP_TRY(file_read(import, err));
    SNP_TRY(snp_store_await(store, run_row, import, err));
    import->has_row = true;
    SNP_TRY(bundle_save(import, err));
    SNP_TRY(snp_store_await_synced(store, run_name, import, err));
    SNP_TRY(session_enter(import, err));
    return snp_session_await_live(import->session, err);
}

static int run_end(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(import_freep) struct snp_import *import = import_find(work);
    snp_autojson json_t *failed = NULL;

    if (import == NULL) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "this import has ended or never began; import the file again");
    }
    import->peer = NULL; /* from here on it ends without its client */
    if (import_make(import, err) < 0) {
        import_undo(import);
        return err->code;
    }
    failed = snp_source_failed(import->session, import->lost);
    snp_request_answer(request,
                       SNP_WRITE(snp_import_end_answer, .session = import->id, .name = import->name,
                                 .cell = import->archive.cell, .notes = import->notes,
                                 .lost = import->lost, .failed = failed));
    return 0;
}

void snp_run_import_end(const struct snp_work *work)
{
    snp_work_start(work, run_end);
}

/* At the start --------------------------------------------------------------------------------- */

static int half_note(const struct snp_journal_session *row, void *arg, struct snp_err *err)
{
    if (strcmp(row->state, importing_state) == 0 && snp_buf_addf(arg, "%s\n", row->id) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "too many sessions");
    }
    return 0;
}

int snp_import_recover(struct snp_tx *tx, uint64_t now_us, struct snp_err *err)
{
    enum {
        LINE = SNP_SESSION_ID_LEN + 1,
        LINES_MAX = 100 * 1000,
    };
    snp_autobuf struct snp_buf ids = {0};
    int r;

    snp_buf_init(&ids, (size_t)LINE * LINES_MAX);
    r = snp_journal_session_each(tx, half_note, &ids, err);
    while (r == 0 && ids.len >= LINE) {
        const struct snp_journal_event event = {
            .at_us = now_us,
            .kind = "import_undone",
            .text = "removed an import that had not finished when the daemon ended"};
        char id[LINE];

        memcpy(id, snp_buf_bytes(&ids), LINE - 1);
        id[LINE - 1] = '\0';
        snp_buf_consume(&ids, LINE);
        r = snp_journal_session_remove(tx, id, err);
        SNP_THEN(r, snp_journal_event_add(tx, &event, err));
    }
    return r;
}
