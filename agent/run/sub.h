/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_SUB_H
#define SNP_RUN_SUB_H

/*
 * Sub-calls of a run. A sub-completion (snipara_sub_complete) is a completion with the same tools
 * and session, above its caller (struct snp_run_level). A query is a single call of the model
 * without tools; several may be open at once: those of a batch (snipara_batch_complete), and those
 * made by code in the sandbox. All are recorded in the run's file and count towards its limits.
 */

#include "run/run_priv.h"

/* Stop a sub-completion with a reason for its caller. Only above the run's own level. */
void snp_run_sub_stop(struct snp_run *run, const struct snp_run_stop *stop);
/* The same for a failure. */
void snp_run_sub_fail(struct snp_run *run, const struct snp_err *err);

/* snipara_sub_complete: begin. */
enum snp_run_then snp_run_sub_begin(struct snp_run *run);
/* End the present sub-completion: its result goes to its caller. */
enum snp_run_then snp_run_sub_end(struct snp_run *run);

/* snipara_batch_complete: begin, or continue. */
enum snp_run_then snp_run_batch(struct snp_run *run);

/* A query. */
struct snp_run_query_spec {
    const char *type; /* static: "batch", "llm_query" */
    size_t index;     /* of the tool call's queries */
    const char *prompt;
    const char *system;    /* NULL = none */
    int64_t wanted_tokens; /* 0 = as available */
    bool is_again;         /* repeats a lost one: not counted again */

    /*
     * Its end, once, after it is recorded: never before snp_run_query_ask has returned, never when
     * dropped.
     */
    void (*done)(struct snp_run *run, uint64_t tag, const struct snp_model_answer *answer);
    uint64_t tag;
};

enum snp_run_query_then {
    SNP_RUN_QUERY_ASKED = 0,
    SNP_RUN_QUERY_REFUSED, /* *ret_stop has the reason; with others open it may be possible later */
    SNP_RUN_QUERY_FAILED,  /* the run has failed */
};

/* spec: copied, except prompt and system, which are only used during the call. */
enum snp_run_query_then snp_run_query_ask(struct snp_run *run,
                                          const struct snp_run_query_spec *spec,
                                          struct snp_run_stop *ret_stop);

/* Cancel all open queries; they count as their estimates. True: there were some. */
bool snp_run_queries_drop(struct snp_run *run);
/* Free them without a record. */
void snp_run_queries_free(struct snp_run *run);
/* Unanswered asks of an earlier process: they count as their estimates. */
void snp_run_queries_lost(struct snp_run *run);

/* A call of code in the sandbox (snp_box.call; ctx: the run). */
void snp_run_inside_call(void *ctx, uint32_t number, const char *raw, size_t raw_len);
/*
 * {"prompts": [...], "system", "max_tokens"} of bytes from inside, checked. New reference.
 * SNP_E_INVALID.
 */
int snp_run_inside_read(const char *raw, size_t raw_len, json_t **ret) SNP_NODISCARD;
/* Its cell has ended, or is ending: discard the call. */
void snp_run_inside_drop(struct snp_run *run);

/* The conversation of a query. New reference, NULL when out of memory. */
json_t *snp_run_query_messages(const char *prompt, const char *system);

#endif
