/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_CHECKPOINT_H
#define SNP_STORE_CHECKPOINT_H

/*
 * Transfers of checkpoints: from a pipe into the store and back, as the stream that docs/wire.md
 * calls a bundle. Each transfer has a separate thread, so that a stalled pipe blocks nothing else.
 *
 * Data from inside a sandbox is hostile: everything is checked, and a stream that breaks a rule or
 * ends early leaves nothing behind. A checkpoint exists completely or not at all.
 */

#include <stdbool.h>
#include <stdint.h>

#include "store/job.h"
#include "store/rows.h"

enum {
    SNP_BUNDLE_STALL_MS = 20000, /* without a byte in a pipe; the sandbox stops after 10 s */
    SNP_TRANSFERS_MAX = 64,      /* at once; others are queued */
};

/* The result of a checkpoint; borrowed until done() returns. */
struct snp_checkpoint_report {
    uint64_t checkpoint;
    uint64_t cell;
    uint64_t items;
    uint64_t same_items;
    uint64_t bytes;
    uint64_t written_bytes;
    uint64_t us;
    bool has_image;
    const char *lost; /* JSON array of {name, type, reason} */
};
typedef void (*snp_checkpoint_done_fn)(void *arg,
                                       const struct snp_checkpoint_report *report,
                                       const struct snp_err *err);

struct snp_checkpoint_save {
    const char *session; /* id; must exist when the stream ends */
    /*
     * The saved state, however late: its epoch must still be the session's, except for a snapshot.
     */
    uint64_t epoch;
    uint64_t cell;
    uint64_t effect;
    uint64_t base;        /* checkpoint whose keys were sent as known; 0 = none */
    const char *snapshot; /* tie it to this snapshot in the same commit; or NULL */
    uint64_t bytes_max;   /* of all contents; 0 = 16 GiB */
    snp_checkpoint_done_fn done;
    void *arg;
};

/*
 * Make a checkpoint of both parts of a bundle, read from fd. fd is consumed, also on failure.
 * done() is called on the loop once: after the commit (synced), or with SNP_E_PEER (torn or broken
 * stream), SNP_E_LIMIT (too large, disk full), SNP_E_TIMEOUT (stalled), SNP_E_DENIED (another
 * epoch), SNP_E_NOT_FOUND (session gone). Of a session's checkpoints that no snapshot needs, the
 * two latest stay. Loop thread only.
 */
int snp_checkpoint_save(struct snp_store *store,
                        int fd,
                        const struct snp_checkpoint_save *spec,
                        struct snp_err *err) SNP_NODISCARD;

struct snp_checkpoint_load {
    uint64_t checkpoint;
    /* Send the image, and then part "files" of the bundle; SNP_E_UNSUPPORTED: no image. */
    bool wants_image;
    bool files_first; /* part "files" precedes part "vars", as a sandbox reads them */
    snp_checkpoint_done_fn done;
    void *arg;
};

/*
 * Write a checkpoint's bundle to fd (consumed). The checkpoint is kept until the end. done() with
 * SNP_E_NOT_FOUND: no such checkpoint, or a damaged blob (then the checkpoint becomes unusable, and
 * the session's row names the previous one); SNP_E_PEER: the reader has closed the pipe;
 * SNP_E_TIMEOUT. Report: checkpoint, items, bytes, us.
 */
int snp_checkpoint_load(struct snp_store *store,
                        int fd,
                        const struct snp_checkpoint_load *spec,
                        struct snp_err *err) SNP_NODISCARD;

/* Garbage collection -------------------------------------------------------------------- */

struct snp_gc_report {
    uint64_t freed_bytes;
    uint64_t blobs; /* removed */
    uint64_t bytes; /* of the store now: database and blobs */
};
typedef void (*snp_gc_done_fn)(void *arg,
                               const struct snp_gc_report *report,
                               const struct snp_err *err);

/*
 * Set the store's budget (limit_bytes = 0: leave it). Remove unreferenced contents; then, while the
 * store is larger than budget_bytes (0 = no limit), the oldest of: results and outputs of cells,
 * checkpoints that are neither a session's latest nor a snapshot's. In slices, so that other jobs
 * run in between. done() on the loop.
 */
int snp_store_gc(struct snp_store *store,
                 uint64_t limit_bytes,
                 uint64_t budget_bytes,
                 snp_gc_done_fn done,
                 void *arg,
                 struct snp_err *err) SNP_NODISCARD;

#endif
