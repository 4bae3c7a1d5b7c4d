/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/session.h"

#include "wire/exec.h"

const char *const snp_session_states[] = {"idle",       "running", "waking", "hibernated",
                                          "incomplete", "unknown", "lost",   NULL};

const struct snp_record snp_sessions_list_request_form = {.what = "sessions.list",
                                                          .tag = "method"};
const struct snp_record snp_stats_request_form = {.what = "stats", .tag = "method"};
const struct snp_record snp_shutdown_request_form = {.what = "shutdown", .tag = "method"};

SNP_RECORD_DEFINE(snp_hello_request, "hello", SNP_HELLO_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_hello_answer, "hello", SNP_HELLO_ANSWER);
SNP_RECORD_DEFINE(snp_interrupt_request, "interrupt", SNP_INTERRUPT_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_interrupt_answer, "interrupt", SNP_INTERRUPT_ANSWER);
SNP_RECORD_DEFINE(snp_answer_request, "answer", SNP_ANSWER_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_answer_answer, "answer", SNP_ANSWER_ANSWER);
SNP_RECORD_DEFINE(snp_missing_row, "missing", SNP_MISSING);
SNP_RECORD_DEFINE(snp_session_row, "sessions.list", SNP_SESSION_ROW);
SNP_RECORD_DEFINE(snp_sessions_list_answer, "sessions.list", SNP_SESSIONS_LIST_ANSWER);
SNP_RECORD_DEFINE(snp_sessions_show_request,
                  "sessions.show",
                  SNP_SESSION_ONLY,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_sessions_show_answer, "sessions.show", SNP_SESSIONS_SHOW_ANSWER);
SNP_RECORD_DEFINE(snp_ended_row, "ended", SNP_ENDED);
SNP_RECORD_DEFINE(snp_sessions_destroy_request,
                  "sessions.destroy",
                  SNP_SESSION_ONLY,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_sessions_destroy_answer, "sessions.destroy", SNP_SESSIONS_DESTROY_ANSWER);
SNP_RECORD_DEFINE(snp_sessions_clear_request,
                  "sessions.clear",
                  SNP_SESSIONS_CLEAR_REQUEST,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_sessions_clear_answer, "sessions.clear", SNP_SESSIONS_CLEAR_ANSWER);
SNP_RECORD_DEFINE(snp_lost_row, "lost", SNP_LOST_ROW);
SNP_RECORD_DEFINE(snp_failed_row, "failed", SNP_FAILED_ROW);
SNP_RECORD_DEFINE(snp_checkpoint_request, "checkpoint", SNP_SESSION_ONLY, .tag = "method");
SNP_RECORD_DEFINE(snp_checkpoint_answer, "checkpoint", SNP_CHECKPOINT_ANSWER);
SNP_RECORD_DEFINE(snp_hibernate_request, "hibernate", SNP_SESSION_ONLY, .tag = "method");
SNP_RECORD_DEFINE(snp_hibernate_answer, "hibernate", SNP_HIBERNATE_ANSWER);
SNP_RECORD_DEFINE(snp_history_request, "history", SNP_HISTORY_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_cell_row, "history.cells", SNP_CELL_ROW);
SNP_RECORD_DEFINE(snp_history_answer, "history", SNP_HISTORY_ANSWER);
SNP_RECORD_DEFINE(snp_cell_show_request, "cell.show", SNP_CELL_SHOW_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_cell_show_answer, "cell.show", SNP_CELL_SHOW_ANSWER);
SNP_RECORD_DEFINE(snp_journal_events_request,
                  "journal.events",
                  SNP_JOURNAL_EVENTS_REQUEST,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_journal_row, "journal.events", SNP_JOURNAL_ROW);
SNP_RECORD_DEFINE(snp_journal_events_answer, "journal.events", SNP_JOURNAL_EVENTS_ANSWER);
SNP_RECORD_DEFINE(snp_gc_request, "gc", SNP_GC_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_gc_answer, "gc", SNP_GC_ANSWER);
SNP_RECORD_DEFINE(snp_stats_answer, "stats", SNP_STATS_ANSWER);
SNP_RECORD_DEFINE(snp_probe_request, "probe", SNP_PROBE_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_feature_row, "probe.features", SNP_FEATURE_ROW);
SNP_RECORD_DEFINE(snp_probe_answer, "probe", SNP_PROBE_ANSWER);
SNP_RECORD_DEFINE(snp_shutdown_row, "shutdown.lost", SNP_SHUTDOWN_LOST);
SNP_RECORD_DEFINE(snp_shutdown_answer, "shutdown", SNP_SHUTDOWN_ANSWER);
