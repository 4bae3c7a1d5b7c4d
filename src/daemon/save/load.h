/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_LOAD_H
#define SNP_DAEMON_SAVE_LOAD_H

/* Load one checkpoint into a new executor: the store writes, the tier reads, through a pipe. */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct snp_executor;

/* How much to load. Parts left out are named. */
enum snp_load_effort {
    SNP_LOAD_ALL = 0,
    SNP_LOAD_FITTING, /* variables while there is memory for them */
    SNP_LOAD_FILES,   /* no variables */
    SNP_LOAD_N,
    SNP_LOAD_IMAGE = SNP_LOAD_N, /* the exact state, or nothing */
};

/*
 * In a coroutine. *ret_is_sent: set to true once the tier has the request. *ret_failed: owned,
 * [{name, reason}] of what could not be restored. After a failure the executor cannot be used, if
 * the request was sent; SNP_E_NOT_FOUND: the checkpoint is damaged. SNP_E_UNSUPPORTED, of an image:
 * the executor is unchanged, and err says why.
 */
int snp_load(struct snp_executor *executor,
             uint64_t checkpoint,
             enum snp_load_effort effort,
             bool *ret_is_sent,
             json_t **ret_failed,
             struct snp_err *err) SNP_NODISCARD;

/* The session to clone, with the epoch and cell of its state. */
struct snp_load_origin {
    const struct snp_executor *executor;
    uint64_t epoch;
    uint64_t cell;
};

/*
 * In a coroutine: clone the origin, of the same tier, in its current state. SNP_E_UNSUPPORTED: the
 * executor is unchanged, so a checkpoint can be loaded instead, and err says why.
 */
int snp_load_clone(struct snp_executor *executor,
                   const struct snp_load_origin *origin,
                   struct snp_err *err) SNP_NODISCARD;

#endif
