/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SPEC_H
#define SNP_DAEMON_SPEC_H

/* What an `exec` request asks for, checked. A pure reading: nothing is looked up. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "daemon/front/check.h"
#include "daemon/session/session.h"
#include "policy/limits.h"
#include "store/store.h"

/* The members of the request, for the table of methods. */
extern const struct snp_record snp_exec_record;

/* What is to become of cells whose effects the session lost. */
enum snp_recover {
    SNP_RECOVER_ASK = 0,    /* nothing: the call fails and names the two ways */
    SNP_RECOVER_REPLAY,     /* they are run again first */
    SNP_RECOVER_CHECKPOINT, /* the session goes on without them */
    SNP_RECOVER_SKIP,       /* as replay, without those that failed in a replay before */
};

struct snp_exec_spec {
    json_t *head;              /* owned: what all texts below are borrowed from */
    const char *session;       /* name or id; NULL = one that ends with the call */
    const char *kind;          /* "python" or "command" */
    enum snp_tier_kind tier;   /* for a new one: asked for, else the default */
    bool has_tier;             /* asked for */
    const char *template_name; /* NULL = the session's, or default_template for a new one */
    const char *default_template;
    const char *project;      /* NULL = the session's, none for a new one */
    const char *rootfs;       /* likewise */
    json_t *argv;             /* of a command, else NULL */
    json_t *env;              /* NULL = none given */
    json_t *explicit_limits;  /* NULL = none given */
    struct snp_limits limits; /* for a new session: defaults, then the explicit ones */
    uint64_t code_len;
    bool has_stdin;
    bool allow_degraded;
    bool require_exact;
    bool stream;
    bool tell_wait;   /* the client wants to know if it waits */
    bool attached;    /* interrupted if its client goes away */
    bool transaction; /* a cell that is killed leaves nothing */
    bool atomic;      /* nor does one that fails */
    bool calls;       /* its code may call the client that asked for it */
    enum snp_durability durability;
    bool has_checkpoint; /* asked for */
    enum snp_checkpoint_when checkpoint;
    enum snp_recover recover;
    uint64_t rerun_of; /* the number of the cell it is called a rerun of; 0 = none */
};

/*
 * Read head (it must have passed snp_exec_record; a reference is taken) of a request
 * with raw_len raw bytes. SNP_E_INVALID names the member; SNP_E_UNSUPPORTED: a tier that
 * is not there. On failure *spec is untouched.
 */
int snp_exec_spec_read(json_t *head,
                       size_t raw_len,
                       struct snp_exec_spec *spec,
                       struct snp_err *err) SNP_NODISCARD;
void snp_exec_spec_done(struct snp_exec_spec *spec);

/*
 * May the cell run in a session with this policy? SNP_E_INVALID names what differs.
 * *ret_wall_ms: its wall clock: the explicit one, else the session's.
 */
int snp_exec_spec_fits(const struct snp_exec_spec *spec,
                       const struct snp_session_policy *policy,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err) SNP_NODISCARD;

#endif
