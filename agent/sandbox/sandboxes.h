/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_SANDBOX_SANDBOXES_H
#define SNP_SANDBOX_SANDBOXES_H

/* The C library for the suite: in an event loop, with errors of base/err.h and answers as JSON. */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "snipara/sandbox.h"

struct snp_sandboxes {
    uv_poll_t poll;
    struct snipara *sandbox; /* owned; connects with its first call */
};

/* *ret is the caller's: snp_sandboxes_free(). loop: borrowed, outlives it. */
int snp_sandboxes_new(uv_loop_t *loop,
                      struct snp_sandboxes **ret,
                      struct snp_err *err) SNP_NODISCARD;

/* Drop all calls without callbacks, and close. Not from a callback. The loop frees the rest. */
void snp_sandboxes_free(struct snp_sandboxes *sandboxes);

/* Why a call failed; 0 = it succeeded. */
int snp_sandbox_error(const struct snipara_call *call, struct snp_err *err) SNP_NODISCARD;

/* Free a call that is done. *ret: its answer, the caller's; ret may be NULL. */
int snp_sandbox_answer(struct snipara_call *call, json_t **ret, struct snp_err *err) SNP_NODISCARD;

SNP_DEFINE_CLEANUP(struct snipara_call *, snipara_free)
#define snp_autocall snp_cleanup(snipara_freep)

#endif
