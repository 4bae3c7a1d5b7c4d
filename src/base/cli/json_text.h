/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_JSON_TEXT_H
#define SNP_BASE_CLI_JSON_TEXT_H

/*
 * Edit a user's JSON file as text: its order, blanks, numbers and comments stay. Comments, a comma
 * before a closing bracket and a byte order mark are accepted, as in editors' settings.
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
 * Parse the object in n bytes of text; empty or blank = {}. New reference. SNP_E_INVALID: no
 * object.
 */
int snp_json_text_parse(const char *text, size_t n, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Append to out the text with the entry put in. An existing entry of that name is replaced;
 * everything else is unchanged. SNP_E_INVALID: not a JSON object, or the group is not one.
 */
int snp_json_text_put(const char *text,
                      size_t n,
                      const struct snp_json_entry *entry,
                      struct snp_buf *out,
                      struct snp_err *err) SNP_NODISCARD;

#endif
