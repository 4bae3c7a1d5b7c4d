/* SPDX-License-Identifier: Apache-2.0 */
/* Results of runs, shown. */
#include "cli/run/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/str.h"

enum {
    PREVIEW_SHOWN = 60,
};

/* Panels ------------------------------------------------------------------------------------ */

static void rule_print(const char *title, enum snp_style style)
{
    unsigned width = snp_term_width(stdout);
    unsigned used = 0;

    if (title != NULL) {
        (void)fputs("── ", stdout);
        snp_term_put(stdout, style, title);
        (void)fputs(" ", stdout);
        used = (unsigned)strlen(title) + 4;
    }
    for (; used < width; used++) {
        (void)fputs("─", stdout);
    }
    (void)fputc('\n', stdout);
}

/* A titled panel of untrusted text. */
static void panel(const char *title, enum snp_style style, const char *text, size_t n)
{
    rule_print(title, style);
    (void)!snp_term_write(stdout, text, n);
    if (n == 0 || text[n - 1] != '\n') {
        (void)fputc('\n', stdout);
    }
    rule_print(NULL, SNP_STYLE_PLAIN);
}

/* Tables ------------------------------------------------------------------------------------ */

static const char *const metric_heads[] = {"Metric", "Value"};

static void SNP_PRINTF(3, 4)
    row_add(struct snp_table *table, const char *name, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    (void)snp_need(vasprintf(&text, fmt, args) < 0 ? NULL : table);
    va_end(args);
    snp_table_add(table, name);
    snp_table_add(table, text);
}

static void titled_print(const char *title, struct snp_table *table)
{
    snp_term_put(stdout, SNP_STYLE_BOLD, title);
    (void)putchar('\n');
    snp_table_print(stdout, table, "");
}

/* "12,345" into out; returns out. */
static const char *grouped(int64_t number, char *out, size_t out_len)
{
    char digits[32];
    size_t n = (size_t)snprintf(digits, sizeof(digits), "%lld", (long long)number);
    size_t at = 0;

    for (size_t i = 0; i < n && at + 2 < out_len; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            out[at++] = ',';
        }
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static void summary_run(const json_t *result)
{
    struct snp_table rows = SNP_TABLE(metric_heads);

    row_add(&rows, "Trajectory ID", "%s", snp_json_str(result, "trajectory_id", ""));
    row_add(&rows, "Total Calls", "%lld", (long long)snp_json_int(result, "total_calls", 0));
    row_add(&rows, "Total Tokens", "%lld", (long long)snp_json_int(result, "total_tokens", 0));
    row_add(&rows, "Tool Calls", "%lld", (long long)snp_json_int(result, "total_tool_calls", 0));
    row_add(&rows, "Duration", "%lldms", (long long)snp_json_int(result, "duration_ms", 0));
    row_add(&rows, "Success", "✓");
    titled_print("Execution Summary", &rows);
}

static void summary_agent(const json_t *result)
{
    const json_t *cost = json_object_get(result, "total_cost");
    struct snp_table rows = SNP_TABLE(metric_heads);
    char tokens[40];

    row_add(&rows, "Run ID", "%s", snp_json_str(result, "run_id", ""));
    row_add(&rows, "Success", "%s", snp_json_bool(result, "success", false) ? "Yes" : "No");
    row_add(&rows, "Source", "%s", snp_json_str(result, "answer_source", ""));
    row_add(&rows, "Iterations", "%lld", (long long)snp_json_int(result, "iterations", 0));
    row_add(&rows, "Total Tokens", "%s",
            grouped(snp_json_int(result, "total_tokens", 0), tokens, sizeof(tokens)));
    row_add(&rows, "Total Cost", json_is_number(cost) ? "$%.4f" : "N/A", json_number_value(cost));
    row_add(&rows, "Duration", "%lldms", (long long)snp_json_int(result, "duration_ms", 0));
    if (snp_json_bool(result, "forced_termination", false)) {
        row_add(&rows, "Forced", "%s", snp_json_str(result, "error", "Yes"));
    }
    titled_print("Agent Summary", &rows);
}

static void iterations_print(const json_t *list)
{
    static const char *const heads[] = {"#", "Tokens", "Cost", "Tools", "Preview"};
    struct snp_table table = SNP_TABLE(heads);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *preview = snp_json_str(row, "response_preview", "");
        const json_t *cost = json_object_get(row, "cost");

        snp_table_addf(&table, "%zu", i + 1);
        snp_table_addf(&table, "%lld", (long long)snp_json_int(row, "tokens", 0));
        snp_table_addf(&table, json_is_number(cost) ? "$%.4f" : "N/A", json_number_value(cost));
        snp_table_addf(&table, "%lld", (long long)snp_json_int(row, "tool_calls", 0));
        snp_table_addf(&table, "%.*s", PREVIEW_SHOWN, preview[0] == '\0' ? "-" : preview);
    }
    if (table.n_cells > 0) {
        titled_print("Iteration Details", &table);
    }
}

/* Results ----------------------------------------------------------------------------------- */

static void error_print(const json_t *result)
{
    const char *error = snp_json_str(result, "error", NULL);
    const char *wrong = snp_json_str(result, "schema_error", NULL);

    (void)fflush(stdout);
    if (error != NULL) {
        (void)!snp_term_write(stderr, error, strlen(error));
        (void)fputc('\n', stderr);
    }
    if (wrong != NULL) {
        (void)fputs("the answer does not follow the schema: ", stderr);
        (void)!snp_term_write(stderr, wrong, strlen(wrong));
        (void)fputc('\n', stderr);
    }
}

void snp_run_show(const struct snp_run_state *state, const json_t *result, bool is_verbose)
{
    bool is_agent = state->kind == SNP_RUN_AGENT;
    bool is_ok = snp_json_bool(result, "success", false);
    bool is_forced = snp_json_bool(result, "forced_termination", false);
    const json_t *text = json_object_get(result, is_agent ? "answer" : "response");

    /* Without a text the error follows below, so nothing is printed here. */
    if (json_string_length(text) > 0 || is_ok || snp_json_str(result, "error", NULL) == NULL) {
        panel(!is_agent   ? (is_ok ? "Response" : "Error")
              : is_ok     ? "Answer"
              : is_forced ? "Answer (forced)"
                          : "Error",
              is_ok       ? SNP_STYLE_GREEN
              : is_forced ? SNP_STYLE_YELLOW
                          : SNP_STYLE_RED,
              json_is_string(text) ? json_string_value(text) : "", json_string_length(text));
    }
    error_print(result);
    if (is_agent) {
        summary_agent(result);
        if (is_verbose) {
            iterations_print(json_object_get(result, "iteration_summaries"));
        }
    } else if (is_verbose && is_ok) {
        summary_run(result);
    }
    (void)fflush(stdout);
}
