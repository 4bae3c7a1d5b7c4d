/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CONFIG_VALUE_H
#define SNP_BASE_CONFIG_VALUE_H

/*
 * Checked values. A key's value has one form, however it was written: string, boolean, integer,
 * real, or array of strings; limits are integers in the unit of limits.h.
 */

#include "base/config/config.h"
#include "base/err.h"
#include "base/json.h"

/*
 * Parse a value from text (environment, command line) or from TOML. place is its position
 * ("max_depth in /p/rlm.toml") and begins every message; the text of secrets is not repeated. *ret
 * is a new reference, NULL for an empty optional text. SNP_E_INVALID.
 */
int snp_value_from_text(enum snp_config_key key,
                        const char *text,
                        const char *place,
                        json_t **ret,
                        struct snp_err *err) SNP_NODISCARD;
int snp_value_from_json(enum snp_config_key key,
                        const json_t *given,
                        const char *place,
                        json_t **ret,
                        struct snp_err *err) SNP_NODISCARD;

#endif
