/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tier.h"

#include "wire/guest.h"

/* clang-format off */
SNP_TIER_RECORDS(SNP_RECORD_DEFINE)
SNP_GUEST_RECORDS(SNP_RECORD_DEFINE)

const struct snp_method_form snp_tier_methods[SNP_TIER_METHODS_N] = {
    {&snp_tier_open_request_form, &snp_tier_open_answer_form, 0, "Opens a sandbox."},
    {&snp_tier_exec_request_form, NULL, SNP_FRAME_BODY_MAX, "Runs a cell. raw = code, then standard input. Answer: the result without `name`; also without `manifest` if the manifest of `open` is still valid. `not_found`: the cell was not run because the sandbox has ended."},
    {&snp_tier_interrupt_request_form, &snp_tier_interrupt_answer_form, 0, "Interrupts the running cell, like a timeout."},
    {&snp_tier_answer_request_form, &snp_tier_answer_answer_form, SNP_CALL_BYTES_MAX, "Answers a call of the code. raw = the answer."},
    {&snp_tier_snapshot_request_form, &snp_tier_snapshot_answer_form, 0, "Makes a copy of the session between two cells, in memory, until `drop`. `unsupported` with the reason if the session cannot be copied, `limit` while a cell runs."},
    {&snp_tier_rollback_request_form, &snp_tier_rollback_answer_form, 0, "Rolls the session back to a copy; a running cell is ended and answered first. `not_found`: the copy was ended because memory was short."},
    {&snp_tier_drop_request_form, NULL, 0, "Ends a copy."},
    {&snp_tier_close_request_form, NULL, 0, "Ends the sandbox; answered once all its processes, mounts and control groups are gone."},
    {&snp_tier_forget_request_form, NULL, 0, "Removes the full outputs of a session (`owner` of `exec`) that has ended; no sandbox is needed."},
    {&snp_tier_outputs_request_form, NULL, 0, "Changes how many bytes of full outputs are stored; removes complete ones that exceed it."},
    {&snp_tier_memory_request_form, &snp_tier_memory_answer_form, 0, "Measures the memory of the sandbox."},
    {&snp_tier_limit_request_form, &snp_tier_limit_answer_form, 0, "Changes those limits of the sandbox that can change while it runs."},
    {&snp_tier_save_request_form, &snp_tier_save_answer_form, SNP_KNOWN_MAX, "Writes a bundle to the passed write end of a pipe. raw = known keys, one per line. If a copy is saved, the event `taken` comes before the answer."},
    {&snp_tier_load_request_form, &snp_tier_load_answer_form, 0, "Reads a bundle from the passed read end of a pipe; only before the first cell."},
    {&snp_tier_clone_request_form, &snp_tier_clone_answer_form, 0, "Turns this sandbox into an exact copy of another sandbox of this tier, as its last cell left it; only before the first cell. On `unsupported`, with the reason, nothing has changed; use `load` instead."},
};
/* clang-format on */
