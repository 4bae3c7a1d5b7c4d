/* SPDX-License-Identifier: Apache-2.0 */
/* Reports. Only measured values are numbers; all others are null. */
#include "cli/eval/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "repair/measures.h"

enum {
    PAGE_MAX = 64 << 20,
    SHOWN = 20, /* tasks in the table */
};

/* 1 - C(n - c, k) / C(n, k), of n samples of which c passed: the unbiased estimate. */
static double pass_at(size_t n, size_t c, size_t k)
{
    double none = 1;

    if (n - c < k) {
        return 1;
    }
    for (size_t i = n - c + 1; i <= n; i++) {
        none *= 1 - ((double)k / (double)i);
    }
    return 1 - none;
}

/* The mean over all tasks; null if one has fewer than k samples. */
static json_t *pass_json(const json_t *rows, size_t k)
{
    double sum = 0;
    size_t n_rows = json_array_size(rows);

    for (size_t i = 0; i < n_rows; i++) {
        const json_t *row = json_array_get(rows, i);
        size_t n = (size_t)snp_json_int(row, "samples", 0);

        if (n < k) {
            return json_null();
        }
        sum += pass_at(n, (size_t)snp_json_int(row, "passed", 0), k);
    }
    return n_rows == 0 ? json_null() : json_real(sum / (double)n_rows);
}

static json_t *sum_json(const json_t *results, const char *member)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *value = json_object_get(json_array_get(results, i), member);

        n += json_is_number(value);
        sum += json_number_value(value);
    }
    return n == 0 ? json_null() : json_real(sum);
}

/* The measures of all results, and the usage of the model. */
static json_t *measures_make(const json_t *results)
{
    snp_autojson json_t *list = snp_need(json_array());
    json_t *all;

    for (size_t i = 0; i < json_array_size(results); i++) {
        (void)json_array_append(list, json_object_get(json_array_get(results, i), "measures"));
    }
    all = snp_need(snp_measures_sum(list));
    (void)json_object_set_new(all, "tokens", sum_json(results, "tokens"));
    (void)json_object_set_new(all, "cost_usd", sum_json(results, "cost_usd"));
    return all;
}

/* A row for each task, in the order of the data set. */
static json_t *rows_make(const json_t *tasks, const json_t *results)
{
    json_t *rows = snp_need(json_array());
    snp_autojson json_t *by_id = snp_need(json_object());

    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const char *id = snp_json_str(json_array_get(tasks, i), "id", "");
        json_t *row =
            json_pack("{s:s, s:i, s:i, s:n}", "task", id, "samples", 0, "passed", 0, "why");

        (void)json_object_set(by_id, id, row);
        (void)json_array_append_new(rows, row);
    }
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        json_t *row = json_object_get(by_id, snp_json_str(result, "task", ""));
        bool is_passed = strcmp(snp_json_str(result, "outcome", ""), "passed") == 0;

        (void)json_object_set_new(row, "samples",
                                  json_integer(snp_json_int(row, "samples", 0) + 1));
        (void)json_object_set_new(row, "passed",
                                  json_integer(snp_json_int(row, "passed", 0) + is_passed));
        if (!is_passed) {
            (void)json_object_set(row, "why", json_object_get(result, "why"));
        }
    }
    return rows;
}

static json_t *outcomes_make(const json_t *results)
{
    json_t *counts = snp_need(json_object());

    for (size_t i = 0; i < json_array_size(results); i++) {
        const char *word = snp_json_str(json_array_get(results, i), "outcome", "error");

        (void)json_object_set_new(counts, word, json_integer(snp_json_int(counts, word, 0) + 1));
    }
    return counts;
}

json_t *snp_eval_report(const json_t *head, const json_t *tasks, const json_t *results, size_t k)
{
    json_t *rows = rows_make(tasks, results);
    json_t *pass = snp_need(json_object());
    char name[24];

    (void)json_object_set_new(pass, "1", pass_json(rows, 1));
    (void)snprintf(name, sizeof(name), "%zu", k);
    (void)json_object_set_new(pass, name, pass_json(rows, k));
    return snp_need(json_pack("{s:O, s:I, s:I, s:o, s:o, s:o, s:o, s:O}", "of", head, "tasks",
                              (json_int_t)json_array_size(tasks), "samples",
                              (json_int_t)json_array_size(results), "pass_at", pass, "outcomes",
                              outcomes_make(results), "measures", measures_make(results), "by_task",
                              rows, "results", results));
}

/* People ------------------------------------------------------------------------------------- */

static void rate_text(const json_t *rate, char *out, size_t n)
{
    if (json_is_number(rate)) {
        (void)snprintf(out, n, "%.1f %%", 100 * json_number_value(rate));
    } else {
        (void)snprintf(out, n, "not known");
    }
}

/* What was measured, a line each: texts before, between and after its name and its value. */
static void measures_add(const json_t *report,
                         struct snp_buf *out,
                         const char *start,
                         const char *middle,
                         const char *end)
{
    for (size_t m = 0; m < SNP_MEASURES; m++) {
        const json_t *value =
            json_object_get(json_object_get(report, "measures"), snp_measures[m].name);
        char text[SNP_MEASURE_TEXT];

        snp_measure_text(&snp_measures[m], value, text);
        if (json_is_number(value)) {
            (void)!snp_buf_addf(out, "%s%s%s%s%s", start, snp_measures[m].name, middle, text, end);
        }
    }
}

void snp_eval_table(const json_t *report)
{
    snp_autobuf struct snp_buf measured = SNP_BUF(PAGE_MAX);
    const json_t *rows = json_object_get(report, "by_task");
    const char *name;
    json_t *value;
    size_t shown = 0;
    char rate[32];

    (void)printf("%lld tasks, %lld samples\n", (long long)snp_json_int(report, "tasks", 0),
                 (long long)snp_json_int(report, "samples", 0));
    json_object_foreach(json_object_get(report, "pass_at"), name, value)
    {
        rate_text(value, rate, sizeof(rate));
        (void)printf("pass@%-6s %s\n", name, rate);
    }
    json_object_foreach(json_object_get(report, "outcomes"), name, value)
    {
        (void)printf("%-11s %lld\n", name, (long long)json_integer_value(value));
    }
    measures_add(report, &measured, "", "  ", "\n");
    (void)fputs(measured.len == 0 ? "" : snp_buf_cstr(&measured), stdout);
    for (size_t i = 0; i < json_array_size(rows) && shown < SHOWN; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *why = snp_json_str(row, "why", NULL);
        snp_autofree char *line =
            snp_need_format("%s  %lld/%lld  %.100s\n", snp_json_str(row, "task", ""),
                            (long long)snp_json_int(row, "passed", 0),
                            (long long)snp_json_int(row, "samples", 0), why == NULL ? "" : why);

        if (snp_json_int(row, "passed", 0) < snp_json_int(row, "samples", 0) ||
            snp_json_int(row, "samples", 0) == 0) {
            (void)!snp_term_write(stdout, line, strlen(line));
            shown++;
        }
    }
}

static void escaped_add(struct snp_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *entity = *text == '<'   ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '&' ? "&amp;"
                             : *text == '"' ? "&quot;"
                                            : NULL;

        (void)!(entity == NULL ? snp_buf_add(out, text, 1) : snp_buf_adds(out, entity));
    }
}

char *snp_eval_page(const json_t *report)
{
    snp_autobuf struct snp_buf out = SNP_BUF(PAGE_MAX);
    const json_t *rows = json_object_get(report, "by_task");
    const char *name;
    json_t *value;
    char rate[32];

    (void)!snp_buf_adds(
        &out, "<!doctype html><meta charset=\"utf-8\"><title>eval</title>"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "style-src 'unsafe-inline'\"><style>body{font:15px sans-serif;margin:2em;color:"
              "#222}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;"
              "border-bottom:1px solid #ddd}.bad{color:#b00}</style><h1>");
    escaped_add(&out, snp_json_str(json_object_get(report, "of"), "dataset", "eval"));
    (void)!snp_buf_addf(&out, "</h1><p>%lld tasks, %lld samples</p><table>",
                        (long long)snp_json_int(report, "tasks", 0),
                        (long long)snp_json_int(report, "samples", 0));
    json_object_foreach(json_object_get(report, "pass_at"), name, value)
    {
        rate_text(value, rate, sizeof(rate));
        (void)!snp_buf_addf(&out, "<tr><th>pass@%s<td>%s", name, rate);
    }
    json_object_foreach(json_object_get(report, "outcomes"), name, value)
    {
        (void)!snp_buf_adds(&out, "<tr><th>");
        escaped_add(&out, name);
        (void)!snp_buf_addf(&out, "<td>%lld", (long long)json_integer_value(value));
    }
    measures_add(report, &out, "<tr><th>", "<td>", "");
    (void)!snp_buf_adds(&out, "</table><h2>Tasks</h2><table><tr><th>task<th>passed<th>why not");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        (void)!snp_buf_adds(&out, "<tr><td>");
        escaped_add(&out, snp_json_str(row, "task", ""));
        (void)!snp_buf_addf(&out, "<td>%lld/%lld<td class=\"bad\">",
                            (long long)snp_json_int(row, "passed", 0),
                            (long long)snp_json_int(row, "samples", 0));
        escaped_add(&out, snp_json_str(row, "why", ""));
    }
    (void)!snp_buf_adds(&out, "</table>\n");
    return snp_need_copy(snp_need(snp_buf_cstr(&out)));
}
