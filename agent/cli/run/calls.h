/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_CALLS_H
#define SNP_CLI_RUN_CALLS_H

/* Tool calls of runs and their results, for people: code as code, output as output, indented. */

#include <stdio.h>

#include "base/json.h"

/* A call of the model: its name and arguments. */
void snp_run_call_show(FILE *stream, const json_t *call);

/* The result given to the model: a string, JSON or not. */
void snp_run_result_show(FILE *stream, const json_t *content);

/* Untrusted text, indented below a title; nothing if it is empty. */
void snp_run_block_show(FILE *stream, const char *title, const json_t *text);

#endif
