/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MCP_LINES_H
#define SNP_BASE_MCP_LINES_H

/* Split bytes into lines, with a cap: a line that is too long is reported once and skipped. */

#include "base/buf.h"

/* Embedded. */
struct snp_mcp_lines {
    struct snp_buf buf;
    size_t max;       /* bytes of a line */
    size_t taken;     /* bytes of the line returned last */
    bool is_skipping; /* the rest of a line that was too long */
};

void snp_mcp_lines_init(struct snp_mcp_lines *lines, size_t max);
void snp_mcp_lines_done(struct snp_mcp_lines *lines);

/* Add bytes, after all lines were taken. SNP_E_NOMEM; 1: a line was too long, and was dropped. */
int snp_mcp_lines_add(struct snp_mcp_lines *lines, const char *bytes, size_t n) SNP_NODISCARD;

/*
 * The next whole line without its end ("\n" or "\r\n"); *ret_text is borrowed until the next call
 * of any function here. False: none yet. Call again after each line.
 */
bool snp_mcp_lines_next(struct snp_mcp_lines *lines, const char **ret_text, size_t *ret_n);

#endif
