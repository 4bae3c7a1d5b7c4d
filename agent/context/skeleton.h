/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_SKELETON_H
#define SNP_CONTEXT_SKELETON_H

/* Code without bodies. */

#include <stdbool.h>

#include "context/chunk.h"

/*
 * Append the signature of a chunk on one line with the first line of its documentation, and below
 * it those of the chunks in it, indented. For a file, or if is_documented is false: signatures
 * alone.
 */
int snp_skeleton(const struct snp_chunks *chunks,
                 size_t i,
                 const char *text,
                 bool is_documented,
                 struct snp_buf *out) SNP_NODISCARD;

/* The signature alone, on one line. */
int snp_skeleton_line(const struct snp_chunk *chunk,
                      const char *text,
                      struct snp_buf *out) SNP_NODISCARD;

#endif
