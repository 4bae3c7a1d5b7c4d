/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_DOCKER_H
#define SNP_TIER_DOCKER_DOCKER_H

/*
 * Sandboxes in containers: one warm container for each, of any engine with the Docker Engine API.
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
    SNP_DOCKER_SAID_MAX = 400,  /* of a container's output before it is ready */
    SNP_DOCKER_RUNTIME_MAX = 100,
    SNP_DOCKER_USER = 65534,
};

struct snp_sandbox_events;

/* A container engine: the supervisor's, and one for each other socket that a session names. */
struct snp_docker {
    struct snp_docker *next; /* owned */
    struct snp_docker_api api;
    struct snp_err no_engine; /* DOCKER_HOST names no usable engine; code SNP_OK = it does */
    char mark[SNP_DOCKER_MARK_LEN + 1]; /* label value of this process's containers */
    char ours[4096];                    /* folder of guest/, snp-init and snp-files */
    json_t *filter;                     /* owned; a text: the seccomp profile, or its path */
    bool is_podman; /* needs a path for the filter, and supports few options of a tmpfs */
    bool has_reaped;
    unsigned n_left;  /* containers being removed */
    unsigned n_lines; /* lines made so far, for their names */
};

/* The supervisor's engine. */
static inline struct snp_docker *snp_docker_of(const struct snp_supervisor *supervisor)
{
    return supervisor->own;
}

/* The progress of a container. */
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
    unsigned n_asked; /* pending answers of the engine */
    bool has_ended;   /* the engine got the request */
    bool is_removed;
    bool is_started;  /* reported by the engine */
    bool has_hung_up; /* the stream closed before that */
    char id[SNP_DOCKER_ID_LEN + 1];
    json_t *image;                            /* owned: the engine's description */
    json_t *made;                             /* owned: the answer to create, until it is checked */
    char runtime[SNP_DOCKER_RUNTIME_MAX + 1]; /* runtime in use, from the engine */
    bool is_unbounded[SNP_LIMIT_N];           /* limits that the engine ignores */
    struct snp_line line;
    /* owned; NULL = not attached. They carry the streams that line does not */
    struct snp_channels *channels;
    /* of channels' descriptor, or of the connection being attached */
    uv_poll_t *poll;
    uv_timer_t *timer;
    int attach_fd; /* owned, until taken by channels */
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
 * Select the session's engine. SNP_E_UNSUPPORTED: neither the session nor the daemon's DOCKER_HOST
 * names one.
 */
int snp_docker_engine_find(struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

extern const struct snp_about snp_docker_about;
extern const char *const snp_docker_kernels[]; /* substrings of gVisor's runtime names */
extern const struct snp_tier_ops snp_docker_ops;

/* container.c: the life of a container; for the table ----------------------------------------- */

int snp_container_make(struct snp_sandbox *s) SNP_NODISCARD;
void snp_container_unmake(struct snp_sandbox *s);
void snp_container_open(struct snp_sandbox *s);
void snp_container_fill(struct snp_sandbox *s);
void snp_container_kill(struct snp_sandbox *s);
void snp_container_paired(struct snp_sandbox *s, const int ends[2]);
/* A task counted in n_asked is done: does opening continue? If not, the end is handled here. */
bool snp_container_goes_on(struct snp_sandbox *s);
/* The workspace is filled: continue to open. */
void snp_container_filled(struct snp_sandbox *s);
/* The engine's table of events, with hooks for the time of opening. */
const struct snp_sandbox_events *snp_docker_events(void);

/* project.c ------------------------------------------------------------------------------------ */

/* Copy the session's project into its workspace; then snp_container_filled. */
void snp_docker_fill(struct snp_sandbox *s);

/* Remove the paths hidden by a mask (guest/spec.h) from a project's list. */
void snp_docker_mask(struct snp_tree *tree, const char *mask, size_t n);
/* Open the file of a listed node, or its replacement by the mask. -1 = unreadable. */
int snp_docker_open_masked(int dir_fd, const char *mask, size_t n, const struct snp_node *node);

/* check.c: verify a created container ---------------------------------------------------------- */

/*
 * Does the container have the requested settings? Limits that the engine cannot enforce go to
 * s->degraded. made: the answer to create; found: to inspect. SNP_E_UNSUPPORTED: wrong runtime.
 */
int snp_docker_check(struct snp_sandbox *s,
                     const json_t *made,
                     const json_t *found,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * gVisor has its own kernel: our seccomp and Landlock do not apply inside, and its threads count as
 * the container's processes.
 */
bool snp_docker_is_gvisor(const struct snp_sandbox *s);
/* Podman does not pass on a number of files, and gVisor ignores it. */
bool snp_docker_counts_files(const struct snp_sandbox *s);

/* reap.c: remove containers left by earlier tiers of this state folder, once the engine answers. */
void snp_docker_reap(struct snp_docker *docker, const char *state_dir);

/* create.c: a container's settings, the body of `create`. New reference. */
json_t *snp_docker_create_body(const struct snp_sandbox *s);
/* Write later bodies for podman. -1: the file for our seccomp profile cannot be written. */
int snp_docker_suit_podman(struct snp_docker *docker, const char *state_dir) SNP_NODISCARD;
/* Limits of the container: bytes, and processes. */
uint64_t snp_docker_memory(const struct snp_sandbox *s);
uint64_t snp_docker_pids(const struct snp_sandbox *s);

/* manifest.c ----------------------------------------------------------------------------------- */

const char *snp_docker_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit);
void snp_docker_degraded(const struct snp_supervisor *supervisor, json_t *list);
json_t *snp_docker_controls(const struct snp_sandbox *s, json_t *resources);
json_t *snp_docker_probe(struct snp_supervisor *supervisor);

#endif
