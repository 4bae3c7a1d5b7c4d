/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of checkpoints, each in a separate thread: started, queued, reported. The threads' code
 * is in checkpoint/.
 */
#include "store/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "store/checkpoint/transfer.h"

/* Threads ------------------------------------------------------------------------------- */

static void transfer_free(struct snp_transfer *t)
{
    snp_closep(&t->fd);
    snp_stream_in_done(&t->in);
    snp_blob_writer_free(t->writer);
    snp_buf_done(&t->lost);
    free(t->slice.items);
    free(t->slice.arena);
    free((char *)(uintptr_t)t->save.session);
    free((char *)(uintptr_t)t->save.snapshot);
    free(t);
}

static void *transfer_main(void *arg)
{
    struct snp_transfer *t = arg;
    struct snp_store *store = t->store;

    if (snp_transfer_setup(t, &t->err) == 0 && t->run(t, &t->err) == 0) {
        t->err = (struct snp_err){.code = SNP_OK};
    }
    snp_closep(&t->fd); /* the peer sees the end before the report */
    t->report.us = snp_now_us() - t->began_us;
    snp_store_finish(store, &t->finished);
    /* The store may end from here on. */
    (void)pthread_mutex_lock(&store->mutex);
    store->transfers--;
    (void)pthread_cond_signal(&store->wake);
    (void)pthread_mutex_unlock(&store->mutex);
    return NULL;
}

static int transfer_start(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_store *store = t->store;
    int eno;

    (void)pthread_mutex_lock(&store->mutex);
    store->transfers++;
    (void)pthread_mutex_unlock(&store->mutex);
    eno = snp_thread_start(&t->thread, transfer_main, t);
    if (eno == 0) {
        store->n_running++;
        return 0;
    }
    (void)pthread_mutex_lock(&store->mutex);
    store->transfers--;
    (void)pthread_mutex_unlock(&store->mutex);
    return snp_fail_sys(err, eno, "start a thread for a checkpoint");
}

/* Start queued transfers. */
static void waiting_start(struct snp_store *store)
{
    while (store->waiting != NULL && store->n_running < SNP_TRANSFERS_MAX) {
        struct snp_transfer *t = store->waiting;

        store->waiting = t->next;
        t->has_thread = transfer_start(t, &t->err) == 0;
        if (!t->has_thread) {
            snp_store_finish(store, &t->finished);
        }
    }
}

static void transfer_deliver(struct snp_finished *finished)
{
    struct snp_transfer *t = (struct snp_transfer *)(void *)finished;
    struct snp_store *store = t->store;

    if (t->has_thread) {
        (void)pthread_join(t->thread, NULL);
        store->n_running--;
    }
    waiting_start(store);
    t->done(t->arg, &t->report, &t->err);
    transfer_free(t);
}

void snp_transfers_refuse(struct snp_store *store)
{
    while (store->waiting != NULL) {
        struct snp_transfer *t = store->waiting;

        store->waiting = t->next;
        (void)snp_fail(&t->err, SNP_E_DENIED, "the daemon is ending");
        snp_store_finish(store, &t->finished);
    }
}

/* From outside -------------------------------------------------------------------------- */

/* NULL: *err has the reason, and fd is closed. */
static struct snp_transfer *transfer_new(struct snp_store *store,
                                         int (*run)(struct snp_transfer *t, struct snp_err *err),
                                         int fd,
                                         struct snp_err *err)
{
    struct snp_transfer *t = calloc(1, sizeof(*t));
    bool is_closing;

    (void)pthread_mutex_lock(&store->mutex);
    is_closing = store->is_closing;
    (void)pthread_mutex_unlock(&store->mutex);
    if (is_closing || t == NULL) {
        (void)snp_fail(err, is_closing ? SNP_E_DENIED : SNP_E_NOMEM,
                       is_closing ? "the daemon is ending" : "out of memory");
        free(t);
        snp_closep(&fd);
        return NULL;
    }
    t->store = store;
    t->run = run;
    t->fd = fd;
    t->finished.deliver = transfer_deliver;
    t->began_us = snp_now_us();
    snp_buf_init(&t->lost, SNP_TRANSFER_LOST_MAX + 16);
    return t;
}

/* Start it, or queue it; on failure it is freed and *err has the reason. */
static int transfer_go(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_store *store = t->store;
    struct snp_transfer **end = &store->waiting;
    int r = 0;

    if (store->n_running < SNP_TRANSFERS_MAX) {
        t->has_thread = true; /* set before it runs: the thread owns it then */
        r = transfer_start(t, err);
        if (r < 0) {
            transfer_free(t);
        }
        return r;
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = t;
    return 0;
}

int snp_checkpoint_save(struct snp_store *store,
                        int fd,
                        const struct snp_checkpoint_save *spec,
                        struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, snp_transfer_save, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->save = *spec;
    t->save.session = strdup(spec->session);
    t->save.snapshot = spec->snapshot == NULL ? NULL : strdup(spec->snapshot);
    t->done = spec->done;
    t->arg = spec->arg;
    if (t->save.session == NULL || (spec->snapshot != NULL && t->save.snapshot == NULL)) {
        transfer_free(t);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return transfer_go(t, err);
}

int snp_checkpoint_load(struct snp_store *store,
                        int fd,
                        const struct snp_checkpoint_load *spec,
                        struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, snp_transfer_load, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->report.checkpoint = spec->checkpoint;
    t->wants_image = spec->wants_image;
    t->files_first = spec->files_first;
    t->done = spec->done;
    t->arg = spec->arg;
    return transfer_go(t, err);
}
