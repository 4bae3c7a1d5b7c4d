/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_SAY_H
#define SNP_BASE_TEXT_SAY_H

/*
 * Build a text from pieces. The first failure is kept and later additions are ignored, so only the
 * user of the finished text checks for errors.
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
/* Append bytes unchanged. */
void snp_say_bytes(struct snp_say *say, const char *bytes, size_t n);
/* Append untrusted text on one line of at most max characters; JSON other than a string is "". */
void snp_say_line(struct snp_say *say, const char *text, size_t max);
void snp_say_string(struct snp_say *say, const json_t *string, size_t max);
/* Append untrusted text, cleaned and cut (snp_text_add). */
void snp_say_text(struct snp_say *say, const char *bytes, size_t n, size_t max);

/* The text so far, NUL-terminated; "" after a failure. Borrowed. */
const char *snp_say_cstr(struct snp_say *say);

#endif
