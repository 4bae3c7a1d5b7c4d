/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_FETCH_H
#define SNP_MCP_SERVER_FETCH_H

/*
 * Bytes from where results say they are: a file of a session, the full output of a cell
 * ("output:HANDLE:stdout"), or what is kept here ("kept:7").
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct snp_task;

/*
 * What goes on after an answer of the daemon. err != NULL: it failed, and head is NULL. All borrowed until
 * return.
 */
typedef void (*snp_task_next)(struct snp_task *task,
                              const struct snp_err *err,
                              json_t *head,
                              const char *raw,
                              size_t raw_len);

/* Embedded in a task; what was fetched is in task->work. */
struct snp_fetch {
    char *handle;    /* owned: of kept output; NULL = a file is read */
    char *path;      /* owned: of the file; with a handle the stream */
    uint64_t from;   /* the first byte asked for */
    uint64_t want;   /* bytes asked for */
    uint64_t size;   /* of the whole */
    bool is_end;     /* the last byte is among them */
    bool was_opened; /* the session was opened for this */
    /* err != NULL: it failed. */
    void (*done)(struct snp_task *task, const struct snp_err *err);
};

/*
 * Fetch up to `want` bytes (at most SNP_MCP_IMAGE_MAX) from `from` on. path: as a result named it, or
 * of a file in the task's session, which is opened if it is not there.
 */
void snp_fetch_start(struct snp_task *task,
                     const char *path,
                     uint64_t from,
                     uint64_t want,
                     void (*done)(struct snp_task *task, const struct snp_err *err));
void snp_fetch_done(struct snp_fetch *fetch);

/*
 * Ask the daemon about the task's session, opening that if it is not there; as snp_task_ask
 * otherwise. head: consumed.
 */
void snp_session_ask(
    struct snp_task *task, json_t *head, const void *raw, size_t raw_len, snp_task_next next);

#endif
