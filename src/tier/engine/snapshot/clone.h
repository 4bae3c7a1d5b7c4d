/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_CLONE_H
#define SNP_TIER_ENGINE_SNAPSHOT_CLONE_H

/*
 * The method `clone`: a fresh sandbox continues from the state after the last cell of another, by
 * an image of its memory (guest/module/image.h) and a copy of its files.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_frame;
struct snp_sandbox;

struct snp_clone_request {
    uint32_t id;
    const char *from; /* id of the source; borrowed */
    uint64_t epoch;   /* of the source */
    uint64_t cell;    /* the last that may have ended there */
};

/*
 * Answers later unless it fails. SNP_E_UNSUPPORTED: the sandbox is unchanged and can be loaded
 * instead; the message says why there is no image. On other errors it ends.
 */
int snp_method_clone(struct snp_sandbox *s,
                     const struct snp_clone_request *rq,
                     struct snp_err *err) SNP_NODISCARD;

/* Handle LOADED from the interpreter; false if no clone waits for it. */
bool snp_clone_on_guest(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter, or the whole sandbox, has ended. */
void snp_clone_on_guest_end(struct snp_sandbox *s);
void snp_clone_sandbox_ended(struct snp_sandbox *s);

#endif
