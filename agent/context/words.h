/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_WORDS_H
#define SNP_CONTEXT_WORDS_H

/*
 * Words of code: each name, and its parts: parseHTTPHeader gives parsehttpheader, parse, http,
 * header.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    SNP_WORD_MAX = 64, /* bytes; a longer one is cut */
};

/*
 * Called for a word in lower case; start and end: its place in the text. is_part: part of the
 * previous word. A return value other than 0 ends the walk.
 */
typedef int (*snp_word_fn)(
    void *arg, const char *word, size_t n, size_t start, size_t end, bool is_part);

/* Walk the words of a text; return the last value of fn. */
int snp_words(const char *text, size_t n, snp_word_fn fn, void *arg);

/* A word without meaning for a search: "the", "how". */
bool snp_word_is_common(const char *word, size_t n);

/* Register the tokenizer `code` with SQLite's full-text search. */
int snp_words_register(sqlite3 *sqlite, struct snp_err *err) SNP_NODISCARD;

#endif
