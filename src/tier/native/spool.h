/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_SPOOL_H
#define SNP_TIER_NATIVE_SPOOL_H

/* Full outputs of cells whose text was cut, by handle. Kept until there are too many, or the tier ends. */

#include <stdint.h>

#include "base/err.h"

struct snp_tier;

struct snp_spool_part {
    char *bytes; /* borrowed; room bytes */
    size_t room;
    size_t n;      /* out: bytes read */
    uint64_t size; /* out: of the whole text */
};

/* Make the folder and empty it. */
int snp_spool_open(struct snp_tier *tier, struct snp_err *err) SNP_NODISCARD;

/* Empty the folder: the tier ends, nobody can ask any more. */
void snp_spool_close(struct snp_tier *tier);

/* Read a part of a stream ("stdout", "stderr"). SNP_E_INVALID: no handle; SNP_E_NOT_FOUND: not kept. */
int snp_spool_read(struct snp_tier *tier,
                   const char *handle,
                   const char *stream,
                   uint64_t offset,
                   struct snp_spool_part *part,
                   struct snp_err *err) SNP_NODISCARD;

#endif
