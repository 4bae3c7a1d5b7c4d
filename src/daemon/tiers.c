/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of tiers. It only grows: entries stay, even without their program, so sessions can
 * point at them. The folders are read when a name is unknown, and the user's folder also before
 * each start.
 */
#include "daemon/tiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/policy/guarantee.h"
#include "base/str.h"
#include "store/job.h"

static struct snp_found_tier *known(const struct snp_tiers *tiers, const char *name)
{
    struct snp_found_tier *tier = tiers->first;

    while (tier != NULL && strcmp(tier->name, name) != 0) {
        tier = tier->next;
    }
    return tier;
}

static struct snp_found_tier *enter(struct snp_tiers *tiers, const char *name)
{
    struct snp_found_tier *tier = known(tiers, name);

    if (tier == NULL) {
        tier = calloc(1, sizeof(*tier));
    }
    if (tier != NULL && tier->name[0] == '\0') {
        (void)snprintf(tier->name, sizeof(tier->name), "%s", name);
        tier->next = tiers->first;
        tiers->first = tier;
    }
    return tier;
}

static int take_in(struct snp_tiers *tiers, const struct snp_tier_file *file, struct snp_err *err)
{
    struct snp_found_tier *tier = enter(tiers, file->name);
    char *path = tier == NULL ? NULL : strdup(file->path);

    SNP_TRY_MEMORY(path, err);
    free(tier->path);
    tier->path = path;
    tier->is_claimed = file->is_users;
    if (!file->is_users && file->about == NULL) {
        snp_log(SNP_LOG_WARN, "tier", "tier=%s why=\"%s --describe failed: auto takes it last\"",
                file->name, file->path);
    }
    if (!file->is_users) {
        tier->rank = file->rank;
        json_decref(tier->about);
        tier->about = json_incref(file->about);
    }
    return 0;
}

/* Read the folders; name: the tier that is needed. */
static int look(struct snp_tiers *tiers, const char *name, struct snp_err *err)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    const struct snp_tier_file *file;
    int r = snp_tier_files_find(&files, err);

    r = r < 0 ? r : snp_tier_files_get(&files, name, &file, err);
    if (r == 0 && !file->is_users) {
        snp_tier_files_rank(&files);
        r = snp_tier_files_get(&files, name, &file, err);
    }
    return r < 0 ? r : take_in(tiers, file, err);
}

/* Installed programs do not change while a daemon runs: they are read once. */
static int look_at_installed(struct snp_tiers *tiers, struct snp_err *err)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    int r = tiers->has_looked ? 0 : snp_tier_files_find(&files, err);

    if (tiers->has_looked || r < 0) {
        return r;
    }
    snp_tier_files_rank(&files);
    for (size_t i = 0; i < files.n && r == 0; i++) {
        r = files.files[i].is_users ? 0 : take_in(tiers, &files.files[i], err);
    }
    tiers->has_looked = r == 0;
    return r;
}

struct snp_found_tier *snp_tiers_first(struct snp_tiers *tiers)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    struct snp_found_tier *tier = NULL;
    const struct snp_tier_file *file;
    struct snp_err ignored;

    if (snp_tier_files_find(&files, &ignored) < 0) {
        return NULL;
    }
    file = snp_tier_files_of(&files, SNP_TIER_FIRST);
    if (file != NULL && !file->is_users) {
        tier = enter(tiers, file->name);
    }
    if (tier != NULL && tier->path == NULL) {
        tier->path = strdup(file->path);
    }
    return tier == NULL || tier->path == NULL ? NULL : tier;
}

static bool may_follow(const struct snp_found_tier *tier,
                       const struct snp_found_tier *than,
                       const char *verb)
{
    return tier->path != NULL && !tier->is_claimed &&
           !snp_json_bool(tier->about, "by_name", false) &&
           (than == NULL || (tier != than && tier->rank < than->rank)) &&
           (verb == NULL || snp_tier_can(tier, verb));
}

struct snp_found_tier *snp_tiers_weaker(const struct snp_tiers *tiers,
                                        const struct snp_found_tier *than,
                                        const char *verb)
{
    struct snp_found_tier *best = NULL;

    for (struct snp_found_tier *at = tiers->first; at != NULL; at = at->next) {
        if (may_follow(at, than, verb) && (best == NULL || at->rank > best->rank)) {
            best = at;
        }
    }
    return best;
}

int snp_tiers_find(struct snp_tiers *tiers,
                   const char *name,
                   struct snp_found_tier **ret,
                   struct snp_err *err)
{
    bool is_auto = strcmp(name, SNP_TIER_AUTO) == 0;
    int r = look_at_installed(tiers, err);
    struct snp_found_tier *found;

    SNP_TRY(r);
    found = is_auto ? snp_tiers_weaker(tiers, NULL, NULL) : known(tiers, name);
    if (found == NULL && is_auto) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "no tier is installed; tier-" SNP_TIER_FIRST
                        " and others belong beside snipara-sandboxd");
    }
    if (found == NULL || found->path == NULL || found->is_claimed) {
        r = look(tiers, name, err);
        found = r < 0 ? NULL : known(tiers, name);
    }
    if (r == 0) {
        *ret = found;
    }
    return r;
}

int snp_tiers_choose(struct snp_tiers *tiers,
                     const char *name,
                     bool allow_degraded,
                     struct snp_found_tier **ret,
                     struct snp_err *err)
{
    struct snp_found_tier *found;

    SNP_TRY(snp_tiers_find(tiers, name, &found, err));
    if (strcmp(name, SNP_TIER_AUTO) == 0 && snp_tier_is_weak(found) && !allow_degraded) {
        return snp_fail_with(err, SNP_E_UNSUPPORTED, SNP_REMEDY_WEAKER_TIER, found->name, 0,
                             "only the weaker %s tier is installed", found->name);
    }
    *ret = found;
    return 0;
}

int snp_tiers_of_handle(struct snp_tiers *tiers,
                        const char *handle,
                        struct snp_found_tier **ret,
                        struct snp_err *err)
{
    char name[SNP_TIER_NAME_MAX + 1] = SNP_TIER_FIRST;
    size_t n = strcspn(handle, "/");
    struct snp_err ignored;

    if (n <= SNP_TIER_NAME_MAX && strchr(handle + n, '/') != strrchr(handle, '/')) {
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, handle);
    }
    return strcmp(name, SNP_TIER_AUTO) != 0 && snp_tiers_find(tiers, name, ret, &ignored) == 0
               ? 0
               : snp_tiers_find(tiers, SNP_TIER_FIRST, ret, err);
}

int snp_tiers_recorded(struct snp_tiers *tiers,
                       const char *name,
                       struct snp_found_tier **ret,
                       struct snp_err *err)
{
    int r = snp_tier_name_check(name, err);

    if (r == 0 && strcmp(name, SNP_TIER_AUTO) == 0) {
        r = snp_fail(err, SNP_E_INVALID, "the record names no tier");
    }
    r = r < 0 ? r : look_at_installed(tiers, err);
    if (r == 0) {
        *ret = enter(tiers, name);
        r = *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    return r;
}

int snp_tiers_check(struct snp_tiers *tiers, struct snp_found_tier *tier, struct snp_err *err)
{
    if (tier->path != NULL && !tier->is_claimed) {
        return 0;
    }
    return look(tiers, tier->name, err);
}

bool snp_tier_is_weak(const struct snp_found_tier *tier)
{
    return tier->rank < SNP_TIER_RANK_WHOLE;
}

int snp_tier_guarantees(const struct snp_found_tier *tier,
                        const char *rootfs,
                        const json_t *guarantees,
                        struct snp_err *err)
{
    /* IMAGE#RUNTIME#SOCKET */
    const char *at = rootfs == NULL ? NULL : strchr(rootfs, '#');
    snp_autofree char *runtime = at == NULL ? NULL : strndup(at + 1, strcspn(at + 1, "#"));

    return snp_guarantees_of(tier->name, tier->is_claimed ? NULL : tier->about, runtime, guarantees,
                             err);
}

bool snp_tier_can(const struct snp_found_tier *tier, const char *verb)
{
    const json_t *verbs = json_object_get(tier->about, "verbs");
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)verbs, i, one)
    {
        if (snp_streq(json_string_value(one), verb)) {
            return true;
        }
    }
    return !json_is_array(verbs);
}

static bool says(const struct snp_found_tier *tier, const char *verb)
{
    return json_is_array(json_object_get(tier->about, "verbs")) && snp_tier_can(tier, verb);
}

bool snp_tier_has_images(const struct snp_found_tier *tier)
{
    return says(tier, "images");
}

bool snp_tier_copies_projects(const struct snp_found_tier *tier)
{
    return says(tier, "copies");
}

int snp_tier_mark(const struct snp_found_tier *tier, json_t *manifest)
{
    return json_object_set_new(manifest, "tier", json_string(tier->name)) < 0 ||
                   json_object_set_new(manifest, "rank", json_integer(tier->rank)) < 0 ||
                   json_object_set_new(manifest, "claimed", json_boolean(tier->is_claimed)) < 0
               ? SNP_E_NOMEM
               : 0;
}

void snp_tiers_done(struct snp_tiers *tiers)
{
    while (tiers->first != NULL) {
        struct snp_found_tier *tier = tiers->first;

        tiers->first = tier->next;
        free(tier->path);
        json_decref(tier->about);
        free(tier);
    }
}
