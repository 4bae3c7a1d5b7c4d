/* SPDX-License-Identifier: Apache-2.0 */

/* Failures of providers: tables of their messages, and the computation of waits. */

#include "model/retry.h"

#include <stdio.h>
#include <string.h>

#include "base/http/http.h"
#include "base/str.h"

enum {
    FIRST_WAIT_MS = 500,
    LAST_WAIT_MS = 8000,
    JITTER = 4, /* reduces a wait by up to a quarter */
    SHIFT_MAX = 8,
    MS = 1000,
    SERVER_FIRST = 500,
    NOT_IMPLEMENTED = 501,
    BAD_REQUEST = 400,
    UNPROCESSABLE = 422,
};

/* Messages of providers in code, type, status or message; the first match decides. */
static const struct {
    int status; /* 0 = any */
    const char *words;
    enum snp_model_failure failure;
} sayings[] = {
    {0, "context_length_exceeded", SNP_MODEL_FAILED_CONTEXT},
    {400, "maximum context length", SNP_MODEL_FAILED_CONTEXT},
    {400, "prompt is too long", SNP_MODEL_FAILED_CONTEXT},
    {400, "input token count", SNP_MODEL_FAILED_CONTEXT},
    {400, "exceed context limit", SNP_MODEL_FAILED_CONTEXT},
    {400, "exceeds the available context size", SNP_MODEL_FAILED_CONTEXT},
    {413, "", SNP_MODEL_FAILED_CONTEXT},
    {0, "insufficient_quota", SNP_MODEL_FAILED_QUOTA},
    {0, "credit balance is too low", SNP_MODEL_FAILED_QUOTA},
    {0, "billing_error", SNP_MODEL_FAILED_QUOTA},
    {402, "", SNP_MODEL_FAILED_QUOTA},
    {0, "invalid_api_key", SNP_MODEL_FAILED_AUTH},
    {400, "API key not valid", SNP_MODEL_FAILED_AUTH},
    {401, "", SNP_MODEL_FAILED_AUTH},
    {403, "", SNP_MODEL_FAILED_AUTH},
    {0, "model_not_found", SNP_MODEL_FAILED_MODEL},
    {404, "", SNP_MODEL_FAILED_MODEL},
    {0, "overloaded_error", SNP_MODEL_FAILED_SERVER},
    {0, "rate_limit", SNP_MODEL_FAILED_RATE},
    {429, "", SNP_MODEL_FAILED_RATE},
    {408, "", SNP_MODEL_FAILED_SERVER},
    {409, "", SNP_MODEL_FAILED_SERVER},
    {425, "", SNP_MODEL_FAILED_SERVER},
    {0, "api_error", SNP_MODEL_FAILED_SERVER},
    {0, "server_error", SNP_MODEL_FAILED_SERVER},
    {0, "UNAVAILABLE", SNP_MODEL_FAILED_SERVER},
};

/* The text of an error: its message, else its text, else its code. */
static const char *message_of(const json_t *error)
{
    static const char *const names[] = {"message", "detail", "error", "code", "type"};

    if (json_string_length(error) > 0) {
        return json_string_value(error);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        const char *text = snp_json_str(error, names[i], NULL);
        if (text != NULL && text[0] != '\0') {
            return text;
        }
    }
    return NULL;
}

static bool says(const json_t *error, const char *why, const char *words)
{
    static const char *const names[] = {"code", "type", "status"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (strstr(snp_json_str(error, names[i], ""), words) != NULL) {
            return true;
        }
    }
    return strcasestr(why, words) != NULL;
}

/* Copy as one line without control characters. */
static void tidy(char *text)
{
    for (; *text != '\0'; text++) {
        *text = (unsigned char)*text < ' ' || *text == '\x7f' ? ' ' : *text;
    }
}

enum snp_model_failure snp_model_classify(int status,
                                          const json_t *error,
                                          char why[SNP_MODEL_WHY_MAX])
{
    const char *message = message_of(error);

    if (message != NULL) {
        snp_autofree char *clean = snp_utf8_clean(message, strlen(message), NULL);
        (void)snprintf(why, SNP_MODEL_WHY_MAX, "%s", clean == NULL ? "" : clean);
        tidy(why);
    } else if (status > 0) {
        (void)snprintf(why, SNP_MODEL_WHY_MAX, "HTTP status %d", status);
    } else {
        (void)snprintf(why, SNP_MODEL_WHY_MAX, "an error without a message");
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(sayings); i++) {
        if ((sayings[i].status == 0 || sayings[i].status == status) &&
            says(error, why, sayings[i].words)) {
            return sayings[i].failure;
        }
    }
    return status == 0 || status >= SERVER_FIRST ? SNP_MODEL_FAILED_SERVER
                                                 : SNP_MODEL_FAILED_REQUEST;
}

unsigned snp_model_quirk(int status, const char *why)
{
    static const struct {
        const char *parameter;
        enum snp_model_quirk quirk;
    } known[] = {
        {"temperature", SNP_MODEL_NO_TEMPERATURE},
        {"stream_options", SNP_MODEL_NO_STREAM_OPTIONS},
        {"max_tokens", SNP_MODEL_OTHER_MAX_TOKENS},
        {"max_completion_tokens", SNP_MODEL_OTHER_MAX_TOKENS},
        {"cache_control", SNP_MODEL_NO_CACHE_CONTROL},
    };
    static const char *const refusals[] = {"unsupported",      "not supported", "not support",
                                           "deprecated",       "unrecognized",  "unknown",
                                           "unexpected",       "extra inputs",  "not permitted",
                                           "only the default", "not allowed"};
    bool is_refusal = false;

    if (status != BAD_REQUEST && status != UNPROCESSABLE) {
        return 0;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(refusals); i++) {
        is_refusal = is_refusal || strcasestr(why, refusals[i]) != NULL;
    }
    for (size_t i = 0; is_refusal && i < SNP_ARRAY_LEN(known); i++) {
        if (strstr(why, known[i].parameter) != NULL) {
            return known[i].quirk;
        }
    }
    return 0;
}

bool snp_model_is_passing(enum snp_model_failure failure, int status)
{
    return failure == SNP_MODEL_FAILED_RATE || failure == SNP_MODEL_FAILED_NETWORK ||
           failure == SNP_MODEL_FAILED_REPLY ||
           (failure == SNP_MODEL_FAILED_SERVER && status != NOT_IMPLEMENTED);
}

uint64_t snp_model_retry_after_ms(const char *retry_after_ms,
                                  const char *retry_after,
                                  int64_t now_s)
{
    double n = 0;

    if (retry_after_ms != NULL && snp_parse_double(retry_after_ms, &n) == 0 && n > 0) {
        return n < (double)UINT32_MAX ? (uint64_t)n : UINT32_MAX;
    }
    if (retry_after == NULL) {
        return 0;
    }
    if (snp_parse_double(retry_after, &n) == 0) {
        n = n < 0 ? 0 : n * MS;
        return n < (double)UINT32_MAX ? (uint64_t)n : UINT32_MAX;
    }
    int64_t then_s = snp_http_date(retry_after);
    return then_s > now_s ? (uint64_t)(then_s - now_s) * MS : 0;
}

uint64_t snp_model_backoff_ms(unsigned n_tries, uint64_t random)
{
    unsigned shift = n_tries > 0 ? n_tries - 1 : 0;
    uint64_t ms = (uint64_t)FIRST_WAIT_MS << (shift < SHIFT_MAX ? shift : SHIFT_MAX);

    ms = ms < LAST_WAIT_MS ? ms : LAST_WAIT_MS;
    return ms - random % (ms / JITTER);
}
