/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_DOCKER_H
#define SNP_TIER_DOCKER_DOCKER_H

/*
 * Sandboxes in containers: one warm container for each, of whatever engine answers the Docker
 * Engine API.
 */

#include <stdbool.h>
#include <uv.h>

#include "guest/channels.h"
#include "guest/files/tree.h"
#include "tier/docker/api.h"
#include "tier/docker/line.h"
#include "tier/engine/ops.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"

#define SNP_DOCKER_IMAGE "python:3.11-slim" /* the default of docker_image */

enum {
    SNP_DOCKER_ID_LEN = 64,
    SNP_DOCKER_MARK_LEN = 16,
    SNP_DOCKER_HEAD_MAX = 4096, /* of the answer to attach */
    SNP_DOCKER_SAID_MAX = 400,  /* of what a container says before it is ready */
    SNP_DOCKER_RUNTIME_MAX = 100,
    SNP_DOCKER_USER = 65534,
};

struct snp_sandbox_events;

/* A container engine: the supervisor's, and one for each other socket that sessions name. */
struct snp_docker {
    struct snp_docker *next; /* owned */
    struct snp_docker_api api;
    struct snp_err no_engine; /* DOCKER_HOST names none that can be used; code SNP_OK = it may */
    char mark[SNP_DOCKER_MARK_LEN + 1]; /* of this process, on its containers */
    char ours[4096];                    /* folder of guest/, snp-init and snp-files */
    json_t *filter;                     /* owned; a text: the seccomp profile, or its path */
    bool is_podman; /* it wants a path for the filter, and knows few options of a tmpfs */
    bool has_reaped;
    unsigned n_left;  /* containers that are being removed */
    unsigned n_lines; /* made so far: their names */
};

/* The supervisor's engine. */
static inline struct snp_docker *snp_docker_of(const struct snp_supervisor *supervisor)
{
    return supervisor->own;
}

/* How far a container has come. */
enum snp_docker_stage {
    SNP_DOCKER_NEW = 0,
    SNP_DOCKER_INSPECTING,
    SNP_DOCKER_CREATING,
    SNP_DOCKER_CHECKING,
    SNP_DOCKER_ATTACHING,
    SNP_DOCKER_STARTING,
    SNP_DOCKER_RUNNING,
    SNP_DOCKER_REMOVING,
};

struct snp_docker_sandbox {
    struct snp_docker *engine;
    enum snp_docker_stage stage;
    unsigned n_asked; /* answers of the engine that are awaited */
    bool has_ended;   /* the engine has been told */
    bool is_removed;
    bool is_started;  /* the engine says so */
    bool has_hung_up; /* before it did */
    char id[SNP_DOCKER_ID_LEN + 1];
    json_t *image; /* owned: what the engine says of it */
    json_t *made;  /* owned: its answer to create, until that is checked */
    char runtime[SNP_DOCKER_RUNTIME_MAX + 1]; /* that runs it, as the engine says */
    bool is_unbounded[SNP_LIMIT_N];           /* the engine ignores that limit */
    struct snp_line line;
    struct snp_channels *channels; /* owned; NULL = not attached. They carry what line does not */
    uv_poll_t *poll;               /* of their descriptor, or of the one that is being attached */
    uv_timer_t *timer;
    int attach_fd; /* owned, until channels have it */
    char head[SNP_DOCKER_HEAD_MAX];
    size_t head_len;
    char said[SNP_DOCKER_SAID_MAX + 1];
    size_t said_len;
};

static inline struct snp_docker_sandbox *snp_docker_sandbox_of(const struct snp_sandbox *s)
{
    return s->own;
}

static inline struct snp_docker *snp_docker_engine(const struct snp_sandbox *s)
{
    return snp_docker_sandbox_of(s)->engine;
}

/* The container runtime of the sandbox; "" = the engine's default. */
const char *snp_docker_runtime(const struct snp_sandbox *s);
/*
 * Use the engine of the session. SNP_E_UNSUPPORTED: neither the session nor DOCKER_HOST of the
 * daemon names one.
 */
int snp_docker_engine_find(struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

extern const struct snp_about snp_docker_about;
extern const char *const snp_docker_kernels[]; /* parts of the names of gVisor's runtimes */
extern const struct snp_tier_ops snp_docker_ops;

/* container.c: the life of a container; for the table ----------------------------------------- */

int snp_container_make(struct snp_sandbox *s) SNP_NODISCARD;
void snp_container_unmake(struct snp_sandbox *s);
void snp_container_open(struct snp_sandbox *s);
void snp_container_fill(struct snp_sandbox *s);
void snp_container_kill(struct snp_sandbox *s);
void snp_container_paired(struct snp_sandbox *s, const int ends[2]);
/* What was counted in n_asked is done: is there somebody to go on for? Else that is seen to. */
bool snp_container_goes_on(struct snp_sandbox *s);
/* The workspace holds what it should: open. */
void snp_container_filled(struct snp_sandbox *s);
/* The engine's table of events, with what is said while a sandbox is opened looked at. */
const struct snp_sandbox_events *snp_docker_events(void);

/* project.c ------------------------------------------------------------------------------------ */

/* Copy the session's project into its workspace; then snp_container_filled. */
void snp_docker_fill(struct snp_sandbox *s);

/* Take out of a list of a project what its mask (guest/spec.h) hides. */
void snp_docker_mask(struct snp_tree *tree, const char *mask, size_t n);
/*
 * The file behind a node that is left, or what the mask puts in its place. -1 = it cannot be read.
 */
int snp_docker_open_masked(int dir_fd, const char *mask, size_t n, const struct snp_node *node);

/* check.c: what the engine says of a container that it has made -------------------------------- */

/*
 * Is it what was asked for? What the engine cannot bound goes to s->degraded. made: the answer to
 * create; found: to inspect. SNP_E_UNSUPPORTED: it has another runtime.
 */
int snp_docker_check(struct snp_sandbox *s,
                     const json_t *made,
                     const json_t *found,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * A kernel of its own: no seccomp and no Landlock of ours inside, and its threads count as the
 * container's processes.
 */
bool snp_docker_is_gvisor(const struct snp_sandbox *s);
/* Podman passes no number of files on, and gVisor does not look at it. */
bool snp_docker_counts_files(const struct snp_sandbox *s);

/*
 * reap.c: once the engine answers, remove containers that earlier tiers of this state folder left.
 */
void snp_docker_reap(struct snp_docker *docker, const char *state_dir);

/* create.c: what a container is made of; the body of `create`. New reference. */
json_t *snp_docker_create_body(const struct snp_sandbox *s);
/*
 * From here on bodies are as podman wants them. -1: no file for our seccomp profile can be written.
 */
int snp_docker_suit_podman(struct snp_docker *docker, const char *state_dir) SNP_NODISCARD;
/* Limits of it: bytes, and processes. */
uint64_t snp_docker_memory(const struct snp_sandbox *s);
uint64_t snp_docker_pids(const struct snp_sandbox *s);

/* manifest.c ----------------------------------------------------------------------------------- */

const char *snp_docker_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit);
void snp_docker_degraded(const struct snp_supervisor *supervisor, json_t *list);
json_t *snp_docker_controls(const struct snp_sandbox *s, json_t *resources);
json_t *snp_docker_probe(struct snp_supervisor *supervisor);

#endif
