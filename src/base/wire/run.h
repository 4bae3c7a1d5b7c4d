/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_RUN_H
#define SNP_BASE_WIRE_RUN_H

/*
 * The protocol between a program with the library and the process of one of its runs: the client
 * protocol with additional methods. `hello`, `interrupt` and `answer` are in session.h.
 */

#include "base/wire/methods.h"

/* clang-format off */
#define SNP_RUN_TOOL(F, S) \
    F(S, STR,  name,        MUST,   0, 0, "name by which the model calls it") \
    F(S, STR,  description, OPT,    0, 0, "description for the model") \
    F(S, OBJ,  parameters,  OPT,    0, NULL, "JSON Schema of the arguments (default: none)") \
    F(S, INT,  timeout_ms,  OPT,    0, 0, "timeout of a call; 0: 30 s")
#define SNP_RUN_REQUEST(F, S) \
    F(S, STR,  system,      OPT,    0, 0, "instructions to the model, before the prompt") \
    F(S, STR,  resume,      OPT,    0, 0, "id of the run to resume, or the beginning of the id; without a prompt") \
    F(S, BOOL, agent,       OPT,    0, 0, "run an agent: iterate until the final answer") \
    F(S, STR,  folder,      OPT,    0, 0, "working folder of the run") \
    F(S, STRS, settings,    OPT,    0, 0, "`KEY=VALUE`: keys of the configuration, and options of `run`, `agent` or `resume` (`output_dir`: `--output`)") \
    F(S, ARR,  tools,       OPT,    0, &snp_run_tool_form, "tools of the program") \
    F(S, BOOL, records,     OPT,    0, 0, "send `record` events") \
    F(S, BOOL, text,        OPT,    0, 0, "send `text` events")
#define SNP_SETTINGS_REQUEST(F, S) \
    F(S, STR,  folder,      OPT,    0, 0, "folder whose configuration is read") \
    F(S, STRS, settings,    OPT,    0, 0, "`KEY=VALUE`, as in `run`")

#define SNP_COMMAND_REQUEST(F, S) \
    F(S, STRS, words,       MUST,   0, 0, "`diff`, `export`, `import` or `apply`, then the arguments of the command")

#define SNP_EVENT_BEGUN(F, S) \
    F(S, STR,  trajectory_id, MUST, 0, 0, "id of the new or continued record")
#define SNP_EVENT_PART(F, S) \
    F(S, BOOL, last,        OPT,    0, 0, "true: the last part; raw = text")
#define SNP_EVENT_TOOL(F, S) \
    F(S, INT,  call,        MUST,   UINT32_MAX, 0, "number of the call in the run; raw = the arguments, a JSON object") \
    F(S, STR,  tool,        MUST,   0, 0, "name of the tool")

#define SNP_RUN_RECORDS(R) \
    R(snp_run_tool, "run.tools", SNP_RUN_TOOL) \
    R(snp_run_request, "run", SNP_RUN_REQUEST, .tag = "method") \
    R(snp_settings_request, "settings", SNP_SETTINGS_REQUEST, .tag = "method") \
    R(snp_command_request, "command", SNP_COMMAND_REQUEST, .tag = "method") \
    R(snp_event_begun, "begun", SNP_EVENT_BEGUN, .tag = "event") \
    R(snp_event_record, "record", SNP_EVENT_PART, .tag = "event") \
    R(snp_event_text, "text", SNP_NO_FIELDS, .tag = "event") /* raw = text of the model */ \
    R(snp_event_note, "note", SNP_NO_FIELDS, .tag = "event") /* raw = a line for people */ \
    R(snp_event_tool, "tool", SNP_EVENT_TOOL, .tag = "event") \
    R(snp_event_result, "result", SNP_EVENT_PART, .tag = "event")
SNP_RUN_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

enum {
    SNP_RUN_METHODS_N = 6,
    SNP_PROMPT_MAX = 4 << 20, /* bytes */
};

/* The methods of a run; those of session.h are last, without a text. */
extern const struct snp_method_form snp_run_methods[SNP_RUN_METHODS_N];

#endif
