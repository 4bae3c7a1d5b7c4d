/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/methods.h"

#include "base/wire/exec.h"
#include "base/wire/file.h"
#include "base/wire/process.h"
#include "base/wire/result.h"
#include "base/wire/session.h"
#include "base/wire/snapshot.h"

const char *const snp_exec_kinds[] = {"python", "command", "process", NULL};
const char *const snp_exec_durabilities[] = {"process", "synced", NULL};
const char *const snp_exec_checkpoints[] = {"idle", "cell", "off", "after", NULL};
const char *const snp_exec_recovers[] = {"ask", "replay", "checkpoint", "skip", NULL};
const char *const snp_session_states[] = {"idle",       "running", "waking", "hibernated",
                                          "incomplete", "unknown", "lost",   NULL};
const char *const snp_failed_causes[] = {"memory", "timeout", NULL};
const char *const snp_diff_changes[] = {"added", "removed", "changed", NULL};
const char *const snp_process_states[] = {"running", "ended", "unknown", NULL};

/* clang-format off */
SNP_EXEC_RECORDS(SNP_RECORD_DEFINE)
SNP_FILE_RECORDS(SNP_RECORD_DEFINE)
SNP_PROCESS_RECORDS(SNP_RECORD_DEFINE)
SNP_SESSION_RECORDS(SNP_RECORD_DEFINE)
SNP_SNAPSHOT_RECORDS(SNP_RECORD_DEFINE)
SNP_ERROR_RECORDS(SNP_RECORD_DEFINE)

static const struct snp_field error_fields[] = {
    {.name = "code", .types = SNP_T_STR, .text = "kind of failure"},
    {.name = "message", .types = SNP_T_TEXT, .text = "the facts; does not name options or arguments"},
    {.name = "errno", .types = SNP_T_INT | SNP_T_OPT, .text = "error number of the system call that failed"},
    {.name = "object", .types = SNP_T_TEXT | SNP_T_OPT, .text = "name of the affected object, or `cell`"},
    {.name = "limit", .types = SNP_T_OBJ | SNP_T_OPT, .of = &snp_error_limit_form, .text = "the limit that was met"},
    {.name = "remedy", .types = SNP_T_OBJ | SNP_T_OPT, .of = &snp_error_remedy_form, .text = "the fix, which the client puts into words"},
};
const struct snp_record snp_error_form = SNP_RECORD("error", error_fields);

const struct snp_method_form snp_methods[SNP_METHODS_N] = {
    [SNP_METHOD_HELLO] = {&snp_hello_request_form, &snp_hello_answer_form, 0, "The first request; `unsupported`: the daemon speaks another version."},
    [SNP_METHOD_EXEC] = {&snp_exec_request_form, NULL, SNP_FRAME_BODY_MAX, "Runs a cell. raw = code, then standard input. Answer: the result (docs/result.md); the events below precede it."},
    [SNP_METHOD_INTERRUPT] = {&snp_interrupt_request_form, &snp_interrupt_answer_form, 0, "Interrupts the running cell, like a timeout."},
    [SNP_METHOD_ANSWER] = {&snp_answer_request_form, &snp_answer_answer_form, SNP_CALL_BYTES_MAX, "Answers a call of the code. raw = the answer for the cell's function, at most 4 MiB."},
    [SNP_METHOD_SESSIONS_LIST] = {&snp_sessions_list_request_form, &snp_sessions_list_answer_form, 0, "Lists all sessions."},
    [SNP_METHOD_SESSIONS_SHOW] = {&snp_sessions_show_request_form, &snp_sessions_show_answer_form, 0, "Shows one session."},
    [SNP_METHOD_SESSIONS_DESTROY] = {&snp_sessions_destroy_request_form, &snp_sessions_destroy_answer_form, 0, "Ends a session permanently."},
    [SNP_METHOD_SESSIONS_CLEAR] = {&snp_sessions_clear_request_form, &snp_sessions_clear_answer_form, 0, "Gives a session a fresh interpreter, an empty workspace and no history; name, id and policy stay."},
    [SNP_METHOD_SESSIONS_MOVE] = {&snp_sessions_move_request_form, &snp_sessions_move_answer_form, 0, "Saves a session, restores the checkpoint in a second sandbox in the other tier, then ends the session's sandbox; the next cell wakes it there. A hibernated session is restored from its checkpoint. If the request fails, the session is unchanged."},
    [SNP_METHOD_SESSIONS_SET] = {&snp_sessions_set_request_form, &snp_sessions_set_answer_form, 0, "Changes limits of a session permanently. Limits that its sandbox cannot change apply at the next wake. If a limit of memory, files or processes is lowered, a hibernated session is woken, and the session is saved and restored on trial with the new limits. `limit`: its data exceeds them, and its limits are unchanged."},
    [SNP_METHOD_CHECKPOINT] = {&snp_checkpoint_request_form, &snp_checkpoint_answer_form, 0, "Saves a session now."},
    [SNP_METHOD_HIBERNATE] = {&snp_hibernate_request_form, &snp_hibernate_answer_form, 0, "Saves a session, restores the checkpoint in a second sandbox with the same limits, then ends the session's sandbox. `limit`: the checkpoint could not be restored; the session stays awake."},
    [SNP_METHOD_HISTORY] = {&snp_history_request_form, &snp_history_answer_form, 0, "Lists cells of a session."},
    [SNP_METHOD_CELL_SHOW] = {&snp_cell_show_request_form, &snp_cell_show_answer_form, 0, "Shows one cell. raw of the answer = code, then standard input. The cell's output comes first, as events of `exec`."},
    [SNP_METHOD_JOURNAL_EVENTS] = {&snp_journal_events_request_form, &snp_journal_events_answer_form, 0, "Lists events of recovery."},
    [SNP_METHOD_GC] = {&snp_gc_request_form, &snp_gc_answer_form, 0, "Removes contents that nothing needs, then the oldest, until the journal fits its budget."},
    [SNP_METHOD_SNAPSHOT] = {&snp_snapshot_request_form, &snp_snapshot_answer_form, 0, "Takes a snapshot."},
    [SNP_METHOD_SNAPSHOTS_LIST] = {&snp_snapshots_list_request_form, &snp_snapshots_list_answer_form, 0, "Lists snapshots."},
    [SNP_METHOD_SNAPSHOTS_REMOVE] = {&snp_snapshots_remove_request_form, &snp_snapshots_remove_answer_form, 0, "Removes a snapshot."},
    [SNP_METHOD_ROLLBACK] = {&snp_rollback_request_form, &snp_rollback_answer_form, 0, "Rolls a session back to a snapshot."},
    [SNP_METHOD_FORK] = {&snp_fork_request_form, &snp_fork_answer_form, 0, "Makes sessions that start as a copy of a session or snapshot."},
    [SNP_METHOD_DIFF] = {&snp_diff_request_form, &snp_diff_answer_form, 0, "Compares two sessions or snapshots."},
    [SNP_METHOD_BLOB] = {&snp_blob_request_form, &snp_blob_answer_form, 0, "Reads contents by their hash. raw of the answer = bytes."},
    [SNP_METHOD_EXPORT] = {&snp_export_request_form, &snp_export_answer_form, 0, "Writes a session or snapshot into a file: events `data` (raw = the file of docs/archive.md), then the answer."},
    [SNP_METHOD_IMPORT_BEGIN] = {&snp_import_begin_request_form, &snp_import_begin_answer_form, 0, "Begins an import."},
    [SNP_METHOD_IMPORT_DATA] = {&snp_import_data_request_form, NULL, SNP_FILE_CHUNK_MAX, "Receives a part of the file. raw = at most 1 MiB."},
    [SNP_METHOD_IMPORT_END] = {&snp_import_end_request_form, &snp_import_end_answer_form, 0, "Makes a session from the file."},
    [SNP_METHOD_PUT] = {&snp_put_request_form, &snp_put_answer_form, SNP_FILE_CHUNK_MAX, "Writes into a file; a path that ends in a slash makes a folder. raw = at most 1 MiB. If `durability` of the latest `exec` is `synced`, the session is saved before the answer; if that fails, `unsaved` of the answer gives the reason. A part of 1 MiB, or one with `more`, is saved with the next part, which may be empty."},
    [SNP_METHOD_GET] = {&snp_get_request_form, &snp_get_answer_form, 0, "Reads from a file. raw of the answer = bytes."},
    [SNP_METHOD_LS] = {&snp_ls_request_form, &snp_ls_answer_form, 0, "Lists a folder."},
    [SNP_METHOD_OUTPUT] = {&snp_output_request_form, &snp_output_answer_form, 0, "Reads stored output of a cell. raw of the answer = bytes."},
    [SNP_METHOD_PROCESS_LIST] = {&snp_process_list_request_form, &snp_process_list_answer_form, 0, "Lists the detached processes of a session; none if it has no sandbox."},
    [SNP_METHOD_PROCESS_READ] = {&snp_process_read_request_form, &snp_process_read_answer_form, 0, "Reads output of a detached process. raw of the answer = bytes of standard output, then of standard error. The last bytes of each stream are stored, as many as the limit `output` of the session, at most 256 KiB."},
    [SNP_METHOD_PROCESS_WRITE] = {&snp_process_write_request_form, &snp_process_write_answer_form, SNP_PROCESS_WRITE_MAX, "Writes to the standard input of a detached process that was started with `open_stdin`. raw = at most 64 KiB; without bytes it only closes. `not_found`: the process has ended, or has closed its standard input."},
    [SNP_METHOD_PROCESS_SIGNAL] = {&snp_process_signal_request_form, &snp_process_signal_answer_form, 0, "Sends a signal to a detached process."},
    [SNP_METHOD_STATS] = {&snp_stats_request_form, &snp_stats_answer_form, 0, "Reports what the daemon uses."},
    [SNP_METHOD_PROBE] = {&snp_probe_request_form, &snp_probe_answer_form, 0, "Reports what this host can do."},
    [SNP_METHOD_SHUTDOWN] = {&snp_shutdown_request_form, &snp_shutdown_answer_form, 0, "Saves all sessions and ends the daemon. `denied`: sessions could not be saved, and the daemon continues. Requests that wait for a session are refused (`peer`). A running cell is cut off, and the state before the cell is saved; if that is not possible, or files were put while the cell ran, the cell has 5 s to end. Snapshots in memory are written first."},
};
/* clang-format on */
