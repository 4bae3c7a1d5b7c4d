/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CONFIG_ALLOW_H
#define SNP_BASE_CONFIG_ALLOW_H

/* Settings that an untrusted file may make, by the column `trust` of the table of keys. */

#include <stdbool.h>

#include "base/config/config.h"
#include "base/json.h"

/* True for a checked value (value.h) that any file may set; NULL, no value, is one. */
bool snp_config_is_harmless(enum snp_config_key key, const json_t *value);

/*
 * True if the file's value equals the user's or only lowers it. Both are checked values of the key.
 */
bool snp_config_keeps(enum snp_config_key key, const json_t *value, const json_t *said);

/*
 * True for a variable of a model's provider: its key, the source of the key, its address. Judged by
 * form: X_API_KEY, X_BASE_URL...
 */
bool snp_config_is_provider_variable(const char *name);

#endif
