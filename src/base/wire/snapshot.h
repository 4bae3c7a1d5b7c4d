/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_SNAPSHOT_H
#define SNP_BASE_WIRE_SNAPSHOT_H

/* Client requests about snapshots and archives, and the daemon's answers. */

#include "base/policy/session_name.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"

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
    F(S, STR,  name,      OPTNIL, SNP_SESSION_NAME_MAX, 0, "name (default: s1, s2 and so on)") \
    F(S, BOOL, wait,      OPT,    0, 0, "answer once it is on disk") \
    F(S, STR,  run,       OPT,    SNP_SESSION_NAME_MAX / 2, 0, "name of a run's session: the snapshot precedes a step of the run. It is listed for the run only, is on disk only, and is removed first when space is needed") \
    F(S, INT,  step,      OPT,    0, 0, "number of that step, from 1")
#define SNP_SNAPSHOT_ANSWER(F, S) \
    F(S, STR,  snapshot,  MUST,   0, 0, "id of the snapshot") \
    F(S, STR,  name,      MUST,   0, 0, "name, given or generated") \
    F(S, STR,  session,   MUST,   0, 0, "id of the session") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which it was taken") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the session's sandbox") \
    F(S, STR,  parent,    NIL,    0, 0, "id of the parent snapshot, on which the session was based") \
    F(S, STRS, where,     MUST,   0, 0, "`memory`, `disk` or both") \
    F(S, INT,  us,        MUST,   0, 0, "time taken") \
    F(S, ARR,  lost,      MUST,   0, NULL, "items that could not be saved") \
    F(S, STR,  not_in_memory, NIL, 0, 0, "why it is not in memory")

#define SNP_SNAPSHOTS_LIST_REQUEST(F, S) \
    F(S, STR,  session,   OPTNIL, SNP_SESSION_NAME_MAX, 0, "only snapshots of this session") \
    F(S, STR,  run,       OPT,    SNP_SESSION_NAME_MAX / 2, 0, "only snapshots taken before steps of the run with this session; the session may no longer exist")
#define SNP_SNAPSHOT_ROW(F, S) \
    F(S, STR,  id,        MUST,   0, 0, "id of the snapshot") \
    F(S, STR,  name,      NIL,    0, 0, "name of the snapshot") \
    F(S, STR,  session,   MUST,   0, 0, "id of the session") \
    F(S, STR,  session_name, NIL, 0, 0, "name of the session") \
    F(S, STR,  parent,    NIL,    0, 0, "id of the parent snapshot") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which it was taken") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of the session's sandbox") \
    F(S, REAL, created,   MUST,   0, 0, "time of creation, unix seconds") \
    F(S, INT,  bytes,     MUST,   0, 0, "size on disk") \
    F(S, ARR,  lost,      MUST,   0, NULL, "items that could not be saved, at most 20") \
    F(S, STRS, where,     OPT,    0, 0, "`memory`, `disk` or both")
#define SNP_SNAPSHOT_HEAD(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id of the session") \
    F(S, STR,  name,      NIL,    0, 0, "name of the session") \
    F(S, STR,  snapshot,  MUST,   0, 0, "id of the snapshot")
#define SNP_SNAPSHOTS_LIST_ANSWER(F, S) \
    F(S, ARR,  snapshots, MUST,   0, &snp_snapshot_row_form, "snapshots, oldest first") \
    F(S, STR,  head,      NIL,    0, 0, "snapshot on which `session` is based") \
    F(S, ARR,  heads,     MUST,   0, &snp_snapshot_head_form, "the same for all sessions")

#define SNP_SNAPSHOTS_REMOVE_REQUEST(F, S) \
    F(S, STR,  snapshot,  MUST,   SNP_CAP_REF, 0, "id or name")
#define SNP_SNAPSHOTS_REMOVE_ANSWER(F, S) \
    F(S, STR,  removed,   MUST,   0, 0, "id of the removed snapshot")

#define SNP_ROLLBACK_REQUEST(F, S) \
    F(S, STR,  snapshot,  MUST,   SNP_CAP_REF, 0, "id or name") \
    F(S, STR,  session,   OPTNIL, SNP_SESSION_NAME_MAX, 0, "session to which the snapshot must belong")
#define SNP_ROLLBACK_ANSWER(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id of the session") \
    F(S, STR,  session_name, MUST, 0, 0, "name of the session") \
    F(S, STR,  snapshot,  MUST,   0, 0, "id of the snapshot") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which the snapshot was taken") \
    F(S, INT,  epoch,     MUST,   0, 0, "new epoch of the session") \
    F(S, STR,  how,       MUST,   0, 0, "`memory` or `checkpoint`") \
    F(S, INT,  us,        MUST,   0, 0, "time taken") \
    F(S, ARR,  lost,      MUST,   0, NULL, "items that could not be saved") \
    F(S, ARR,  failed,    MUST,   0, NULL, "items that could not be restored")

#define SNP_FORK_REQUEST(F, S) \
    F(S, STR,  from,      MUST,   SNP_CAP_REF, 0, "a session or snapshot") \
    F(S, NUM,  n,         OPT,    SNP_CAP_FORKS, 0, "number of sessions to make (default 1)") \
    F(S, STR,  name,      OPTNIL, SNP_SESSION_NAME_MAX, 0, "prefix of their names") \
    F(S, BOOL, exact,     OPT,    0, 0, "`name` is the full name, not a prefix; one session is made") \
    F(S, BOOL, temporary, OPT,    0, 0, "destroy them soon after the process of this client has ended")
#define SNP_FORK_ROW(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id of the session") \
    F(S, STR,  name,      MUST,   0, 0, "name of the session") \
    F(S, INT,  epoch,     MUST,   0, 0, "epoch of its sandbox")
#define SNP_FORK_ANSWER(F, S) \
    F(S, ARR,  sessions,  MUST,   0, &snp_fork_row_form, "the new sessions") \
    F(S, STR,  how,       MUST,   0, 0, "`image`: each continues exactly from the session's state; `checkpoint`: from saved and restored variables") \
    F(S, STR,  no_image,  OPTNIL, 0, 0, "why a live session was not forked by image") \
    F(S, STR,  parent,    NIL,    0, 0, "id of their parent snapshot") \
    F(S, ARR,  lost,      MUST,   0, NULL, "items that could not be saved; empty with `image`") \
    F(S, ARR,  failed,    MUST,   0, NULL, "items that could not be restored") \
    F(S, INT,  us,        MUST,   0, 0, "time taken")

#define SNP_DIFF_REQUEST(F, S) \
    F(S, STR,  a,         OPTNIL, SNP_CAP_REF, 0, "a session or snapshot; absent: an empty state, and all files that b has written or deleted are `added`") \
    F(S, STR,  b,         MUST,   SNP_CAP_REF, 0, "another session or snapshot")
#define SNP_DIFF_VARIABLE(F, S) \
    F(S, TEXT, name,      MUST,   0, 0, "name of the variable") \
    F(S, WORD, change,    MUST,   0, snp_diff_changes, "change from a to b") \
    F(S, STR,  type_a,    NIL,    0, 0, "its type in a") \
    F(S, STR,  type_b,    NIL,    0, 0, "its type in b")
#define SNP_DIFF_FILE(F, S) \
    F(S, WORD, change,    MUST,   0, snp_diff_changes, "change from a to b") \
    F(S, TEXT, path,      MUST,   0, 0, "path below /workspace") \
    F(S, STR,  path_hex,  OPT,    0, 0, "bytes of the path in hexadecimal, if they are not UTF-8") \
    F(S, STR,  a,         NIL,    0, 0, "hash of the contents in a") \
    F(S, STR,  type_a,    OPT,    0, 0, "`file`, `dir`, `link`, `deleted`; absent, like the next three, if a does not have it") \
    F(S, NUM,  size_a,    OPT,    0, 0, "size in bytes") \
    F(S, NUM,  mode_a,    OPT,    0, 0, "permissions") \
    F(S, TEXT, target_a,  OPT,    0, 0, "target of a link") \
    F(S, STR,  b,         NIL,    0, 0, "hash of the contents in b") \
    F(S, STR,  type_b,    OPT,    0, 0, "as `type_a`") \
    F(S, NUM,  size_b,    OPT,    0, 0, "as `size_a`") \
    F(S, NUM,  mode_b,    OPT,    0, 0, "as `mode_a`") \
    F(S, TEXT, target_b,  OPT,    0, 0, "as `target_a`") \
    F(S, BOOL, opaque_b,  OPT,    0, 0, "a folder that hides the project's contents below it")
#define SNP_DIFF_ANSWER(F, S) \
    F(S, ARR,  variables, MUST,   0, &snp_diff_variable_form, "variables that differ") \
    F(S, ARR,  files,     MUST,   0, &snp_diff_file_form, "files that differ") \
    F(S, BOOL, truncated, MUST,   0, 0, "the list is incomplete") \
    F(S, ARR,  lost_a,    MUST,   0, NULL, "items of a that could not be saved") \
    F(S, ARR,  lost_b,    MUST,   0, NULL, "items of b that could not be saved")

#define SNP_EXPORT_REQUEST(F, S) \
    F(S, STR,  from,      MUST,   SNP_CAP_REF, 0, "a session or snapshot")
#define SNP_EXPORT_ANSWER(F, S) \
    F(S, STR,  name,      MUST,   0, 0, "name of the session") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which it was taken") \
    F(S, INT,  bytes,     MUST,   0, 0, "size of the file") \
    F(S, ARR,  lost,      MUST,   0, NULL, "items that could not be saved")

#define SNP_IMPORT_BEGIN_REQUEST(F, S) \
    F(S, STR,  name,      OPTNIL, SNP_SESSION_NAME_MAX, 0, "name of the session (default: the name in the file)") \
    F(S, OBJ,  limits,    OPT,    0, NULL, "maximum limits of the imported session") \
    F(S, OBJ,  given,     OPT,    0, NULL, "limits that override those in the file") \
    F(S, STR,  tier,      OPT,    32, 0, "tier of the session") \
    F(S, BOOL, allow_degraded, SAID, 0, 0, "as in `exec`") \
    F(S, BOOL, require_exact, SAID, 0, 0, "as in `exec`")
#define SNP_IMPORT_TOKEN(F, S) \
    F(S, STR,  token,     MUST,   SNP_SESSION_ID_LEN, 0, "id of the import, which ends with the connection")
#define SNP_IMPORT_END_ANSWER(F, S) \
    F(S, STR,  session,   MUST,   0, 0, "id of the session") \
    F(S, STR,  name,      MUST,   0, 0, "name of the session") \
    F(S, INT,  cell,      MUST,   0, 0, "cell after which it was taken") \
    F(S, ARR,  notes,     MUST,   0, NULL, "differences from the file") \
    F(S, ARR,  lost,      MUST,   0, NULL, "items that could not be saved") \
    F(S, ARR,  failed,    MUST,   0, NULL, "items that could not be restored")

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
