/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONFIG_VALUE_H
#define SNP_CONFIG_VALUE_H

/*
 * Checked values. Whatever form a key's value was written in, it is kept in one: string,
 * boolean, integer, real, or array of strings; limits are integers in the unit of limits.h.
 */

#include "base/err.h"
#include "base/json.h"
#include "config/config.h"

/*
 * Read a value as text (environment, command line) or as what TOML held. place says
 * where it stands ("max_depth in /p/rlm.toml") and begins every message; the text of
 * secrets is not repeated. *ret is a new reference, NULL for an empty optional text. SNP_E_INVALID.
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
