/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/snapshot.h"

const char *const snp_diff_changes[] = {"added", "removed", "changed", NULL};

SNP_RECORD_DEFINE(snp_snapshot_request, "snapshot", SNP_SNAPSHOT_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_snapshot_answer, "snapshot", SNP_SNAPSHOT_ANSWER);
SNP_RECORD_DEFINE(snp_snapshots_list_request,
                  "snapshots.list",
                  SNP_SNAPSHOTS_LIST_REQUEST,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_snapshot_row, "snapshots.list", SNP_SNAPSHOT_ROW);
SNP_RECORD_DEFINE(snp_snapshot_head, "snapshots.heads", SNP_SNAPSHOT_HEAD);
SNP_RECORD_DEFINE(snp_snapshots_list_answer, "snapshots.list", SNP_SNAPSHOTS_LIST_ANSWER);
SNP_RECORD_DEFINE(snp_snapshots_remove_request,
                  "snapshots.remove",
                  SNP_SNAPSHOTS_REMOVE_REQUEST,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_snapshots_remove_answer, "snapshots.remove", SNP_SNAPSHOTS_REMOVE_ANSWER);
SNP_RECORD_DEFINE(snp_rollback_request, "rollback", SNP_ROLLBACK_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_rollback_answer, "rollback", SNP_ROLLBACK_ANSWER);
SNP_RECORD_DEFINE(snp_fork_request, "fork", SNP_FORK_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_fork_row, "fork.sessions", SNP_FORK_ROW);
SNP_RECORD_DEFINE(snp_fork_answer, "fork", SNP_FORK_ANSWER);
SNP_RECORD_DEFINE(snp_diff_request, "diff", SNP_DIFF_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_diff_variable, "diff.variables", SNP_DIFF_VARIABLE);
SNP_RECORD_DEFINE(snp_diff_file, "diff.files", SNP_DIFF_FILE);
SNP_RECORD_DEFINE(snp_diff_answer, "diff", SNP_DIFF_ANSWER);
SNP_RECORD_DEFINE(snp_export_request, "export", SNP_EXPORT_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_export_answer, "export", SNP_EXPORT_ANSWER);
SNP_RECORD_DEFINE(snp_import_begin_request,
                  "import.begin",
                  SNP_IMPORT_BEGIN_REQUEST,
                  .tag = "method");
SNP_RECORD_DEFINE(snp_import_begin_answer, "import.begin", SNP_IMPORT_TOKEN);
SNP_RECORD_DEFINE(snp_import_data_request, "import.data", SNP_IMPORT_TOKEN, .tag = "method");
SNP_RECORD_DEFINE(snp_import_end_request, "import.end", SNP_IMPORT_TOKEN, .tag = "method");
SNP_RECORD_DEFINE(snp_import_end_answer, "import.end", SNP_IMPORT_END_ANSWER);
