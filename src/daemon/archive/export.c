/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `export`: a checkpoint (source.h) -> an unnamed file (archive.h, then the bundle from the store)
 * -> events at the client's pace, then the hash. Nothing is sent before the file is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/fd.h"
#include "daemon/archive/archive.h"
#include "daemon/archive/sum.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/snapshot/source.h"
#include "daemon/work.h"
#include "store/checkpoint.h"
#include "wire/rpc.h"
#include "wire/snapshot.h"

enum {
    QUEUE_MOST = 8 << 20, /* bytes queued for the client before reading pauses */
    PAUSE_MS = 5,         /* between looks at the queue */
};

struct exporting {
    struct snp_request *request; /* owned */
    struct snp_server *server;   /* borrowed */
    struct snp_source source;    /* owned; read by the store's thread while a job runs */
    int fd;                      /* owned */
    struct snp_archive_sum sum;  /* owned: of the bytes sent */
    uint64_t sent;
    uv_timer_t timer;
};

static void timer_closed(uv_handle_t *handle)
{
    struct exporting *exporting = handle->data;

    snp_closep(&exporting->fd);
    snp_archive_sum_done(&exporting->sum);
    snp_source_done(&exporting->source);
    free(exporting);
}

/* err: NULL = all was sent. */
static void exporting_end(struct exporting *exporting, const struct snp_err *err)
{
    if (err != NULL) {
        snp_request_fail(exporting->request, err);
    } else {
        snp_request_answer(exporting->request,
                           SNP_WRITE(snp_export_answer, .name = exporting->source.session_name,
                                     .cell = exporting->source.cell, .bytes = exporting->sent,
                                     .lost = exporting->source.lost));
    }
    uv_close((uv_handle_t *)&exporting->timer, timer_closed);
}

/* Sending -------------------------------------------------------------------------------------- */

static void chunk_send(struct exporting *exporting, const char *bytes, size_t n)
{
    static const char head[] = "{\"event\":\"data\"}";

    snp_request_event(exporting->request, head, sizeof(head) - 1, bytes, n);
    exporting->sent += n;
}

/* All is sent but the checksum frame. */
static void sum_send(struct exporting *exporting)
{
    snp_autobuf struct snp_buf out = {0};
    struct snp_err err;

    snp_buf_init(&out, SNP_ARCHIVE_SUM_LEN);
    if (snp_archive_sum_write(&exporting->sum, &out, &err) < 0) {
        exporting_end(exporting, &err);
        return;
    }
    chunk_send(exporting, snp_buf_bytes(&out), out.len);
    exporting_end(exporting, NULL);
}

static void send_some(uv_timer_t *timer)
{
    struct exporting *exporting = timer->data;
    struct snp_peer *peer = exporting->request->peer;
    snp_autofree char *chunk = malloc(SNP_FILE_CHUNK_MAX);
    struct snp_err err;

    if (chunk == NULL || peer == NULL) {
        (void)snp_fail(&err, chunk == NULL ? SNP_E_NOMEM : SNP_E_PEER,
                       chunk == NULL ? "out of memory" : "the client disconnected");
        exporting_end(exporting, &err);
        return;
    }
    while (snp_conn_queued(&peer->conn) < QUEUE_MOST) {
        ssize_t n =
            SNP_RETRY(pread(exporting->fd, chunk, SNP_FILE_CHUNK_MAX, (off_t)exporting->sent));

        if (n < 0) {
            (void)snp_fail_sys(&err, errno, "read the temporary file");
            exporting_end(exporting, &err);
            return;
        }
        if (n == 0) {
            sum_send(exporting);
            return;
        }
        if (snp_archive_sum_add(&exporting->sum, chunk, (size_t)n, &err) < 0) {
            exporting_end(exporting, &err);
            return;
        }
        chunk_send(exporting, chunk, (size_t)n);
    }
    (void)uv_timer_start(timer, send_some, PAUSE_MS, 0);
}

/* The file ------------------------------------------------------------------------------------- */

static void bundle_written(void *arg,
                           const struct snp_checkpoint_report *report,
                           const struct snp_err *err)
{
    struct exporting *exporting = arg;

    (void)report;
    if (err->code != SNP_OK) {
        exporting_end(exporting, err);
    } else {
        send_some(&exporting->timer);
    }
}

static void head_written(void *arg, const struct snp_err *head_err)
{
    struct exporting *exporting = arg;
    const struct snp_checkpoint_load spec = {
        .checkpoint = exporting->source.checkpoint, .done = bundle_written, .arg = exporting};
    struct snp_err err = *head_err;
    int fd = -1;

    if (err.code == SNP_OK && exporting->source.checkpoint == 0) {
        if (snp_archive_write_empty(exporting->fd, &err) == 0) {
            send_some(&exporting->timer);
            return;
        }
    } else if (err.code == SNP_OK) {
        /* The store closes the descriptor it gets. */
        fd = fcntl(exporting->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            (void)snp_fail_sys(&err, errno, "duplicate a descriptor");
        } else if (snp_checkpoint_load(exporting->server->store, fd, &spec, &err) == 0) {
            return;
        }
    }
    exporting_end(exporting, &err);
}

static int run_head(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct exporting *exporting = arg;

    return snp_archive_write(tx, exporting->fd, &exporting->source, err);
}

static int source_take(struct exporting *exporting,
                       const struct snp_source *source,
                       struct snp_err *err)
{
    exporting->source = *source;
    exporting->source.spec = strdup(source->spec);
    exporting->source.lost = json_incref(source->lost);
    return exporting->source.spec == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static void source_found(void *ctx, const struct snp_source *source, const struct snp_err *why)
{
    struct exporting *exporting = ctx;
    struct snp_err err;
    int r = 0;

    if (why != NULL) {
        err = *why;
        r = err.code;
    }
    SNP_THEN(r, source_take(exporting, source, &err));
    SNP_THEN(r, snp_archive_sum_init(&exporting->sum, &err));
    SNP_THEN(r, snp_archive_file(exporting->server->options.state_dir, &exporting->fd, &err));
    if (r == 0) {
        SNP_STORE_DO(exporting->server->store, .run = run_head, .done = head_written,
                     .arg = exporting);
    } else {
        exporting_end(exporting, &err);
    }
}

void snp_run_export(const struct snp_work *work)
{
    struct exporting *exporting = calloc(1, sizeof(*exporting));
    struct snp_server *server = work->request->server;
    struct snp_export_request asked;
    struct snp_err err;

    if (exporting == NULL || uv_timer_init(&server->loop, &exporting->timer) < 0) {
        free(exporting);
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_request_fail(work->request, &err);
        return;
    }
    exporting->timer.data = exporting;
    exporting->request = work->request;
    exporting->server = server;
    exporting->fd = -1;
    snp_record_read(work->head, &snp_export_request_form, &asked);
    snp_source_find(server, asked.from, source_found, exporting);
}
