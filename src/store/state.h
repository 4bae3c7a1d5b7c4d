/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_STATE_H
#define SNP_STORE_STATE_H

/*
 * Shared by the parts of the store. Unless a comment says otherwise, a member belongs to the
 * store's thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/db/db.h"
#include "base/fd.h"
#include "store/blob.h"
#include "store/job.h"

/* A result to be delivered on the loop. */
struct snp_finished {
    struct snp_finished *next;
    void (*deliver)(struct snp_finished *finished); /* frees it */
};

/* Memory of a job for the time of its transaction. */
struct snp_tx_piece {
    struct snp_tx_piece *next;
    char bytes[];
};

struct snp_tx {
    struct snp_store *store;
    struct snp_db *db;
    struct snp_tx_piece *pieces; /* owned */
    bool frees;                  /* this job makes room: it may use the reserve */
};

struct job_node;
struct snp_transfer; /* checkpoint.c */
struct snp_gc;       /* gc.c */

/* Checkpoints that a transfer reads or writes: their rows must not be removed. */
struct snp_busy {
    uint64_t checkpoint; /* 0 = none yet */
    uint64_t base;
    struct snp_busy *next;
};

enum {
    SNP_STORE_DAMAGED_MAX = 64, /* blobs found damaged in one batch; others in a later one */
    SNP_STORE_FRESH_MAX = 512,  /* files named in one batch, removed if it fails */
};

/* Files that stay open, and whose paths the next daemon will open. */
enum snp_store_file {
    SNP_FILE_BLOBS = 0,
    SNP_FILE_DATABASE,
    SNP_FILE_LOG,
    SNP_FILES_N,
};

/* Counts since the start; the end of the store logs them. */
struct snp_store_stats {
    uint64_t jobs;
    uint64_t commits;
    uint64_t synced;  /* commits that waited for the disk */
    uint64_t waiting; /* jobs in the queue now */
};

struct snp_store {
    /* Set once. */
    char *dir;      /* DIR/journal; owned */
    char *db_path;  /* owned */
    char *blob_dir; /* owned */
    char *key_path; /* owned; NULL = not given */
    uint64_t budget;
    pthread_t thread;
    int stop_fd; /* an eventfd; readable once the end has begun */

    /* The loop's. */
    uv_async_t async;
    void (*closed)(void *arg);
    void *closed_arg;
    void (*locked)(void *arg); /* NULL = called */
    void *locked_arg;
    struct snp_transfer *waiting; /* queued; owned */
    unsigned n_running;           /* transfers whose done() was not called yet */

    /* Under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct job_node *first;
    struct job_node *last;
    struct snp_finished *finished_first;
    struct snp_finished *finished_last;
    struct snp_gc *gc_first; /* requested; owned */
    struct snp_busy *busy;   /* of transfers; borrowed */
    unsigned transfers;      /* threads */
    bool is_closing;
    bool has_ended;
    bool is_locked;
    struct snp_store_stats stats;
    struct snp_err health;
    struct snp_file_id held[SNP_FILES_N]; /* as opened */
    struct snp_err moved;                 /* a path leads to another file now (identity.c) */

    /* The store thread's. */
    struct snp_db db;
    bool is_open;
    bool is_trim_due;  /* the log was moved, so memory is returned some seconds later */
    bool is_log_short; /* it was opened, and the log's file does not have its full size yet */
    bool was_checked;  /* quick_check has passed since the last damage */
    bool was_unwell;   /* a commit has failed, and none has succeeded since */
    uint64_t retry_us; /* earliest attempt to open again */
    struct snp_err open_err;
    int lock_fd;
    struct snp_seal *seal;          /* owned; NULL = not open yet, or not sealed */
    struct snp_blob_use use;        /* of files of blobs; any thread */
    struct snp_blob_place place;    /* fd -1: not open */
    struct snp_blob_writer *writer; /* owned; or NULL */
    struct snp_blob_reader *reader; /* owned; or NULL */
    uint64_t dirty_folders[4];      /* bits: their names are not synced yet */
    uint8_t damaged[SNP_STORE_DAMAGED_MAX][SNP_BLOB_HASH_BYTES];
    unsigned n_damaged;
    uint8_t fresh[SNP_STORE_FRESH_MAX][SNP_BLOB_HASH_BYTES]; /* others: at the next start */
    unsigned n_fresh;
    char id[SNP_STORE_ID_LEN + 1]; /* of the database, and the generation of its log (identity.c) */
    uint64_t generation;
    bool has_reserve;  /* a file that is removed to make room for removals */
    bool must_reap;    /* unreferenced rows may exist */
    bool was_swept;    /* files of earlier processes in tmp/ are gone */
    int sweep_at;      /* the next folder to search for orphans */
    uint64_t auto_us;  /* when the budget is checked again */
    uint64_t press_us; /* earliest time for making room again */
};

enum {
    SNP_SWEEP_END = 256 /* of sweep_at: all folders were searched */
};

/* Run a job for another thread and wait for the commit. Not on the loop's or the store's thread. */
int snp_store_call(struct snp_store *store,
                   snp_store_run_fn run,
                   void *arg,
                   enum snp_durability durability,
                   struct snp_err *err) SNP_NODISCARD;

/* Deliver it on the loop. Any thread. */
void snp_store_finish(struct snp_store *store, struct snp_finished *finished);

/* Allocate memory until the end of the job. NULL when out of memory. */
void *snp_tx_alloc(struct snp_tx *tx, size_t n);
/* Copy a text; NULL stays NULL. */
int snp_tx_text(struct snp_tx *tx, const char *text, const char **ret, struct snp_err *err)
    SNP_NODISCARD;
/* Copy several, in place. */
int snp_tx_texts(struct snp_tx *tx, const char **texts[], size_t n, struct snp_err *err)
    SNP_NODISCARD;

/* Rows of blobs (blobrow.c) --------------------------------------------------------------- */

/*
 * Give a made blob its row and its name, or find the existing ones. made's file is consumed on
 * success, and found under its name when the same job runs again. *ret_new: bytes added to the
 * disk.
 */
int snp_blob_adopt(struct snp_tx *tx,
                   struct snp_blob_made *made,
                   bool is_synced,
                   int64_t *ret_row,
                   uint64_t *ret_new,
                   struct snp_err *err) SNP_NODISCARD;
/* Store bytes of a job as a blob. */
int snp_blob_put(struct snp_tx *tx,
                 const void *bytes,
                 size_t n,
                 int64_t *ret_row,
                 uint64_t *ret_new,
                 struct snp_err *err) SNP_NODISCARD;
/* Append all of blob `row` to buf. */
int snp_blob_get(struct snp_tx *tx, int64_t row, struct snp_buf *buf, struct snp_err *err)
    SNP_NODISCARD;
/* Note a damaged blob, for snp_blobs_mark. */
void snp_blob_suspect(struct snp_store *store, const uint8_t hash[SNP_BLOB_HASH_BYTES]);
/*
 * In a transaction: quarantine the noted blobs and mark the checkpoints that need them, with
 * events.
 */
int snp_blobs_mark(struct snp_tx *tx, void *arg, struct snp_err *err) SNP_NODISCARD;
/* Sync the names of files, before a synced commit. */
int snp_blobs_sync_folders(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

/* Between transactions: remove the reserve. False: there is none. */
bool snp_store_release(struct snp_store *store);

/* Removal (gc.c) --------------------------------------------------------------------------- */

/* Collect one slice of garbage. False: none is left. Between transactions. */
bool snp_gc_slice(struct snp_store *store);
/* Make room now, while jobs wait: briefly, and not too often. */
void snp_gc_press(struct snp_store *store);
/* A transfer is reading or writing the checkpoint. */
bool snp_gc_is_busy(struct snp_store *store, uint64_t checkpoint);
/* In a job: mark checkpoints as removed that a newer one of the session replaces. */
int snp_gc_prune(struct snp_tx *tx, int64_t session, struct snp_err *err) SNP_NODISCARD;
/* Remove files that were named in a partly failed batch and have no row. */
void snp_gc_fresh(struct snp_store *store);
/* The end: fail the requested collections. */
void snp_gc_refuse(struct snp_store *store);
/* Remove files of an earlier process in tmp/. Before any writer of this one. */
void snp_gc_sweep_tmp(struct snp_store *store);

/* Run a transaction of the store's thread outside of jobs; 0 or the failure. */
int snp_store_own(struct snp_store *store,
                  snp_store_run_fn run,
                  void *arg,
                  enum snp_durability durability,
                  struct snp_err *err) SNP_NODISCARD;

/* Identity (identity.c) -------------------------------------------------------------------- */

/*
 * After opening: check that the database has all commits recorded beside these contents. If not, an
 * event reports it, and contents without a row are kept.
 */
int snp_identity_check(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;
/* Record the generation beside the contents. The commit with it must be on disk. */
void snp_identity_record(const struct snp_store *store);
/* The log begins again: its first commit is a new generation. Between transactions. */
void snp_identity_next(struct snp_store *store);
/* Note the identity of the opened files, for snp_store_look. */
void snp_identity_hold(struct snp_store *store);
/* The database is about to be closed, the folder of contents stays open. */
void snp_identity_drop(struct snp_store *store);
/*
 * SNP_E_DENIED: the paths do not lead to the open files, so nothing may be opened or replaced by
 * path.
 */
int snp_identity_held(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

/* Transfers (checkpoint.c) ----------------------------------------------------------------- */

/* The end has begun: fail queued transfers. Loop thread. */
void snp_transfers_refuse(struct snp_store *store);

#endif
