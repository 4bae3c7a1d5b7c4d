/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_TIERS_H
#define SNP_DAEMON_TIERS_H

/* The tiers that were found: what each is, and which of them `auto` takes. */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "policy/tier_file.h"

struct snp_tier;

/* The state folder itself is this one's, as before there were others; they have folders in it. */
#define SNP_TIER_FIRST "native"

/* Owned by the table, and there until that ends: sessions point at it. */
struct snp_found_tier {
    struct snp_found_tier *next;
    char name[SNP_TIER_NAME_MAX + 1];
    char *path;               /* owned; NULL = there is none (any more), or not to be run */
    bool is_claimed;          /* of the user's folder: what it says of itself is a claim */
    int rank;                 /* its strength, of installed ones; else 0 */
    json_t *about;            /* owned: guarantees, verbs; NULL = not known */
    struct snp_tier *running; /* that takes calls; NULL = none. Frees itself */
    unsigned n_processes;     /* not yet reaped */
};

struct snp_tiers {
    struct snp_found_tier *first; /* owned: all that are known */
    bool has_looked;              /* for installed ones */
};

/*
 * The tier of that name, or the strongest installed one for "auto". SNP_E_UNSUPPORTED lists
 * those that there are. *ret is borrowed.
 */
int snp_tiers_find(struct snp_tiers *tiers,
                   const char *name,
                   struct snp_found_tier **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* The same for a new session: `auto` takes a weak one only if that is allowed. */
int snp_tiers_choose(struct snp_tiers *tiers,
                     const char *name,
                     bool allow_degraded,
                     struct snp_found_tier **ret,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * The one whose output a handle names: "TIER/SESSION/CELL"; that of SNP_TIER_FIRST has no
 * first part.
 */
int snp_tiers_of_handle(struct snp_tiers *tiers,
                        const char *handle,
                        struct snp_found_tier **ret,
                        struct snp_err *err) SNP_NODISCARD;

/* The same for a name of the journal's, which may be gone: to run it fails then. */
int snp_tiers_recorded(struct snp_tiers *tiers,
                       const char *name,
                       struct snp_found_tier **ret,
                       struct snp_err *err) SNP_NODISCARD;

/* SNP_TIER_FIRST, not asked yet what it is; NULL = not installed. */
struct snp_found_tier *snp_tiers_first(struct snp_tiers *tiers);

/* Look again whether it may be run. SNP_E_UNSUPPORTED, SNP_E_DENIED: why not. */
int snp_tiers_check(struct snp_tiers *tiers,
                    struct snp_found_tier *tier,
                    struct snp_err *err) SNP_NODISCARD;

/*
 * The strongest installed one that is weaker and can do that (a verb; NULL = anything);
 * NULL = none.
 */
struct snp_found_tier *snp_tiers_weaker(const struct snp_tiers *tiers,
                                        const struct snp_found_tier *than,
                                        const char *verb);

/* Only where weaker controls are allowed does `auto` take it. */
bool snp_tier_is_weak(const struct snp_found_tier *tier);

/* Does it give all of them (names, NULL = none) with that root? SNP_E_UNSUPPORTED: who does. */
int snp_tier_guarantees(const struct snp_found_tier *tier,
                        const char *rootfs,
                        const json_t *guarantees,
                        struct snp_err *err) SNP_NODISCARD;

/* Whether it says that it can; who does not say may be asked. */
bool snp_tier_can(const struct snp_found_tier *tier, const char *verb);

/* Whether it says that it saves and loads images; who does not say is not asked. */
bool snp_tier_has_images(const struct snp_found_tier *tier);

/* Whether it says that a project is copied into the workspace: then its files are the session's. */
bool snp_tier_copies_projects(const struct snp_found_tier *tier);

/* What the daemon itself knows of the tier, into a manifest that it made. 0 or SNP_E_NOMEM. */
int snp_tier_mark(const struct snp_found_tier *tier, json_t *manifest);

void snp_tiers_done(struct snp_tiers *tiers);

#endif
