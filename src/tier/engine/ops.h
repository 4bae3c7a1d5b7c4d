/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_OPS_H
#define SNP_TIER_ENGINE_OPS_H

/*
 * What one way of containing code does, for the engine, which does the rest. A new tier is a
 * folder beside tier/native with a table of these and a main() that passes it to snp_tier_main
 * (tier/engine/program.h).
 *
 * All run on the loop's thread and may not block, unless it says so here: one sandbox that waits
 * makes all others wait. What takes long goes to a worker (uv_queue_work). A failure fills err,
 * and leaves nothing behind. What a tier has to remember lies behind supervisor->own and
 * sandbox->own, which the engine never looks into.
 *
 * The life of a sandbox, as a tier sees it:
 *
 *   make -> open -> (snp_sandbox_connect, snp_sandbox_opened) -> watch, sweep, ... as cells come
 *     -> kill -> (snp_sandbox_ended when its pid 1 is gone, snp_sandbox_gone when all is) -> unmake
 *
 * What is in brackets is called by the tier (tier/engine/open.h, tier/engine/inside.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "policy/limits.h"

struct snp_about;
struct snp_python;
struct snp_python_query;
struct snp_sandbox;
struct snp_sandbox_spec;
struct snp_supervisor;

/* What copies of an interpreter take. */
struct snp_copies_usage {
    uint64_t bytes;        /* of all in the sandbox, shared pages counted once */
    uint64_t copies_bytes; /* of it only the copies have */
};

struct snp_tier_ops {
    const char *name;          /* as users know it: --env NAME */
    const char *output_prefix; /* of the handles of kept output: the daemon finds us by it */

    const struct snp_about *about; /* rank, guarantees, verbs: see about.h */

    /* What the engine has to know. */
    bool can_pool;              /* sandboxes can be made before it is known whose they are */
    bool shows_project;         /* the host's folder lies below the workspace; else it is copied */
    bool bounds_workspace;      /* while a cell runs; else its size is looked at afterwards, too */
    bool limits_itself;         /* our control groups hold none of it: limited_by says what does */
    bool holds_files_in_memory; /* copies of the workspace count as the sandbox's memory */

    /* The supervisor --------------------------------------------------------------------- */

    /*
     * Once, before the first request. May block. That nothing can run on this host is no failure:
     * then supervisor->can_run is false and supervisor->why says the reason and the way out.
     */
    int (*start)(struct snp_supervisor *supervisor, struct snp_err *err);

    /* The answer to `probe` (docs/wire.md). May block. New reference. */
    json_t *(*probe)(struct snp_supervisor *supervisor);

    /* Every few seconds, for what ages. NULL = nothing does. */
    void (*tick)(struct snp_supervisor *supervisor);

    /* The supervisor ends: begin to kill all sandboxes at once. NULL = kill, one by one. */
    void (*end_all)(struct snp_supervisor *supervisor);

    /* After that: wait until nothing of this one runs or is left. Blocks, for seconds at most. */
    void (*await)(struct snp_sandbox *s);

    /* After that: end what sandboxes share. */
    void (*stop)(struct snp_supervisor *supervisor);

    /* After that, until it is true: is nothing left? */
    bool (*is_over)(struct snp_supervisor *supervisor);

    /* Last of all: forget everything. NULL = nothing to do. */
    void (*done)(struct snp_supervisor *supervisor);

    /* What is said of it ----------------------------------------------------------------- */

    /* The interpreter that a request means; caller owns *ret. */
    int (*find_python)(const struct snp_python_query *query,
                       struct snp_python *ret,
                       struct snp_err *err);

    /* A default variable "NAME=VALUE"; the request overrides it. NULL, or NULL returned = none. */
    const char *(*variable)(const struct snp_sandbox_spec *spec);

    /*
     * What is in front of /workspace and /tmp, as the code sees it. NULL = nothing: a root of
     * its own.
     */
    int (*folder)(const struct snp_supervisor *supervisor,
                  const char *session_id,
                  char *out,
                  size_t len,
                  struct snp_err *err);

    /* How a limit is enforced where no control group does it; static. NULL = by the engine. */
    const char *(*limited_by)(const struct snp_supervisor *supervisor, enum snp_limit limit);

    /* Append to list, an array of texts, what this host cannot give. */
    void (*degraded)(const struct snp_supervisor *supervisor, json_t *list);

    /* May this one be opened here? s->spec says what it may do without. */
    int (*check)(const struct snp_sandbox *s, struct snp_err *err);

    /* The manifest's controls; takes `resources`, which is one of them. New reference. */
    json_t *(*controls)(const struct snp_sandbox *s, json_t *resources);

    /* A sandbox -------------------------------------------------------------------------- */

    /* Set s->own; -1: no memory. Nothing runs yet, and it is not known whether anything will. */
    int (*make)(struct snp_sandbox *s);
    void (*unmake)(struct snp_sandbox *s);

    /*
     * Begin to make its processes: pid 1 (src/guest/pid1) and an interpreter, with streams of the
     * engine's. Later exactly one of snp_sandbox_opened, snp_sandbox_failed (nothing of it was
     * ever there) and, once s->has_process is set, snp_sandbox_ended.
     */
    void (*open)(struct snp_sandbox *s);

    /*
     * Copy s's project into the workspace of one that was open; as for open. NULL where projects
     * are shown.
     */
    void (*fill)(struct snp_sandbox *s);

    /*
     * Pid 1 has said that its first copy is there, and so that it has seen the workspace. NULL = of
     * no interest.
     */
    void (*settled)(struct snp_sandbox *s);

    /*
     * These are the ends of one socket pair, each to be passed to another process inside. NULL = of
     * no interest.
     */
    void (*paired)(struct snp_sandbox *s, const int ends[2]);

    /* An image of s is saved, which is of use only with its template's. NULL = there are none. */
    void (*keep_template)(struct snp_sandbox *s);

    /* Kill everything in it. May be called again. Only with s->has_process. */
    void (*kill)(struct snp_sandbox *s);

    /*
     * Kill everything in it but pid 1 and s->spared; then snp_sandbox_swept, unless the
     * sandbox ends.
     */
    void (*sweep)(struct snp_sandbox *s);

    /* A cell begins or ends: look at what no kernel bounds, more or less often. */
    void (*watch)(struct snp_sandbox *s, bool is_running);

    /*
     * Has its workspace held nothing since the start, and is no file system full? *ret_bytes:
     * what is written to it. Called at each cell's end: cheap. NULL = that cannot be told.
     */
    bool (*is_unwritten)(struct snp_sandbox *s, uint64_t *ret_bytes);

    /*
     * Apply the limits of wanted that a running sandbox can change to s->spec.limits. NULL = none.
     */
    void (*limit)(struct snp_sandbox *s, const struct snp_limits *wanted);

    /* CPU time of all its processes so far. NULL = pid 1 counts. */
    uint64_t (*cpu)(const struct snp_sandbox *s);

    /* Processes besides pid 1, the interpreter, s->spared and copy. NULL = pid 1 counts. */
    uint32_t (*others)(const struct snp_sandbox *s, pid_t copy);

    /* Bytes that the process copy alone has; UINT64_MAX if that cannot be told. */
    uint64_t (*own_memory)(const struct snp_sandbox *s, pid_t copy);

    /* What these n copies take. Pids, here and above, as pid 1 numbers them. */
    void (*copies_usage)(const struct snp_sandbox *s,
                         const pid_t *copies,
                         size_t n,
                         struct snp_copies_usage *ret);
};

#endif
