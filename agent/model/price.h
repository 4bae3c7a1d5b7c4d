/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_PRICE_H
#define SNP_MODEL_PRICE_H

/*
 * Prices of tokens: the user's file first, then the built-in one (data/prices.json). A missing
 * price is unknown, never zero.
 */

#include "model/provider.h"

struct snp_prices;

/* USD per million tokens. */
struct snp_price {
    double input;
    double output;
    double cache_read;
    double cache_write;
    /* input tokens of one request beyond which all of it costs `factors` more; 0 = none */
    uint64_t above;
    double input_factor; /* of input and of both caches */
    double output_factor;
};

/* path: the user's file; NULL = none. SNP_E_INVALID: it is not a price file; SNP_E_NOT_FOUND. */
int snp_prices_load(const char *path, struct snp_prices **ret, struct snp_err *err) SNP_NODISCARD;
void snp_prices_free(struct snp_prices *prices);

/* {"openai": MODEL, ...}: the models used if only a backend is named. Borrowed. */
const json_t *snp_prices_defaults(const struct snp_prices *prices);
/* "2026-11-01": when the built-in prices were looked up. Borrowed. */
const char *snp_prices_date(const struct snp_prices *prices);

/*
 * The price of a model of a provider: looked up by "provider/model", then "model", then the part
 * after its last slash; in the user's file before the built-in one. A name matches a row that is
 * equal to it except for a version at the end of the name ("-2024-08-06", "-latest", "@20250514",
 * "-001"), or a row ending with "*" that is a prefix of it; the longest match wins. False: unknown.
 */
bool snp_prices_find(const struct snp_prices *prices,
                     const char *provider,
                     const char *model,
                     struct snp_price *ret);

/* USD, 0 to SNP_MODEL_PRICE_MAX. */
double snp_price_of(const struct snp_price *price, const struct snp_model_usage *usage);

#endif
