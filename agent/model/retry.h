/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_RETRY_H
#define SNP_MODEL_RETRY_H

/* What a failure means, whether another try makes sense, and when. No I/O. */

#include "model/driver.h"

enum {
    SNP_MODEL_WAIT_MAX_MS = 60000, /* who asks for longer is not waited for */
    SNP_MODEL_WHY_MAX = 300,       /* bytes of a provider's own words */
};

/*
 * What a reply with this status and error object says. error: the member "error" of its body, or
 * the body; NULL = there was no JSON. why: the provider's words, one line, cut.
 */
enum snp_model_failure snp_model_classify(int status,
                                          const json_t *error,
                                          char why[SNP_MODEL_WHY_MAX]);

/* The parameter the server did not take, as the quirk that leaves it out; 0 = none. */
unsigned snp_model_quirk(int status, const char *why);

/* Whether the same request may succeed later. status 0 = there was no reply. */
bool snp_model_is_passing(enum snp_model_failure failure, int status);

/*
 * How long a server wants us to wait, from its headers (NULL = absent). 0 = it does not say.
 * now_s: seconds since 1970.
 */
uint64_t snp_model_retry_after_ms(const char *retry_after_ms,
                                  const char *retry_after,
                                  int64_t now_s);

/* The wait before the next try if the server sets none; n_tries: those made. random: any number. */
uint64_t snp_model_backoff_ms(unsigned n_tries, uint64_t random);

#endif
