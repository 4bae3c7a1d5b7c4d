/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_ENCODER_H
#define SNP_CONTEXT_ENCODER_H

/*
 * Sentences as vectors: similar meanings have near vectors. The network is Universal Sentence
 * Encoder lite, which tools/semantic fetches for the build; its file lies beside the program and is
 * mapped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_VECTOR_LEN = 512,
    SNP_ENCODE_PIECES_MAX = 128, /* of one text; the rest is ignored */
    SNP_ENCODE_TEXTS_MAX = 64,   /* in one batch */
    SNP_ENCODE_BYTES_MAX = 2000, /* of one text; the rest is ignored */
};

struct snp_encoder;

/* SNP_E_NOT_FOUND: this build has none. SNP_E_INVALID: the file is not of this version. */
int snp_encoder_open(struct snp_encoder **ret, struct snp_err *err) SNP_NODISCARD;
void snp_encoder_close(struct snp_encoder *encoder);
SNP_DEFINE_CLEANUP(struct snp_encoder *, snp_encoder_close)

/* n vectors of length 1, one for each text; UTF-8 with single blanks. */
void snp_encode(struct snp_encoder *encoder,
                const char *const *texts,
                size_t n,
                float (*ret)[SNP_VECTOR_LEN]);

#endif
