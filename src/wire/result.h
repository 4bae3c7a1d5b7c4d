/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_RESULT_H
#define SNP_WIRE_RESULT_H

/* The result of a cell (docs/result.md), and its events. */

#include "policy/session_name.h"
#include "wire/record.h"
#include "wire/rpc.h"

extern const char *const snp_result_statuses[];
extern const char *const snp_result_states[];
extern const char *const snp_result_streams[];
extern const char *const snp_wait_reasons[];

/* clang-format off */
#define SNP_RESULT_ERROR(F, S) \
    F(S, TEXT, type,      MUST,   0, 0, "name of the exception") \
    F(S, TEXT, message,   MUST,   0, 0, "its text") \
    F(S, TEXT, traceback, NIL,    0, 0, "as Python prints it") \
    F(S, NUM,  line,      NIL,    0, 0, "of the cell") \
    F(S, TEXT, hint,      NIL,    0, 0, "advice; each front end fills it in its own words for `cause` and `module`: options of the command line, options of the library, what a model can do") \
    F(S, TEXT, cause,     OPTNIL, 0, 0, "the `rule` of a denial, or \"no such file\", \"no such program\", \"no such module\", \"no input\", \"notebook\", \"shell line\"") \
    F(S, TEXT, path,      OPTNIL, 0, 0, "of a file that is not there") \
    F(S, OBJ,  module,    OPTNIL, 0, NULL, "of a failed import: {`name`, `templates`: those that have it, `command`: how to get it}")

#define SNP_RESULT_LIMIT(F, S) \
    F(S, STR,  key,       MUST,   64, 0, "its configuration key") \
    F(S, INT,  value,     MUST,   0, 0, "as a number") \
    F(S, STR,  text,      MUST,   256, 0, "for people") \
    F(S, STR,  flag,      MUST,   64, 0, "the option that raises it")

#define SNP_RESULT_USAGE(F, S) \
    F(S, INT,  wall_us,   MUST,   0, 0, "time taken") \
    F(S, NUM,  cpu_us,    NIL,    0, 0, "time on processors") \
    F(S, NUM,  memory_peak_bytes, NIL, 0, 0, "highest use; on cgroup v2 before kernel 6.12 that of the session so far") \
    F(S, INT,  stdout_bytes, MUST, 0, 0, "written to standard output") \
    F(S, INT,  stderr_bytes, MUST, 0, 0, "written to standard error") \
    F(S, NUM,  written_bytes, NIL, 0, 0, "written to files") \
    F(S, INT,  setup_us,  MUST,   0, 0, "time before the cell began")

#define SNP_RESULT_OUTPUT(F, S) \
    F(S, BOOL, truncated, MUST,   0, 0, "text was cut") \
    F(S, INT,  stdout_chars, MUST, 0, 0, "characters, all of them") \
    F(S, INT,  stderr_chars, MUST, 0, 0, "characters, all of them") \
    F(S, STR,  handle,    NIL,    SNP_CAP_HANDLE, 0, "reads the full text (of a stream at most 64 MiB, if the disk of the state folder has room), until the session is destroyed or cleared, others need the room, or the daemon ends; null if nothing was cut or stored")

#define SNP_RESULT_FILES(F, S) \
    F(S, STRS, created,   MUST,   100000, 0, "paths below /workspace") \
    F(S, STRS, modified,  MUST,   100000, 0, "paths below /workspace") \
    F(S, STRS, deleted,   MUST,   100000, 0, "paths below /workspace") \
    F(S, BOOL, truncated, MUST,   0, 0, "there are more")

#define SNP_RESULT_TRANSACTION(F, S) \
    F(S, STR,  interpreter, MUST, 32, 0, "standby, off, unavailable, dropped_for_memory") \
    F(S, STR,  workspace, MUST,   32, 0, "copied, off, unavailable") \
    F(S, STRS, notes,     MUST,   16, 0, "the reason, and what would not be undone", .people = "not undone")

#define SNP_RESULT_SOURCES(F, S) \
    F(S, STRS, attested,  MUST,   64, 0, "names of members") \
    F(S, STRS, claimed,   MUST,   64, 0, "names of members")

#define SNP_RESULT_DENIAL(F, S) \
    F(S, STR,  source,    MUST,   16, 0, "kernel, limit, guest") \
    F(S, STR,  control,   MUST,   32, 0, "network, resources, filesystem, syscalls") \
    F(S, TEXT, operation, MUST,   0, 0, "what was tried") \
    F(S, TEXT, object,    NIL,    0, 0, "on what") \
    F(S, TEXT, rule,      NIL,    0, 0, "what refused it") \
    F(S, TEXT, hint,      NIL,    0, 0, "what helps; as of `error`, for `rule`") \
    F(S, INT,  count,     MUST,   0, 0, "how often")

#define SNP_RESULT_MANIFEST(F, S) \
    F(S, STR,  tier,      MUST,   32, 0, "its name") \
    F(S, STR,  template,  MUST,   32, 0, "its name") \
    F(S, OBJ,  controls,  MUST,   0, NULL, "{`network`, `resources`, `filesystem`, `syscalls`, `disposable`}: each {`enforced`: bool, ...details}") \
    F(S, STRS, degraded,  MUST,   64, 0, "controls that could not be had")

#define SNP_RESULT(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_ID_LEN, 0, "id", .source = SNP_ATTESTED) \
    F(S, INT,  cell,      MUST,   0, 0, "number in its session, from 1", .source = SNP_ATTESTED) \
    F(S, NUM,  epoch,     OPT,    0, 0, "of the sandbox that ran it: 1, and one more each time the session was woken, rolled back or cleared", .source = SNP_ATTESTED) \
    F(S, WORD, status,    MUST,   0, snp_result_statuses, "attested, but ok and error of Python are claimed; `error`: exception, or exit code other than 0. In `history` and `show`, of cells without a result, also `running`; `refused`: it could not be run, and left nothing; `unknown`: the daemon or the machine ended while it ran", .source = SNP_BY_END) \
    F(S, WORD, state,     MUST,   0, snp_result_states, "`rolled_back`: the cell was killed (or failed, with `atomic`), and variables and files are as before it, as far as `transaction` says, and no process that was there before runs; `lost`: the interpreter was killed, variables are as at the session's start, files stay (with `transaction.workspace` copied they are as before the cell); `restored_from_checkpoint`: it was killed, and the session goes back to its latest checkpoint", .source = SNP_ATTESTED, .models = "session") \
    F(S, NEG,  exit_code, NIL,    0, 0, "attested for commands, else claimed; for Python the code of SystemExit, or of the last failed line with !; null if there is none", .source = SNP_BY_END) \
    F(S, STR,  signal,    NIL,    32, 0, "name of the signal that ended interpreter or command during the cell; not of the kill that undoes a cell which had ended", .source = SNP_ATTESTED) \
    F(S, TEXT, stdout,    OPT,    0, 0, "at most `output` characters, head and tail", .source = SNP_CLAIMED) \
    F(S, TEXT, stderr,    OPT,    0, 0, "as stdout", .source = SNP_CLAIMED) \
    F(S, TEXT, value,     NIL,    0, 0, "repr of the last expression", .source = SNP_CLAIMED) \
    F(S, TEXT, result,    NIL,    0, 0, "repr of `result` if the cell set it", .source = SNP_CLAIMED) \
    F(S, ARR,  displays,  OPT,    0, NULL, "[{mime type: text, or base64 for binary types}]", .source = SNP_CLAIMED) \
    F(S, OBJ,  error,     NIL,    0, &snp_result_error_form, "null, or the exception", .source = SNP_CLAIMED) \
    F(S, ARR,  denials,   MUST,   32, &snp_result_denial_form, "refused operations, each with its source", .people = "denied", .models = "denied") \
    F(S, INT,  denials_dropped, MUST, 0, 0, "number of denials beyond the 32 listed", .source = SNP_ATTESTED) \
    F(S, BOOL, restarted, MUST,   0, 0, "this cell began in a new interpreter, because the interpreter before was killed; the result of that cell said `lost`", .source = SNP_ATTESTED, .models = "session") \
    F(S, OBJ,  transaction, OPT,  0, &snp_result_transaction_form, "what protected this cell, determined before it ran; names in notes are claimed. /tmp and /dev/shm are never covered", .source = SNP_ATTESTED, .models = "session") \
    F(S, OBJ,  limit,     NIL,    0, &snp_result_limit_form, "the limit that ended or cut the cell", .source = SNP_ATTESTED) \
    F(S, OBJ,  usage,     MUST,   0, &snp_result_usage_form, "what the cell used", .source = SNP_ATTESTED) \
    F(S, OBJ,  output,    MUST,   0, &snp_result_output_form, "what was printed", .source = SNP_ATTESTED) \
    F(S, OBJ,  files,     MUST,   0, &snp_result_files_form, "what changed in the workspace", .source = SNP_ATTESTED, .models = "files") \
    F(S, OBJ,  manifest,  OPT,    0, &snp_result_manifest_form, "what was enforced, see below", .source = SNP_ATTESTED) \
    F(S, OBJ,  sources,   MUST,   0, &snp_result_sources_form, "which members are which", .source = SNP_ATTESTED)

#define SNP_RESULT_RESTORED(F, S) \
    F(S, INT,  checkpoint, NIL,   0, 0, "its number; null: there was none") \
    F(S, INT,  cell,      MUST,   0, 0, "it is the state after this cell") \
    F(S, ARR,  missing,   MUST,   0, NULL, "cells after it that the caller gave up or `skip` left out") \
    F(S, ARR,  replayed,  MUST,   0, NULL, "cells that were run again") \
    F(S, ARR,  failed,    MUST,   0, NULL, "[{`name`, `reason`}] what could not be saved or restored (of a new session: its name, if a session of that name may have been lost with a damaged journal; `cell N`: differences between its replay and its first run, in value, result, exit code, error, displays, output, and names of changed files, not their contents)", .people = "not restored") \
    F(S, ARR,  missing_puts, MUST, 0, NULL, "files put after the checkpoint that the caller gave up", .people = "not restored") \
    F(S, BOOL, image,     OPT,    0, 0, "only if variables could not hold everything: whether the session continues exactly, from an image of its memory") \
    F(S, STR,  no_image,  OPT,    0, 0, "why not", .people = "no image") \
    F(S, INT,  wake_us,   MUST,   0, 0, "time taken")
#define SNP_RESULT_SAVED(F, S) \
    F(S, OBJ,  made,      NIL,    0, NULL, "the answer of the method `checkpoint`") \
    F(S, STR,  error,     NIL,    0, 0, "why there is none", .people = "not saved")
#define SNP_RESULT_NOT_APPLIED(F, S) \
    F(S, STR,  setting,   MUST,   0, 0, "`tier`, `template`, `project`, `rootfs`, `engine`, `network`, or a limit, as `memory`") \
    F(S, STR,  session,   MUST,   0, 0, "its value in the session") \
    F(S, STR,  asked,     MUST,   0, 0, "the configured value")
/* Members that the daemon adds to a tier's result. */
#define SNP_RESULT_ADDED(F, S) \
    F(S, STR,  name,      NIL,    0, 0, "of the session, null for an unnamed one", .source = SNP_ATTESTED) \
    F(S, OBJ,  restored,  NIL,    0, &snp_result_restored_form, "of the first cell after the session was woken, else null", .source = SNP_ATTESTED, .models = "session") \
    F(S, OBJ,  checkpoint, OPT,   0, &snp_result_saved_form, "only with `checkpoint: \"cell\"`", .source = SNP_ATTESTED, .models = "session") \
    F(S, ARR,  not_applied, OPT,  0, &snp_result_not_applied_form, "only if there are any: settings named in `configured` of the call, and the engine of DOCKER_HOST, for which the session keeps another value", .source = SNP_ATTESTED) \
    F(S, OBJ,  unsaved,   OPT,    0, NULL, "only if the latest save of the session failed: {`session`, `cell`, `reason`, `text`, `error`}, as in docs/wire.md", .source = SNP_ATTESTED)

#define SNP_EVENT_GAP(F, S) \
    F(S, WORD, stream,    MUST,   16, snp_result_streams, "which output") \
    F(S, INT,  omitted_chars, MUST, 0, 0, "left out of the middle") \
    F(S, STR,  hash,      OPT,    16, 0, "XXH64 of the whole stream, by which a replay is compared")
#define SNP_EVENT_DISPLAY(F, S) \
    F(S, ARR,  mime,      MUST,   32, NULL, "[[type, byte length], ...]; raw = the parts, concatenated")
#define SNP_EVENT_CALL(F, S) \
    F(S, INT,  call,      MUST,   UINT32_MAX, 0, "its number in the cell; raw = the question, at most 4 MiB")
#define SNP_EVENT_GONE(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_ID_LEN, 0, "id of the sandbox") \
    F(S, STR,  reason,    MUST,   4096, 0, "why it ended by itself")

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
    R(snp_event_gone, "gone", SNP_EVENT_GONE, .tag = "event")
SNP_RESULT_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

/* The labels of a line of text/summary.h, which names a member of a result, or a part of one. */
void snp_result_labels(const json_t *line, const char **ret_people, const char **ret_models);

struct snp_event_waiting {
    const char *why; /* member "for" */
    uint64_t cell;   /* the running cell; 0 = none */
    uint64_t ms;
    uint64_t ahead;
};
extern const struct snp_record snp_event_waiting_form;

#endif
