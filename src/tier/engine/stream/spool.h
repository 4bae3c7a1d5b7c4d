/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_SPOOL_H
#define SNP_TIER_ENGINE_STREAM_SPOOL_H

/*
 * Full outputs of cells whose text was cut, by handle: one file per stream, in the folder `out` of
 * the state folder, until others need the room, their session is destroyed or cleared, or the
 * tier ends.
 *
 * Room is bounded at every write: of a stream, of a session, and of all. What a session
 * writes replaces its own older outputs first; when all room is taken the session with the
 * most gives way, never one with less than the writer, and never an output that is still
 * being written.
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
    SNP_SPOOL_DISK_FREE = 64 << 20, /* what is left free on the disk */
    SNP_SPOOL_OWNER_LEN = 32,       /* characters of a session's id */
    SNP_SPOOL_PATH_MAX = 4096 + 8
};

/* All of a tier. Zeroed before snp_spools_open. */
struct snp_spools {
    char folder[SNP_SPOOL_PATH_MAX];
    struct snp_spool *first; /* list, the oldest first; owned */
    uint64_t bytes;          /* of all of them */
    uint64_t stream_max;     /* the bounds above; tests make them smaller */
    uint64_t session_max;
    uint64_t all_max;
};

struct snp_spool_part {
    char *bytes; /* borrowed; room bytes */
    size_t room;
    size_t n;      /* out: bytes read */
    uint64_t size; /* out: of what is kept */
    bool is_cut;   /* out: that is not all there was */
};

/* Make the folder below state_dir and empty it. */
/* From here on all outputs together take no more than so many bytes. */
void snp_spools_bound(struct snp_spools *spools, uint64_t bytes);
int snp_spools_open(struct snp_spools *spools,
                    const char *state_dir,
                    struct snp_err *err) SNP_NODISCARD;

/* Empty the folder: the tier ends, nobody can ask any more. Outputs must be done. */
void snp_spools_close(struct snp_spools *spools);

/* Remove the complete outputs of the session owner, which has ended. */
void snp_spools_forget(struct snp_spools *spools, const char *owner);

/* Begin the output of a cell of the session owner; NULL if it cannot be kept. */
struct snp_spool *snp_spool_new(struct snp_spools *spools,
                                const char *owner,
                                uint64_t cell,
                                const char *stream);

/* Add what fits. */
void snp_spool_add(struct snp_spools *spools, struct snp_spool *spool, const char *bytes, size_t n);

/* Whether nothing of it is kept; NULL is fine. */
bool snp_spool_is_empty(const struct snp_spool *spool);

/* It is complete, and from now on the list's; NULL is fine. */
void snp_spool_done(struct snp_spool *spool);

/*
 * Read a part of a stream ("stdout", "stderr"). SNP_E_INVALID: no handle; SNP_E_NOT_FOUND:
 * not kept.
 */
int snp_spool_read(const struct snp_spools *spools,
                   const char *handle,
                   const char *stream,
                   uint64_t offset,
                   struct snp_spool_part *part,
                   struct snp_err *err) SNP_NODISCARD;

#endif
