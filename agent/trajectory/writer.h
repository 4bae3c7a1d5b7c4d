/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TRAJECTORY_WRITER_H
#define SNP_TRAJECTORY_WRITER_H

/*
 * The file of a run, LOG_DIR/ID.jsonl, written line by line as it happens
 * (docs/reference/trajectory.md). The writer holds a lock on it, which ends with the process in
 * every case; so a file without an end and without a lock is an interrupted run. The lock is on the
 * open file: the writing process may read the file as well.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_TRAJECTORY_LINE_MAX = 16 << 20, /* bytes of one line */
};

struct snp_trajectory;

/* A folder of records. */
struct snp_trajectory_place {
    const char *dir;
    /*
     * a default folder: must be below the current folder, through no symbolic link, else
     * SNP_E_DENIED
     */
    bool is_beneath;
};

/*
 * Create the file, and its folder (0700) if need be, with head as its first line. key: of
 * SNP_CHAIN_KEY bytes, copied; the lines get their mac with it. head: consumed, also on failure;
 * gets process, seq, mac, hash. *ret is the caller's: snp_trajectory_free().
 */
int snp_trajectory_create(const struct snp_trajectory_place *place,
                          const char *id,
                          const unsigned char *key,
                          json_t *head,
                          struct snp_trajectory **ret,
                          struct snp_err *err) SNP_NODISCARD;

/*
 * Continue a file that was written with this key; is_beneath is of its folder, as above. A torn
 * last line was never acknowledged and is cut off, *ret_torn bytes. SNP_E_LIMIT: another process
 * writes it; SNP_E_INVALID: its chain is broken; SNP_E_DENIED: it was written with another key, or
 * with none. On failure it is unchanged.
 */
int snp_trajectory_resume(const char *path,
                          bool is_beneath,
                          const unsigned char *key,
                          struct snp_trajectory **ret,
                          size_t *ret_torn,
                          struct snp_err *err) SNP_NODISCARD;

/*
 * Append a record (an object; consumed, also on failure), which gets seq, mac and hash. is_synced:
 * it is durable when this returns. A partly written line is removed.
 */
int snp_trajectory_add(struct snp_trajectory *t,
                       json_t *record,
                       bool is_synced,
                       struct snp_err *err) SNP_NODISCARD;

const char *snp_trajectory_path(const struct snp_trajectory *t);

void snp_trajectory_free(struct snp_trajectory *t);
SNP_DEFINE_CLEANUP(struct snp_trajectory *, snp_trajectory_free)
#define snp_autotrajectory snp_cleanup(snp_trajectory_freep)

/*
 * This process as a writer: {"pid", "start": ticks since boot, "boot": id}. New reference, NULL
 * when out of memory.
 */
json_t *snp_trajectory_process(void);

/* Whether a process holds the lock of a file. False also if it cannot be opened. */
bool snp_trajectory_is_written(const char *path);

/*
 * Send a signal to the process in a file's last head, if it holds the file's lock.
 * SNP_E_NOT_FOUND: no writer; SNP_E_UNSUPPORTED: it is in another namespace, or another process.
 */
int snp_trajectory_stop(const char *path, const json_t *process, int number, struct snp_err *err)
    SNP_NODISCARD;

#endif
