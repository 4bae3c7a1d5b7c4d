/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_TIER_FILE_H
#define SNP_BASE_POLICY_TIER_FILE_H

/*
 * Programs that are tiers: installed beside the daemon, or in the user's folder. The folders are
 * the only list.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_TIER_NAME_MAX = 31, /* bytes, without terminator */
    /* `auto` takes a tier of a lower rank only if weaker controls are allowed. */
    SNP_TIER_RANK_WHOLE = 100,
};

/* The name for the strongest installed tier. */
#define SNP_TIER_AUTO "auto"

struct snp_tier_file {
    char name[SNP_TIER_NAME_MAX + 1];
    char *path;    /* owned, absolute */
    bool is_users; /* from the user's folder: its description is a claim */
    char *refused; /* owned: why it must not run, with the remedy; NULL = it may */
    int rank;      /* of an installed one, once described; else 0 */
    json_t *about; /* owned: its description; NULL = not requested, or none */
};

struct snp_tier_files {
    struct snp_tier_file *files; /* owned; installed ones first, sorted by name */
    size_t n;
};

/* SNP_E_INVALID: not the form of a tier's name. */
int snp_tier_name_check(const char *name, struct snp_err *err) SNP_NODISCARD;

/*
 * List both folders. A missing folder is empty. A user's file that another user could have put
 * there, or could change, is listed as refused, also one with the name of an installed tier.
 */
int snp_tier_files_find(struct snp_tier_files *ret, struct snp_err *err) SNP_NODISCARD;
void snp_tier_files_done(struct snp_tier_files *files);
#define snp_autotierfiles snp_cleanup(snp_tier_files_done)

/* Get the descriptions of the installed ones, and sort the strongest first. */
void snp_tier_files_rank(struct snp_tier_files *files);

/*
 * Find a tier by name. SNP_E_UNSUPPORTED lists the existing ones, with the nearest name;
 * SNP_E_DENIED has the reason for a refusal. *ret is borrowed.
 */
int snp_tier_files_get(const struct snp_tier_files *files,
                       const char *name,
                       const struct snp_tier_file **ret,
                       struct snp_err *err) SNP_NODISCARD;
/* The same without a reason; NULL = none may be run. */
const struct snp_tier_file *snp_tier_files_of(const struct snp_tier_files *files, const char *name);

#endif
