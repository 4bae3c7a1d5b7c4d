/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_TIER_H
#define SNP_WIRE_TIER_H

/*
 * The tier protocol: the daemon's requests to a tier, and the answers. Files, output and probe are
 * as in client requests.
 */

#include "base/policy/limits.h"
#include "base/wire/exec.h"
#include "base/wire/methods.h"
#include "base/wire/record.h"
#include "base/wire/session.h"

/* clang-format off */
#define SNP_TIER_SESSION(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_ID_LEN, 0, "id of the sandbox")

#define SNP_TIER_OPEN_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, STR,  template,  NIL,    32, 0, "name; null: `venv` of the project, else `base`") \
    F(S, OBJ,  limits,    MUST,   0, NULL, "all limits") \
    F(S, STR,  project,   NIL,    SNP_PROJECT_PATH_MAX, 0, "as in `exec`") \
    F(S, STR,  rootfs,    NIL,    SNP_PROJECT_PATH_MAX, 0, "as in `exec`") \
    F(S, BOOL, network,   OPT,    0, 0, "the code has a network, if the tier supports one") \
    F(S, OBJ,  env,       MUST,   0, NULL, "as in `exec`") \
    F(S, BOOL, allow_degraded, MUST, 0, 0, "as in `exec`") \
    F(S, BOOL, require_exact, MUST, 0, 0, "as in `exec`") \
    F(S, YES,  lasting,   MUST,   0, 0, "more cells will follow") \
    F(S, BOOL, loads,     MUST,   0, 0, "`load` follows, so nothing is prepared in advance") \
    F(S, STR,  instead_of, NIL,   0, 0, "why no stronger tier is used") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the session") \
    F(S, YES,  transaction, MUST, 0, 0, "undo killed cells")
#define SNP_TIER_OPEN_ANSWER(F, S) \
    F(S, OBJ,  manifest,  MUST,   0, NULL, "the manifest (docs/result.md)") \
    F(S, INT,  open_us,   OPT,    0, 0, "time taken")

#define SNP_TIER_EXEC_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number of the cell") \
    F(S, WORD, kind,      MUST,   16, snp_exec_kinds, "as in `exec`") \
    F(S, INT,  code_len,  MUST,   SNP_FRAME_BODY_MAX, 0, "as in `exec`") \
    F(S, BOOL, stdin,     MUST,   0, 0, "as in `exec`") \
    F(S, BOOL, open_stdin, OPT,   0, 0, "as in `exec`") \
    F(S, ARR,  argv,      NIL,    SNP_CAP_ARGV, NULL, "as in `exec`") \
    F(S, NUM,  wall_ms,   MUST,   0, 0, "time limit of this cell") \
    F(S, BOOL, stream,    MUST,   0, 0, "as in `exec`") \
    F(S, BOOL, require_exact, MUST, 0, 0, "as in `exec`") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the session") \
    F(S, YES,  transaction, MUST, 0, 0, "as in `exec`; false in an unnamed session") \
    F(S, BOOL, atomic,    MUST,   0, 0, "as in `exec`") \
    F(S, BOOL, calls,     MUST,   0, 0, "as in `exec`") \
    F(S, STR,  owner,     OPT,    SNP_SESSION_ID_LEN, 0, "id of the session that owns the full outputs, for `forget` (default: `session`)")

#define SNP_TIER_INTERRUPT_ANSWER(F, S) \
    F(S, BOOL, interrupted, MUST, 0, 0, "true: a cell was running")
#define SNP_TIER_ANSWER_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number of the cell") \
    F(S, INT,  call,      MUST,   UINT32_MAX, 0, "number of the call in the cell") \
    F(S, BOOL, ok,        MUST,   0, 0, "as in `answer`")
#define SNP_TIER_ANSWER_ANSWER(F, S) \
    F(S, BOOL, answered,  MUST,   0, 0, "true: the call was still open")

#define SNP_TIER_SNAPSHOT_ANSWER(F, S) \
    F(S, INT,  branch,    MUST,   UINT32_MAX, 0, "number of the copy") \
    F(S, INT,  us,        OPT,    0, 0, "time taken")
#define SNP_TIER_ROLLBACK_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, NUM,  branch,    MUST,   UINT32_MAX, 0, "number of the copy") \
    F(S, NUM,  epoch,     MUST,   0, 0, "new epoch of the session")
#define SNP_TIER_ROLLBACK_ANSWER(F, S) \
    F(S, INT,  us,        OPT,    0, 0, "time taken")
#define SNP_TIER_DROP_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, NUM,  branch,    MUST,   UINT32_MAX, 0, "number of the copy")

#define SNP_TIER_OUTPUTS_REQUEST(F, S) \
    F(S, INT,  bytes,     MUST,   0, 0, "as in `--outputs`")

#define SNP_TIER_MEMORY_ANSWER(F, S) \
    F(S, INT,  bytes,     MUST,   0, 0, "memory in use, shared pages counted once") \
    F(S, INT,  copies_bytes, MUST, 0, 0, "part of `bytes` that only snapshots use, approximately") \
    F(S, ARR,  branches,  MUST,   64, NULL, "numbers of the existing copies; copies are ended when memory is short")

#define SNP_TIER_LIMIT_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, OBJ,  limits,    MUST,   0, NULL, "all limits")
#define SNP_TIER_LIMIT_ANSWER(F, S) \
    F(S, OBJ,  manifest,  MUST,   0, NULL, "the manifest (docs/result.md) with the new limits") \
    F(S, STRS, later,     MUST,   SNP_LIMIT_N, NULL, "keys of limits that cannot change while the sandbox runs")

#define SNP_TIER_SAVE_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, NUM,  branch,    NIL,    UINT32_MAX, 0, "number of a copy; null: the state after the last cell") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the session; 0 with `branch`") \
    F(S, NUM,  cell,      OPT,    0, 0, "last cell; the request fails with `denied` if a later cell has ended") \
    F(S, BOOL, image,     OPT,    0, 0, "include an image of the interpreter, if possible")
#define SNP_TIER_SAVE_ANSWER(F, S) \
    F(S, INT,  us,        OPT,    0, 0, "time taken; the pipe then contains both parts of the bundle")
#define SNP_TIER_LOAD_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the session") \
    F(S, INT,  effort,    MUST,   3, 0, "0: everything; 1: variables while memory suffices; 2: no variables; 3: exactly, from the image sent in place of part `vars` (on `unsupported`, with the reason, nothing has changed)")
#define SNP_TIER_LOAD_ANSWER(F, S) \
    F(S, ARR,  failed,    MUST,   1000, &snp_failed_row_form, "items that could not be restored") \
    F(S, INT,  us,        OPT,    0, 0, "time taken")

#define SNP_TIER_CLONE_REQUEST(F, S) \
    SNP_TIER_SESSION(F, S) \
    F(S, STR,  from,      MUST,   SNP_SESSION_ID_LEN, 0, "id of the other sandbox") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the other sandbox; the request fails with `unsupported` if it has changed") \
    F(S, INT,  cell,      MUST,   0, 0, "last cell of the other sandbox; the request fails with `unsupported` if a later cell has ended")
#define SNP_TIER_CLONE_ANSWER(F, S) \
    F(S, INT,  us,        OPT,    0, 0, "time taken")

#define SNP_TIER_RECORDS(R) \
    R(snp_tier_open_request, "open", SNP_TIER_OPEN_REQUEST, .tag = "method") \
    R(snp_tier_open_answer, "open", SNP_TIER_OPEN_ANSWER) \
    R(snp_tier_exec_request, "exec", SNP_TIER_EXEC_REQUEST, .tag = "method") \
    R(snp_tier_interrupt_request, "interrupt", SNP_TIER_SESSION, .tag = "method") \
    R(snp_tier_interrupt_answer, "interrupt", SNP_TIER_INTERRUPT_ANSWER) \
    R(snp_tier_answer_request, "answer", SNP_TIER_ANSWER_REQUEST, .tag = "method") \
    R(snp_tier_answer_answer, "answer", SNP_TIER_ANSWER_ANSWER) \
    R(snp_tier_snapshot_request, "snapshot", SNP_TIER_SESSION, .tag = "method") \
    R(snp_tier_snapshot_answer, "snapshot", SNP_TIER_SNAPSHOT_ANSWER) \
    R(snp_tier_rollback_request, "rollback", SNP_TIER_ROLLBACK_REQUEST, .tag = "method") \
    R(snp_tier_rollback_answer, "rollback", SNP_TIER_ROLLBACK_ANSWER) \
    R(snp_tier_drop_request, "drop", SNP_TIER_DROP_REQUEST, .tag = "method") \
    R(snp_tier_close_request, "close", SNP_TIER_SESSION, .tag = "method") \
    R(snp_tier_forget_request, "forget", SNP_TIER_SESSION, .tag = "method") \
    R(snp_tier_outputs_request, "outputs", SNP_TIER_OUTPUTS_REQUEST, .tag = "method") \
    R(snp_tier_memory_request, "memory", SNP_TIER_SESSION, .tag = "method") \
    R(snp_tier_memory_answer, "memory", SNP_TIER_MEMORY_ANSWER) \
    R(snp_tier_limit_request, "limit", SNP_TIER_LIMIT_REQUEST, .tag = "method") \
    R(snp_tier_limit_answer, "limit", SNP_TIER_LIMIT_ANSWER) \
    R(snp_tier_save_request, "save", SNP_TIER_SAVE_REQUEST, .tag = "method") \
    R(snp_tier_save_answer, "save", SNP_TIER_SAVE_ANSWER) \
    R(snp_tier_load_request, "load", SNP_TIER_LOAD_REQUEST, .tag = "method") \
    R(snp_tier_load_answer, "load", SNP_TIER_LOAD_ANSWER) \
    R(snp_tier_clone_request, "clone", SNP_TIER_CLONE_REQUEST, .tag = "method") \
    R(snp_tier_clone_answer, "clone", SNP_TIER_CLONE_ANSWER)
SNP_TIER_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

/* All methods that only tiers have. */
enum {
    SNP_TIER_METHODS_N = 15
};
extern const struct snp_method_form snp_tier_methods[SNP_TIER_METHODS_N];

#endif
