/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool remembers a few kinds of session, the latest first, and keeps some sandboxes of each. It
 * makes them one at a time, when no request uses the template and no session is being filled:
 * making one would delay these. A pooled sandbox over a project is soon dropped: it keeps the
 * folder's file system busy, and its hidden paths are those found at its creation (they must equal
 * the new session's).
 */
#include "tier/engine/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "tier/engine/open.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/supervisor.h"

enum {
    KINDS_MAX = 6,
    REFILL_MS = 3,
    LOAD_MS = 50,  /* after opening a session to fill: by then it is filled, or has failed */
    FIRST_MS = 25, /* after the first of a kind, whose first cell runs with cold caches */
    SWEEP_MS = 30000,
    PROJECT_AGE_S = 120,
};

struct pool_kind {
    struct snp_sandbox_spec spec; /* owns project and python; no env, no id */
    uint64_t wanted_us;           /* 0 = free */
};

struct snp_pool {
    struct snp_supervisor *supervisor; /* borrowed */
    uv_timer_t *timer;                 /* owned by the loop */
    struct pool_kind kind[KINDS_MAX];
    uint64_t calm_us; /* make none before this */
    bool is_closed;
};

static bool same_path(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : snp_streq(a, b);
}

/* Whether a and b need the same sandbox; time and output limits do not matter. */
static bool same_kind(const struct snp_sandbox_spec *a, const struct snp_sandbox_spec *b)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (i != SNP_LIMIT_WALL && i != SNP_LIMIT_OUTPUT &&
            a->limits.value[i] != b->limits.value[i]) {
            return false;
        }
    }
    return snp_python_equal(&a->python, &b->python) && same_path(a->project, b->project) &&
           a->has_network == b->has_network && a->allow_degraded == b->allow_degraded &&
           a->require_exact == b->require_exact && a->is_lasting == b->is_lasting;
}

/* The code's files have the folder's owner, and /workspace has its mode. */
static bool same_folder(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && a->st_gid == b->st_gid;
}

static bool same_project(const struct snp_sandbox *a, const struct snp_sandbox *b)
{
    return same_folder(&a->project_stat, &b->project_stat) && a->mask.len == b->mask.len &&
           (a->mask.len == 0 ||
            memcmp(snp_buf_bytes(&a->mask), snp_buf_bytes(&b->mask), a->mask.len) == 0);
}

static void drop(struct snp_sandbox *s, const char *reason)
{
    s->is_dropped = true;
    snp_sandbox_kill(s, reason);
}

struct snp_sandbox *snp_pool_find(const struct snp_sandbox *s)
{
    struct snp_sandbox *best = NULL;

    for (struct snp_sandbox *at = s->supervisor->pooled; at != NULL; at = at->next) {
        if (at->state != SNP_SANDBOX_READY || !same_kind(&at->spec, &s->spec)) {
            continue;
        }
        if (s->supervisor->ops->fill == NULL && !same_project(at, s)) {
            drop(at, "its project has changed");
            continue;
        }
        if (snp_link_has_ended(&at->guest)) {
            drop(at, "its interpreter has ended");
            continue;
        }
        best = at; /* the list is youngest first: the oldest has had the most time */
    }
    return best;
}

static unsigned count(const struct snp_supervisor *supervisor, const struct snp_sandbox_spec *spec)
{
    unsigned n = 0;

    for (const struct snp_sandbox *s = supervisor->pooled; s != NULL; s = s->next) {
        n += s->state != SNP_SANDBOX_CLOSING && same_kind(&s->spec, spec) ? 1 : 0;
    }
    return n;
}

/* End pooled sandboxes of unused kinds. */
static void drop_old(struct snp_pool *pool)
{
    uint64_t now = snp_now_us();

    for (struct snp_sandbox *s = pool->supervisor->pooled; s != NULL; s = s->next) {
        bool is_wanted = false;
        for (size_t i = 0; i < KINDS_MAX; i++) {
            const struct pool_kind *kind = &pool->kind[i];
            bool is_old =
                kind->spec.project != NULL && now - kind->wanted_us > PROJECT_AGE_S * 1000000ULL;
            is_wanted =
                is_wanted || (kind->wanted_us != 0 && !is_old && same_kind(&kind->spec, &s->spec));
        }
        if (!is_wanted) {
            drop(s, "it is not needed");
        }
    }
}

/* The kind that needs a pooled sandbox next; NULL = none. */
static struct pool_kind *next_kind(struct snp_pool *pool)
{
    uint64_t now = snp_now_us();
    struct pool_kind *best = NULL;

    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct pool_kind *kind = &pool->kind[i];
        if (kind->wanted_us == 0 ||
            count(pool->supervisor, &kind->spec) >= pool->supervisor->pool_max ||
            (kind->spec.project != NULL && now - kind->wanted_us > PROJECT_AGE_S * 1000000ULL)) {
            continue;
        }
        best = best == NULL || kind->wanted_us > best->wanted_us ? kind : best;
    }
    return best;
}

static void on_timer(uv_timer_t *timer)
{
    struct snp_pool *pool = timer->data;
    struct pool_kind *kind;
    struct snp_err err;

    if (pool->supervisor->n_opening > 0 || pool->supervisor->n_loading > 0 ||
        snp_now_us() < pool->calm_us) {
        (void)uv_timer_start(timer, on_timer, REFILL_MS, 0);
        return;
    }
    kind = next_kind(pool);
    if (kind == NULL) {
        drop_old(pool);
        (void)uv_timer_start(timer, on_timer, SWEEP_MS, 0);
        return;
    }
    if (snp_sandbox_prepare(pool->supervisor, &kind->spec, &err) < 0) {
        snp_log(SNP_LOG_WARN, "pool", "error=%s", err.msg);
        kind->wanted_us = 0; /* until the next request */
    }
    (void)uv_timer_start(timer, on_timer, REFILL_MS, 0);
}

static void kind_done(struct pool_kind *kind)
{
    snp_sandbox_spec_done(&kind->spec);
    *kind = (struct pool_kind){0};
}

static struct snp_pool *pool_get(struct snp_supervisor *supervisor)
{
    struct snp_pool *pool = supervisor->pool;

    if (pool == NULL) {
        pool = calloc(1, sizeof(*pool));
        uv_timer_t *timer = pool == NULL ? NULL : snp_timer_new(supervisor->loop, pool);
        if (timer == NULL) {
            free(pool);
            return NULL;
        }
        pool->supervisor = supervisor;
        pool->timer = timer;
        supervisor->pool = pool;
    }
    return pool;
}

void snp_pool_want(struct snp_supervisor *supervisor, const struct snp_sandbox_spec *spec)
{
    struct snp_pool *pool = pool_get(supervisor);
    struct pool_kind *kind = NULL;
    bool is_first;

    if (pool == NULL || pool->is_closed) {
        return;
    }
    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct pool_kind *at = &pool->kind[i];
        if (at->wanted_us != 0 && same_kind(&at->spec, spec)) {
            kind = at;
            break;
        }
        kind = kind == NULL || at->wanted_us < kind->wanted_us ? at : kind;
    }
    is_first = kind->wanted_us == 0 || !same_kind(&kind->spec, spec);
    kind_done(kind);
    if (snp_sandbox_spec_copy(spec, &kind->spec) < 0) {
        return;
    }
    kind->wanted_us = snp_now_us();
    if (spec->is_to_load || is_first) {
        pool->calm_us = kind->wanted_us + (spec->is_to_load ? LOAD_MS : FIRST_MS) * 1000ULL;
    }
    (void)uv_timer_start(pool->timer, on_timer, REFILL_MS, 0);
}

void snp_pool_lost(struct snp_sandbox *s)
{
    struct snp_pool *pool = s->supervisor->pool;

    for (size_t i = 0; pool != NULL && !s->is_dropped && i < KINDS_MAX; i++) {
        struct pool_kind *kind = &pool->kind[i];
        if (kind->wanted_us != 0 && same_kind(&kind->spec, &s->spec)) {
            snp_log(SNP_LOG_WARN, "pool_lost", "error=%s",
                    s->open_err.code != SNP_OK ? s->open_err.msg
                    : s->reason[0] == '\0'     ? "it ended"
                                               : s->reason);
            kind->wanted_us = 0;
        }
    }
}

bool snp_pool_drop(struct snp_supervisor *supervisor)
{
    bool any = false;

    for (struct snp_sandbox *s = supervisor->pooled; s != NULL; s = s->next) {
        any = any || s->has_process; /* the others hold no resources and wait in the queue */
        drop(s, "its room is needed");
    }
    return any;
}

void snp_pool_close(struct snp_supervisor *supervisor)
{
    struct snp_pool *pool = SNP_TAKE_PTR(supervisor->pool);

    if (pool == NULL) {
        return;
    }
    for (size_t i = 0; i < KINDS_MAX; i++) {
        kind_done(&pool->kind[i]);
    }
    snp_handle_close(&pool->timer);
    free(pool);
}
