/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONFIG_ALLOW_H
#define SNP_CONFIG_ALLOW_H

/* What a file that nobody has trusted may set, by the column `trust` of the table of keys. */

#include <stdbool.h>

#include "base/json.h"
#include "config/config.h"

/* A checked value (config/value.h) that any file may give the key; NULL, no value, is one. */
bool snp_config_is_harmless(enum snp_config_key key, const json_t *value);

/*
 * Does such a file leave what the user has said as it is, or only lower it? Both checked values of
 * the key.
 */
bool snp_config_keeps(enum snp_config_key key, const json_t *value, const json_t *said);

/*
 * A variable of a model's provider: its key, where that comes from, its address. By its form:
 * X_API_KEY, X_BASE_URL...
 */
bool snp_config_is_provider_variable(const char *name);

#endif
