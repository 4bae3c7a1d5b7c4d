/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_STATE_H
#define SNP_STORE_STATE_H

/*
 * What the parts of the store share. Unless a comment says otherwise, a member belongs to the
 * store's thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/fd.h"
#include "store/blob.h"
#include "store/db.h"
#include "store/job.h"

/* Something that is to be told on the loop. */
struct snp_finished {
    struct snp_finished *next;
    void (*deliver)(struct snp_finished *finished); /* frees it */
};

/* Memory of a job that lasts as long as its transaction. */
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

/* Checkpoints that a transfer reads or writes: nobody removes their rows. */
struct snp_busy {
    uint64_t checkpoint; /* 0 = none yet */
    uint64_t base;
    struct snp_busy *next;
};

enum {
    SNP_STORE_DAMAGED_MAX = 64, /* blobs found damaged in one batch; further ones next time */
    SNP_STORE_FRESH_MAX = 512,  /* files named in one batch, to be removed if it fails */
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
    int stop_fd; /* an eventfd; readable from the beginning of the end on */

    /* The loop's. */
    uv_async_t async;
    void (*closed)(void *arg);
    void *closed_arg;
    void (*locked)(void *arg); /* NULL = was called */
    void *locked_arg;
    struct snp_transfer *waiting; /* for their turn; owned */
    unsigned n_running;           /* transfers whose done() was not called yet */

    /* Under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct job_node *first;
    struct job_node *last;
    struct snp_finished *finished_first;
    struct snp_finished *finished_last;
    struct snp_gc *gc_first; /* asked for; owned */
    struct snp_busy *busy;   /* of transfers; borrowed */
    unsigned transfers;      /* threads */
    bool is_closing;
    bool has_ended;
    bool is_locked;
    struct snp_store_stats stats;
    struct snp_err health;
    struct snp_file_id held[SNP_FILES_N]; /* as they were opened */
    struct snp_err moved;                 /* a path leads to another file now (identity.c) */

    /* The store's thread's. */
    struct snp_db db;
    bool is_open;
    bool is_log_short; /* it was opened, and the log's file does not have its size yet */
    bool was_checked;  /* quick_check has passed since it was last damaged */
    bool was_unwell;   /* a commit has failed, and none succeeded since */
    uint64_t retry_us; /* not opened again before */
    struct snp_err open_err;
    int lock_fd;
    struct snp_seal *seal;          /* owned; NULL = not open yet, or the store is not sealed */
    struct snp_blob_use use;        /* of files of blobs; any thread */
    struct snp_blob_place place;    /* fd -1: not open */
    struct snp_blob_writer *writer; /* owned; or NULL */
    struct snp_blob_reader *reader; /* owned; or NULL */
    uint64_t dirty_folders[4];      /* bits: names in them are not on disk yet */
    uint8_t damaged[SNP_STORE_DAMAGED_MAX][SNP_BLOB_HASH_BYTES];
    unsigned n_damaged;
    uint8_t fresh[SNP_STORE_FRESH_MAX][SNP_BLOB_HASH_BYTES]; /* more than that: next start */
    unsigned n_fresh;
    char id[SNP_STORE_ID_LEN + 1]; /* of the database, and the number of its log (identity.c) */
    uint64_t generation;
    bool has_reserve;  /* a file that is given up when there is no room to remove things */
    bool must_reap;    /* rows that nobody needs may be there */
    bool was_swept;    /* files of earlier processes in tmp/ are gone */
    int sweep_at;      /* the folder that is looked through for orphans next */
    uint64_t auto_us;  /* when the budget is looked at again */
    uint64_t press_us; /* not pressed to make room again before */
};

enum {
    SNP_SWEEP_END = 256 /* of sweep_at: all folders were looked through */
};

/*
 * A job of our own threads: run and wait for the commit. Not on the loop's or the store's thread.
 */
int snp_store_call(struct snp_store *store,
                   snp_store_run_fn run,
                   void *arg,
                   enum snp_durability durability,
                   struct snp_err *err) SNP_NODISCARD;

/* Have it told on the loop. Any thread. */
void snp_store_finish(struct snp_store *store, struct snp_finished *finished);

/* Memory until the end of the job. NULL when out of memory. */
void *snp_tx_alloc(struct snp_tx *tx, size_t n);
/* A copy; NULL for NULL (*ret), too. */
int snp_tx_text(struct snp_tx *tx, const char *text, const char **ret, struct snp_err *err)
    SNP_NODISCARD;
/* The same of several, in place. */
int snp_tx_texts(struct snp_tx *tx, const char **texts[], size_t n, struct snp_err *err)
    SNP_NODISCARD;

/* Rows of blobs (blobrow.c) --------------------------------------------------------------- */

/*
 * Give a made blob its row and its name, or find that it has them. made's file is consumed on
 * success, and on a further run of the same job found under its name. *ret_new: bytes
 * it has added to the disk.
 */
int snp_blob_adopt(struct snp_tx *tx,
                   struct snp_blob_made *made,
                   bool is_synced,
                   int64_t *ret_row,
                   uint64_t *ret_new,
                   struct snp_err *err) SNP_NODISCARD;
/* Bytes of a job into a blob, in one go. */
int snp_blob_put(struct snp_tx *tx,
                 const void *bytes,
                 size_t n,
                 int64_t *ret_row,
                 uint64_t *ret_new,
                 struct snp_err *err) SNP_NODISCARD;
/* Append the whole of blob `row` to buf. */
int snp_blob_get(struct snp_tx *tx, int64_t row, struct snp_buf *buf, struct snp_err *err)
    SNP_NODISCARD;
/* Remember that a blob is damaged, until snp_blobs_mark. */
void snp_blob_suspect(struct snp_store *store, const uint8_t hash[SNP_BLOB_HASH_BYTES]);
/* In a transaction: set suspects aside and mark what needs them, with events. */
int snp_blobs_mark(struct snp_tx *tx, void *arg, struct snp_err *err) SNP_NODISCARD;
/* Names of files on disk, before a commit that must hold. */
int snp_blobs_sync_folders(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

/* In between transactions: give up the reserve. False: there is none. */
bool snp_store_release(struct snp_store *store);

/* Removal (gc.c) --------------------------------------------------------------------------- */

/* One slice of what there is to clear up. False: nothing is left to do. Between transactions. */
bool snp_gc_slice(struct snp_store *store);
/* Make room now, while jobs wait: for a moment, and not too often. */
void snp_gc_press(struct snp_store *store);
/* Is a checkpoint being read or written by a transfer? */
bool snp_gc_is_busy(struct snp_store *store, uint64_t checkpoint);
/* In a job: mark checkpoints that a newer one of the session has replaced as removed. */
int snp_gc_prune(struct snp_tx *tx, int64_t session, struct snp_err *err) SNP_NODISCARD;
/* Files that were given a name in a batch of which something failed, and have no row. */
void snp_gc_fresh(struct snp_store *store);
/* The end: those that were asked for fail. */
void snp_gc_refuse(struct snp_store *store);
/* Remove what an earlier process has left in tmp/. Before any writer of this one. */
void snp_gc_sweep_tmp(struct snp_store *store);

/* A transaction of the store's thread by itself, outside of jobs; 0 or the failure. */
int snp_store_own(struct snp_store *store,
                  snp_store_run_fn run,
                  void *arg,
                  enum snp_durability durability,
                  struct snp_err *err) SNP_NODISCARD;

/* Identity (identity.c) -------------------------------------------------------------------- */

/*
 * After opening: does the database have what was committed beside these contents? If not, an event
 * says so, and contents without a row are kept.
 */
int snp_identity_check(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;
/* Write the generation down beside the contents. The commit with it must be on disk. */
void snp_identity_record(const struct snp_store *store);
/* The log begins again: its first commit is a new generation. Between transactions. */
void snp_identity_next(struct snp_store *store);
/* Remember the files that were opened: snp_store_look compares. */
void snp_identity_hold(struct snp_store *store);
/* The database is about to be closed, the folder of contents is not. */
void snp_identity_drop(struct snp_store *store);
/*
 * SNP_E_DENIED: what the paths lead to is not what is open, so nothing may be opened or replaced
 * by path.
 */
int snp_identity_held(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

/* Transfers (checkpoint.c) ----------------------------------------------------------------- */

/* The end has begun: those that wait for their turn fail. Loop thread. */
void snp_transfers_refuse(struct snp_store *store);

#endif
