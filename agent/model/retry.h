/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_RETRY_H
#define SNP_MODEL_RETRY_H

/* Classify failures: their kind, whether another try may help, and when. No I/O. */

#include "model/driver.h"

enum {
    SNP_MODEL_WAIT_MAX_MS = 60000, /* a longer wait requested by a server is not waited for */
    SNP_MODEL_WHY_MAX = 300,       /* bytes of a provider's message */
};

/*
 * The failure of a reply with this status and error object. error: the member "error" of the body,
 * or the body; NULL = no JSON. why: the provider's message, one line, cut.
 */
enum snp_model_failure snp_model_classify(int status,
                                          const json_t *error,
                                          char why[SNP_MODEL_WHY_MAX]);

/* The quirk that omits the parameter which the server refused; 0 = none. */
unsigned snp_model_quirk(int status, const char *why);

/* Whether the same request may succeed later. status 0 = there was no reply. */
bool snp_model_is_passing(enum snp_model_failure failure, int status);

/*
 * The wait requested by a server, from its headers (NULL = absent). 0 = none. now_s: seconds since
 * 1970.
 */
uint64_t snp_model_retry_after_ms(const char *retry_after_ms,
                                  const char *retry_after,
                                  int64_t now_s);

/*
 * The wait before the next try if the server gives none; n_tries: tries so far. random: any number.
 */
uint64_t snp_model_backoff_ms(unsigned n_tries, uint64_t random);

#endif
