/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SPEC_H
#define SNP_DAEMON_SPEC_H

/* An `exec` request, checked. Only parsed: nothing is looked up. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"
#include "base/wire/exec.h"
#include "daemon/session.h"
#include "store/store.h"

/* What to do about cells whose effects the session lost. */
enum snp_recover {
    SNP_RECOVER_ASK = 0,    /* fail, and name the two ways */
    SNP_RECOVER_REPLAY,     /* replay them first */
    SNP_RECOVER_CHECKPOINT, /* continue without them */
    SNP_RECOVER_SKIP,       /* as replay, without cells that failed in an earlier replay */
};

struct snp_exec_spec {
    json_t *head;                  /* owned: all texts below borrow from it */
    struct snp_exec_request asked; /* as received */
    const char *tier;              /* name, for a new session: requested, else the default */
    const char *default_template;  /* for a new session, or NULL */
    const char *default_rootfs;    /* for a new session, or NULL */
    const char *default_project;   /* for a new session, or NULL */
    bool has_network;              /* for a new session */
    const json_t *guarantees;      /* required of its tier, or NULL */
    struct snp_limits limits;      /* for a new session: defaults, then the explicit ones */
    enum snp_durability durability;
    bool has_checkpoint; /* requested */
    enum snp_checkpoint_when checkpoint;
    enum snp_recover recover;
    /*
     * Owned: for the result, the session's settings that differ from the configured ones; or NULL.
     */
    json_t *not_applied;
};

/*
 * Parse head (it must have passed snp_exec_request_form; a reference is taken) of a request with
 * raw_len raw bytes. SNP_E_INVALID names the member. On failure *spec is untouched.
 */
int snp_exec_spec_read(json_t *head,
                       size_t raw_len,
                       struct snp_exec_spec *spec,
                       struct snp_err *err) SNP_NODISCARD;
void snp_exec_spec_done(struct snp_exec_spec *spec);

/*
 * Check that the cell may run in a session with this policy. SNP_E_INVALID: an explicit setting
 * differs, or a guarantee is not given. Configured values that differ are listed in not_applied.
 * *ret_wall_ms: its wall clock: the explicit one, else the session's.
 */
int snp_exec_spec_fits(struct snp_exec_spec *spec,
                       const struct snp_session_policy *policy,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err) SNP_NODISCARD;

#endif
