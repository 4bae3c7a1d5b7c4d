/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_MODEL_H
#define SNP_MODEL_MODEL_H

/*
 * Asking models. One snp_models is what is configured: providers, keys, prices, retries. It lives in a
 * front end; the daemon knows nothing of it. Nothing blocks; all callbacks come from the loop.
 */

#include <uv.h>

#include "config/config.h"
#include "model/provider.h"

struct snp_models;
struct snp_model_call;

/*
 * *ret is the caller's: snp_models_free(). loop and config: borrowed, outlive it. Opens
 * neither connections nor keys. SNP_E_INVALID: a price file or replay script that cannot be read as such.
 */
int snp_models_new(uv_loop_t *loop,
                   const struct snp_config *config,
                   struct snp_models **ret,
                   struct snp_err *err) SNP_NODISCARD;
/* Open calls end without a word. The loop must turn once more to close what is left. */
void snp_models_free(struct snp_models *models);
SNP_DEFINE_CLEANUP(struct snp_models *, snp_models_free)

/* Which provider a model's name leads to, and what is known of it. Texts are borrowed from models. */
struct snp_model_choice {
    const char *provider; /* "openai", "mistral", ... */
    const char *model;    /* as the provider will get it */
    const char *base_url; /* "" for replay */
    const char
        *key_from; /* "OPENAI_API_KEY", "OPENAI_API_KEY_FILE", ...; NULL = no key is set */
    bool is_ready; /* it can be asked; else err of snp_model_choose says what is missing */
    bool is_priced;
    double input_usd; /* per million tokens */
    double output_usd;
};

/*
 * Look without asking; model NULL = the configured one, or, where none is configured, the
 * default of the first provider that has a key. Fails with SNP_E_NOT_FOUND, SNP_E_INVALID or
 * SNP_E_DENIED, and a message that says what is missing and how to set it; *ret is filled as far
 * as known even then.
 */
int snp_model_choose(struct snp_models *models,
                     const char *model,
                     struct snp_model_choice *ret,
                     struct snp_err *err) SNP_NODISCARD;

/* What tokens cost. False: the price is unknown, *ret_usd = 0. */
bool snp_model_price(struct snp_models *models,
                     const char *model,
                     const struct snp_model_usage *usage,
                     double *ret_usd);

/*
 * Ask. The request's texts are copied or borrowed as provider.h says. on_event may be NULL.
 * on_done comes exactly once, never before this has returned, and not after snp_model_cancel. Failures are
 * answers; this itself fails only with SNP_E_NOMEM or SNP_E_INVALID (messages or tools of a wrong shape).
 * Both callbacks may ask again; on_event may cancel its call, on_done need not.
 */
int snp_model_ask(struct snp_models *models,
                  const struct snp_model_request *request,
                  void (*on_event)(void *ctx, const struct snp_model_event *event),
                  void (*on_done)(void *ctx, const struct snp_model_answer *answer),
                  void *ctx,
                  struct snp_model_call **ret,
                  struct snp_err *err) SNP_NODISCARD;

/* Stop at once: the connection is closed, no callback follows. *ret_lost (may be NULL): estimated usage. */
void snp_model_cancel(struct snp_model_call *call, struct snp_model_usage *ret_lost);

#endif
