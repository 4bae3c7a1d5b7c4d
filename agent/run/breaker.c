/* SPDX-License-Identifier: Apache-2.0 */
/* Detect repetition. */
#include "run/breaker.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define FNV_START 14695981039346656037ULL
#define FNV_PRIME 1099511628211ULL

static uint64_t hash_add(uint64_t hash, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)text[i]) * FNV_PRIME;
    }
    return hash;
}

/*
 * Hash an error's text; runs of digits (hexadecimal after 0x too) read as one "#", blanks as one
 * blank.
 */
static uint64_t error_hash(const char *text)
{
    uint64_t hash = FNV_START;

    for (const char *at = text; *at != '\0';) {
        if (at[0] == '0' && at[1] == 'x') {
            for (at += 2; isxdigit((unsigned char)*at); at++) {
            }
            hash = hash_add(hash, "#", 1);
        } else if (isdigit((unsigned char)*at)) {
            for (; isdigit((unsigned char)*at); at++) {
            }
            hash = hash_add(hash, "#", 1);
        } else if (isspace((unsigned char)*at)) {
            for (; isspace((unsigned char)*at); at++) {
            }
            hash = hash_add(hash, " ", 1);
        } else {
            hash = hash_add(hash, at++, 1);
        }
    }
    return hash == 0 ? 1 : hash;
}

/* A result without the time it took, which differs each time. */
static uint64_t result_hash(uint64_t hash, const char *result)
{
    static const char member[] = "\"execution_time_ms\":"; /* text from inside has \" there */
    const char *at = strstr(result, member);

    if (at != NULL) {
        hash = hash_add(hash, result, (size_t)(at - result));
        result = at + strlen(member);
        result += strspn(result, "0123456789");
    }
    return hash_add(hash, result, strlen(result));
}

static unsigned follow(uint64_t *last, unsigned n, uint64_t now, bool is_new)
{
    if (now == 0 || *last != now) {
        n = 1;
    } else if (is_new) {
        n++;
    }
    *last = now;
    return now == 0 ? 0 : n;
}

void snp_breaker_add(struct snp_breaker *breaker,
                     int64_t answer,
                     const char *tool,
                     const json_t *arguments,
                     const char *result,
                     const char *error)
{
    snp_autofree char *text = json_dumps(arguments, JSON_COMPACT | JSON_SORT_KEYS);
    uint64_t call = hash_add(FNV_START, tool, strlen(tool));
    bool is_new = breaker->answer != answer;

    if (text != NULL) {
        call = hash_add(call, text, strlen(text));
    }
    call = result_hash(call, result);
    breaker->answer = answer;
    breaker->text = 0;
    breaker->n_texts = 0;
    breaker->n_calls = follow(&breaker->call, breaker->n_calls, call == 0 ? 1 : call, is_new);
    breaker->n_errors =
        follow(&breaker->error, breaker->n_errors, error == NULL ? 0 : error_hash(error), is_new);
}

void snp_breaker_say(struct snp_breaker *breaker, const char *text)
{
    uint64_t hash = hash_add(FNV_START, text, strlen(text));

    breaker->n_texts = follow(&breaker->text, breaker->n_texts, hash == 0 ? 1 : hash, true);
}

bool snp_breaker_is_tripped(const struct snp_breaker *breaker)
{
    return breaker->n_errors >= SNP_BREAKER_TIMES || breaker->n_calls >= SNP_BREAKER_TIMES ||
           breaker->n_texts >= SNP_BREAKER_TIMES;
}
