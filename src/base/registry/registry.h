/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_REGISTRY_REGISTRY_H
#define SNP_BASE_REGISTRY_REGISTRY_H

/*
 * The templates a user has added: one record each, STATE/templates/NAME.json. The command line
 * writes them, the tiers read them. Members of a record: `name`, `python` (program), `version`,
 * `prefix` (null: below /usr), `venv` (folder), `is_ours` (made by us), `hash`, `files`, `bytes`,
 * `preload` and `modules` (lists), `requirements`, `source`, `index` (text or null), `created`
 * (seconds).
 */

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_REGISTRY_MAX = 64,             /* templates of one user */
    SNP_REGISTRY_RECORD_MAX = 1 << 20, /* bytes of one record */
    SNP_REGISTRY_PRELOAD_MAX = 1000,   /* characters of a preload list */
};

/* STATE/templates; caller frees. NULL when out of memory. */
char *snp_registry_dir(const char *state_dir);

/*
 * Read one record, a new reference. SNP_E_NOT_FOUND names the existing templates; SNP_E_INVALID:
 * the record is damaged.
 */
int snp_registry_read(const char *state_dir, const char *name, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/* All readable records, sorted by name; a new reference, NULL when out of memory. */
json_t *snp_registry_list(const char *state_dir);

/* Write or replace the record of its `name`. */
int snp_registry_write(const char *state_dir,
                       const json_t *record,
                       struct snp_err *err) SNP_NODISCARD;

/*
 * Remedies for a missing module: {"name", "templates": [those that have it], "command": text}. New
 * reference, NULL when out of memory.
 */
json_t *snp_registry_advise(const char *state_dir, const char *module);

/* A list of module names with commas, as --preload takes it. SNP_E_INVALID, SNP_E_LIMIT. */
int snp_registry_preload_check(const char *list, struct snp_err *err) SNP_NODISCARD;

#endif
