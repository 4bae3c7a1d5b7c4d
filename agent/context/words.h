/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_WORDS_H
#define SNP_CONTEXT_WORDS_H

/*
 * Words of code: names whole, and their parts: parseHTTPHeader gives parsehttpheader, parse,
 * http, header.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    SNP_WORD_MAX = 64, /* bytes; a longer one is cut */
};

/*
 * A word, in lower case; start and end: where it is in the text. is_part: of the one before
 * it. != 0 ends it.
 */
typedef int (*snp_word_fn)(
    void *arg, const char *word, size_t n, size_t start, size_t end, bool is_part);

/* Go through the words of a text; what fn returned last. */
int snp_words(const char *text, size_t n, snp_word_fn fn, void *arg);

/* A word without meaning for a search: "the", "how". */
bool snp_word_is_common(const char *word, size_t n);

/* Make them known to SQLite's full text search, as the tokenizer `code`. */
int snp_words_register(sqlite3 *sqlite, struct snp_err *err) SNP_NODISCARD;

#endif
