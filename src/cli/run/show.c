/* SPDX-License-Identifier: Apache-2.0 */
/* Results of runs, shown. */
#include "cli/run/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/show/term.h"

enum {
    ROWS_MAX = 12,
    CELL_MAX = 160,
    PREVIEW_SHOWN = 60,
    ITERATION_COLUMNS = 5,
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

struct rows {
    char cells[ROWS_MAX][2][CELL_MAX];
    size_t n;
};

static void SNP_PRINTF(3, 4) row_add(struct rows *rows, const char *name, const char *fmt, ...)
{
    va_list args;

    if (rows->n == ROWS_MAX) {
        return;
    }
    (void)snprintf(rows->cells[rows->n][0], CELL_MAX, "%s", name);
    va_start(args, fmt);
    (void)vsnprintf(rows->cells[rows->n][1], CELL_MAX, fmt, args);
    va_end(args);
    rows->n++;
}

static void rows_print(const char *title, const struct rows *rows)
{
    static const char *const heads[] = {"Metric", "Value"};
    const char *cells[(size_t)ROWS_MAX * 2];
    const struct snp_table table = {
        .heads = heads, .n_cols = 2, .cells = cells, .n_rows = rows->n};

    for (size_t i = 0; i < rows->n; i++) {
        cells[2 * i] = rows->cells[i][0];
        cells[2 * i + 1] = rows->cells[i][1];
    }
    snp_term_put(stdout, SNP_STYLE_BOLD, title);
    (void)putchar('\n');
    snp_table_print(stdout, &table);
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
    struct rows rows = {.n = 0};

    row_add(&rows, "Trajectory ID", "%s", snp_json_str(result, "trajectory_id", ""));
    row_add(&rows, "Total Calls", "%lld", (long long)snp_json_int(result, "total_calls", 0));
    row_add(&rows, "Total Tokens", "%lld", (long long)snp_json_int(result, "total_tokens", 0));
    row_add(&rows, "Tool Calls", "%lld",
            (long long)snp_json_int(result, "total_tool_calls", 0));
    row_add(&rows, "Duration", "%lldms", (long long)snp_json_int(result, "duration_ms", 0));
    row_add(&rows, "Success", "✓");
    rows_print("Execution Summary", &rows);
}

static void summary_agent(const json_t *result)
{
    const json_t *cost = json_object_get(result, "total_cost");
    struct rows rows = {.n = 0};
    char tokens[40];

    row_add(&rows, "Run ID", "%s", snp_json_str(result, "run_id", ""));
    row_add(&rows, "Success", "%s", snp_json_bool(result, "success", false) ? "Yes" : "No");
    row_add(&rows, "Source", "%s", snp_json_str(result, "answer_source", ""));
    row_add(&rows, "Iterations", "%lld", (long long)snp_json_int(result, "iterations", 0));
    row_add(&rows, "Total Tokens", "%s",
            grouped(snp_json_int(result, "total_tokens", 0), tokens, sizeof(tokens)));
    if (json_is_number(cost)) {
        row_add(&rows, "Total Cost", "$%.4f", json_number_value(cost));
    } else {
        row_add(&rows, "Total Cost", "N/A");
    }
    row_add(&rows, "Duration", "%lldms", (long long)snp_json_int(result, "duration_ms", 0));
    if (snp_json_bool(result, "forced_termination", false)) {
        row_add(&rows, "Forced", "%s", snp_json_str(result, "error", "Yes"));
    }
    rows_print("Agent Summary", &rows);
}

static void iterations_print(const json_t *list)
{
    static const char *const heads[ITERATION_COLUMNS] = {"#", "Tokens", "Cost", "Tools",
                                                         "Preview"};
    size_t n = json_array_size(list);
    snp_autofree char(*texts)[ITERATION_COLUMNS][CELL_MAX] = calloc(n + 1, sizeof(*texts));
    snp_autofree const char **cells = calloc((n + 1) * ITERATION_COLUMNS, sizeof(*cells));
    struct snp_table table = {
        .heads = heads, .n_cols = ITERATION_COLUMNS, .cells = cells, .n_rows = n};

    if (texts == NULL || cells == NULL || n == 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(list, i);
        const char *preview = snp_json_str(row, "response_preview", "");
        const json_t *cost = json_object_get(row, "cost");

        (void)snprintf(texts[i][0], CELL_MAX, "%zu", i + 1);
        (void)snprintf(texts[i][1], CELL_MAX, "%lld",
                       (long long)snp_json_int(row, "tokens", 0));
        (void)snprintf(texts[i][2], CELL_MAX, json_is_number(cost) ? "$%.4f" : "N/A",
                       json_number_value(cost));
        (void)snprintf(texts[i][3], CELL_MAX, "%lld",
                       (long long)snp_json_int(row, "tool_calls", 0));
        (void)snprintf(texts[i][4], CELL_MAX, "%.*s", PREVIEW_SHOWN,
                       preview[0] == '\0' ? "-" : preview);
        for (size_t k = 0; k < ITERATION_COLUMNS; k++) {
            cells[i * ITERATION_COLUMNS + k] = texts[i][k];
        }
    }
    snp_term_put(stdout, SNP_STYLE_BOLD, "Iteration Details");
    (void)putchar('\n');
    snp_table_print(stdout, &table);
}

/* Results ----------------------------------------------------------------------------------- */

static void error_print(const json_t *result)
{
    const char *error = snp_json_str(result, "error", NULL);

    if (error != NULL) {
        (void)fflush(stdout);
        (void)!snp_term_write(stderr, error, strlen(error));
        (void)fputc('\n', stderr);
    }
}

void snp_run_show(const struct snp_run_state *state, const json_t *result, bool is_verbose)
{
    bool is_agent = state->kind == SNP_RUN_AGENT;
    bool is_ok = snp_json_bool(result, "success", false);
    bool is_forced = snp_json_bool(result, "forced_termination", false);
    const json_t *text = json_object_get(result, is_agent ? "answer" : "response");

    /* Without a text there is the error, which is said below, and once. */
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
