/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_OUTPUT_H
#define SNP_TIER_ENGINE_STREAM_OUTPUT_H

/*
 * One output stream of one cell: the first half of the limit is passed on as it comes,
 * of the rest the last half is kept for the end, everything is counted, and once the
 * limit is passed all of it (as far as there is room) goes to a file as well.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "tier/engine/stream/spool.h"

/* Where the full text is to go; all borrowed. */
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
    uint64_t chars;  /* code points of it; what is no UTF-8 counts as at least one per 4 bytes */
    uint8_t pending; /* continuation bytes that still belong to the last character */
    uint64_t head_chars;
    struct snp_buf head; /* what was passed on, until a spool has it */
    struct snp_buf tail;
    struct snp_output_keeper keeper;
    struct snp_spool *spool; /* the keeper's; NULL = none (yet) */
    bool was_spooled;        /* there is one, or there could not be */
};

void snp_output_init(struct snp_output *out,
                     uint64_t limit_chars,
                     const struct snp_output_keeper *keeper);
/* Closes, keeps the spool file. */
void snp_output_done(struct snp_output *out);

/* Take n bytes from the program; sink gets what is to be shown now. */
void snp_output_feed(
    struct snp_output *out, const char *bytes, size_t n, snp_output_sink sink, void *data);

/*
 * The end: sink gets the kept end. Returns the characters left out before it (0 = all was shown).
 */
uint64_t snp_output_finish(struct snp_output *out,
                           snp_output_sink sink,
                           void *data,
                           void (*gap)(void *data, uint64_t chars));

static inline bool snp_output_is_cut(const struct snp_output *out)
{
    return out->chars > out->limit_chars;
}

#endif
