/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_CLONE_H
#define SNP_TIER_ENGINE_SNAPSHOT_CLONE_H

/*
 * The method `clone`: a sandbox that has run nothing goes on exactly where the last cell of another
 * one has left it, by an image of its memory (guest/module/image.h) and a copy of its files.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_frame;
struct snp_sandbox;

struct snp_clone_request {
    uint32_t id;
    const char *from; /* id of the other; borrowed */
    uint64_t epoch;   /* of that */
    uint64_t cell;    /* the last that may have ended there */
};

/*
 * Answers later unless it fails. SNP_E_UNSUPPORTED: nothing has changed in the sandbox, which can
 * be loaded instead, and the message says why there is no image; else it ends.
 */
int snp_method_clone(struct snp_sandbox *s,
                     const struct snp_clone_request *rq,
                     struct snp_err *err) SNP_NODISCARD;

/* LOADED from the interpreter; false if nobody waits for it. */
bool snp_clone_on_guest(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter, or all of it, goes. */
void snp_clone_on_guest_end(struct snp_sandbox *s);
void snp_clone_sandbox_ended(struct snp_sandbox *s);

#endif
