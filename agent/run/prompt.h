/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_PROMPT_H
#define SNP_RUN_PROMPT_H

/* Messages to the model besides the user's prompt. */

#include <stdint.h>

#include "run/state.h"

/*
 * The system message; own (may be NULL): the user's, which is first. The caller frees; NULL when
 * out of memory.
 */
char *snp_run_prompt_system(enum snp_run_kind kind, const char *own);

/* The message that begins an iteration of an agent. The caller frees. */
char *snp_run_prompt_iteration(const struct snp_run_state *state, const char *task);

extern const char snp_run_prompt_last[];     /* before the last turn */
extern const char snp_run_prompt_continue[]; /* after a truncated answer */
extern const char snp_run_prompt_not_run[];  /* instead of a tool's result, after the last turn */
extern const char snp_run_prompt_over[];     /* instead of a tool's result, over the tool budget */

#endif
