/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TRAJECTORY_READER_H
#define SNP_TRAJECTORY_READER_H

/*
 * Read trajectories: line by line with the chain checked, and the list of a folder. Files may come
 * from anywhere: lines other than JSON objects are counted and skipped. Files of the predecessor
 * product, without a chain, are read too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "trajectory/chain.h"

/* Result of checking a file. */
struct snp_trajectory_check {
    size_t n_lines;          /* records */
    size_t n_corrupt;        /* lines that are not records */
    size_t n_broken;         /* records whose hash is another, or missing in a file with a chain */
    size_t first_bad;        /* number of the first line of either kind, from 1; 0 = none */
    const char *why;         /* static: the problem of that line */
    size_t first_corrupt;    /* number of the first line that is no record; 0 = none */
    const char *why_corrupt; /* static: the problem of that one */
    bool is_chained;         /* it has a chain */
    bool is_ended;           /* its last record is an end */
    size_t n_foreign;        /* records not written with the key, if one is given */
    size_t torn;             /* bytes after the last line end */
    uint64_t whole;          /* bytes before them */
    int64_t last_seq;
    struct snp_chain chain; /* after the last line */
};

/*
 * Call line for each record (borrowed; NULL = none), negative ends the reading with that code and
 * *err. SNP_E_NOT_FOUND, SNP_E_SYS.
 */
int snp_trajectory_read(const char *path,
                        int (*line)(void *ctx, json_t *record, struct snp_err *err),
                        void *ctx,
                        struct snp_trajectory_check *ret_check,
                        struct snp_err *err) SNP_NODISCARD;

/*
 * Whether every line of a file was written with this key: then the record is the user's own.
 * SNP_E_INVALID: damaged, or not a record of ours; SNP_E_DENIED: another user wrote it. A torn last
 * line is ignored. *ret_check as above.
 */
int snp_trajectory_own(const char *path,
                       const unsigned char key[SNP_CHAIN_KEY],
                       struct snp_trajectory_check *ret_check,
                       struct snp_err *err) SNP_NODISCARD;

/*
 * "FILE: 2 lines passed over, first line 7: ...": a warning about lines that are not records; the
 * caller frees. NULL: none, or out of memory.
 */
char *snp_trajectory_passed_over(const char *path, const struct snp_trajectory_check *check);

enum snp_trajectory_state {
    SNP_TRAJECTORY_DONE = 0,    /* ended with success */
    SNP_TRAJECTORY_FAILED,      /* ended without success; may be resumed */
    SNP_TRAJECTORY_RUNNING,     /* a process writes it */
    SNP_TRAJECTORY_INTERRUPTED, /* without a writer and without an end; may be resumed */
    SNP_TRAJECTORY_DAMAGED,     /* nothing in it is a record */
};
const char *snp_trajectory_state_name(enum snp_trajectory_state state);

/* A trajectory in brief. */
struct snp_trajectory_info {
    char *path;     /* owned */
    char *id;       /* owned */
    json_t *head;   /* owned; the last head without an end (who writes), or {} */
    json_t *end;    /* owned; the last end, or NULL */
    int64_t calls;  /* model calls that were answered */
    int64_t tokens; /* of both directions */
    int64_t duration_ms;
    enum snp_trajectory_state state;
    struct snp_trajectory_check check;
};
void snp_trajectory_info_done(struct snp_trajectory_info *info);

/* Read one in brief. *ret is the caller's. */
int snp_trajectory_info_read(const char *path,
                             struct snp_trajectory_info *ret,
                             struct snp_err *err) SNP_NODISCARD;

/*
 * Paths of the trajectories in a folder, most recently changed first, at most max; *ret: array of
 * strings, new reference, empty if there is no such folder (it is not created).
 */
int snp_trajectory_list(const char *dir, size_t max, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/*
 * The path of the one trajectory in dir whose id is, or begins with, id; the caller frees.
 * SNP_E_NOT_FOUND; SNP_E_INVALID: several begin so, or it cannot be an id.
 */
int snp_trajectory_find(const char *dir, const char *id, char **ret_path, struct snp_err *err)
    SNP_NODISCARD;

/* Kinds of records. */
bool snp_trajectory_is_head(const json_t *record);  /* of a run's beginning, or of its end */
bool snp_trajectory_is_event(const json_t *record); /* a model call with what followed */
/* The name of a step, "" if the line is not a step. Borrowed. */
const char *snp_trajectory_step(const json_t *record);

#endif
