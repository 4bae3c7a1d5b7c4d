/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_CALLS_H
#define SNP_CLI_RUN_CALLS_H

/* Tool calls of runs and their results, for people: code as code, output as output, indented. */

#include <stdio.h>

#include "base/json.h"

/* The call of a model: its name and arguments. */
void snp_run_call_show(FILE *stream, const json_t *call);

/* What the model got: a string, JSON or not. */
void snp_run_result_show(FILE *stream, const json_t *content);

/* Untrusted text, set in under a title; nothing if it is empty. */
void snp_run_block_show(FILE *stream, const char *title, const json_t *text);

#endif
