/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_LAUNCH_H
#define SNP_TIER_HOST_LAUNCH_H

/*
 * What starts a template: `PROGRAM --zygote NAME=VALUE...`, from snp_template_request. Its parts
 * that tiers have in common; what each confines a template with is its own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/macro.h"
#include "guest/spec.h"

/* Folders that are shown besides the host's /usr. */
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
    const char *rootfs; /* NULL = the host's own */
    const char *id;     /* only told apart by */
    const char *folder; /* of sandboxes, where they have no root of their own */
    const char *landlock_abi_text;
    uint64_t host_id; /* of the templates' user; 0 = the one we serve */
    uint64_t landlock_abi;
    bool has_image; /* in SNP_TEMPLATE_IMAGE_FD */
    /* What steps leave to later ones. */
    int root_fd;                   /* where what is shown is looked up */
    int tree[SNP_TREE_N];          /* of source; -1 = none */
    char tmp[SNP_FOLDER_MAX + 32]; /* scratch of the template: font caches and the like */
};

enum {
    SNP_LAUNCH_FAILED = 3 /* exit status */
};

/* -1: an argument is missing or not understood; a usage was printed. */
int snp_launch_read(struct snp_launch *l, int argc, char **argv) SNP_NODISCARD;

struct snp_launch_step {
    const char *name;
    int (*run)(struct snp_launch *, struct snp_err *);
};

/* Run n steps. If one fails, say so in a line on standard error, and exit. */
void snp_launch_steps(struct snp_launch *l, const struct snp_launch_step *steps, size_t n);

/* Steps that all tiers take. */
int snp_launch_rlimits(struct snp_launch *l, struct snp_err *err);
int snp_launch_seccomp(struct snp_launch *l, struct snp_err *err);

/* Empty the bounding set: executing a program gives no right. */
void snp_launch_bound_caps(void);

/*
 * Execute the interpreter with its control socket and its session's filter. more: of its
 * environment; NULL = nothing.
 */
void snp_launch_exec(const struct snp_launch *l,
                     const char *driver,
                     const char *home,
                     const char *more) SNP_NORETURN;

#endif
