/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_POLICY_TIER_FILE_H
#define SNP_POLICY_TIER_FILE_H

/*
 * Programs that are tiers: those installed beside the daemon, and those in a folder of the
 * user's. What is there is what exists; no list names them.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_TIER_NAME_MAX = 31, /* bytes, without terminator */
    /* `auto` takes a tier of a lower rank only where weaker controls are allowed. */
    SNP_TIER_RANK_WHOLE = 100,
};

/* What asks for the strongest installed tier. */
#define SNP_TIER_AUTO "auto"

struct snp_tier_file {
    char name[SNP_TIER_NAME_MAX + 1];
    char *path;    /* owned, absolute */
    bool is_users; /* of the user's folder: what it says of itself is a claim */
    char *refused; /* owned: why it is not run, with the way out; NULL = it may be */
    int rank;      /* of an installed one, once described; else 0 */
    json_t *about; /* owned: its description; NULL = not asked, or it gave none */
};

struct snp_tier_files {
    struct snp_tier_file *files; /* owned; installed ones first, in order of their names */
    size_t n;
};

/* SNP_E_INVALID: no tier has such a name. */
int snp_tier_name_check(const char *name, struct snp_err *err) SNP_NODISCARD;

/*
 * Look into both folders. A folder that is not there holds none. A file of the user's that
 * somebody else could have put there, or could change, is listed as refused, as is one whose
 * name an installed tier has.
 */
int snp_tier_files_find(struct snp_tier_files *ret, struct snp_err *err) SNP_NODISCARD;
void snp_tier_files_done(struct snp_tier_files *files);
#define snp_autotierfiles snp_cleanup(snp_tier_files_done)

/* Ask the installed ones what they are, and put the strongest first. */
void snp_tier_files_rank(struct snp_tier_files *files);

/*
 * The one of that name. SNP_E_UNSUPPORTED lists those that there are, with the nearest name;
 * SNP_E_DENIED says why it is refused. *ret is borrowed.
 */
int snp_tier_files_get(const struct snp_tier_files *files,
                       const char *name,
                       const struct snp_tier_file **ret,
                       struct snp_err *err) SNP_NODISCARD;
/* The same without a reason; NULL = there is none that may be run. */
const struct snp_tier_file *snp_tier_files_of(const struct snp_tier_files *files, const char *name);

/*
 * $XDG_DATA_HOME/snipara-sandbox/NAME, else below ~/.local/share. NULL: neither is known. The
 * caller frees.
 */
char *snp_users_folder(const char *name);

/*
 * What `program --describe` prints: {"rank", "guarantees", "verbs"}. For programs of ours only: it
 * is waited for. *ret is a new reference.
 */
int snp_tier_describe(const char *program, json_t **ret, struct snp_err *err) SNP_NODISCARD;

#endif
