/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_CHECKPOINT_TRANSFER_H
#define SNP_STORE_CHECKPOINT_TRANSFER_H

/*
 * A transfer of a checkpoint, and its pipe. The members belong to the transfer's thread while that
 * runs, to the loop before and after.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/checkpoint.h"
#include "store/state.h"
#include "store/stream.h"

enum {
    SNP_TRANSFER_READ = 512 << 10,     /* bytes read or collected at once */
    SNP_TRANSFER_LOST_MAX = 256 << 10, /* bytes of the list of losses */
};

/* An item waiting for its slice. Texts are in the arena. */
struct snp_transfer_item {
    enum snp_stream_part part;
    enum snp_item_kind kind;
    const char *name;
    const char *key;
    const char *meta;
    uint64_t size;
    bool is_same;
    bool has_blob;
    struct snp_blob_made made; /* its data, if inline, is in the arena */
};

struct snp_transfer_slice {
    struct snp_transfer_item *items; /* owned; SLICE_ITEMS */
    unsigned n;
    unsigned n_files;
    char *arena; /* owned; SNP_TRANSFER_ARENA */
    size_t used;
    uint64_t written; /* bytes that the job found to be new */
    uint64_t same;
    uint8_t folders[256]; /* used by this transfer: their names must be synced */
};

struct snp_transfer {
    struct snp_finished finished; /* must be first */
    struct snp_store *store;
    struct snp_transfer *next;                               /* the next in the queue */
    int (*run)(struct snp_transfer *t, struct snp_err *err); /* in the transfer's thread */
    pthread_t thread;
    bool has_thread;
    int fd; /* owned */
    struct snp_busy busy;
    struct snp_checkpoint_save save; /* its texts owned: session, snapshot */
    bool wants_image;                /* instead of variables, when loading */
    bool files_first;                /* when loading */
    snp_checkpoint_done_fn done;
    void *arg;
    uint64_t began_us;
    struct snp_checkpoint_report report;
    struct snp_buf lost; /* JSON array without its end */
    struct snp_err err;

    /* Saving. */
    struct snp_stream_in in;
    struct snp_blob_writer *writer; /* owned */
    struct snp_transfer_slice slice;
    struct snp_transfer_item current;
};

/* Set the pipe up before the first byte. */
int snp_transfer_setup(struct snp_transfer *t, struct snp_err *err) SNP_NODISCARD;
/* Feed the stream until both parts have ended. */
int snp_transfer_feed(struct snp_transfer *t, struct snp_err *err) SNP_NODISCARD;
/* Write all of head and bytes. */
int snp_transfer_write(struct snp_transfer *t,
                       struct snp_buf *head,
                       const void *bytes,
                       size_t n,
                       struct snp_err *err) SNP_NODISCARD;

/* Protect the rows of these checkpoints from removal until snp_transfer_idle. */
void snp_transfer_busy(struct snp_transfer *t, uint64_t checkpoint, uint64_t base);
void snp_transfer_idle(struct snp_transfer *t);

/* The work of the transfer's thread (save.c, load.c). */
int snp_transfer_save(struct snp_transfer *t, struct snp_err *err) SNP_NODISCARD;
int snp_transfer_load(struct snp_transfer *t, struct snp_err *err) SNP_NODISCARD;

#endif
