/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_HOST_H
#define SNP_TIER_HOST_HOST_H

/*
 * State of supervisors that fork their sandboxes from templates on the host's kernel, and the table
 * of their differences. A tier's record begins with struct snp_host, its table with that of the
 * engine.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "guest/spec.h"
#include "tier/engine/supervisor.h"

struct snp_dead_group;
struct snp_emulated;
enum {
    SNP_TEMPLATE_IMAGE_TROUBLE_MAX = 256, /* bytes of a reason, with its NUL */
};

struct snp_pending;
struct snp_template;

struct snp_host_ops {
    struct snp_tier_ops tier;
    char zygote_order; /* of a fork: SNP_ZYGOTE_FORK or SNP_ZYGOTE_PLAIN */
    /* a process between supervisor and template; takes host->folder and host->life_fd */
    bool has_keeper;
    bool has_images; /* templates have a private root, so they can start from an image */
    bool has_slot;   /* ids are reserved before the order; else with it */

    /* In a worker: map a forked process to its ids. NULL = nothing to do. */
    int (*map_ids)(struct snp_pending *pending, struct snp_err *err);

    /* Set the tier's members of the spec. NULL = none. */
    void (*fill_spec)(struct snp_sandbox *s, struct snp_spec *spec);

    /* Set-up is done; no code has run. A failure kills the sandbox. NULL = nothing to do. */
    int (*ready)(struct snp_sandbox *s, struct snp_err *err);

    const struct snp_emulated *emulated; /* calls made on behalf of the code; see notify.h */

    /*
     * The first process has ended: remove its remains in jobs (struct snp_forked). NULL = nothing
     * remains.
     */
    void (*bury)(struct snp_sandbox *s, void (*gone)(struct snp_sandbox *));
};

struct snp_host {
    bool is_root;     /* real root; else user 0 of our user namespace, or an ordinary user */
    int landlock_abi; /* for sandboxes: the kernel's, or an older one for tests; 0 = none */
    char guest_dir[SNP_SUPERVISOR_PATH_MAX]; /* holds driver.py and the extension module */
    char self[SNP_SUPERVISOR_PATH_MAX];      /* path of our program */
    dev_t self_dev;
    ino_t self_ino;
    unsigned forks_max;     /* per generation of a template */
    uint64_t image_idle_ms; /* idle time after which a template writes an image; 0 = never */
    bool is_imaging;        /* an image is being written */
    /* why the last image was not written or used; "" = no problem */
    char image_trouble[SNP_TEMPLATE_IMAGE_TROUBLE_MAX];
    int session_filter_fd; /* seccomp programs; see syscalls.h */
    int zygote_filter_fd;
    int init_fd;                    /* the program of pid 1, not readable by the code */
    int files_fd;                   /* that of its helper */
    struct snp_template *templates; /* list; owned */
    uint8_t *slots;                 /* one byte for each id range: 1 = in use */
    unsigned next_slot;
    int locks_fd; /* locks of the ranges, when we are root */
    unsigned next_cpu;
    uint64_t next_pending;       /* number in the name of its cgroups */
    struct snp_dead_group *dead; /* cgroups of dropped sandboxes, to remove; owned */
    uv_timer_t *sweep_timer;     /* runs until they are removed; owned */
    /* With keepers: */
    char folder[SNP_FOLDER_MAX]; /* with the folders of sandboxes */
    int life_fd[2];              /* a pipe whose end stops the keepers; owned */
};

#define SNP_HOST_INIT                                                                   \
    {                                                                                   \
        .session_filter_fd = -1, .zygote_filter_fd = -1, .init_fd = -1, .files_fd = -1, \
        .locks_fd = -1, .life_fd = {                                                    \
            -1,                                                                         \
            -1                                                                          \
        }                                                                               \
    }

static inline struct snp_host *snp_host_of(const struct snp_supervisor *supervisor)
{
    return supervisor->own;
}

static inline const struct snp_host_ops *snp_host_ops_of(const struct snp_supervisor *supervisor)
{
    return (const struct snp_host_ops *)(const void *)supervisor->ops;
}

/* The first part of a tier's start: programs, ids, Landlock. Blocks. */
int snp_host_start(struct snp_supervisor *supervisor, struct snp_err *err) SNP_NODISCARD;

/* Operations for the tables of tiers. */
void snp_host_degraded(const struct snp_supervisor *supervisor, json_t *list);
int snp_host_check(const struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

/* Reserve an id range; -1 when not root (none is needed) or -2 when none can be taken. */
int snp_host_take_slot(struct snp_supervisor *supervisor);
void snp_host_free_slot(struct snp_supervisor *supervisor, int slot);

/* The code's user on the host; 0 = our user. */
uid_t snp_host_code_uid(const struct snp_supervisor *supervisor, int slot);

#endif
