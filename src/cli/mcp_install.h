/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_INSTALL_H
#define SNP_CLI_MCP_INSTALL_H

/* Adding one entry to somebody's JSON file without touching anything else in it. */

#include "base/buf.h"
#include "base/err.h"

struct snp_json_entry {
    const char *group; /* member of the whole: "mcpServers" */
    const char *name;  /* member of the group */
    const char *value; /* JSON text */
};

/*
 * Append to out the text of a JSON object that has the entry; what is there of its name is replaced, all
 * else stays as it is written. text: the old file, n bytes; empty or blank = {}. SNP_E_INVALID: it
 * is no JSON object, or the group is none.
 */
int snp_json_text_put(const char *text,
                      size_t n,
                      const struct snp_json_entry *entry,
                      struct snp_buf *out,
                      struct snp_err *err) SNP_NODISCARD;

#endif
