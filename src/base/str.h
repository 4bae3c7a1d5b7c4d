/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_STR_H
#define SNP_BASE_STR_H

/* Text: exact parsing of numbers, sizes and durations, UTF-8, spelling suggestions, ids. */

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"

bool snp_streq(const char *a, const char *b); /* NULL equals only NULL */
bool snp_has_prefix(const char *text, const char *prefix);
bool snp_has_suffix(const char *text, const char *suffix);

/* The whole text must be a base-10 integer in range; 0 or -1 (errno ERANGE or EINVAL). */
int snp_parse_u64(const char *text, uint64_t *ret) SNP_NODISCARD;
int snp_parse_i64(const char *text, int64_t *ret) SNP_NODISCARD;
/* Finite decimal number in the C locale; 0 or -1. */
int snp_parse_double(const char *text, double *ret) SNP_NODISCARD;
/*
 * Bytes: "512m", "2g", "1GiB", "64k", "1048576", "1.5g" (powers of 1024, case ignored, optional
 * "b"/"ib"). 0 or -1.
 */
int snp_parse_bytes(const char *text, uint64_t *ret) SNP_NODISCARD;
/* "512 MiB", "1.5 GiB", "900 B" into out; returns out. */
const char *snp_format_bytes(uint64_t bytes, char *out, size_t out_len);

/* True if bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool snp_utf8_valid(const char *bytes, size_t n);
/* Number of code points, counting each invalid byte as one. */
size_t snp_utf8_count(const char *bytes, size_t n);
/* Bytes of an incomplete character at the end. */
size_t snp_utf8_begun(const char *bytes, size_t n);
/*
 * A copy in which each maximal invalid part is U+FFFD; NUL-terminated, caller frees;
 * *ret_len may be NULL. NULL when out of memory.
 */
char *snp_utf8_clean(const char *bytes, size_t n, size_t *ret_len);

/* Edit distance (Damerau, adjacent swaps) of at most the first 64 bytes of each. */
unsigned snp_edit_distance(const char *a, const char *b);
/*
 * The closest of n words if it is close enough to be a typo of text, else NULL. Borrowed
 * from words.
 */
const char *snp_suggest(const char *text, const char *const *words, size_t n);

/* n bytes as 2 * n lower-case hex digits + NUL. */
void snp_hex(const void *bytes, size_t n, char *out);

/* 128 random bits as 32 lower-case hex digits + NUL. 0 or -1 with errno. */
int snp_random_id(char out[33]) SNP_NODISCARD;

/*
 * The canonical name of a path inside a sandbox: without "." and doubled slashes, below /workspace
 * relative to it, and /workspace itself as that. A slash at the end stays. ".." stays, too: what it
 * means depends on links. NULL when out of memory; the caller frees.
 */
char *snp_path_plain(const char *path);

/* asprintf that returns the text (caller frees) or NULL. */
char *snp_format(const char *fmt, ...) SNP_PRINTF(1, 2);

#endif
