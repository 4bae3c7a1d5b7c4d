/* SPDX-License-Identifier: Apache-2.0 */
/* What was not saved or not restored: never silent, never raw. */
#include "cli/show/lost.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/show/remedy.h"
#include "cli/show/term.h"
#include "text/escape.h"

enum {
    ROWS_SHOWN = 20,
    TEXT_MAX = 2048,
};

void snp_missing_tell(const json_t *row, const char *session)
{
    const json_t *missing = json_object_get(row, "missing");
    const char *text = snp_json_str(missing, "text", NULL);
    snp_autobuf struct snp_buf shown = {0};
    snp_autobuf struct snp_buf ways = {0};

    if (text == NULL) {
        return;
    }
    snp_buf_init(&shown, (size_t)8 * TEXT_MAX);
    snp_buf_init(&ways, TEXT_MAX);
    (void)fflush(stdout);
    if (snp_escape(&shown, text, strlen(text)) == 0 &&
        snp_cli_remedy_ways(&ways, SNP_WAY_REPLAY | SNP_WAY_CHECKPOINT, session) == 0) {
        snp_term_put(stderr, SNP_STYLE_YELLOW, snp_json_str(row, "state", "incomplete"));
        (void)fprintf(stderr, ": %s lacks %.*s; %s\n", session, (int)shown.len,
                      snp_buf_bytes(&shown), snp_buf_cstr(&ways));
    }
}

void snp_lost_tell(const json_t *list, const char *what)
{
    size_t n = json_array_size(list);

    (void)fflush(stdout);
    for (size_t i = 0; i < n && i < ROWS_SHOWN; i++) {
        const json_t *row = json_array_get(list, i);
        const char *type = snp_json_str(row, "type", NULL);
        snp_autobuf struct snp_buf text = {0};
        snp_autobuf struct snp_buf shown = {0};

        snp_buf_init(&text, TEXT_MAX);
        snp_buf_init(&shown, (size_t)8 * TEXT_MAX);
        if (snp_buf_addf(&text, "%.400s%s%.200s%s: %.1000s", snp_json_str(row, "name", "?"),
                         type == NULL ? "" : " (", type == NULL ? "" : type,
                         type == NULL ? "" : ")", snp_json_str(row, "reason", "?")) < 0) {
            continue;
        }
        for (size_t at = 0; at < text.len; at++) {
            char *byte = snp_buf_bytes(&text) + at;

            *byte = *byte == '\n' || *byte == '\t' ? ' ' : *byte;
        }
        if (snp_escape(&shown, snp_buf_bytes(&text), text.len) == 0) {
            snp_term_put(stderr, SNP_STYLE_YELLOW, what);
            (void)fprintf(stderr, ": %.*s\n", (int)shown.len, snp_buf_bytes(&shown));
        }
    }
    if (n > ROWS_SHOWN) {
        snp_term_put(stderr, SNP_STYLE_YELLOW, what);
        (void)fprintf(stderr, ": and %zu more; --json has all\n", n - ROWS_SHOWN);
    }
}
