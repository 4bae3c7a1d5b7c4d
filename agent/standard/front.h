/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STANDARD_FRONT_H
#define SNP_STANDARD_FRONT_H

/*
 * The front matter of a Markdown file: lines `KEY: VALUE` between two lines `---`, and `- VALUE`
 * below a key without a value. A subset of YAML: values are taken literally, except for quotes
 * around them. Untrusted; nothing is copied.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

enum {
    SNP_FRONT_BYTES_MAX = 16 << 10,
};

struct snp_front_item {
    const char *key; /* not NUL-terminated; nor is value */
    size_t key_n;
    const char *value;
    size_t n;
};

struct snp_front_matter {
    size_t body;         /* start of the text after it */
    uint32_t body_line;  /* from 1 */
    const char *problem; /* static: why it is invalid; then body is 0. NULL = read completely */
};

/* item: called for each value in turn. < 0 ends reading, and is returned. */
int snp_front_read(const char *text,
                   size_t n,
                   int (*item)(void *arg, const struct snp_front_item *item),
                   void *arg,
                   struct snp_front_matter *ret) SNP_NODISCARD;

struct snp_front_word {
    const char *text;
    size_t n;
};

/* The words of "a, b" or "[a, b]", at most max; how many. */
size_t snp_front_words(const char *list, size_t n, struct snp_front_word *ret, size_t max);

#endif
