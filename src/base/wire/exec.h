/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_EXEC_H
#define SNP_BASE_WIRE_EXEC_H

/* The request `exec`. Its result is in base/wire/result.h. */

#include "base/policy/session_name.h"
#include "base/project/project.h"
#include "base/wire/frame.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"

/* The values of `kind`, and their words. */
enum snp_exec_kind {
    SNP_EXEC_PYTHON = 0,
    SNP_EXEC_COMMAND,
    SNP_EXEC_PROCESS, /* a command that continues as a detached process after the cell */
};

extern const char *const snp_exec_kinds[];        /* python, command, process */
extern const char *const snp_exec_durabilities[]; /* as enum snp_durability */
extern const char *const snp_exec_checkpoints[];  /* as enum snp_checkpoint_when */
extern const char *const snp_exec_recovers[];     /* as enum snp_recover */

/* clang-format off */
/* Settings of all cells of a session, or of a client that runs cells. */
#define SNP_EXEC_POLICY(F, S) \
    F(S, STR,  tier,           OPTNIL, 32, 0, "name of a tier; `auto`: the strongest, or a weaker one with `allow_degraded`") \
    F(S, STR,  template,       OPTNIL, 32, 0, "`base`, `data`, `plot`, an added template, or `venv`: the template of the project's virtual environment. Default, unless `defaults` has one: `venv` if the project has a virtual environment, else `base`") \
    F(S, OBJ,  defaults,       OPTNIL, 0, NULL, "limits of a session that this call opens. May also contain `template`, `tier`, `rootfs`, `project`, `network` (docker tier: the code uses the engine's network), `guarantees` (names of guarantees that the tier must give) and `configured` (names of the members that the user configured; a limit without its unit, such as `memory`). `not_applied` of the result lists configured members for which an open session keeps another value") \
    F(S, STR,  project,        OPTNIL, SNP_PROJECT_PATH_MAX, 0, "absolute path of the folder shown at /workspace") \
    F(S, STR,  rootfs,         OPTNIL, SNP_PROJECT_PATH_MAX, 0, "absolute path of a folder whose /usr and /etc replace the host's; in the docker tier IMAGE, IMAGE#RUNTIME or IMAGE#RUNTIME#SOCKET (the socket of the container engine)") \
    F(S, OBJ,  env,            OPTNIL, 0, NULL, "environment variables of the code; the values are strings") \
    F(S, BOOL, allow_degraded, OPT,    0, 0, "run even if this host lacks a control; the manifest names it") \
    F(S, BOOL, require_exact,  OPT,    0, 0, "refuse if the manifest's `degraded` is not empty, also in an open session") \
    F(S, BOOL, attached,       OPT,    0, 0, "interrupt the cell if this client disconnects") \
    F(S, YES,  transaction,    OPT,    0, 0, "undo the effects of a killed cell, if the tier can") \
    F(S, WORD, durability,     OPTNIL, 16, snp_exec_durabilities, "what an answered outcome survives: `synced` (default): a power cut; `process`: the end of the daemon and the tier") \
    F(S, WORD, checkpoint,     OPTNIL, 16, snp_exec_checkpoints, "when the session is saved: `idle` (default): shortly after its last cell; `after`: after each answer, in parallel with the next cell; `cell`: before each answer; `off`: never")

#define SNP_EXEC_REQUEST(F, S) \
    F(S, STR,  session,        OPTNIL, SNP_SESSION_NAME_MAX, 0, "name or id; an unused name opens a session; null: an unnamed session, which ends with the call") \
    F(S, WORD, kind,           MUST,   16, snp_exec_kinds, "what to run: `python`; `command`; `process`: a command that continues as a detached process when the cell ends, in a named session") \
    F(S, INT,  code_len,       OPT,    SNP_FRAME_BODY_MAX, 0, "bytes of code; standard input follows") \
    F(S, BOOL, stdin,          OPT,    0, 0, "standard input is given; else it is /dev/null") \
    F(S, BOOL, open_stdin,     OPT,    0, 0, "for `process`, without `stdin`: standard input stays open for `process.write`") \
    F(S, ARR,  argv,           OPTNIL, SNP_CAP_ARGV, NULL, "for `command` and `process`: program and arguments, with the program looked up in PATH inside; `[\"/bin/sh\", \"-c\", TEXT]` for a shell line. For `python`: sys.argv of this cell") \
    F(S, OBJ,  limits,         OPTNIL, 0, NULL, "limits given explicitly, as `limits.h` writes them; the rest come from `defaults`") \
    F(S, YES,  stream,         OPT,    0, 0, "send `stdout` and `stderr` as the code writes them; else only at the end") \
    F(S, BOOL, tell_wait,      OPT,    0, 0, "send the event `waiting` if the cell cannot begin at once") \
    F(S, BOOL, atomic,         OPT,    0, 0, "also undo a failed cell; if that is not possible, the request fails with `unsupported` before the cell runs") \
    F(S, BOOL, calls,          OPT,    0, 0, "the Python code may call this client, which replies with `answer`") \
    F(S, WORD, recover,        OPTNIL, 16, snp_exec_recovers, "what to do about cells whose effects the session has lost: `ask` (default): fail with `denied` and list the suitable values; `replay`: run them again first; `checkpoint`: continue without them; `skip`: like `replay`, except for cells that failed in an earlier replay") \
    F(S, BOOL, network,        OPT,    0, 0, "docker tier: the code uses the engine's network; refused if the session is open without it") \
    F(S, BOOL, temporary,      OPT,    0, 0, "destroy a session that this call opens soon after the process of this client has ended; ignored for `default`") \
    F(S, INT,  rerun_of,       OPT,    0, 0, "number of the cell that this one reruns; 0: none") \
    F(S, BOOL, internal,       OPT,    0, 0, "code of the client itself; `history` omits the cell") \
    SNP_EXEC_POLICY(F, S)

#define SNP_EXEC_RECORDS(R) \
    R(snp_exec_policy, "exec", SNP_EXEC_POLICY) \
    R(snp_exec_request, "exec", SNP_EXEC_REQUEST, .tag = "method")
SNP_EXEC_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

/* Values of absent members. */
#define SNP_EXEC_DEFAULTS .stream = true, .transaction = true

#endif
