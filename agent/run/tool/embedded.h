/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_EMBEDDED_H
#define SNP_RUN_TOOL_EMBEDDED_H

/* Files of this folder that are built into the program (tools/embed). */

#include <stddef.h>

/* agent/run/tool/redaction.rules */
extern const char snp_redaction_rules[];
extern const size_t snp_redaction_rules_len;

/* agent/run/tool/tools.py, NUL-terminated */
extern const char snp_tools_py[];
extern const size_t snp_tools_py_len;

#endif
