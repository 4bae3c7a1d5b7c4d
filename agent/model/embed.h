/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_EMBED_H
#define SNP_MODEL_EMBED_H

/*
 * Embed texts as vectors, with a model of a provider that supports OpenAI's /embeddings. Address
 * and key are found as for other models (model/route.h). Calls block, on a separate loop.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_EMBED_TEXTS_MAX = 64,
    SNP_EMBED_LEN_MAX = 4096, /* numbers in a vector */
};

struct snp_config;
struct snp_embedder;

/*
 * model: "openai/text-embedding-3-small". config: borrowed. Opens no connection. Errors: those of
 * snp_model_route.
 */
int snp_embedder_open(const struct snp_config *config,
                      const char *model,
                      struct snp_embedder **ret,
                      struct snp_err *err) SNP_NODISCARD;
void snp_embedder_close(struct snp_embedder *embedder);

struct snp_embed_ask {
    const char *const *texts;
    size_t n; /* 1 to SNP_EMBED_TEXTS_MAX */
    uint64_t timeout_ms;
};

/*
 * A vector of *ret_len numbers and of length 1 for each text, one after the other, borrowed until
 * the next call. All have as many numbers as the first reply. SNP_E_TIMEOUT, SNP_E_DENIED,
 * SNP_E_PEER: no valid reply; the message has the reason.
 */
int snp_embed(struct snp_embedder *embedder,
              const struct snp_embed_ask *what,
              const float **ret,
              size_t *ret_len,
              struct snp_err *err) SNP_NODISCARD;

#endif
