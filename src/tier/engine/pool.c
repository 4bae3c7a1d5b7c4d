/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few kinds of session are remembered, the latest first; of each some spares are kept. They
 * are made one at a time, when nothing else is asked of the template and no session is being
 * filled, because making one takes it, or a processor, from those who wait. A spare over a project is not kept for long: it holds
 * the folder's file system, and what it hides was found when it was made (what is found
 * for the new session decides whether it fits).
 */
#include "tier/engine/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "tier/engine/supervisor.h"

enum {
    KINDS_MAX = 6,
    REFILL_MS = 3,
    LOAD_MS =
        50, /* after a session was opened that is to be filled: then it is, or has failed */
    SWEEP_MS = 30000,
    PROJECT_AGE_S = 120,
};

struct kind {
    struct snp_session_spec spec; /* owns project and python; no env, no id */
    uint64_t wanted_us;           /* 0 = free */
};

struct snp_spares {
    struct snp_tier *tier; /* borrowed */
    uv_timer_t *timer;     /* owned by the loop */
    struct kind kind[KINDS_MAX];
    uint64_t calm_us; /* make none before */
    bool is_closed;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static bool same_path(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : snp_streq(a, b);
}

/* Whether sandboxes made for a and b are the same; how long a cell may run is not theirs. */
static bool same_kind(const struct snp_session_spec *a, const struct snp_session_spec *b)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (i != SNP_LIMIT_WALL && i != SNP_LIMIT_OUTPUT &&
            a->limits.value[i] != b->limits.value[i]) {
            return false;
        }
    }
    return snp_python_equal(&a->python, &b->python) && same_path(a->project, b->project) &&
           a->allow_degraded == b->allow_degraded && a->require_exact == b->require_exact &&
           a->is_lasting == b->is_lasting;
}

/* Its owner is whose files are the code's, and its mode is that of /workspace. */
static bool same_folder(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && a->st_gid == b->st_gid;
}

static bool same_project(const struct snp_session *a, const struct snp_session *b)
{
    return same_folder(&a->project_stat, &b->project_stat) && a->mask.len == b->mask.len &&
           (a->mask.len == 0 ||
            memcmp(snp_buf_bytes(&a->mask), snp_buf_bytes(&b->mask), a->mask.len) == 0);
}

struct snp_session *snp_spare_find(const struct snp_session *s)
{
    struct snp_session *best = NULL;

    for (struct snp_session *at = s->tier->ahead; at != NULL; at = at->next) {
        if (at->state != SNP_SESSION_READY || !same_kind(&at->spec, &s->spec)) {
            continue;
        }
        if (!same_project(at, s)) {
            snp_session_kill(at, "its project has changed");
            continue;
        }
        if (snp_link_has_ended(&at->guest)) {
            snp_session_kill(at, "its interpreter has ended");
            continue;
        }
        best = at; /* the list has the youngest first: the oldest has had most time */
    }
    return best;
}

static unsigned count(const struct snp_tier *tier, const struct snp_session_spec *spec)
{
    unsigned n = 0;

    for (const struct snp_session *s = tier->ahead; s != NULL; s = s->next) {
        n += s->state != SNP_SESSION_CLOSING && same_kind(&s->spec, spec) ? 1 : 0;
    }
    return n;
}

/* End the spares of kinds that nobody wants any more. */
static void drop_old(struct snp_spares *spares)
{
    uint64_t now = snp_now_us();

    for (struct snp_session *s = spares->tier->ahead; s != NULL; s = s->next) {
        bool is_wanted = false;
        for (size_t i = 0; i < KINDS_MAX; i++) {
            const struct kind *kind = &spares->kind[i];
            bool is_old = kind->spec.project != NULL &&
                          now - kind->wanted_us > PROJECT_AGE_S * 1000000ULL;
            is_wanted = is_wanted ||
                        (kind->wanted_us != 0 && !is_old && same_kind(&kind->spec, &s->spec));
        }
        if (!is_wanted) {
            snp_session_kill(s, "nobody wants it");
        }
    }
}

/* The kind that is to have a spare next; NULL = all have. */
static struct kind *next_kind(struct snp_spares *spares)
{
    uint64_t now = snp_now_us();
    struct kind *best = NULL;

    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct kind *kind = &spares->kind[i];
        if (kind->wanted_us == 0 ||
            count(spares->tier, &kind->spec) >= spares->tier->pool_max ||
            (kind->spec.project != NULL &&
             now - kind->wanted_us > PROJECT_AGE_S * 1000000ULL)) {
            continue;
        }
        best = best == NULL || kind->wanted_us > best->wanted_us ? kind : best;
    }
    return best;
}

static void on_timer(uv_timer_t *timer)
{
    struct snp_spares *spares = timer->data;
    struct kind *kind;
    struct snp_err err;

    if (spares->tier->n_opening > 0 || spares->tier->n_loading > 0 ||
        snp_now_us() < spares->calm_us) {
        (void)uv_timer_start(timer, on_timer, REFILL_MS, 0);
        return;
    }
    kind = next_kind(spares);
    if (kind == NULL) {
        drop_old(spares);
        (void)uv_timer_start(timer, on_timer, SWEEP_MS, 0);
        return;
    }
    if (snp_session_prepare(spares->tier, &kind->spec, &err) < 0) {
        snp_log(SNP_LOG_WARN, "spare", "error=%s", err.msg);
        kind->wanted_us = 0; /* until somebody asks again */
    }
    (void)uv_timer_start(timer, on_timer, REFILL_MS, 0);
}

static void kind_done(struct kind *kind)
{
    free(kind->spec.project);
    snp_python_done(&kind->spec.python);
    *kind = (struct kind){0};
}

static struct snp_spares *spares_get(struct snp_tier *tier)
{
    struct snp_spares *spares = tier->spares;

    if (spares == NULL) {
        spares = calloc(1, sizeof(*spares));
        uv_timer_t *timer = calloc(1, sizeof(*timer));
        if (spares == NULL || timer == NULL) {
            free(spares);
            free(timer);
            return NULL;
        }
        (void)uv_timer_init(tier->loop, timer);
        timer->data = spares;
        spares->tier = tier;
        spares->timer = timer;
        tier->spares = spares;
    }
    return spares;
}

void snp_spare_want(struct snp_tier *tier, const struct snp_session_spec *spec)
{
    struct snp_spares *spares = spares_get(tier);
    struct kind *kind = NULL;

    if (spares == NULL || spares->is_closed) {
        return;
    }
    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct kind *at = &spares->kind[i];
        if (at->wanted_us != 0 && same_kind(&at->spec, spec)) {
            kind = at;
            break;
        }
        kind = kind == NULL || at->wanted_us < kind->wanted_us ? at : kind;
    }
    kind_done(kind);
    kind->spec = *spec;
    kind->spec.id[0] = '\0';
    kind->spec.env = NULL;
    kind->spec.env_len = 0;
    kind->spec.project = spec->project == NULL ? NULL : strdup(spec->project);
    if (snp_python_copy(&spec->python, &kind->spec.python) < 0 ||
        (spec->project != NULL && kind->spec.project == NULL)) {
        kind_done(kind);
        return;
    }
    kind->wanted_us = snp_now_us();
    spares->calm_us = spec->is_to_load ? kind->wanted_us + LOAD_MS * 1000ULL : spares->calm_us;
    (void)uv_timer_start(spares->timer, on_timer, REFILL_MS, 0);
}

bool snp_spares_drop(struct snp_tier *tier)
{
    bool any = false;

    for (struct snp_session *s = tier->ahead; s != NULL; s = s->next) {
        any = any || s->has_embryo; /* the others hold nothing, they wait like everybody */
        snp_session_kill(s, "its room is needed");
    }
    return any;
}

void snp_spares_close(struct snp_tier *tier)
{
    struct snp_spares *spares = SNP_TAKE_PTR(tier->spares);

    if (spares == NULL) {
        return;
    }
    for (size_t i = 0; i < KINDS_MAX; i++) {
        kind_done(&spares->kind[i]);
    }
    uv_close((uv_handle_t *)spares->timer, free_handle);
    free(spares);
}
