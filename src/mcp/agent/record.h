/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_AGENT_RECORD_H
#define SNP_MCP_AGENT_RECORD_H

/* Runs as recorded: of this server or of any other process, alive or not. */

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_AGENT_ID_LEN = 36, /* of a trajectory */
};

/*
 * The record of a run, by the id of the run or its trajectory, or the first 8 characters or more.
 * The caller frees. SNP_E_NOT_FOUND; SNP_E_INVALID: several match.
 */
int snp_agent_record_find(const char *log_dir, const char *id, char **ret_path, struct snp_err *err)
    SNP_NODISCARD;

/* Whether a process works on it. */
bool snp_agent_record_is_open(const char *path);

/* Ask the process that works on it to stop. SNP_E_NOT_FOUND: there is none. */
int snp_agent_record_stop(const char *path, struct snp_err *err) SNP_NODISCARD;

/*
 * The status answer: {"run_id", "status", ...}; bounded, and text of models and sandboxes is
 * cleaned. *ret: new reference.
 */
int snp_agent_record_show(const char *path, json_t **ret, struct snp_err *err) SNP_NODISCARD;

/* A text of at most max characters on one line, as JSON. New reference, NULL when out of memory. */
json_t *snp_agent_line(const char *text, size_t max);

#endif
