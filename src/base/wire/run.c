/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/run.h"

#include "base/wire/rpc.h"
#include "base/wire/session.h"

/* clang-format off */
SNP_RUN_RECORDS(SNP_RECORD_DEFINE)

const struct snp_method_form snp_run_methods[SNP_RUN_METHODS_N] = {
    {&snp_run_request_form, NULL, SNP_PROMPT_MAX, "Starts a run, or resumes one. raw = the prompt, or the task of an agent. The result is sent as `result` events, then the answer."},
    {&snp_settings_request_form, NULL, 0, "Reads the configuration without a run, and sends it as `result` events."},
    {&snp_command_request_form, NULL, 0, "Runs a command without a terminal. Its `--json` output is sent as `result` events."},
    {&snp_hello_request_form, &snp_hello_answer_form, 0, NULL},
    {&snp_interrupt_request_form, &snp_interrupt_answer_form, 0, NULL},
    {&snp_answer_request_form, &snp_answer_answer_form, SNP_CALL_BYTES_MAX, NULL},
};
/* clang-format on */
