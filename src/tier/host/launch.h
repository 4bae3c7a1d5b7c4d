/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_LAUNCH_H
#define SNP_TIER_HOST_LAUNCH_H

/*
 * Start of a template: `PROGRAM --zygote NAME=VALUE...`, from snp_template_request. These parts are
 * shared by the tiers; each confines a template differently.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/macro.h"
#include "guest/spec.h"

/* Folders shown besides the host's /usr. */
enum snp_launch_tree {
    SNP_TREE_GUEST, /* driver.py */
    SNP_TREE_PREFIX,
    SNP_TREE_VENV,
    SNP_TREE_N
};

/* The arguments: texts, all of which but the first four may be NULL. */
struct snp_launch {
    const char *template_name;
    const char *python;
    const char *source[SNP_TREE_N]; /* on the host */
    const char *host_id_text;
    const char *site;
    const char *alias;
    const char *hash;
    const char *ours;
    const char *preload;
    const char *rootfs; /* NULL = the host's root */
    const char *id;     /* identifies the template */
    const char *folder; /* of sandboxes, where they have no private root */
    const char *landlock_abi_text;
    uint64_t host_id; /* of the templates' user; 0 = our user */
    uint64_t landlock_abi;
    bool has_image; /* in SNP_TEMPLATE_IMAGE_FD */
    /* Results of steps, for later steps. */
    int root_fd;                   /* base for paths of shown folders */
    int tree[SNP_TREE_N];          /* of source; -1 = none */
    char tmp[SNP_FOLDER_MAX + 32]; /* scratch of the template: font caches and the like */
};

enum {
    SNP_LAUNCH_FAILED = 3 /* exit status */
};

/* -1: an argument is missing or invalid; usage was printed. */
int snp_launch_read(struct snp_launch *l, int argc, char **argv) SNP_NODISCARD;

struct snp_launch_step {
    const char *name;
    int (*run)(struct snp_launch *, struct snp_err *);
};

/* Run n steps. On failure, print the error to standard error, and exit. */
void snp_launch_steps(struct snp_launch *l, const struct snp_launch_step *steps, size_t n);

/* Steps shared by all tiers. */
int snp_launch_rlimits(struct snp_launch *l, struct snp_err *err);
int snp_launch_seccomp(struct snp_launch *l, struct snp_err *err);

/* Empty the bounding set: executing a program adds no capability. */
void snp_launch_bound_caps(void);

/*
 * Execute the interpreter with its control socket and its session's filter. more: another
 * environment variable; NULL = none.
 */
void snp_launch_exec(const struct snp_launch *l,
                     const char *driver,
                     const char *home,
                     const char *more) SNP_NORETURN;

#endif
