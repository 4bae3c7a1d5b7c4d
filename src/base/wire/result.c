/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/result.h"

const char *const snp_result_statuses[] = {"ok",     "error", "timeout",     "oom",
                                           "killed", "limit", "interrupted", NULL};
const char *const snp_result_states[] = {"kept", "rolled_back", "restored_from_checkpoint", "lost",
                                         NULL};
const char *const snp_result_streams[] = {"stdout", "stderr", NULL};
const char *const snp_wait_reasons[] = {"run", "save", "rollback", NULL};

/* clang-format off */
SNP_RESULT_RECORDS(SNP_RECORD_DEFINE)

static const struct snp_field waiting_fields[] = {
    SNP_FIELD_NAMED("for", struct snp_event_waiting, WORD, why, MUST, 0, snp_wait_reasons, "current activity of the session"),
    SNP_FIELD_ROW(struct snp_event_waiting, INT, cell, NIL, 0, 0, "number of the running cell")
    SNP_FIELD_ROW(struct snp_event_waiting, INT, ms, MUST, 0, 0, "time since it began, in milliseconds")
    SNP_FIELD_ROW(struct snp_event_waiting, INT, ahead, MUST, 0, 0, "number of cells waiting ahead of it")
};
/* clang-format on */

const struct snp_record snp_event_waiting_form = {.what = "waiting",
                                                  .fields = waiting_fields,
                                                  .n_fields = SNP_ARRAY_LEN(waiting_fields),
                                                  .tag = "event",
                                                  .size = sizeof(struct snp_event_waiting)};
