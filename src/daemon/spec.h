/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SPEC_H
#define SNP_DAEMON_SPEC_H

/* What an `exec` request asks for, checked. A pure reading: nothing is looked up. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "daemon/session.h"
#include "policy/limits.h"
#include "store/store.h"
#include "wire/exec.h"

/* What is to become of cells whose effects the session lost. */
enum snp_recover {
    SNP_RECOVER_ASK = 0,    /* nothing: the call fails and names the two ways */
    SNP_RECOVER_REPLAY,     /* they are run again first */
    SNP_RECOVER_CHECKPOINT, /* the session goes on without them */
    SNP_RECOVER_SKIP,       /* as replay, without those that failed in a replay before */
};

struct snp_exec_spec {
    json_t *head;                  /* owned: what all texts below are borrowed from */
    struct snp_exec_request asked; /* as it came */
    const char *tier;              /* name, for a new one: asked for, else the default */
    const char *default_template;  /* for a new one, or NULL */
    const char *default_rootfs;    /* likewise */
    const char *default_project;   /* likewise */
    bool has_network;              /* a new one has */
    const json_t *guarantees;      /* that its tier must give, or NULL */
    struct snp_limits limits;      /* for a new session: defaults, then the explicit ones */
    enum snp_durability durability;
    bool has_checkpoint; /* asked for */
    enum snp_checkpoint_when checkpoint;
    enum snp_recover recover;
    /* owned: for the result, what the session has otherwise than configured; or NULL */
    json_t *not_applied;
};

/*
 * Read head (it must have passed snp_exec_request_form; a reference is taken) of a request
 * with raw_len raw bytes. SNP_E_INVALID names the member. On failure *spec is untouched.
 */
int snp_exec_spec_read(json_t *head,
                       size_t raw_len,
                       struct snp_exec_spec *spec,
                       struct snp_err *err) SNP_NODISCARD;
void snp_exec_spec_done(struct snp_exec_spec *spec);

/*
 * May the cell run in a session with this policy? SNP_E_INVALID: what was asked for explicitly
 * differs, or a guarantee is not given. Configured values that differ are listed in not_applied.
 * *ret_wall_ms: its wall clock: the explicit one, else the session's.
 */
int snp_exec_spec_fits(struct snp_exec_spec *spec,
                       const struct snp_session_policy *policy,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err) SNP_NODISCARD;

#endif
