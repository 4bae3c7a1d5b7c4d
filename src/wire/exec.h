/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_EXEC_H
#define SNP_WIRE_EXEC_H

/* The request `exec`. Its result is in wire/result.h. */

#include "base/project/project.h"
#include "policy/session_name.h"
#include "wire/frame.h"
#include "wire/record.h"
#include "wire/rpc.h"

extern const char *const snp_exec_kinds[];        /* python, command */
extern const char *const snp_exec_durabilities[]; /* as enum snp_durability */
extern const char *const snp_exec_checkpoints[];  /* as enum snp_checkpoint_when */
extern const char *const snp_exec_recovers[];     /* as enum snp_recover */

/* clang-format off */
/* Settings of all cells of a session, or of a client that runs cells. */
#define SNP_EXEC_POLICY(F, S) \
    F(S, STR,  tier,           OPTNIL, 32, 0, "name of a tier; `auto`: the strongest, or a weaker one with `allow_degraded`") \
    F(S, STR,  template,       OPTNIL, 32, 0, "`base`, `data`, `plot`, an added one, or `venv`, the project's own. Default, if `defaults` has none: `venv` if the project has one, else base") \
    F(S, OBJ,  defaults,       OPTNIL, 0, NULL, "limits for a session that this call opens; may contain `template`, `tier`, `rootfs`, `project`, `network`: code has the engine's (docker tier), `guarantees`: names that the session's tier must give, and `configured`: names of members that the user configured (a limit without its unit: `memory`); `not_applied` of the result lists those for which an open session keeps another value") \
    F(S, STR,  project,        OPTNIL, SNP_PROJECT_PATH_MAX, 0, "absolute path of the folder seen at /workspace") \
    F(S, STR,  rootfs,         OPTNIL, SNP_PROJECT_PATH_MAX, 0, "absolute path of a folder whose /usr and /etc replace the host's; in the docker tier IMAGE, IMAGE#RUNTIME or IMAGE#RUNTIME#SOCKET (the socket of the container engine)") \
    F(S, OBJ,  env,            OPTNIL, 0, NULL, "variables that reach the code, strings") \
    F(S, BOOL, allow_degraded, OPT,    0, 0, "run although a control cannot be had; the manifest says which") \
    F(S, BOOL, require_exact,  OPT,    0, 0, "refuse, also in an open session, if the manifest's `degraded` is not empty") \
    F(S, BOOL, attached,       OPT,    0, 0, "interrupt the cell if this client goes away") \
    F(S, YES,  transaction,    OPT,    0, 0, "a cell that is killed leaves nothing behind, where the tier can do that") \
    F(S, WORD, durability,     OPTNIL, 16, snp_exec_durabilities, "`synced` (default): the outcome survives a power cut before it is answered; `process`: the end of our own processes") \
    F(S, WORD, checkpoint,     OPTNIL, 16, snp_exec_checkpoints, "when the session is saved: `idle` (default): shortly after its last cell; `after`: from each answer on, beside the next cell; `cell`: before each answer; `off`")

#define SNP_EXEC_REQUEST(F, S) \
    F(S, STR,  session,        OPTNIL, SNP_SESSION_NAME_MAX, 0, "name or id; a new name opens a session; null: a session that ends with the call") \
    F(S, WORD, kind,           MUST,   16, snp_exec_kinds, "what to run") \
    F(S, INT,  code_len,       OPT,    SNP_FRAME_BODY_MAX, 0, "bytes of code; what follows them is standard input") \
    F(S, BOOL, stdin,          OPT,    0, 0, "standard input was given; else it is /dev/null") \
    F(S, ARR,  argv,           OPTNIL, SNP_CAP_ARGV, NULL, "for `command`: strings, found in PATH inside; `[\"/bin/sh\", \"-c\", TEXT]` for a shell line. For `python`: sys.argv of this cell") \
    F(S, OBJ,  limits,         OPTNIL, 0, NULL, "limits given explicitly, as `limits.h` writes them; the rest come from `defaults`") \
    F(S, YES,  stream,         OPT,    0, 0, "send `stdout` and `stderr` as they come; else only at the end") \
    F(S, BOOL, tell_wait,      OPT,    0, 0, "send the event `waiting` if the cell cannot begin at once") \
    F(S, BOOL, atomic,         OPT,    0, 0, "a failed cell is undone too; `unsupported`, before the cell runs, if that is not possible") \
    F(S, BOOL, calls,          OPT,    0, 0, "its Python code may call this client, which answers by `answer`") \
    F(S, WORD, recover,        OPTNIL, 16, snp_exec_recovers, "what to do about cells whose effects the session has lost: `ask` (default): fail with `denied` and name the values that fit; `replay`: run them again first; `checkpoint`: continue without them; `skip`: as `replay`, without cells that failed in a replay before") \
    F(S, BOOL, network,        OPT,    0, 0, "docker tier: code has the engine's network; refused if the session is open without it") \
    F(S, BOOL, temporary,      OPT,    0, 0, "a session that this call opens is destroyed soon after the process of this client has ended; not of `default`") \
    F(S, INT,  rerun_of,       OPT,    0, 0, "number of the cell that this one reruns; 0: no rerun") \
    F(S, BOOL, internal,       OPT,    0, 0, "code of the client itself: `history` leaves the cell out") \
    SNP_EXEC_POLICY(F, S)

#define SNP_EXEC_RECORDS(R) \
    R(snp_exec_policy, "exec", SNP_EXEC_POLICY) \
    R(snp_exec_request, "exec", SNP_EXEC_REQUEST, .tag = "method")
SNP_EXEC_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

/* Values of absent members. */
#define SNP_EXEC_DEFAULTS .stream = true, .transaction = true

#endif
