/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_OUTPUT_H
#define SNP_TIER_ENGINE_STREAM_OUTPUT_H

/*
 * An output stream of a cell. The first half of the limit is passed on at once; the last half of
 * the rest is passed on at the end. Everything is counted. Beyond the limit, the full output also
 * goes to a file, as far as it fits.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "tier/engine/stream/spool.h"

/* Destination of the full output; all borrowed. */
struct snp_output_keeper {
    struct snp_spools *spools;
    const char *owner; /* the session's id */
    uint64_t cell;
    const char *stream;
};

/* Receives bytes to show; borrowed for the call. */
typedef void (*snp_output_sink)(void *data, const char *bytes, size_t n);

struct snp_output {
    uint64_t limit_chars;
    uint64_t bytes;  /* all that was written */
    uint64_t chars;  /* code points; invalid UTF-8 counts as at least one per 4 bytes */
    uint8_t pending; /* continuation bytes missing from the last character */
    uint64_t head_chars;
    struct snp_buf head; /* output passed on before a spool exists */
    struct snp_buf tail;
    struct snp_output_keeper keeper;
    struct snp_spool *spool; /* the keeper's; NULL = none (yet) */
    bool was_spooled;        /* a spool was created, or failed to be */
    void *hash;              /* owned; state of the hash, NULL while nothing is cut */
};

void snp_output_init(struct snp_output *out,
                     uint64_t limit_chars,
                     const struct snp_output_keeper *keeper);
/* Close it and complete the spool file. */
void snp_output_done(struct snp_output *out);

/* Take n bytes from the program; sink gets the part to show now. */
void snp_output_feed(
    struct snp_output *out, const char *bytes, size_t n, snp_output_sink sink, void *data);

/* Finish: sink gets the last part. Returns the characters omitted before it (0 = all was shown). */
uint64_t snp_output_finish(struct snp_output *out,
                           snp_output_sink sink,
                           void *data,
                           void (*gap)(void *data, uint64_t chars));

/* XXH64 of everything that was written, if it was cut; 0 = unknown. */
uint64_t snp_output_hash(const struct snp_output *out);

static inline bool snp_output_is_cut(const struct snp_output *out)
{
    return out->chars > out->limit_chars;
}

#endif
