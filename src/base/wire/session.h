/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_SESSION_H
#define SNP_BASE_WIRE_SESSION_H

/* Client requests about the daemon, its sessions and their history, and the answers. */

#include "base/policy/session_name.h"
#include "base/wire/process.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"

/* clang-format off */
#define SNP_SESSION_ONLY(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_NAME_MAX, 0, "id or name")

#define SNP_HELLO_REQUEST(F, S) \
    F(S, INT,  version,   MUST,   0, 0, "protocol version: 1")
#define SNP_HELLO_ANSWER(F, S) \
    F(S, INT,  version,   MUST,   0, 0, "protocol version: 1") \
    F(S, STR,  program,   MUST,   0, 0, "version of the daemon") \
    F(S, INT,  pid,       MUST,   0, 0, "process id of the daemon") \
    F(S, INT,  uptime_ms, MUST,   0, 0, "time since the daemon started") \
    F(S, STR,  state_dir, OPT,    0, 0, "state folder of the daemon") \
    F(S, STR,  state_id,  OPT,    0, 0, "that folder as DEVICE:INODE, the same in every mount namespace")

#define SNP_INTERRUPT_REQUEST(F, S) \
    F(S, STR,  session,   OPT,    SNP_SESSION_NAME_MAX, 0, "id or name; give this or `request`") \
    F(S, INT,  request,   OPT,    UINT32_MAX, 0, "id of an open `exec` of this client")
#define SNP_INTERRUPT_ANSWER(F, S) \
    F(S, BOOL, interrupted, MUST, 0, 0, "true: a running or waiting cell was interrupted, and ends like a timeout")

#define SNP_ANSWER_REQUEST(F, S) \
    F(S, INT,  request,   MUST,   UINT32_MAX, 0, "id of an open `exec` of this client") \
    F(S, INT,  call,      MUST,   UINT32_MAX, 0, "number of the open call") \
    F(S, BOOL, ok,        MUST,   0, 0, "false: the code gets an exception")
#define SNP_ANSWER_ANSWER(F, S) \
    F(S, BOOL, answered,  MUST,   0, 0, "true: the call was still open")

#define SNP_MISSING(F, S) \
    F(S, ARR,  cells,     MUST,   0, NULL, "numbers of the missing cells, at most 100") \
    F(S, INT,  n_cells,   MUST,   0, 0, "number of missing cells") \
    F(S, STRS, files,     MUST,   0, 0, "files put since the checkpoint, at most 20") \
    F(S, INT,  n_files,   MUST,   0, 0, "number of these files") \
    F(S, NUM,  rollback,  NIL,    0, 0, "cell of the latest rollback, if the checkpoint is older") \
    F(S, TEXT, text,      MUST,   0, 0, "all of this as text") \
    F(S, STRS, recover,   MUST,   0, 0, "suitable values of `recover` in `exec`")
#define SNP_UNSAVED(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_NAME_MAX, 0, "name of the session") \
    F(S, INT,  cell,      MUST,   0, 0, "last cell in the latest successful save; 0: none") \
    F(S, TEXT, reason,    MUST,   0, 0, "`disk full`, `journal budget reached`, or another failure") \
    F(S, TEXT, text,      MUST,   0, 0, "`not saved since cell N: REASON`") \
    F(S, OBJ,  error,     MUST,   0, NULL, "the failure, as the head of an ERROR; its remedy is the fix")
#define SNP_SESSION_ROW(F, S) \
    F(S, STR,  id,        MUST,   0, 0, "32 hex digits") \
    F(S, STR,  name,      NIL,    0, 0, "name; null: unnamed") \
    F(S, STR,  tier,      MUST,   0, 0, "name of the tier") \
    F(S, INT,  rank,      MUST,   0, 0, "rank of the tier, as in `probe`; 0: a user's tier") \
    F(S, STR,  template,  MUST,   0, 0, "name of the template") \
    F(S, WORD, state,     MUST,   0, snp_session_states, "`idle`, `running`, `waking`, or, without a sandbox: `hibernated` (nothing is missing), `incomplete` (cells after the checkpoint are missing), `unknown` (the same, and the outcome of the last cell is unknown), `lost` (there is no checkpoint)") \
    F(S, INT,  cells,     MUST,   0, 0, "number of cells run") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of its sandbox") \
    F(S, REAL, created,   MUST,   0, 0, "time of creation, unix seconds") \
    F(S, REAL, used,      MUST,   0, 0, "time of last use, unix seconds") \
    F(S, INT,  idle_ms,   MUST,   0, 0, "time since its last cell ended; 0 if not idle") \
    F(S, STR,  project,   NIL,    0, 0, "path of the project") \
    F(S, INT,  memory_bytes, MUST, 0, 0, "memory limit") \
    F(S, INT,  memory_peak_bytes, MUST, 0, 0, "peak memory of the last cell; 0: no sandbox") \
    F(S, INT,  disk_bytes, MUST,  0, 0, "size of the checkpoints") \
    F(S, INT,  checkpoint_cell, MUST, 0, 0, "cell after which the checkpoint was taken") \
    F(S, STR,  no_image,  OPT,    0, 0, "why the checkpoint has no image of the memory, although variables alone cannot restore the state") \
    F(S, INT,  snapshots_bytes, MUST, 0, 0, "memory used only by snapshots, as last measured") \
    F(S, OBJ,  missing,   NIL,    0, &snp_missing_row_form, "only if the session is incomplete, unknown or lost") \
    F(S, INT,  client,    OPT,    0, 0, "process id of the last client, while it is connected") \
    F(S, OBJ,  unsaved,   OPT,    0, &snp_unsaved_row_form, "only if the latest save of the session failed")
#define SNP_SESSIONS_LIST_ANSWER(F, S) \
    F(S, ARR,  sessions,  MUST,   0, &snp_session_row_form, "all sessions")
#define SNP_SESSIONS_SHOW_ANSWER(F, S) \
    SNP_SESSION_ROW(F, S) \
    F(S, OBJ,  limits,    MUST,   0, NULL, "as `limits.h` writes them") \
    F(S, OBJ,  manifest,  NIL,    0, NULL, "the manifest (docs/result.md); null: no cell has run yet")

#define SNP_ENDED(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number of the cell that was cut off") \
    F(S, INT,  ran_ms,    MUST,   0, 0, "time for which it had run") \
    F(S, INT,  waiting,   MUST,   0, 0, "number of waiting cells")
#define SNP_SESSIONS_DESTROY_REQUEST(F, S) \
    SNP_SESSION_ONLY(F, S) \
    F(S, BOOL, keep_steps, OPT,   0, 0, "keep the snapshots that a run took before its steps")
#define SNP_SESSIONS_DESTROY_ANSWER(F, S) \
    F(S, BOOL, destroyed, MUST,   0, 0, "true") \
    F(S, BOOL, reset,     OPT,    0, 0, "true: the session is `default`, which is cleared instead") \
    F(S, OBJ,  ended,     OPT,    0, &snp_ended_row_form, "the cell that was running, if any")
#define SNP_SESSIONS_CLEAR_REQUEST(F, S) \
    SNP_SESSION_ONLY(F, S) \
    F(S, BOOL, idle_only, OPT,    0, 0, "fail with `denied` if a cell runs or waits")
#define SNP_SESSIONS_CLEAR_ANSWER(F, S) \
    F(S, BOOL, cleared,   MUST,   0, 0, "true") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the new sandbox") \
    F(S, OBJ,  ended,     OPT,    0, &snp_ended_row_form, "the cell that was running, if any")

#define SNP_LOST_ROW(F, S) \
    F(S, TEXT, name,      MUST,   0, 0, "name of a variable, or path of a file") \
    F(S, TEXT, type,      OPT,    0, 0, "type of the variable, or kind of file") \
    F(S, TEXT, reason,    MUST,   0, 0, "the reason, as text")
#define SNP_FAILED_ROW(F, S) \
    F(S, TEXT, name,      MUST,   0, 0, "name of a variable, or path of a file") \
    F(S, TEXT, type,      OPT,    0, 0, "type of the variable") \
    F(S, TEXT, reason,    MUST,   0, 0, "the reason, as text") \
    F(S, WORD, cause,     OPT,    16, snp_failed_causes, "the limit that was met while restoring it")

#define SNP_SESSIONS_MOVE_REQUEST(F, S) \
    SNP_SESSION_ONLY(F, S) \
    F(S, STR,  tier,      MUST,   32, 0, "the new tier; not `auto`") \
    F(S, STR,  rootfs,    OPT,    SNP_CAP_PATH, 0, "as in `defaults` of `exec`, for the new tier") \
    F(S, BOOL, network,   OPT,    0, 0, "as in `defaults` of `exec`, for the new tier") \
    F(S, BOOL, allow_degraded, SAID, 0, 0, "as in `exec`, for the new tier") \
    F(S, BOOL, lossy,     OPT,    0, 0, "move even if some items cannot move; these are lost")
#define SNP_SESSIONS_MOVE_ANSWER(F, S) \
    F(S, BOOL, moved,     MUST,   0, 0, "false: the items in `lost` cannot move, and the session is unchanged") \
    F(S, STR,  from,      MUST,   0, 0, "name of the previous tier") \
    F(S, STR,  to,        MUST,   0, 0, "name of the new tier") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which the checkpoint was taken") \
    F(S, ARR,  lost,      MUST,   0, &snp_lost_row_form, "items that could not be saved, or not be restored in the new tier")

#define SNP_SESSIONS_SET_REQUEST(F, S) \
    SNP_SESSION_ONLY(F, S) \
    F(S, OBJ,  limits,    MUST,   0, NULL, "limits to change, as `limits.h` writes them")
#define SNP_SESSIONS_SET_ANSWER(F, S) \
    F(S, OBJ,  was,       MUST,   0, NULL, "previous limits, as `limits.h` writes them") \
    F(S, OBJ,  limits,    MUST,   0, NULL, "new limits") \
    F(S, STRS, at_wake,   MUST,   0, 0, "keys of limits that apply at the next wake, because the sandbox cannot change them or there is no sandbox") \
    F(S, TEXT, untried,   OPT,    0, 0, "why the lowered limits could not be tested by restoring the session") \
    F(S, WORD, state,     MUST,   0, snp_session_states, "as in `sessions.list`")

#define SNP_CHECKPOINT_ANSWER(F, S) \
    F(S, INT,  checkpoint, MUST,  0, 0, "number of the checkpoint") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which the checkpoint was taken") \
    F(S, INT,  items,     MUST,   0, 0, "number of variables and files") \
    F(S, INT,  written_bytes, MUST, 0, 0, "bytes written") \
    F(S, INT,  same_items, MUST,  0, 0, "items unchanged since an older checkpoint") \
    F(S, ARR,  lost,      NIL,    0, &snp_lost_row_form, "items that could not be saved") \
    F(S, BOOL, image,     OPT,    0, 0, "an image of the memory contains these items; it can be used while the template is unchanged") \
    F(S, INT,  us,        MUST,   0, 0, "time taken")
#define SNP_HIBERNATE_ANSWER(F, S) \
    F(S, BOOL, hibernated, MUST,  0, 0, "true") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which the checkpoint was taken") \
    F(S, ARR,  lost,      MUST,   0, &snp_lost_row_form, "items that could not be saved or restored") \
    F(S, BOOL, image,     OPT,    0, 0, "an image of the memory contains these items; it can be used while the template is unchanged")

#define SNP_HISTORY_REQUEST(F, S) \
    SNP_SESSION_ONLY(F, S) \
    F(S, INT,  before,    OPTNIL, 0, 0, "list cells before this one; 0: start with the last") \
    F(S, INT,  limit,     OPTNIL, SNP_CAP_ROWS, 0, "number of cells (default 50)")
#define SNP_CELL_ROW(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number of the cell") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the sandbox that ran it") \
    F(S, WORD, kind,      MUST,   0, snp_exec_kinds, "as in `exec`") \
    F(S, STR,  status,    MUST,   0, 0, "as in the result (docs/result.md)") \
    F(S, STR,  state,     NIL,    0, 0, "as in the result (docs/result.md); null: unknown") \
    F(S, REAL, started,   MUST,   0, 0, "start, unix seconds") \
    F(S, INT,  wall_us,   MUST,   0, 0, "time taken") \
    F(S, TEXT, first_line, NIL,   0, 0, "first line of the code") \
    F(S, BOOL, has_result, MUST,  0, 0, "the result is stored") \
    F(S, INT,  replay_of, NIL,    0, 0, "the replayed cell") \
    F(S, INT,  rerun_of,  NIL,    0, 0, "the rerun cell") \
    F(S, INT,  displays,  OPT,    0, 0, "number of displays that `cell.show` returns; absent: none, or an older version ran the cell") \
    F(S, OBJ,  process,   OPTNIL, 0, &snp_process_state_form, "of kind `process`: how the process ended")
#define SNP_HISTORY_ANSWER(F, S) \
    F(S, ARR,  cells,     MUST,   0, &snp_cell_row_form, "cells, newest first") \
    F(S, WORD, state,     MUST,   0, snp_session_states, "as in `sessions.list`") \
    F(S, OBJ,  missing,   NIL,    0, &snp_missing_row_form, "as in `sessions.list`")
#define SNP_CELL_SHOW_REQUEST(F, S) \
    SNP_SESSION_ONLY(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number of the cell")
#define SNP_CELL_SHOW_ANSWER(F, S) \
    SNP_CELL_ROW(F, S) \
    F(S, ARR,  argv,      NIL,    0, NULL, "as in `exec`") \
    F(S, BOOL, stdin,     MUST,   0, 0, "standard input was given") \
    F(S, INT,  stdin_bytes, MUST, 0, 0, "bytes of standard input") \
    F(S, BOOL, open_stdin, OPT,   0, 0, "as in `exec`") \
    F(S, INT,  wall_ms,   MUST,   0, 0, "time limit") \
    F(S, BOOL, dropped,   MUST,   0, 0, "`gc` has removed its result or output") \
    F(S, INT,  code_len,  MUST,   0, 0, "bytes of code; standard input follows") \
    F(S, OBJ,  result,    NIL,    0, NULL, "the result (docs/result.md)")

#define SNP_JOURNAL_EVENTS_REQUEST(F, S) \
    F(S, INT,  limit,     OPTNIL, 0, 0, "number of events (default 50)")
#define SNP_JOURNAL_ROW(F, S) \
    F(S, REAL, at,        MUST,   0, 0, "time, unix seconds") \
    F(S, STR,  kind,      MUST,   0, 0, "what happened") \
    F(S, STR,  session,   NIL,    0, 0, "id of the session") \
    F(S, STR,  text,      MUST,   0, 0, "description") \
    F(S, BOOL, solved,    SAID,   0, 0, "the file that it names was removed, or its session was destroyed")
#define SNP_JOURNAL_EVENTS_ANSWER(F, S) \
    F(S, ARR,  events,    MUST,   0, &snp_journal_row_form, "events, newest first") \
    F(S, BOOL, sealed,    SAID,   0, 0, "the journal is encrypted with the store key") \
    F(S, INT,  unsealed,  SAID,   0, 0, "number of files of contents older than the key, which are not encrypted")

#define SNP_GC_REQUEST(F, S) \
    F(S, NUM,  budget_bytes, OPTNIL, 0, 0, "budget of the journal in bytes; default: the daemon's") \
    F(S, NUM,  limit_bytes, OPTNIL, 0, 0, "new budget, at least 16 MiB; applies until the daemon ends")
#define SNP_GC_ANSWER(F, S) \
    F(S, INT,  freed_bytes, MUST, 0, 0, "bytes freed") \
    F(S, INT,  blobs,     MUST,   0, 0, "files removed") \
    F(S, INT,  bytes,     MUST,   0, 0, "bytes that the journal uses") \
    F(S, INT,  budget_bytes, MUST, 0, 0, "budget of the journal") \
    F(S, BOOL, is_met,    MUST,   0, 0, "the journal fits its budget")

#define SNP_STATS_ANSWER(F, S) \
    F(S, INT,  sessions,  MUST,   0, 0, "number of open sessions") \
    F(S, INT,  clients,   MUST,   0, 0, "number of connected clients") \
    F(S, INT,  rss_bytes, MUST,   0, 0, "resident memory of the daemon") \
    F(S, INT,  pid,       MUST,   0, 0, "process id of the daemon") \
    F(S, ARR,  unsaved,   OPT,    0, &snp_unsaved_row_form, "sessions whose latest save failed")

#define SNP_PROBE_REQUEST(F, S) \
    F(S, STR,  tier,      OPT,    32, 0, "name of a tier (default: the strongest)")
#define SNP_FEATURE_ROW(F, S) \
    F(S, STR,  name,      MUST,   64, 0, "name of a control or feature") \
    F(S, BOOL, ok,        MUST,   0, 0, "this host has it") \
    F(S, STR,  detail,    NIL,    4096, 0, "what was found") \
    F(S, STR,  cost,      NIL,    4096, 0, "what does not work without this feature") \
    F(S, STR,  fix,       NIL,    4096, 0, "how to get it")
#define SNP_PROBE_ANSWER(F, S) \
    F(S, ARR,  features,  MUST,   256, &snp_feature_row_form, "features that this host has or lacks") \
    F(S, BOOL, usable,    MUST,   0, 0, "the tier works here") \
    F(S, INT,  rank,      MUST,   999, 0, "strength: `auto` chooses the highest; a tier below 100 only with `allow_degraded`") \
    F(S, BOOL, by_name,   OPT,    0, 0, "`auto` never chooses it") \
    F(S, STRS, guarantees, MUST,   256, NULL, "controls that are always in force: names of the manifest, and `namespaces` (host files and processes are invisible)") \
    F(S, STRS, kernels,   OPTNIL, 16, NULL, "parts of the names of runtimes that run the code on a separate kernel, and so give the guarantee `kernel`") \
    F(S, STRS, verbs,     MUST,   256, NULL, "supported methods of the tier protocol, and features: `rootfs` (other file systems), `images` (`save` and `load` with images), `copies` (a project is copied into the workspace)") \
    F(S, OBJ,  limits,    MUST,   0, NULL, "how each limit is enforced, by key; `approximate: ...` if not exact") \
    F(S, STRS, degraded,  OPT,    64, NULL, "controls that are weaker on this host, as in the manifest: `NAME: reason`")

#define SNP_SHUTDOWN_REQUEST(F, S) \
    F(S, BOOL, force,     OPT,    0, 0, "end even if sessions cannot be saved; their unsaved work is lost")
#define SNP_SHUTDOWN_LOST(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "name or id") \
    F(S, STR,  reason,    MUST,   0, 0, "why it could not be saved; may be empty") \
    F(S, ARR,  lost,      MUST,   0, &snp_lost_row_form, "items that could not be saved or restored") \
    F(S, BOOL, image,     OPT,    0, 0, "an image of the memory contains these items")
#define SNP_SHUTDOWN_ANSWER(F, S) \
    F(S, ARR,  lost,      MUST,   0, &snp_shutdown_row_form, "sessions that cannot be restored completely, and snapshots that could not be written")

#define SNP_SESSION_RECORDS(R) \
    R(snp_hello_request, "hello", SNP_HELLO_REQUEST, .tag = "method") \
    R(snp_hello_answer, "hello", SNP_HELLO_ANSWER) \
    R(snp_interrupt_request, "interrupt", SNP_INTERRUPT_REQUEST, .tag = "method") \
    R(snp_interrupt_answer, "interrupt", SNP_INTERRUPT_ANSWER) \
    R(snp_answer_request, "answer", SNP_ANSWER_REQUEST, .tag = "method") \
    R(snp_answer_answer, "answer", SNP_ANSWER_ANSWER) \
    R(snp_missing_row, "missing", SNP_MISSING) \
    R(snp_unsaved_row, "unsaved", SNP_UNSAVED) \
    R(snp_session_row, "sessions.list", SNP_SESSION_ROW) \
    R(snp_sessions_list_request, "sessions.list", SNP_NO_FIELDS, .tag = "method") \
    R(snp_sessions_list_answer, "sessions.list", SNP_SESSIONS_LIST_ANSWER) \
    R(snp_sessions_show_request, "sessions.show", SNP_SESSION_ONLY, .tag = "method") \
    R(snp_sessions_show_answer, "sessions.show", SNP_SESSIONS_SHOW_ANSWER) \
    R(snp_ended_row, "ended", SNP_ENDED) \
    R(snp_sessions_destroy_request, "sessions.destroy", SNP_SESSIONS_DESTROY_REQUEST, .tag = "method") \
    R(snp_sessions_destroy_answer, "sessions.destroy", SNP_SESSIONS_DESTROY_ANSWER) \
    R(snp_sessions_clear_request, "sessions.clear", SNP_SESSIONS_CLEAR_REQUEST, .tag = "method") \
    R(snp_sessions_clear_answer, "sessions.clear", SNP_SESSIONS_CLEAR_ANSWER) \
    R(snp_lost_row, "lost", SNP_LOST_ROW) \
    R(snp_failed_row, "failed", SNP_FAILED_ROW) \
    R(snp_sessions_move_request, "sessions.move", SNP_SESSIONS_MOVE_REQUEST, .tag = "method") \
    R(snp_sessions_move_answer, "sessions.move", SNP_SESSIONS_MOVE_ANSWER) \
    R(snp_sessions_set_request, "sessions.set", SNP_SESSIONS_SET_REQUEST, .tag = "method") \
    R(snp_sessions_set_answer, "sessions.set", SNP_SESSIONS_SET_ANSWER) \
    R(snp_checkpoint_request, "checkpoint", SNP_SESSION_ONLY, .tag = "method") \
    R(snp_checkpoint_answer, "checkpoint", SNP_CHECKPOINT_ANSWER) \
    R(snp_hibernate_request, "hibernate", SNP_SESSION_ONLY, .tag = "method") \
    R(snp_hibernate_answer, "hibernate", SNP_HIBERNATE_ANSWER) \
    R(snp_history_request, "history", SNP_HISTORY_REQUEST, .tag = "method") \
    R(snp_cell_row, "history.cells", SNP_CELL_ROW) \
    R(snp_history_answer, "history", SNP_HISTORY_ANSWER) \
    R(snp_cell_show_request, "cell.show", SNP_CELL_SHOW_REQUEST, .tag = "method") \
    R(snp_cell_show_answer, "cell.show", SNP_CELL_SHOW_ANSWER) \
    R(snp_journal_events_request, "journal.events", SNP_JOURNAL_EVENTS_REQUEST, .tag = "method") \
    R(snp_journal_row, "journal.events", SNP_JOURNAL_ROW) \
    R(snp_journal_events_answer, "journal.events", SNP_JOURNAL_EVENTS_ANSWER) \
    R(snp_gc_request, "gc", SNP_GC_REQUEST, .tag = "method") \
    R(snp_gc_answer, "gc", SNP_GC_ANSWER) \
    R(snp_stats_request, "stats", SNP_NO_FIELDS, .tag = "method") \
    R(snp_stats_answer, "stats", SNP_STATS_ANSWER) \
    R(snp_probe_request, "probe", SNP_PROBE_REQUEST, .tag = "method") \
    R(snp_feature_row, "probe.features", SNP_FEATURE_ROW) \
    R(snp_probe_answer, "probe", SNP_PROBE_ANSWER) \
    R(snp_shutdown_request, "shutdown", SNP_SHUTDOWN_REQUEST, .tag = "method") \
    R(snp_shutdown_row, "shutdown.lost", SNP_SHUTDOWN_LOST) \
    R(snp_shutdown_answer, "shutdown", SNP_SHUTDOWN_ANSWER)
SNP_SESSION_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

extern const char *const snp_failed_causes[];
extern const char *const snp_session_states[];

#endif
