/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_TIERS_H
#define SNP_DAEMON_TIERS_H

/* The tiers that were found: their properties, and the choice of `auto`. */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/tier_file.h"

struct snp_tier;

/* This tier uses the state folder itself, as before others existed; those have folders in it. */
#define SNP_TIER_FIRST "native"

/* Owned by the table for its lifetime: sessions point at it. */
struct snp_found_tier {
    struct snp_found_tier *next;
    char name[SNP_TIER_NAME_MAX + 1];
    char *path;               /* owned; NULL = none (any more), or it must not be run */
    bool is_claimed;          /* from the user's folder: its description is a claim */
    int rank;                 /* the strength of an installed tier; else 0 */
    json_t *about;            /* owned: guarantees, verbs; NULL = not known */
    struct snp_tier *running; /* the process that takes calls; NULL = none. Frees itself */
    unsigned n_processes;     /* not yet reaped */
};

struct snp_tiers {
    struct snp_found_tier *first; /* owned: all known tiers */
    bool has_looked;              /* for installed tiers */
};

/*
 * Find the tier of that name, or the strongest installed one for "auto". SNP_E_UNSUPPORTED lists
 * the existing ones. *ret is borrowed.
 */
int snp_tiers_find(struct snp_tiers *tiers,
                   const char *name,
                   struct snp_found_tier **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* The same for a new session: `auto` takes a weak tier only if allowed. */
int snp_tiers_choose(struct snp_tiers *tiers,
                     const char *name,
                     bool allow_degraded,
                     struct snp_found_tier **ret,
                     struct snp_err *err) SNP_NODISCARD;

/* The tier whose output a handle names: "TIER/SESSION/CELL"; SNP_TIER_FIRST has no first part. */
int snp_tiers_of_handle(struct snp_tiers *tiers,
                        const char *handle,
                        struct snp_found_tier **ret,
                        struct snp_err *err) SNP_NODISCARD;

/* The same for a name from the journal, whose tier may be gone: then running it fails. */
int snp_tiers_recorded(struct snp_tiers *tiers,
                       const char *name,
                       struct snp_found_tier **ret,
                       struct snp_err *err) SNP_NODISCARD;

/* SNP_TIER_FIRST, its description not yet requested; NULL = not installed. */
struct snp_found_tier *snp_tiers_first(struct snp_tiers *tiers);

/* Check again that it may be run. SNP_E_UNSUPPORTED, SNP_E_DENIED: why not. */
int snp_tiers_check(struct snp_tiers *tiers,
                    struct snp_found_tier *tier,
                    struct snp_err *err) SNP_NODISCARD;

/* The strongest installed tier that is weaker and supports the verb (NULL = any); NULL = none. */
struct snp_found_tier *snp_tiers_weaker(const struct snp_tiers *tiers,
                                        const struct snp_found_tier *than,
                                        const char *verb);

/* `auto` takes it only if weaker controls are allowed. */
bool snp_tier_is_weak(const struct snp_found_tier *tier);

/*
 * Check that it gives all guarantees (names, NULL = none) with that root. SNP_E_UNSUPPORTED names
 * the tiers that do.
 */
int snp_tier_guarantees(const struct snp_found_tier *tier,
                        const char *rootfs,
                        const json_t *guarantees,
                        struct snp_err *err) SNP_NODISCARD;

/* It claims to support the verb; a tier that claims nothing may be asked. */
bool snp_tier_can(const struct snp_found_tier *tier, const char *verb);

/* It claims to save and load images; a tier that claims nothing gets no such request. */
bool snp_tier_has_images(const struct snp_found_tier *tier);

/* It claims to copy a project into the workspace: then the files are the session's. */
bool snp_tier_copies_projects(const struct snp_found_tier *tier);

/* Add the daemon's facts about the tier to a manifest that it made. 0 or SNP_E_NOMEM. */
int snp_tier_mark(const struct snp_found_tier *tier, json_t *manifest);

void snp_tiers_done(struct snp_tiers *tiers);

#endif
