/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/exec.h"

const char *const snp_exec_kinds[] = {"python", "command", NULL};
const char *const snp_exec_durabilities[] = {"process", "synced", NULL};
const char *const snp_exec_checkpoints[] = {"idle", "cell", "off", "after", NULL};
const char *const snp_exec_recovers[] = {"ask", "replay", "checkpoint", "skip", NULL};

SNP_RECORD_DEFINE(snp_exec_request, "exec", SNP_EXEC_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_exec_policy, "exec", SNP_EXEC_POLICY);
