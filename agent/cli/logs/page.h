/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_LOGS_PAGE_H
#define SNP_CLI_LOGS_PAGE_H

/*
 * The page of runs and of sessions of `exec`: one self-contained HTML file. Records are embedded as
 * JSON without anything that an HTML parser takes for markup; the page's script shows them, and its
 * policy allows no other script.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum {
    SNP_PAGE_MAX = 256 << 20,       /* bytes of a page; init buffers with it */
    SNP_PAGE_POLICY_MAX = 512,      /* bytes of its policy, with the NUL */
    SNP_PAGE_RUNS_MAX = 1000,       /* runs that a page lists */
    SNP_PAGE_FOLDER_MAX = 64 << 20, /* bytes of all other runs */
};

/* The sessions of a page; ctx is the page's. */
struct snp_page_sessions {
    /*
     * The entries of the list, each with "id", the newest first; asked: id of an entry that must be
     * among them, or NULL.
     */
    json_t *(*list)(void *ctx, const char *asked);
    /* Call record for each record of the session. */
    int (*read)(void *ctx,
                const char *id,
                int (*record)(void *record_ctx, json_t *record, struct snp_err *err),
                void *record_ctx,
                struct snp_err *err);
};

struct snp_page {
    const char *dir; /* of the records; borrowed; NULL: only what path or session names */
    /* of the run that is shown, which must be in dir if that is given; NULL = newest */
    const char *path;
    const char *session; /* id of the session that is shown in place of a run; borrowed */
    /* number of runs listed, the newest, and of sessions; 1 to SNP_PAGE_RUNS_MAX */
    size_t tail;
    bool is_served; /* other runs are links; else all that fit are embedded */
    const struct snp_page_sessions *sessions; /* borrowed; NULL = none are listed */
    /* Receives a warning about a file that is unreadable or incomplete; may be NULL. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

/* The contents of a page. */
struct snp_page_made {
    size_t n_listed;
    size_t n_runs;     /* embedded with their records */
    size_t n_sessions; /* the same */
};

/* Append the page to out. SNP_E_LIMIT: the run is larger than a page may be. */
int snp_page_make(const struct snp_page *page,
                  struct snp_buf *out,
                  struct snp_page_made *ret,
                  struct snp_err *err) SNP_NODISCARD;

/* The page's Content-Security-Policy. 0 or -1. */
int snp_page_policy(char out[SNP_PAGE_POLICY_MAX]) SNP_NODISCARD;

#endif
