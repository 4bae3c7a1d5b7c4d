/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_JSON_TEXT_H
#define SNP_BASE_CLI_JSON_TEXT_H

/*
 * Somebody's JSON file, edited as text: order, blanks, numbers and comments of its owner stay. Read
 * as editors read their settings: with comments, a comma before a closing bracket and a byte
 * order mark.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct snp_json_entry {
    const char *group; /* member of the whole: "mcpServers" */
    const char *name;  /* member of the group */
    json_t *value;     /* borrowed */
};

/*
 * The object in n bytes of text; empty or blank = {}. New reference. SNP_E_INVALID: there is none.
 */
int snp_json_text_parse(const char *text, size_t n, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Append to out the text with the entry in it; what is there of its name is replaced, all else
 * stays as it is written. SNP_E_INVALID: it is no JSON object, or the group is none.
 */
int snp_json_text_put(const char *text,
                      size_t n,
                      const struct snp_json_entry *entry,
                      struct snp_buf *out,
                      struct snp_err *err) SNP_NODISCARD;

#endif
