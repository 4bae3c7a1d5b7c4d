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

#include "base/fd.h"
#include "base/wire/rpc.h"
#include "base/wire/snapshot.h"
#include "daemon/archive/archive.h"
#include "daemon/archive/sum.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/snapshot/source.h"
#include "daemon/store_wait.h"
#include "daemon/time_wait.h"
#include "daemon/work.h"
#include "store/checkpoint.h"

enum {
    QUEUE_MOST = 8 << 20, /* bytes queued for the client before reading pauses */
    PAUSE_MS = 5,         /* between looks at the queue */
};

struct exporting {
    struct snp_request *request; /* borrowed */
    struct snp_server *server;   /* borrowed */
    struct snp_source source;    /* owned; read by the store's thread while a job runs */
    int fd;                      /* owned */
    struct snp_archive_sum sum;  /* owned: of the bytes sent */
    uint64_t sent;
};

static void exporting_done(struct exporting *exporting)
{
    snp_closep(&exporting->fd);
    snp_archive_sum_done(&exporting->sum);
    snp_source_done(&exporting->source);
}

/* Sending -------------------------------------------------------------------------------------- */

static void chunk_send(struct exporting *exporting, const char *bytes, size_t n)
{
    static const char head[] = "{\"event\":\"data\"}";

    snp_request_event(exporting->request, head, sizeof(head) - 1, bytes, n);
    exporting->sent += n;
}

static int sum_send(struct exporting *exporting, struct snp_err *err)
{
    snp_autobuf struct snp_buf out = {0};

    snp_buf_init(&out, SNP_ARCHIVE_SUM_LEN);
    SNP_TRY(snp_archive_sum_write(&exporting->sum, &out, err));
    chunk_send(exporting, snp_buf_bytes(&out), out.len);
    return 0;
}

/* Wait until the client has read most of what was sent. */
static int pace_await(const struct exporting *exporting, struct snp_err *err)
{
    const struct snp_peer *peer;

    while ((peer = exporting->request->peer) != NULL &&
           snp_conn_queued(&peer->conn) >= QUEUE_MOST) {
        SNP_TRY(snp_time_await(&exporting->server->loop, PAUSE_MS, err));
    }
    return peer == NULL ? snp_fail(err, SNP_E_PEER, "the client disconnected") : 0;
}

/* Send the file at the client's pace, then its checksum. */
static int file_send(struct exporting *exporting, struct snp_err *err)
{
    snp_autofree char *chunk = malloc(SNP_FILE_CHUNK_MAX);

    SNP_TRY_MEMORY(chunk, err);
    for (;;) {
        ssize_t n;

        SNP_TRY(pace_await(exporting, err));
        n = SNP_RETRY(pread(exporting->fd, chunk, SNP_FILE_CHUNK_MAX, (off_t)exporting->sent));
        if (n < 0) {
            return snp_fail_sys(err, errno, "read the temporary file");
        }
        if (n == 0) {
            return sum_send(exporting, err);
        }
        SNP_TRY(snp_archive_sum_add(&exporting->sum, chunk, (size_t)n, err));
        chunk_send(exporting, chunk, (size_t)n);
    }
}

/* The file ------------------------------------------------------------------------------------- */

static void written(void *arg,
                    const struct snp_checkpoint_report *report,
                    const struct snp_err *err)
{
    (void)report;
    snp_await_ended(arg, err);
}

static int run_head(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct exporting *exporting = arg;

    return snp_archive_write(tx, exporting->fd, &exporting->source, err);
}

static int file_write(struct exporting *exporting, struct snp_err *err)
{
    struct snp_await wait = {0};
    int fd;

    SNP_TRY(snp_archive_file(exporting->server->options.state_dir, &exporting->fd, err));
    SNP_TRY(snp_store_await(exporting->server->store, run_head, exporting, err));
    if (exporting->source.checkpoint == 0) {
        return snp_archive_write_empty(exporting->fd, err);
    }
    fd = fcntl(exporting->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "duplicate a descriptor");
    }
    /* The store closes the descriptor it gets. */
    SNP_TRY(snp_checkpoint_load(
        exporting->server->store, fd,
        &(struct snp_checkpoint_load){
            .checkpoint = exporting->source.checkpoint, .done = written, .arg = &wait},
        err));
    return snp_await(&wait, NULL, err);
}

static int run(const struct snp_work *work, struct snp_err *err)
{
    snp_cleanup(exporting_done) struct exporting exporting = {
        .request = work->request, .server = work->request->server, .fd = -1};
    struct snp_source *source = &exporting.source;

    SNP_TRY(snp_source_find(exporting.server, snp_json_str(work->head, "from", ""), source, err));
    SNP_TRY(snp_archive_sum_init(&exporting.sum, err));
    SNP_TRY(file_write(&exporting, err));
    SNP_TRY(file_send(&exporting, err));
    snp_request_answer(exporting.request, SNP_WRITE(snp_export_answer, .name = source->session_name,
                                                    .cell = source->cell, .bytes = exporting.sent,
                                                    .lost = source->lost));
    return 0;
}

void snp_run_export(const struct snp_work *work)
{
    snp_work_start(work, run);
}
