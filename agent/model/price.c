/* SPDX-License-Identifier: Apache-2.0 */

/* Prices: two files of one form, and the rule by which a name finds its row. */

#include "model/price.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    FILE_MAX = 4 << 20,
    DIGITS_MIN = 3, /* of a version: "-001", but not "-5" */
};

static const double million = 1e6;

/* Written by the build from data/prices.json. */
extern const char snp_prices_builtin[];
extern const size_t snp_prices_builtin_len;

struct snp_prices {
    json_t *own;   /* the user's; NULL = none */
    json_t *built; /* the built-in file */
};

static double number(const json_t *row, const char *key, double fallback)
{
    const json_t *value = json_object_get(row, key);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

static int check_row(const char *path, const char *name, const json_t *row, struct snp_err *err)
{
    static const char *const needed[] = {"input", "output"};
    const char *key = NULL;
    json_t *value = NULL;

    for (size_t i = 0; i < SNP_ARRAY_LEN(needed); i++) {
        if (!json_is_number(json_object_get(row, needed[i]))) {
            return snp_fail(err, SNP_E_INVALID, "%s: %.80s: %s is missing: USD per million tokens",
                            path, name, needed[i]);
        }
    }
    json_object_foreach((json_t *)(uintptr_t)row, key, value)
    {
        bool is_other = strcmp(key, "note") == 0 || strcmp(key, "long_prompt") == 0;
        if (!is_other && (!json_is_number(value) || json_number_value(value) < 0)) {
            return snp_fail(err, SNP_E_INVALID, "%s: %.80s: %.40s is not a valid price", path, name,
                            key);
        }
    }
    const json_t *tier = json_object_get(row, "long_prompt");
    if (tier != NULL &&
        (snp_json_int(tier, "above", 0) <= 0 || number(tier, "input_factor", -1) < 0 ||
         number(tier, "output_factor", -1) < 0)) {
        return snp_fail(err, SNP_E_INVALID,
                        "%s: %.80s: long_prompt needs above, input_factor and output_factor", path,
                        name);
    }
    return 0;
}

static int parse(const char *path, const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *root = NULL;
    const char *name = NULL;
    json_t *row = NULL;
    int r = snp_json_parse(text, n, &root, err);

    if (r < 0) {
        return snp_err_wrap(err, "%s", path);
    }
    if (!json_is_object(json_object_get(root, "models"))) {
        return snp_fail(err, SNP_E_INVALID,
                        "%s: expected {\"models\": {NAME: {\"input\": USD, \"output\": USD}}}",
                        path);
    }
    json_object_foreach(json_object_get(root, "models"), name, row)
    {
        r = check_row(path, name, row, err);
        if (r < 0) {
            return r;
        }
    }
    *ret = SNP_TAKE_PTR(root);
    return 0;
}

int snp_prices_load(const char *path, struct snp_prices **ret, struct snp_err *err)
{
    struct snp_prices *prices = calloc(1, sizeof(*prices));
    snp_autofree char *text = NULL;
    size_t n = 0;

    if (prices == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    int r =
        parse("built-in prices", snp_prices_builtin, snp_prices_builtin_len, &prices->built, err);
    if (r == 0 && path != NULL) {
        r = snp_file_read(path, FILE_MAX, &text, &n, err);
        r = r < 0 ? r : parse(path, text, n, &prices->own, err);
    }
    if (r < 0) {
        snp_prices_free(prices);
        return r;
    }
    *ret = prices;
    return 0;
}

void snp_prices_free(struct snp_prices *prices)
{
    if (prices == NULL) {
        return;
    }
    json_decref(prices->own);
    json_decref(prices->built);
    free(prices);
}

const json_t *snp_prices_defaults(const struct snp_prices *prices)
{
    const json_t *own = json_object_get(prices->own, "defaults");

    return json_is_object(own) ? own : json_object_get(prices->built, "defaults");
}

const char *snp_prices_date(const struct snp_prices *prices)
{
    return snp_json_str(prices->built, "date", "");
}

/* Whether the rest after a model's name is only a version. */
static bool is_version(const char *rest)
{
    size_t n_digits = 0;

    if (*rest == '\0') {
        return true;
    }
    if (*rest != '-' && *rest != '@') {
        return false;
    }
    if (strcmp(rest + 1, "latest") == 0) {
        return true;
    }
    for (const char *at = rest + 1; *at != '\0'; at++) {
        if (isdigit((unsigned char)*at)) {
            n_digits++;
        } else if (*at != '-') {
            return false;
        }
    }
    return n_digits >= DIGITS_MIN;
}

static bool fits(const char *row, size_t n, const char *name)
{
    if (row[n - 1] == '*') {
        return strncmp(row, name, n - 1) == 0;
    }
    return strncmp(row, name, n) == 0 && is_version(name + n);
}

static const json_t *find(const json_t *file, const char *name)
{
    const json_t *best = NULL;
    size_t best_n = 0;
    const char *row_name = NULL;
    json_t *row = NULL;

    json_object_foreach(json_object_get(file, "models"), row_name, row)
    {
        size_t n = strlen(row_name);
        if (n > best_n && fits(row_name, n, name)) {
            best = row;
            best_n = n;
        }
    }
    return best;
}

bool snp_prices_find(const struct snp_prices *prices,
                     const char *provider,
                     const char *model,
                     struct snp_price *ret)
{
    const json_t *files[] = {prices->own, prices->built};
    snp_autofree char *full = snp_format("%s/%s", provider, model);
    const char *slash = strrchr(model, '/');
    const char *names[] = {full, model, slash == NULL ? NULL : slash + 1};
    const json_t *row = NULL;

    for (size_t i = 0; i < SNP_ARRAY_LEN(files); i++) {
        for (size_t j = 0; row == NULL && j < SNP_ARRAY_LEN(names); j++) {
            row = names[j] == NULL ? NULL : find(files[i], names[j]);
        }
    }
    if (row == NULL) {
        return false;
    }
    ret->input = number(row, "input", 0);
    ret->output = number(row, "output", 0);
    ret->cache_read = number(row, "cache_read", ret->input);
    ret->cache_write = number(row, "cache_write", ret->input);
    const json_t *tier = json_object_get(row, "long_prompt");
    ret->above = (uint64_t)snp_json_int(tier, "above", 0);
    ret->input_factor = number(tier, "input_factor", 1);
    ret->output_factor = number(tier, "output_factor", 1);
    return true;
}

double snp_price_of(const struct snp_price *price, const struct snp_model_usage *usage)
{
    uint64_t cached = usage->cache_read + usage->cache_write;
    uint64_t fresh = usage->input > cached ? usage->input - cached : 0;

    bool is_long = price->above > 0 && usage->input > price->above;
    double in = (double)fresh * price->input + (double)usage->cache_read * price->cache_read +
                (double)usage->cache_write * price->cache_write;
    double out = (double)usage->output * price->output;

    double usd =
        (in * (is_long ? price->input_factor : 1) + out * (is_long ? price->output_factor : 1)) /
        million;

    /* prices come from a file: the product may overflow to infinity */
    return usd >= 0 && usd < SNP_MODEL_PRICE_MAX ? usd : SNP_MODEL_PRICE_MAX;
}
