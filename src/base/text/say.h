/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_SAY_H
#define SNP_BASE_TEXT_SAY_H

/*
 * A text that is put together from pieces. The first failure is kept and nothing is added after it,
 * so that only whoever uses the text needs to look.
 *
 *     snp_autosay struct snp_say text = SNP_SAY(TEXT_MAX);
 *     snp_say(&text, "Snapshot ");
 *     snp_say_line(&text, name, NAME_SHOWN);
 */

#include "base/buf.h"
#include "base/json.h"

struct snp_say {
    struct snp_buf buf;
    int r; /* 0, SNP_E_LIMIT or SNP_E_NOMEM */
};

#define SNP_SAY(max_)           \
    {                           \
        .buf = {.max = (max_) } \
    }
#define snp_autosay snp_cleanup(snp_say_done)
void snp_say_done(struct snp_say *say);

void snp_say(struct snp_say *say, const char *fmt, ...) SNP_PRINTF(2, 3);
/* As it is. */
void snp_say_bytes(struct snp_say *say, const char *bytes, size_t n);
/* Untrusted, on one line of at most max characters; of JSON whatever is no string is empty. */
void snp_say_line(struct snp_say *say, const char *text, size_t max);
void snp_say_string(struct snp_say *say, const json_t *string, size_t max);
/* Untrusted, cleaned and cut (snp_text_add). */
void snp_say_text(struct snp_say *say, const char *bytes, size_t n, size_t max);

/* The text so far, NUL-terminated; "" after a failure. Borrowed. */
const char *snp_say_cstr(struct snp_say *say);

#endif
