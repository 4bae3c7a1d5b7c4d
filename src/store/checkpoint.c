/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of checkpoints, each in a thread of its own: begun, waiting for their turn, told. What a
 * thread does is in checkpoint/; describing, which stores nothing, is here.
 */
#include "store/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "store/checkpoint/transfer.h"

enum {
    DESCRIBE_MAX = 64 << 20,
};

/* An item that was described; texts behind it. */
struct snp_described {
    struct snp_described *next;
    struct snp_journal_item item;
    char text[];
};

/* Describing ---------------------------------------------------------------------------- */

static int on_described(void *arg, const struct snp_stream_item *item, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    snp_autofree char *meta = snp_json_text(item->meta);
    size_t n[3] = {strlen(item->name) + 1, strlen(item->key) + 1,
                   meta == NULL ? 0 : strlen(meta) + 1};
    struct snp_described *row = malloc(sizeof(*row) + n[0] + n[1] + n[2]);

    if (meta == NULL || row == NULL) {
        free(row);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    t->described_bytes += sizeof(*row) + n[0] + n[1] + n[2];
    memcpy(row->text, item->name, n[0]);
    memcpy(row->text + n[0], item->key, n[1]);
    memcpy(row->text + n[0] + n[1], meta, n[2]);
    row->next = NULL;
    row->item = (struct snp_journal_item){
        .kind = item->kind,
        .name = {row->text, n[0] - 1},
        .key = row->text + n[0],
        .size = item->size,
        .meta = row->text + n[0] + n[1],
    };
    if (t->described_last == NULL) {
        t->described = row;
    } else {
        t->described_last->next = row;
    }
    t->described_last = row;
    t->report.items++;
    t->report.bytes += item->size;
    return t->described_bytes > DESCRIBE_MAX
               ? snp_fail(err, SNP_E_LIMIT, "a description is larger than %d bytes",
                          DESCRIBE_MAX)
               : 0;
}

static int no_data(void *arg SNP_UNUSED,
                   const void *bytes SNP_UNUSED,
                   size_t n SNP_UNUSED,
                   struct snp_err *err)
{
    return snp_fail(err, SNP_E_PEER, "a description has contents");
}

static int nothing(void *arg SNP_UNUSED, struct snp_err *err SNP_UNUSED)
{
    return 0;
}

static int describe_run(struct snp_transfer *t, struct snp_err *err)
{
    const struct snp_stream_sink sink = {
        .item = on_described, .data = no_data, .item_end = nothing, .arg = t};
    int r = snp_stream_in_init(&t->in, &sink, INT64_MAX, err);

    t->in.is_description = true;
    return r < 0 ? r : snp_transfer_feed(t, err);
}

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
    while (t->described != NULL) {
        struct snp_described *row = t->described;

        t->described = row->next;
        free(row);
    }
    free(t);
}

static void *transfer_main(void *arg)
{
    struct snp_transfer *t = arg;
    struct snp_store *store = t->store;

    if (snp_transfer_setup(t, &t->err) == 0 && t->run(t, &t->err) == 0) {
        t->err = (struct snp_err){.code = SNP_OK};
    }
    snp_closep(&t->fd); /* the peer sees the end before we say so */
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

/* Those that waited for their turn. */
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
    for (const struct snp_described *row = t->described; row != NULL && t->err.code == SNP_OK;
         row = row->next) {
        (void)t->each(&row->item, t->arg, NULL);
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
        (void)snp_fail(&t->err, SNP_E_DENIED, "the daemon ends");
        snp_store_finish(store, &t->finished);
    }
}

/* From outside -------------------------------------------------------------------------- */

/* NULL: *err says why, and fd is closed. */
static struct snp_transfer *transfer_new(struct snp_store *store,
                                         int (*run)(struct snp_transfer *t,
                                                    struct snp_err *err),
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
                       is_closing ? "the daemon ends" : "out of memory");
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

/* It runs, or waits; or it is freed and *err says why. */
static int transfer_go(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_store *store = t->store;
    struct snp_transfer **end = &store->waiting;
    int r = 0;

    if (store->n_running < SNP_TRANSFERS_MAX) {
        t->has_thread = true; /* before it runs: it is ours no more then */
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
                        uint64_t checkpoint,
                        snp_checkpoint_done_fn done,
                        void *arg,
                        struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, snp_transfer_load, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->report.checkpoint = checkpoint;
    t->done = done;
    t->arg = arg;
    return transfer_go(t, err);
}

int snp_checkpoint_describe(struct snp_store *store,
                            int fd,
                            const struct snp_checkpoint_describe *spec,
                            struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, describe_run, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->each = spec->each;
    t->done = spec->done;
    t->arg = spec->arg;
    return transfer_go(t, err);
}
