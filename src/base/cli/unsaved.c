/* SPDX-License-Identifier: Apache-2.0 */
/* Variables not saved or not restored: always reported, always escaped. */
#include "base/cli/unsaved.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/cli.h"
#include "base/cli/need.h"
#include "base/cli/remedy.h"
#include "base/cli/term.h"
#include "base/str.h"

enum {
    ROWS_SHOWN = 20,
    TEXT_MAX = 2048,
};

void snp_missing_tell(const json_t *row, const char *session)
{
    const json_t *missing = json_object_get(row, "missing");
    const json_t *said = json_object_get(missing, "text");
    const char *text = json_string_value(said);
    snp_autofree char *shown = NULL;
    snp_autobuf struct snp_buf ways = {0};

    if (text == NULL) {
        return;
    }
    shown = snp_term_line(text, json_string_length(said));
    snp_buf_init(&ways, TEXT_MAX);
    (void)fflush(stdout);
    if (snp_cli_remedy_ways(&ways, snp_json_to_ways(json_object_get(missing, "recover")),
                            session) == 0) {
        snp_autofree char *line =
            snp_need_format("%s lacks %s; %s", session, shown, snp_buf_cstr(&ways));

        snp_term_note(stderr, SNP_STYLE_YELLOW, snp_json_str(row, "state", "incomplete"), line);
    }
}

char *snp_unsaved_text(const json_t *row)
{
    snp_autojson json_t *words = NULL;
    const char *why;
    struct snp_err err;

    (void)snp_json_to_err(json_object_get(row, "error"), &err);
    words = snp_cli_remedy_text(&err);
    why = snp_streq(err.msg, snp_json_str(row, "reason", "")) ? NULL : json_string_value(words);
    return snp_need_format("session %s: %s%s%s", snp_json_str(row, "session", "?"),
                           snp_json_str(row, "text", "not saved"), why == NULL ? "" : "; ",
                           why == NULL ? "" : why);
}

void snp_unsaved_tell(const struct snp_cli *cli, const json_t *rows)
{
    size_t n = json_array_size(rows);

    for (size_t i = 0; i < n && i < ROWS_SHOWN; i++) {
        snp_autofree char *text = snp_unsaved_text(json_array_get(rows, i));

        snp_cli_warn(cli, "%s", text);
    }
    if (n > ROWS_SHOWN) {
        snp_cli_warn(cli, "and %zu more sessions are not saved; --json has all", n - ROWS_SHOWN);
    }
}

void snp_lost_tell(const json_t *list, const char *what)
{
    size_t n = json_array_size(list);

    (void)fflush(stdout);
    for (size_t i = 0; i < n && i < ROWS_SHOWN; i++) {
        const json_t *row = json_array_get(list, i);
        const char *type = snp_json_str(row, "type", NULL);
        snp_autofree char *text = snp_need_format(
            "%.400s%s%.200s%s: %.1000s", snp_json_str(row, "name", "?"), type == NULL ? "" : " (",
            type == NULL ? "" : type, type == NULL ? "" : ")", snp_json_str(row, "reason", "?"));
        snp_autofree char *shown = snp_term_line(text, strlen(text));

        snp_term_note(stderr, SNP_STYLE_YELLOW, what, shown);
    }
    if (n > ROWS_SHOWN) {
        snp_term_put(stderr, SNP_STYLE_YELLOW, what);
        (void)fprintf(stderr, ": and %zu more; --json has all\n", n - ROWS_SHOWN);
    }
}
