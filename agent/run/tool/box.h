/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_BOX_H
#define SNP_RUN_TOOL_BOX_H

/*
 * The session of a run, one cell after another. The result of a started cell is never lost: after a
 * failure of the daemon, or of this process, its outcome is read from the journal.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text/text.h"
#include "snipara/sandbox.h"

struct snp_box_cell {
    const char *code;  /* Python; NULL: a command */
    json_t *argv;      /* of a command; owned */
    const char *input; /* standard input; NULL = none */
    uint64_t wall_ms;  /* 0 = the session's */
};

void snp_box_cell_done(struct snp_box_cell *cell); /* argv only */

struct snp_box {
    struct snipara *sandbox; /* borrowed */
    char session[80];
    json_t *exec;              /* owned: members of every exec request */
    struct snipara_call *open; /* owned; NULL = no open request */
    bool is_interrupted;       /* the running cell was asked to end */

    /* Output of the last cell, until the next one. */
    struct snp_buf out;
    struct snp_buf err_out;
    struct snp_text_gap out_gap; /* parts that the daemon cut */
    struct snp_text_gap err_gap;
    json_t *images;         /* owned: [{"type", "data": base64}] of its displays */
    size_t image_bytes;     /* of these */
    int64_t images_omitted; /* beyond the limits */
    int64_t after;          /* of a recall */

    void (*done)(void *ctx, const struct snp_err *err, const json_t *result);
    void *ctx;

    /*
     * A call by the running code: bytes it chose; answered by snp_box_answer. NULL: cells make
     * none.
     */
    void (*call)(void *ctx, uint32_t number, const char *raw, size_t raw_len);
    void *call_ctx;
};

/* sandbox: borrowed. exec: borrowed, copied. */
int snp_box_init(struct snp_box *box,
                 struct snipara *sandbox,
                 const char *session,
                 const json_t *exec) SNP_NODISCARD;
void snp_box_done(struct snp_box *box);

/*
 * Run a cell. done: exactly once, later; err != NULL: it could not be run, or (SNP_E_PEER) the
 * daemon disconnected while it ran; else result as in docs/result.md, without output, which is in
 * the box.
 */
int snp_box_run(struct snp_box *box,
                const struct snp_box_cell *cell,
                void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                void *ctx,
                struct snp_err *err) SNP_NODISCARD;

/*
 * Get the outcome of the cell after cell number `after`. done: result as above; NULL without err:
 * none has begun, so it may be run. A cell with an unknown end has the status "unknown" only.
 */
int snp_box_recall(struct snp_box *box,
                   int64_t after,
                   void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                   void *ctx,
                   struct snp_err *err) SNP_NODISCARD;

/* Answer the running cell's call; an object, consumed. */
void snp_box_answer(struct snp_box *box, uint32_t number, bool is_ok, json_t *answer);

/* Ask the running cell to end; its end comes as usual. */
void snp_box_interrupt(struct snp_box *box);

/*
 * Save the session before a step of a run, for `back`. done: once, later; err: why it was not
 * saved.
 */
int snp_box_keep(struct snp_box *box,
                 int64_t step,
                 void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                 void *ctx,
                 struct snp_err *err) SNP_NODISCARD;

/* End the session, except the saved steps. done: once, later, in every case; err as above. */
int snp_box_destroy(struct snp_box *box,
                    void (*done)(void *ctx, const struct snp_err *err, const json_t *result),
                    void *ctx,
                    struct snp_err *err) SNP_NODISCARD;

#endif
