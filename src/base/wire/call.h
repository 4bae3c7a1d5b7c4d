/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_CALL_H
#define SNP_BASE_WIRE_CALL_H

/* A request and its answer. */

#include "base/err.h"
#include "base/json.h"

struct snp_call {
    json_t *head;    /* of SNP_WRITE: a request; borrowed */
    const void *raw; /* borrowed */
    size_t raw_len;
    /*
     * An event; all borrowed until return. Negative ends the call with that code and *err.
     * NULL = ignore.
     */
    int (*event)(
        void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err);
    void *ctx;
};

/* The caller's: snp_reply_done(). */
struct snp_reply {
    json_t *head; /* owned */
    char *raw;    /* owned, NUL-terminated */
    size_t raw_len;
};
void snp_reply_done(struct snp_reply *reply);
#define snp_autoreply snp_cleanup(snp_reply_done)

#endif
