/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_OPS_H
#define SNP_TIER_ENGINE_OPS_H

/*
 * The operations of a tier (one way to contain code), called by the engine. A new tier is a folder
 * beside tier/native with such a table and a main() that passes it to snp_tier_main
 * (tier/engine/program.h).
 *
 * All run on the loop's thread and must not block, unless stated here: one waiting sandbox would
 * delay all others. Slow work goes to a worker (uv_queue_work). On failure, an operation fills err
 * and leaves nothing behind. A tier's state lies behind supervisor->own and sandbox->own, which are
 * opaque to the engine.
 *
 * The life of a sandbox, seen from a tier:
 *
 *   make -> open -> (snp_sandbox_connect, snp_sandbox_opened) -> watch, sweep, ... with each cell
 *     -> kill -> (snp_sandbox_ended after pid 1, snp_sandbox_gone after the rest) -> unmake
 *
 * The tier calls the functions in brackets (tier/engine/open.h, tier/engine/inside.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"

struct snp_about;
struct snp_python;
struct snp_python_query;
struct snp_sandbox;
struct snp_sandbox_spec;
struct snp_supervisor;

/* Memory used by copies of an interpreter. */
struct snp_copies_usage {
    uint64_t bytes;        /* of the whole sandbox, shared pages once */
    uint64_t copies_bytes; /* of these, only in copies */
};

struct snp_tier_ops {
    const char *name;          /* for users: --env NAME */
    const char *output_prefix; /* of handles for stored output; the daemon finds the tier by it */

    const struct snp_about *about; /* rank, guarantees, verbs: about.h */

    /* Properties of the tier. */
    bool can_pool;              /* sandboxes can be made before their session is known */
    bool shows_project;         /* shows the host's folder below the workspace; else copies it */
    bool bounds_workspace;      /* while a cell runs; else its size is also checked afterwards */
    bool limits_itself;         /* outside our control groups; limited_by describes its limits */
    bool holds_files_in_memory; /* copies of the workspace use the sandbox's memory */

    /* The supervisor --------------------------------------------------------------------- */

    /*
     * Called once, before the first request. May block. It succeeds on a host where nothing can
     * run: then supervisor->can_run is false and supervisor->why gives the reason and the fix.
     */
    int (*start)(struct snp_supervisor *supervisor, struct snp_err *err);

    /* The answer to `probe` (docs/wire.md). May block. New reference. */
    json_t *(*probe)(struct snp_supervisor *supervisor);

    /* Called every few seconds, for aging. NULL = not needed. */
    void (*tick)(struct snp_supervisor *supervisor);

    /* The supervisor ends: begin to kill all sandboxes. NULL = kill each. */
    void (*end_all)(struct snp_supervisor *supervisor);

    /* Then: wait for the end and removal of this sandbox. Blocks, for seconds at most. */
    void (*await)(struct snp_sandbox *s);

    /* Then: end shared parts. */
    void (*stop)(struct snp_supervisor *supervisor);

    /* Then, repeatedly: is everything removed? */
    bool (*is_over)(struct snp_supervisor *supervisor);

    /* Last call: free everything. NULL = nothing to do. */
    void (*done)(struct snp_supervisor *supervisor);

    /* Description ------------------------------------------------------------------------ */

    /* Find the requested interpreter; caller owns *ret. */
    int (*find_python)(const struct snp_python_query *query,
                       struct snp_python *ret,
                       struct snp_err *err);

    /* A default variable "NAME=VALUE"; requests override it. NULL, or NULL returned = none. */
    const char *(*variable)(const struct snp_sandbox_spec *spec);

    /* The prefix of /workspace and /tmp inside the sandbox. NULL = none: it has a private root. */
    int (*folder)(const struct snp_supervisor *supervisor,
                  const char *session_id,
                  char *out,
                  size_t len,
                  struct snp_err *err);

    /* How a limit is enforced without a control group; static. NULL = by the engine. */
    const char *(*limited_by)(const struct snp_supervisor *supervisor, enum snp_limit limit);

    /* Append texts to list: controls that this host cannot provide. */
    void (*degraded)(const struct snp_supervisor *supervisor, json_t *list);

    /* May this sandbox be opened here? s->spec lists the controls that it may lack. */
    int (*check)(const struct snp_sandbox *s, struct snp_err *err);

    /* The manifest's controls; takes `resources`, one of them. New reference. */
    json_t *(*controls)(const struct snp_sandbox *s, json_t *resources);

    /* A sandbox -------------------------------------------------------------------------- */

    /* Set s->own; -1: out of memory. No process is started yet, nor certain to be. */
    int (*make)(struct snp_sandbox *s);
    void (*unmake)(struct snp_sandbox *s);

    /*
     * Begin to start pid 1 (src/guest/pid1) and an interpreter, with streams from the engine. The
     * tier later calls exactly one of snp_sandbox_opened, snp_sandbox_failed (no process started)
     * and, once s->has_process is set, snp_sandbox_ended.
     */
    void (*open)(struct snp_sandbox *s);

    /*
     * Copy s's project into the workspace of an open sandbox; reports as open does. NULL where
     * projects are shown.
     */
    void (*fill)(struct snp_sandbox *s);

    /* Pid 1 has reported its first copy, so it has seen the workspace. NULL = ignored. */
    void (*settled)(struct snp_sandbox *s);

    /*
     * Takes the ends of a socket pair, each to be passed to another process inside. NULL = ignored.
     */
    void (*paired)(struct snp_sandbox *s, const int ends[2]);

    /*
     * An image of s was saved; it depends on the template's image. NULL = the tier has no images.
     */
    void (*keep_template)(struct snp_sandbox *s);

    /* Kill every process inside. May be called again. Only with s->has_process. */
    void (*kill)(struct snp_sandbox *s);

    /*
     * Kill everything in it but pid 1 and s->spared; then snp_sandbox_swept, unless the
     * sandbox ends.
     */
    void (*sweep)(struct snp_sandbox *s);

    /*
     * A cell begins or ends: check the limits that the kernel does not enforce more or less often.
     */
    void (*watch)(struct snp_sandbox *s, bool is_running);

    /*
     * Has the workspace been empty since the start, and is no file system full? *ret_bytes: bytes
     * written to it. Called at each cell's end, so it must be cheap. NULL = unknown.
     */
    bool (*is_unwritten)(struct snp_sandbox *s, uint64_t *ret_bytes);

    /* Apply the limits of wanted that can change at run time to s->spec.limits. NULL = none. */
    void (*limit)(struct snp_sandbox *s, const struct snp_limits *wanted);

    /* CPU time of all its processes so far. NULL = pid 1 measures it. */
    uint64_t (*cpu)(const struct snp_sandbox *s);

    /* Processes besides pid 1, the interpreter, s->spared and copy. NULL = pid 1 counts them. */
    uint32_t (*others)(const struct snp_sandbox *s, pid_t copy);

    /* Bytes that belong to the process copy alone; UINT64_MAX if unknown. */
    uint64_t (*own_memory)(const struct snp_sandbox *s, pid_t copy);

    /* Memory of these n copies. All pids here are those of pid 1's namespace. */
    void (*copies_usage)(const struct snp_sandbox *s,
                         const pid_t *copies,
                         size_t n,
                         struct snp_copies_usage *ret);
};

#endif
