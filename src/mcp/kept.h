/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_KEPT_H
#define SNP_MCP_KEPT_H

/* Displays and outputs of cells that were shown in part, kept for later reading: "kept:7". */

#include <stddef.h>
#include <stdint.h>

struct snp_mcp_kept_item {
    uint64_t number;
    char mime[64];
    char *bytes; /* owned */
    size_t n;
};

/* Embedded; zeroed is empty. The oldest are dropped when it is full. */
struct snp_mcp_kept {
    struct snp_mcp_kept_item *items; /* owned; oldest first */
    size_t n_items;
    size_t bytes;
    uint64_t last;
};

void snp_mcp_kept_done(struct snp_mcp_kept *kept);
/* Keep a copy; returns its number, 0 if it is too large or memory ran out. */
uint64_t snp_mcp_kept_add(struct snp_mcp_kept *kept, const char *mime, const char *bytes, size_t n);
/* Borrowed until the next add; NULL: dropped. */
const struct snp_mcp_kept_item *snp_mcp_kept_find(const struct snp_mcp_kept *kept, uint64_t number);

#endif
