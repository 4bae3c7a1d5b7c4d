/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_RESULT_H
#define SNP_BASE_WIRE_RESULT_H

/* The result of a cell (docs/result.md), and its events. */

#include "base/policy/session_name.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"

extern const char *const snp_result_statuses[];
extern const char *const snp_result_states[];
extern const char *const snp_result_streams[];
extern const char *const snp_wait_reasons[];

/* clang-format off */
#define SNP_RESULT_ERROR(F, S) \
    F(S, TEXT, type,      MUST,   0, 0, "name of the exception") \
    F(S, TEXT, message,   MUST,   0, 0, "message of the exception") \
    F(S, TEXT, traceback, NIL,    0, 0, "as Python prints it") \
    F(S, NUM,  line,      NIL,    0, 0, "line of the cell") \
    F(S, TEXT, hint,      NIL,    0, 0, "advice for `cause` and `module`, which each front end words for its users: command-line options, library options, or actions of a model") \
    F(S, TEXT, cause,     OPTNIL, 0, 0, "the `rule` of a denial, or \"no such file\", \"no such program\", \"no such module\", \"no input\", \"notebook\", \"shell line\"") \
    F(S, TEXT, path,      OPTNIL, 0, 0, "path of a missing file") \
    F(S, OBJ,  module,    OPTNIL, 0, NULL, "for a failed import: {`name`, `templates`: templates that contain it, `command`: a command that adds it}")

#define SNP_RESULT_LIMIT(F, S) \
    F(S, STR,  key,       MUST,   64, 0, "configuration key of the limit") \
    F(S, INT,  value,     MUST,   0, 0, "value of the limit") \
    F(S, STR,  text,      MUST,   256, 0, "description") \
    F(S, STR,  flag,      MUST,   64, 0, "the option that raises it")

#define SNP_RESULT_USAGE(F, S) \
    F(S, INT,  wall_us,   MUST,   0, 0, "time taken") \
    F(S, NUM,  cpu_us,    NIL,    0, 0, "CPU time") \
    F(S, NUM,  memory_peak_bytes, NIL, 0, 0, "peak memory of the cell; with cgroup v2 before kernel 6.12, of the session so far") \
    F(S, INT,  stdout_bytes, MUST, 0, 0, "bytes written to standard output") \
    F(S, INT,  stderr_bytes, MUST, 0, 0, "bytes written to standard error") \
    F(S, NUM,  written_bytes, NIL, 0, 0, "bytes written to files") \
    F(S, INT,  setup_us,  MUST,   0, 0, "time before the cell began")

#define SNP_RESULT_OUTPUT(F, S) \
    F(S, BOOL, truncated, MUST,   0, 0, "output was cut") \
    F(S, INT,  stdout_chars, MUST, 0, 0, "total number of characters") \
    F(S, INT,  stderr_chars, MUST, 0, 0, "total number of characters") \
    F(S, STR,  handle,    NIL,    SNP_CAP_HANDLE, 0, "handle of the full text (at most 64 MiB of a stream, if the disk of the state folder has room). It can be read until the session is destroyed or cleared, other sessions need the room, or the daemon ends; null: nothing was cut or stored")

#define SNP_RESULT_FILES(F, S) \
    F(S, STRS, created,   MUST,   100000, 0, "paths below /workspace") \
    F(S, STRS, modified,  MUST,   100000, 0, "paths below /workspace") \
    F(S, STRS, deleted,   MUST,   100000, 0, "paths below /workspace") \
    F(S, BOOL, truncated, MUST,   0, 0, "the lists are incomplete") \
    F(S, OBJ,  hashes,    OPT,    0, NULL, "{path: XXH64 of the contents}, for comparison with a replay: of changed regular files, the first 256 of at most 4 MiB together; absent if there are none")

#define SNP_RESULT_TRANSACTION(F, S) \
    F(S, STR,  interpreter, MUST, 32, 0, "standby, off, unavailable, dropped_for_memory") \
    F(S, STR,  workspace, MUST,   32, 0, "copied, off, unavailable") \
    F(S, STRS, notes,     MUST,   16, 0, "reasons, and effects that would not be undone")

#define SNP_RESULT_SOURCES(F, S) \
    F(S, STRS, attested,  MUST,   64, 0, "names of members") \
    F(S, STRS, claimed,   MUST,   64, 0, "names of members")

#define SNP_RESULT_DENIAL(F, S) \
    F(S, STR,  source,    MUST,   16, 0, "kernel, limit, guest") \
    F(S, STR,  control,   MUST,   32, 0, "network, resources, filesystem, syscalls") \
    F(S, TEXT, operation, MUST,   0, 0, "attempted operation") \
    F(S, TEXT, object,    NIL,    0, 0, "object of the operation") \
    F(S, TEXT, rule,      NIL,    0, 0, "the rule that refused it") \
    F(S, TEXT, hint,      NIL,    0, 0, "advice for `rule`, as in `error`") \
    F(S, INT,  count,     MUST,   0, 0, "number of times")

#define SNP_RESULT_MANIFEST(F, S) \
    F(S, STR,  tier,      MUST,   32, 0, "name of the tier") \
    F(S, STR,  template,  MUST,   32, 0, "name of the template") \
    F(S, OBJ,  controls,  MUST,   0, NULL, "{`network`, `resources`, `filesystem`, `syscalls`, `disposable`}: each {`enforced`: bool, ...details}") \
    F(S, STRS, degraded,  MUST,   64, 0, "missing or weaker controls")

#define SNP_RESULT(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_ID_LEN, 0, "id", .source = SNP_ATTESTED) \
    F(S, INT,  cell,      MUST,   0, 0, "number in its session, from 1", .source = SNP_ATTESTED) \
    F(S, NUM,  epoch,     OPT,    0, 0, "epoch of the sandbox that ran it: 1, increased each time the session is woken, rolled back or cleared", .source = SNP_ATTESTED) \
    F(S, WORD, status,    MUST,   0, snp_result_statuses, "attested, but `ok` and `error` of Python code are claimed; `ok`, `error` (exception, or exit code other than 0), `timeout`, `oom`, `killed`, `limit` or `interrupted`. Cells without a result can also have, in `history` and `show`: `running`; `refused`: could not run, and had no effect; `unknown`: the daemon or the machine ended while it ran", .source = SNP_BY_END) \
    F(S, WORD, state,     MUST,   0, snp_result_states, "`kept`: not undone. `rolled_back`: the cell was killed (or failed, with `atomic`); variables and files are as before the cell, within the limits of `transaction`, and earlier processes of the session have ended. `lost`: the interpreter was killed; variables are reset, files stay (if `transaction.workspace` is `copied`, they are as before the cell). `restored_from_checkpoint`: the cell was killed, and the session is back at its latest checkpoint", .source = SNP_ATTESTED) \
    F(S, NEG,  exit_code, NIL,    0, 0, "attested for commands, else claimed. For Python: the code of SystemExit, or of the last failed line with !; null if there is neither", .source = SNP_BY_END) \
    F(S, STR,  signal,    NIL,    32, 0, "name of the signal that ended the interpreter or command during the cell, unless it was the kill that undoes a cell after its end", .source = SNP_ATTESTED) \
    F(S, TEXT, stdout,    OPT,    0, 0, "at most `output` characters: beginning and end", .source = SNP_CLAIMED) \
    F(S, TEXT, stderr,    OPT,    0, 0, "as stdout", .source = SNP_CLAIMED) \
    F(S, TEXT, value,     NIL,    0, 0, "repr of the last expression", .source = SNP_CLAIMED) \
    F(S, TEXT, result,    NIL,    0, 0, "repr of the variable `result`, if the cell assigned it", .source = SNP_CLAIMED) \
    F(S, ARR,  displays,  OPT,    0, NULL, "[{mime type: text, or base64 for binary types}]", .source = SNP_CLAIMED) \
    F(S, OBJ,  error,     NIL,    0, &snp_result_error_form, "the exception, if any", .source = SNP_CLAIMED) \
    F(S, ARR,  denials,   MUST,   32, &snp_result_denial_form, "refused operations") \
    F(S, INT,  denials_dropped, MUST, 0, 0, "number of denials beyond the 32 listed", .source = SNP_ATTESTED) \
    F(S, BOOL, restarted, MUST,   0, 0, "the cell began in a new interpreter, because the previous one was killed; `state` of that cell was `lost`", .source = SNP_ATTESTED) \
    F(S, OBJ,  transaction, OPT,  0, &snp_result_transaction_form, "protection of this cell, determined before it ran; names in notes are claimed. /tmp and /dev/shm are never protected", .source = SNP_ATTESTED) \
    F(S, OBJ,  limit,     NIL,    0, &snp_result_limit_form, "the limit that ended or cut the cell", .source = SNP_ATTESTED) \
    F(S, OBJ,  usage,     MUST,   0, &snp_result_usage_form, "resources that the cell used", .source = SNP_ATTESTED) \
    F(S, OBJ,  output,    MUST,   0, &snp_result_output_form, "size of the printed output", .source = SNP_ATTESTED) \
    F(S, OBJ,  files,     MUST,   0, &snp_result_files_form, "changes in the workspace", .source = SNP_ATTESTED) \
    F(S, OBJ,  manifest,  OPT,    0, &snp_result_manifest_form, "enforced controls, see below", .source = SNP_ATTESTED) \
    F(S, OBJ,  sources,   MUST,   0, &snp_result_sources_form, "which members are attested or claimed", .source = SNP_ATTESTED)

#define SNP_RESULT_RESTORED(F, S) \
    F(S, INT,  checkpoint, NIL,   0, 0, "number of the checkpoint; null: there was none") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which the checkpoint was taken") \
    F(S, ARR,  missing,   MUST,   0, NULL, "later cells that were dropped at the caller's request, or omitted by `skip`") \
    F(S, ARR,  replayed,  MUST,   0, NULL, "cells that ran again") \
    F(S, ARR,  failed,    MUST,   0, NULL, "[{`name`, `reason`}] items that could not be saved or restored. `cell N`: its replay differs from its first run in value, result, exit code, error, displays, output, or changed files (names and contents). The contents of a file without a hash (`files.hashes`) are listed as not compared. In a new session, the session's name: an older one may have been lost with a damaged journal") \
    F(S, ARR,  missing_puts, MUST, 0, NULL, "files put after the checkpoint and dropped at the caller's request") \
    F(S, BOOL, image,     OPT,    0, 0, "only if some state cannot be saved as variables: true if the session continues exactly, from an image of its memory") \
    F(S, STR,  no_image,  OPT,    0, 0, "why it does not") \
    F(S, INT,  wake_us,   MUST,   0, 0, "time taken")
#define SNP_RESULT_SAVED(F, S) \
    F(S, OBJ,  made,      NIL,    0, NULL, "answer of the method `checkpoint`") \
    F(S, STR,  error,     NIL,    0, 0, "why there is no checkpoint")
#define SNP_RESULT_NOT_APPLIED(F, S) \
    F(S, STR,  setting,   MUST,   0, 0, "`tier`, `template`, `project`, `rootfs`, `engine`, `network`, or a limit such as `memory`") \
    F(S, STR,  session,   MUST,   0, 0, "value in the session") \
    F(S, STR,  asked,     MUST,   0, 0, "configured value")
/* Members that the daemon adds to a tier's result. */
#define SNP_RESULT_ADDED(F, S) \
    F(S, STR,  name,      NIL,    0, 0, "name of the session; null: unnamed", .source = SNP_ATTESTED) \
    F(S, OBJ,  restored,  NIL,    0, &snp_result_restored_form, "only in the first cell after the session was woken: how it was restored", .source = SNP_ATTESTED) \
    F(S, OBJ,  checkpoint, OPT,   0, &snp_result_saved_form, "only with `checkpoint: \"cell\"`", .source = SNP_ATTESTED) \
    F(S, ARR,  not_applied, OPT,  0, &snp_result_not_applied_form, "settings in `configured` of the request, and the engine in DOCKER_HOST, for which the session keeps another value; absent if none", .source = SNP_ATTESTED) \
    F(S, STRS, at_wake,   OPT,    0, 0, "keys of changed limits that apply only at the next wake; absent if none", .source = SNP_ATTESTED) \
    F(S, OBJ,  unsaved,   OPT,    0, NULL, "only if the latest save of the session failed: {`session`, `cell`, `reason`, `text`, `error`}, as in docs/wire.md", .source = SNP_ATTESTED)

#define SNP_EVENT_GAP(F, S) \
    F(S, WORD, stream,    MUST,   16, snp_result_streams, "output stream") \
    F(S, INT,  omitted_chars, MUST, 0, 0, "number of characters omitted from the middle") \
    F(S, STR,  hash,      OPT,    16, 0, "XXH64 of the whole stream, for comparison with a replay")
#define SNP_EVENT_DISPLAY(F, S) \
    F(S, ARR,  mime,      MUST,   32, NULL, "[[type, byte length], ...]; raw = the parts, concatenated")
#define SNP_EVENT_CALL(F, S) \
    F(S, INT,  call,      MUST,   UINT32_MAX, 0, "number of the call in the cell; raw = the request, at most 4 MiB")
#define SNP_EVENT_GONE(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_ID_LEN, 0, "id of the sandbox") \
    F(S, STR,  reason,    MUST,   4096, 0, "why it ended without a request")
#define SNP_EVENT_PROCESS(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_ID_LEN, 0, "id of the sandbox") \
    F(S, INT,  process,   MUST,   0, 0, "number of the detached process that ended") \
    F(S, NEG,  exit_code, NIL,    0, 0, "exit code; null: ended by a signal") \
    F(S, STR,  signal,    NIL,    32, 0, "name of the signal that ended it")

#define SNP_RESULT_RECORDS(R) \
    R(snp_result_error, "result.error", SNP_RESULT_ERROR) \
    R(snp_result_limit, "result.limit", SNP_RESULT_LIMIT) \
    R(snp_result_usage, "result.usage", SNP_RESULT_USAGE) \
    R(snp_result_output, "result.output", SNP_RESULT_OUTPUT) \
    R(snp_result_files, "result.files", SNP_RESULT_FILES) \
    R(snp_result_transaction, "result.transaction", SNP_RESULT_TRANSACTION) \
    R(snp_result_sources, "result.sources", SNP_RESULT_SOURCES) \
    R(snp_result_denial, "result.denials", SNP_RESULT_DENIAL) \
    R(snp_result_manifest, "manifest", SNP_RESULT_MANIFEST, .allow_more = true) \
    R(snp_result, "result", SNP_RESULT) \
    R(snp_result_restored, "result.restored", SNP_RESULT_RESTORED) \
    R(snp_result_saved, "result.checkpoint", SNP_RESULT_SAVED) \
    R(snp_result_not_applied, "result.not_applied", SNP_RESULT_NOT_APPLIED) \
    R(snp_result_added, "result", SNP_RESULT_ADDED) \
    R(snp_event_stdout, "stdout", SNP_NO_FIELDS, .tag = "event") /* raw = bytes as the program wrote them */ \
    R(snp_event_stderr, "stderr", SNP_NO_FIELDS, .tag = "event") \
    R(snp_event_taken, "taken", SNP_NO_FIELDS, .tag = "event") /* of `save`: cells and files may come */ \
    R(snp_event_gap, "gap", SNP_EVENT_GAP, .tag = "event") \
    R(snp_event_display, "display", SNP_EVENT_DISPLAY, .tag = "event") \
    R(snp_event_call, "call", SNP_EVENT_CALL, .tag = "event") \
    R(snp_event_gone, "gone", SNP_EVENT_GONE, .tag = "event") \
    R(snp_event_process, "process", SNP_EVENT_PROCESS, .tag = "event")
SNP_RESULT_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

struct snp_event_waiting {
    const char *why; /* member "for" */
    uint64_t cell;   /* the running cell; 0 = none */
    uint64_t ms;
    uint64_t ahead;
};
extern const struct snp_record snp_event_waiting_form;

#endif
