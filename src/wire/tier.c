/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tier.h"

SNP_RECORD_DEFINE(snp_tier_open_request, "open", SNP_TIER_OPEN_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_open_answer, "open", SNP_TIER_OPEN_ANSWER);
SNP_RECORD_DEFINE(snp_tier_exec_request, "exec", SNP_TIER_EXEC_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_interrupt_request, "interrupt", SNP_TIER_SESSION, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_interrupt_answer, "interrupt", SNP_TIER_INTERRUPT_ANSWER);
SNP_RECORD_DEFINE(snp_tier_answer_request, "answer", SNP_TIER_ANSWER_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_answer_answer, "answer", SNP_TIER_ANSWER_ANSWER);
SNP_RECORD_DEFINE(snp_tier_snapshot_request, "snapshot", SNP_TIER_SESSION, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_snapshot_answer, "snapshot", SNP_TIER_SNAPSHOT_ANSWER);
SNP_RECORD_DEFINE(snp_tier_rollback_request,
                  "rollback",
                  SNP_TIER_ROLLBACK_REQUEST,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_tier_rollback_answer, "rollback", SNP_TIER_ROLLBACK_ANSWER);
SNP_RECORD_DEFINE(snp_tier_drop_request, "drop", SNP_TIER_DROP_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_close_request, "close", SNP_TIER_SESSION, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_memory_request, "memory", SNP_TIER_SESSION, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_memory_answer, "memory", SNP_TIER_MEMORY_ANSWER);
SNP_RECORD_DEFINE(snp_tier_save_request, "save", SNP_TIER_SAVE_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_save_answer, "save", SNP_TIER_SAVE_ANSWER);
SNP_RECORD_DEFINE(snp_tier_load_request, "load", SNP_TIER_LOAD_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_tier_load_answer, "load", SNP_TIER_LOAD_ANSWER);
