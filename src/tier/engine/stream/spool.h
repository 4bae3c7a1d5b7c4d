/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_SPOOL_H
#define SNP_TIER_ENGINE_STREAM_SPOOL_H

/*
 * Full outputs of cells with truncated text, by handle: one file per stream, in the folder `out` of
 * the state folder. A file is kept until space is needed, its session is destroyed or cleared, or
 * the tier ends.
 *
 * Each write is bounded by limits per stream, per session and in total. A session's writes replace
 * its oldest outputs first. When the total is reached, the session with the most gives way, never
 * one with less than the writer, and never an output that is still being written.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_spool;

enum {
    SNP_SPOOL_MAX = 64 << 20,          /* bytes of one stream of one cell */
    SNP_SPOOL_SESSION_MAX = 128 << 20, /* of one session */
    SNP_SPOOL_ALL_MAX = 512 << 20,
    SNP_SPOOL_SESSION_FILES = 64,
    SNP_SPOOL_ALL_FILES = 256,
    SNP_SPOOL_DISK_FREE = 64 << 20, /* left free on the disk */
    SNP_SPOOL_OWNER_LEN = 32,       /* characters of a session's id */
    SNP_SPOOL_PATH_MAX = 4096 + 8
};

/* All spools of a tier. Zeroed before snp_spools_open. */
struct snp_spools {
    char folder[SNP_SPOOL_PATH_MAX];
    struct snp_spool *first; /* list, the oldest first; owned */
    uint64_t bytes;          /* total */
    uint64_t stream_max;     /* the limits above; tests lower them */
    uint64_t session_max;
    uint64_t all_max;
};

struct snp_spool_part {
    char *bytes; /* borrowed; room bytes */
    size_t room;
    size_t n;      /* out: bytes read */
    uint64_t size; /* out: stored bytes */
    bool is_cut;   /* out: more output existed */
};

/*
 * snp_spools_bound sets the total size of the outputs, in bytes (at most SNP_SPOOL_ALL_MAX), and
 * removes complete ones beyond it. snp_spools_open makes the folder below state_dir and empties it.
 */
void snp_spools_bound(struct snp_spools *spools, uint64_t bytes);
int snp_spools_open(struct snp_spools *spools,
                    const char *state_dir,
                    struct snp_err *err) SNP_NODISCARD;

/* Empty the folder when the tier ends. Outputs must be done. */
void snp_spools_close(struct snp_spools *spools);

/* Remove the complete outputs of the session owner, which has ended. */
void snp_spools_forget(struct snp_spools *spools, const char *owner);

/* Begin the output of a cell of the session owner; NULL if it cannot be stored. */
struct snp_spool *snp_spool_new(struct snp_spools *spools,
                                const char *owner,
                                uint64_t cell,
                                const char *stream);

/* Append the part that fits. */
void snp_spool_add(struct snp_spools *spools, struct snp_spool *spool, const char *bytes, size_t n);

/* Whether nothing of it is stored. NULL is allowed. */
bool snp_spool_is_empty(const struct snp_spool *spool);

/* Complete the output; the list takes it. NULL is fine. */
void snp_spool_done(struct snp_spool *spool);

/*
 * Read a part of a stream ("stdout", "stderr"). SNP_E_INVALID: invalid handle; SNP_E_NOT_FOUND: not
 * stored.
 */
int snp_spool_read(const struct snp_spools *spools,
                   const char *handle,
                   const char *stream,
                   uint64_t offset,
                   struct snp_spool_part *part,
                   struct snp_err *err) SNP_NODISCARD;

#endif
