/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_SNAPSHOT_H
#define SNP_WIRE_SNAPSHOT_H

/* Client requests about snapshots and archives, and the daemon's answers. */

#include "policy/session_name.h"
#include "wire/record.h"
#include "wire/rpc.h"

extern const char *const snp_diff_changes[];

/* Taken by the daemon of a project's copy. */
#define SNP_SNAPSHOT_PROJECT "project"

/*
 * Snapshots that a run takes of its session before each step have reserved names: this prefix, the
 * name of the run's session, a colon, the number of the step. Only the run's list shows them.
 */
#define SNP_STEP_PREFIX "step:"

/* clang-format off */
#define SNP_SNAPSHOT_REQUEST(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_NAME_MAX, 0, "id or name") \
    F(S, STR,  name,      OPTNIL, SNP_SESSION_NAME_MAX, 0, "else s1, s2...") \
    F(S, BOOL, wait,      OPT,    0, 0, "answer only once it is on disk") \
    F(S, STR,  run,       OPT,    SNP_SESSION_NAME_MAX / 2, 0, "name of a run's session, before a step of the run: the snapshot is listed for the run only, kept on disk only, and removed first when space is needed") \
    F(S, INT,  step,      OPT,    0, 0, "number of that step, from 1")
#define SNP_SNAPSHOT_ANSWER(F, S) \
    F(S, STR,  snapshot,  MUST,   0, 0, "id") \
    F(S, STR,  name,      MUST,   0, 0, "given or made") \
    F(S, STR,  session,   MUST,   0, 0, "id") \
    F(S, INT,  cell,      MUST,   0, 0, "it is the state after this cell") \
    F(S, INT,  epoch,     MUST,   0, 0, "of the session's sandbox") \
    F(S, STR,  parent,    NIL,    0, 0, "id of the snapshot the session stood on") \
    F(S, STRS, where,     MUST,   0, 0, "of memory, disk") \
    F(S, INT,  us,        MUST,   0, 0, "time taken") \
    F(S, ARR,  lost,      MUST,   0, NULL, "what could not be saved") \
    F(S, STR,  not_in_memory, NIL, 0, 0, "why it is not")

#define SNP_SNAPSHOTS_LIST_REQUEST(F, S) \
    F(S, STR,  session,   OPTNIL, SNP_SESSION_NAME_MAX, 0, "only snapshots of this session") \
    F(S, STR,  run,       OPT,    SNP_SESSION_NAME_MAX / 2, 0, "only snapshots taken before steps of the run with this session, which may no longer exist")
#define SNP_SNAPSHOT_ROW(F, S) \
    F(S, STR,  id,        MUST,   0, 0, "of the snapshot") \
    F(S, STR,  name,      NIL,    0, 0, "of the snapshot") \
    F(S, STR,  session,   MUST,   0, 0, "id") \
    F(S, STR,  session_name, NIL, 0, 0, "its name") \
    F(S, STR,  parent,    NIL,    0, 0, "id of a snapshot") \
    F(S, INT,  cell,      MUST,   0, 0, "it is the state after this cell") \
    F(S, INT,  epoch,     MUST,   0, 0, "of the session's sandbox") \
    F(S, REAL, created,   MUST,   0, 0, "unix seconds") \
    F(S, INT,  bytes,     MUST,   0, 0, "on disk") \
    F(S, ARR,  lost,      MUST,   0, NULL, "at most 20") \
    F(S, STRS, where,     OPT,    0, 0, "of memory, disk")
#define SNP_SNAPSHOT_HEAD(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id") \
    F(S, STR,  name,      NIL,    0, 0, "of the session") \
    F(S, STR,  snapshot,  MUST,   0, 0, "id")
#define SNP_SNAPSHOTS_LIST_ANSWER(F, S) \
    F(S, ARR,  snapshots, MUST,   0, &snp_snapshot_row_form, "the oldest first") \
    F(S, STR,  head,      NIL,    0, 0, "the snapshot that `session` stands on") \
    F(S, ARR,  heads,     MUST,   0, &snp_snapshot_head_form, "of all sessions")

#define SNP_SNAPSHOTS_REMOVE_REQUEST(F, S) \
    F(S, STR,  snapshot,  MUST,   SNP_CAP_REF, 0, "id or name")
#define SNP_SNAPSHOTS_REMOVE_ANSWER(F, S) \
    F(S, STR,  removed,   MUST,   0, 0, "id")

#define SNP_ROLLBACK_REQUEST(F, S) \
    F(S, STR,  snapshot,  MUST,   SNP_CAP_REF, 0, "id or name") \
    F(S, STR,  session,   OPTNIL, SNP_SESSION_NAME_MAX, 0, "the session that it must belong to")
#define SNP_ROLLBACK_ANSWER(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id") \
    F(S, STR,  session_name, MUST, 0, 0, "its name") \
    F(S, STR,  snapshot,  MUST,   0, 0, "id") \
    F(S, INT,  cell,      MUST,   0, 0, "the session is as after this cell") \
    F(S, INT,  epoch,     MUST,   0, 0, "the session's from now on") \
    F(S, STR,  how,       MUST,   0, 0, "memory or checkpoint") \
    F(S, INT,  us,        MUST,   0, 0, "time taken") \
    F(S, ARR,  lost,      MUST,   0, NULL, "what could not be saved") \
    F(S, ARR,  failed,    MUST,   0, NULL, "what could not be restored")

#define SNP_FORK_REQUEST(F, S) \
    F(S, STR,  from,      MUST,   SNP_CAP_REF, 0, "a session or snapshot") \
    F(S, NUM,  n,         OPT,    SNP_CAP_FORKS, 0, "sessions to make, 1 if not given") \
    F(S, STR,  name,      OPTNIL, SNP_SESSION_NAME_MAX, 0, "prefix of their names") \
    F(S, BOOL, exact,     OPT,    0, 0, "`name` is the name of the one session to make") \
    F(S, BOOL, temporary, OPT,    0, 0, "they are destroyed soon after the process of this client has ended")
#define SNP_FORK_ROW(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id") \
    F(S, STR,  name,      MUST,   0, 0, "its name") \
    F(S, INT,  epoch,     MUST,   0, 0, "of its sandbox")
#define SNP_FORK_ANSWER(F, S) \
    F(S, ARR,  sessions,  MUST,   0, &snp_fork_row_form, "made") \
    F(S, STR,  how,       MUST,   0, 0, "`image`: each continues exactly from the session's state; `checkpoint`: variables were saved and restored") \
    F(S, STR,  no_image,  OPTNIL, 0, 0, "why a live session was not forked by image") \
    F(S, STR,  parent,    NIL,    0, 0, "id of the snapshot they stand on") \
    F(S, ARR,  lost,      MUST,   0, NULL, "what could not be saved; by image: nothing") \
    F(S, ARR,  failed,    MUST,   0, NULL, "what could not be restored") \
    F(S, INT,  us,        MUST,   0, 0, "time taken")

#define SNP_DIFF_REQUEST(F, S) \
    F(S, STR,  a,         OPTNIL, SNP_CAP_REF, 0, "a session or snapshot; absent: nothing, and all files that b itself has written or deleted are `added`") \
    F(S, STR,  b,         MUST,   SNP_CAP_REF, 0, "another")
#define SNP_DIFF_VARIABLE(F, S) \
    F(S, TEXT, name,      MUST,   0, 0, "of the variable") \
    F(S, WORD, change,    MUST,   0, snp_diff_changes, "from a to b") \
    F(S, STR,  type_a,    NIL,    0, 0, "its type in a") \
    F(S, STR,  type_b,    NIL,    0, 0, "its type in b")
#define SNP_DIFF_FILE(F, S) \
    F(S, WORD, change,    MUST,   0, snp_diff_changes, "from a to b") \
    F(S, TEXT, path,      MUST,   0, 0, "below /workspace") \
    F(S, STR,  path_hex,  OPT,    0, 0, "its bytes, if they are not UTF-8") \
    F(S, STR,  a,         NIL,    0, 0, "hash of its contents in a") \
    F(S, STR,  type_a,    OPT,    0, 0, "file, dir, link, deleted; these if a has it") \
    F(S, NUM,  size_a,    OPT,    0, 0, "bytes") \
    F(S, NUM,  mode_a,    OPT,    0, 0, "permissions") \
    F(S, TEXT, target_a,  OPT,    0, 0, "of a link") \
    F(S, STR,  b,         NIL,    0, 0, "the same of b") \
    F(S, STR,  type_b,    OPT,    0, 0, "") \
    F(S, NUM,  size_b,    OPT,    0, 0, "") \
    F(S, NUM,  mode_b,    OPT,    0, 0, "") \
    F(S, TEXT, target_b,  OPT,    0, 0, "") \
    F(S, BOOL, opaque_b,  OPT,    0, 0, "a folder that hides the project's contents below it")
#define SNP_DIFF_ANSWER(F, S) \
    F(S, ARR,  variables, MUST,   0, &snp_diff_variable_form, "") \
    F(S, ARR,  files,     MUST,   0, &snp_diff_file_form, "") \
    F(S, BOOL, truncated, MUST,   0, 0, "there are more") \
    F(S, ARR,  lost_a,    MUST,   0, NULL, "what a could not save") \
    F(S, ARR,  lost_b,    MUST,   0, NULL, "what b could not save")

#define SNP_EXPORT_REQUEST(F, S) \
    F(S, STR,  from,      MUST,   SNP_CAP_REF, 0, "a session or snapshot")
#define SNP_EXPORT_ANSWER(F, S) \
    F(S, STR,  name,      MUST,   0, 0, "of the session") \
    F(S, INT,  cell,      MUST,   0, 0, "it is the state after this cell") \
    F(S, INT,  bytes,     MUST,   0, 0, "of the file") \
    F(S, ARR,  lost,      MUST,   0, NULL, "what could not be saved")

#define SNP_IMPORT_BEGIN_REQUEST(F, S) \
    F(S, STR,  name,      OPTNIL, SNP_SESSION_NAME_MAX, 0, "of the session; else the file's") \
    F(S, OBJ,  limits,    OPT,    0, NULL, "the most its session may have") \
    F(S, OBJ,  given,     OPT,    0, NULL, "limits that override those of the file") \
    F(S, STR,  tier,      OPT,    32, 0, "its tier") \
    F(S, BOOL, allow_degraded, SAID, 0, 0, "as in `exec`") \
    F(S, BOOL, require_exact, SAID, 0, 0, "as in `exec`")
#define SNP_IMPORT_TOKEN(F, S) \
    F(S, STR,  token,     MUST,   SNP_SESSION_ID_LEN, 0, "names the import, which ends with the connection")
#define SNP_IMPORT_END_ANSWER(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id") \
    F(S, STR,  name,      MUST,   0, 0, "its name") \
    F(S, INT,  cell,      MUST,   0, 0, "it is the state after this cell") \
    F(S, ARR,  notes,     MUST,   0, NULL, "differences from the file") \
    F(S, ARR,  lost,      MUST,   0, NULL, "what could not be saved") \
    F(S, ARR,  failed,    MUST,   0, NULL, "what could not be restored")

#define SNP_SNAPSHOT_RECORDS(R) \
    R(snp_snapshot_request, "snapshot", SNP_SNAPSHOT_REQUEST, .tag = "method") \
    R(snp_snapshot_answer, "snapshot", SNP_SNAPSHOT_ANSWER) \
    R(snp_snapshots_list_request, "snapshots.list", SNP_SNAPSHOTS_LIST_REQUEST, .tag = "method") \
    R(snp_snapshot_row, "snapshots.list", SNP_SNAPSHOT_ROW) \
    R(snp_snapshot_head, "snapshots.heads", SNP_SNAPSHOT_HEAD) \
    R(snp_snapshots_list_answer, "snapshots.list", SNP_SNAPSHOTS_LIST_ANSWER) \
    R(snp_snapshots_remove_request, "snapshots.remove", SNP_SNAPSHOTS_REMOVE_REQUEST, .tag = "method") \
    R(snp_snapshots_remove_answer, "snapshots.remove", SNP_SNAPSHOTS_REMOVE_ANSWER) \
    R(snp_rollback_request, "rollback", SNP_ROLLBACK_REQUEST, .tag = "method") \
    R(snp_rollback_answer, "rollback", SNP_ROLLBACK_ANSWER) \
    R(snp_fork_request, "fork", SNP_FORK_REQUEST, .tag = "method") \
    R(snp_fork_row, "fork.sessions", SNP_FORK_ROW) \
    R(snp_fork_answer, "fork", SNP_FORK_ANSWER) \
    R(snp_diff_request, "diff", SNP_DIFF_REQUEST, .tag = "method") \
    R(snp_diff_variable, "diff.variables", SNP_DIFF_VARIABLE) \
    R(snp_diff_file, "diff.files", SNP_DIFF_FILE) \
    R(snp_diff_answer, "diff", SNP_DIFF_ANSWER) \
    R(snp_export_request, "export", SNP_EXPORT_REQUEST, .tag = "method") \
    R(snp_export_answer, "export", SNP_EXPORT_ANSWER) \
    R(snp_import_begin_request, "import.begin", SNP_IMPORT_BEGIN_REQUEST, .tag = "method") \
    R(snp_import_begin_answer, "import.begin", SNP_IMPORT_TOKEN) \
    R(snp_import_data_request, "import.data", SNP_IMPORT_TOKEN, .tag = "method") \
    R(snp_import_end_request, "import.end", SNP_IMPORT_TOKEN, .tag = "method") \
    R(snp_import_end_answer, "import.end", SNP_IMPORT_END_ANSWER)
SNP_SNAPSHOT_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

#endif
