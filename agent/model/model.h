/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_MODEL_H
#define SNP_MODEL_MODEL_H

/*
 * Call models. One struct snp_models is the configuration: providers, keys, prices, retries. It
 * belongs to a front end, not to the daemon. Nothing blocks; all callbacks come from the loop.
 */

#include <uv.h>

#include "base/config/config.h"
#include "model/provider.h"

struct snp_models;
struct snp_model_call;

/*
 * *ret is the caller's: snp_models_free(). loop and config: borrowed, outlive it. Opens no
 * connection and reads no key. SNP_E_INVALID: invalid price file or replay script.
 */
int snp_models_new(uv_loop_t *loop,
                   const struct snp_config *config,
                   struct snp_models **ret,
                   struct snp_err *err) SNP_NODISCARD;
/*
 * Drop open calls silently. Not from a callback. The loop must turn once more to close the handles.
 */
void snp_models_free(struct snp_models *models);
SNP_DEFINE_CLEANUP(struct snp_models *, snp_models_free)

/* The provider and the settings of a model. */
struct snp_model_choice {
    char provider[32];  /* "openai", "mistral", ... */
    char model[128];    /* the provider's name of it; cut */
    char base_url[256]; /* "" for replay; cut */
    char key_from[64];  /* "OPENAI_API_KEY", "OPENAI_API_KEY_FILE", ...; "" = no key is set */
    bool is_ready; /* ready to be called; else err of snp_model_choose has the missing setting */
    bool is_priced;
    double input_usd; /* per million tokens */
    double output_usd;
};

/*
 * Resolve without calling; model NULL = the configured one, or, if none is configured, the default
 * of the first provider that has a key. Fails with SNP_E_NOT_FOUND, SNP_E_INVALID or SNP_E_DENIED,
 * and a message with the missing setting and how to set it; *ret is filled as far as known even
 * then.
 */
int snp_model_choose(struct snp_models *models,
                     const char *model,
                     struct snp_model_choice *ret,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * The i-th provider with its default model ("" = none); false past the last. ret_err->code is
 * SNP_OK, or it has the missing setting.
 */
bool snp_model_list(struct snp_models *models,
                    size_t i,
                    struct snp_model_choice *ret,
                    struct snp_err *ret_err);

/*
 * Token prices of a model (NULL = the configured one). False: the price is unknown, *ret_usd = 0.
 */
bool snp_model_price(struct snp_models *models,
                     const char *model,
                     const struct snp_model_usage *usage,
                     double *ret_usd);
/* "2026-11-01": when the built-in prices were looked up. */
const char *snp_model_price_date(const struct snp_models *models);

/*
 * Call a model. The request is copied. Failures are answers; this function itself fails only with
 * SNP_E_NOMEM or SNP_E_INVALID (messages or tools of a wrong shape), and then nothing is called.
 */
int snp_model_ask(struct snp_models *models,
                  const struct snp_model_request *request,
                  struct snp_model_call **ret,
                  struct snp_err *err) SNP_NODISCARD;

/*
 * Skip a request whose answer is known from a resumed run: a replay script consumes its answer. No
 * effect with other providers.
 */
void snp_model_skip(struct snp_models *models, const struct snp_model_request *request);

/*
 * Stop at once: the connection is closed, no callback follows. *ret_lost (may be NULL):
 * estimated usage.
 */
void snp_model_cancel(struct snp_model_call *call, struct snp_model_usage *ret_lost);

#endif
