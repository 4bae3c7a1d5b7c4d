/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_TOOL_H
#define SNP_RUN_TOOL_TOOL_H

/* The tools of a model in a run: one table, also the source of the providers' list. */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "run/tool/box.h"

enum snp_run_tool_kind {
    SNP_RUN_TOOL_CODE = 0,  /* runs its argument in the session's interpreter */
    SNP_RUN_TOOL_FILE,      /* tools.py */
    SNP_RUN_TOOL_FINAL,     /* the answer */
    SNP_RUN_TOOL_FINAL_VAR, /* the answer is a variable */
    SNP_RUN_TOOL_SUB,       /* a completion with turns */
    SNP_RUN_TOOL_BATCH,     /* single calls of the model */
};

struct snp_run_tool {
    const char *name;
    enum snp_run_tool_kind kind;
    const char *argument; /* required, a text */
    const char *description;
    const char *parameters; /* properties of the JSON Schema, as JSON */
};

/* Find a tool by its name, or its former name. NULL: none. Static. */
const struct snp_run_tool *snp_run_tool_find(const char *name);

/* "execute_code, file_read, ...". The caller frees; NULL when out of memory. */
char *snp_run_tool_names(void);

/*
 * For a provider: [{name, description, parameters}]; has_subs: including those for sub-calls. New
 * reference, NULL when out of memory.
 */
json_t *snp_run_tools(bool has_subs);

/*
 * The cell of a call. SNP_E_INVALID: the arguments are wrong; *err is for the model. ret_code,
 * ret_input: owned by the caller; the cell borrows them. *ret is the caller's: snp_box_cell_done().
 */
int snp_run_tool_cell(const struct snp_run_tool *tool,
                      const json_t *call,
                      struct snp_box_cell *ret,
                      char **ret_code,
                      char **ret_input,
                      struct snp_err *err) SNP_NODISCARD;

#endif
