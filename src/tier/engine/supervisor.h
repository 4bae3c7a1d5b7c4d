/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SUPERVISOR_H
#define SNP_TIER_ENGINE_SUPERVISOR_H

/*
 * The supervisor of the native tier: what all its parts share. One thread, one loop.
 * Owner of everything below is the process; parts refer to it as `tier`.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <sys/types.h>

#include "base/err.h"
#include "guest/spec.h"
#include "os/cgroup.h"
#include "tier/engine/stream/link.h"
#include "tier/engine/stream/spool.h"

struct snp_template;
struct snp_sandbox;
struct snp_dead_group;
struct snp_pool;

enum {
    SNP_SUPERVISOR_SANDBOXES_MAX = 8192, /* a power of two */
    SNP_SUPERVISOR_PATH_MAX = 4096,
    SNP_SUPERVISOR_WHY_MAX = 400,
};

struct snp_supervisor {
    uv_loop_t *loop;
    struct snp_link daemon;
    uid_t uid;            /* of the user we serve, as the host sees it */
    bool overlays_system; /* /usr is shown by an overlay, whose sockets lead nowhere */
    bool is_root;         /* real root; else user 0 of a namespace of our own */
    bool is_local;        /* the local tier: no namespaces, see tier/local */
    bool can_namespace;   /* false: sandboxes cannot be had, see why */
    char why[SNP_SUPERVISOR_WHY_MAX];
    int landlock_abi; /* what sandboxes use: the kernel's, or an older one for tests; 0 = none */
    char state_dir[SNP_SUPERVISOR_PATH_MAX];
    char guest_dir[SNP_SUPERVISOR_PATH_MAX]; /* holds driver.py and the extension module */
    char self[SNP_SUPERVISOR_PATH_MAX];      /* our own program */
    char python[SNP_SUPERVISOR_PATH_MAX];    /* the interpreter of the built-in templates */
    char *home;                              /* of the user, resolved; NULL = none; owned */
    unsigned forks_max;                      /* of one generation of a template */
    int session_filter_fd;                   /* seccomp programs; see syscalls.h */
    int zygote_filter_fd;
    int init_fd;  /* the program of pid 1, not readable by the code */
    int files_fd; /* that of its helper */
    struct snp_cgroups cgroups;
    const char
        *uncounted; /* of memory, as snp_cgroups_uncounted says; static; NULL = nothing */
    struct snp_spools spools;
    struct snp_template *templates;                          /* list; owned */
    struct snp_sandbox *sandboxes;                           /* list; owned */
    struct snp_sandbox *by_id[SNP_SUPERVISOR_SANDBOXES_MAX]; /* the same, in chains by hash */
    unsigned n_sandboxes;
    unsigned n_opening;         /* of them and of the pooled sandboxes: not set up yet */
    unsigned n_loading;         /* sessions that are being filled */
    struct snp_sandbox *pooled; /* list of pooled sandboxes; owned */
    struct snp_pool *pool;      /* which are to be made; owned; NULL = none was ever wanted */
    uint8_t *slots;             /* one byte for each id range: in use */
    unsigned next_slot;
    int locks_fd; /* of the ranges, when we are root */
    unsigned next_cpu;
    unsigned pool_max;     /* pooled sandboxes of each kind */
    uint64_t next_pending; /* number in the name of its cgroups */
    struct snp_dead_group
        *dead;               /* cgroups of dropped pending sandboxes, to be removed; owned */
    uv_timer_t *sweep_timer; /* runs while there are any; owned */
    /* Of the local tier: */
    char folder[SNP_FOLDER_MAX]; /* where sandboxes have their folders */
    int folder_lock_fd;          /* owned; -1 = none */
    int life_fd[2];              /* a pipe whose end tells keepers that we are gone; owned */
};

/* Reserve an id range; -1 when not root (none is needed) or -2 when all are taken. */
int snp_supervisor_take_slot(struct snp_supervisor *supervisor);
void snp_supervisor_free_slot(struct snp_supervisor *supervisor, int slot);

/* The code's user as the host sees it; 0 = the user we serve. */
uid_t snp_supervisor_code_uid(const struct snp_supervisor *supervisor, int slot);

/* What is in front of /workspace and /tmp: a session's folder, or in its own root nothing. */
int snp_supervisor_folder(const struct snp_supervisor *supervisor,
                          const char *session_id,
                          char *out,
                          size_t len,
                          struct snp_err *err) SNP_NODISCARD;

#endif
