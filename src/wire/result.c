/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/result.h"

const char *const snp_result_statuses[] = {"ok",     "error", "timeout",     "oom",
                                           "killed", "limit", "interrupted", NULL};
const char *const snp_result_states[] = {"kept", "rolled_back", "restored_from_checkpoint",
                                         "lost", NULL};
const char *const snp_result_streams[] = {"stdout", "stderr", NULL};
const char *const snp_wait_reasons[] = {"run", "save", "rollback", NULL};

SNP_RECORD_DEFINE(snp_result_error, "result.error", SNP_RESULT_ERROR);
SNP_RECORD_DEFINE(snp_result_limit, "result.limit", SNP_RESULT_LIMIT);
SNP_RECORD_DEFINE(snp_result_usage, "result.usage", SNP_RESULT_USAGE);
SNP_RECORD_DEFINE(snp_result_output, "result.output", SNP_RESULT_OUTPUT);
SNP_RECORD_DEFINE(snp_result_files, "result.files", SNP_RESULT_FILES);
SNP_RECORD_DEFINE(snp_result_transaction, "result.transaction", SNP_RESULT_TRANSACTION);
SNP_RECORD_DEFINE(snp_result_sources, "result.sources", SNP_RESULT_SOURCES);
SNP_RECORD_DEFINE(snp_result_denial, "result.denials", SNP_RESULT_DENIAL);
SNP_RECORD_DEFINE(snp_result_manifest, "manifest", SNP_RESULT_MANIFEST, .allow_more = true);
SNP_RECORD_DEFINE(snp_result, "result", SNP_RESULT);
SNP_RECORD_DEFINE(snp_result_restored, "result.restored", SNP_RESULT_RESTORED);
SNP_RECORD_DEFINE(snp_result_saved, "result.checkpoint", SNP_RESULT_SAVED);
SNP_RECORD_DEFINE(snp_result_added, "result", SNP_RESULT_ADDED);

const struct snp_record snp_event_stdout_form = {.what = "stdout", .tag = "event"};
const struct snp_record snp_event_stderr_form = {.what = "stderr", .tag = "event"};
const struct snp_record snp_event_taken_form = {.what = "taken", .tag = "event"};
SNP_RECORD_DEFINE(snp_event_gap, "gap", SNP_EVENT_GAP, .tag = "event");
SNP_RECORD_DEFINE(snp_event_display, "display", SNP_EVENT_DISPLAY, .tag = "event");
SNP_RECORD_DEFINE(snp_event_call, "call", SNP_EVENT_CALL, .tag = "event");
SNP_RECORD_DEFINE(snp_event_gone, "gone", SNP_EVENT_GONE, .tag = "event");

static const struct snp_field waiting_fields[] = {
    SNP_FIELD_NAMED("for",
                    struct snp_event_waiting,
                    WORD,
                    why,
                    MUST,
                    0,
                    snp_wait_reasons,
                    "what the session does meanwhile"),
    SNP_FIELD_ROW(struct snp_event_waiting, INT, cell, NIL, 0, 0, "the one that runs")
        SNP_FIELD_ROW(struct snp_event_waiting, INT, ms, MUST, 0, 0, "since when")
            SNP_FIELD_ROW(
                struct snp_event_waiting, INT, ahead, MUST, 0, 0, "how many wait before it")};
const struct snp_record snp_event_waiting_form = {.what = "waiting",
                                                  .fields = waiting_fields,
                                                  .n_fields = SNP_ARRAY_LEN(waiting_fields),
                                                  .tag = "event",
                                                  .size = sizeof(struct snp_event_waiting)};
