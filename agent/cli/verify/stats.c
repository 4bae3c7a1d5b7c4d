/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stats`: measures of all repairs judged on this machine.
 *
 * A repair (a run of an agent, or a session) is measured by its last verdict, and by the decision
 * of `apply` on its patch. Both are in the records below applied/.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/clock.h"
#include "base/rundir.h"
#include "base/str.h"
#include "main/verbs.h"
#include "repair/measures.h"
#include "trajectory/reader.h"

enum {
    MS = 1000,
    RECORDS_MAX = 100000,
};

struct counting {
    int64_t since_ms;
    json_t *repairs; /* owned: run or session -> {"time_ms", "measures"} of the last verdict */
    json_t *patches; /* owned: SHA-256 -> the same object */
    const char *record;
};

static void counting_done(struct counting *all)
{
    json_decref(all->repairs);
    json_decref(all->patches);
}

/* Reading ------------------------------------------------------------------------------------ */

static void verdict_take(struct counting *all, const json_t *line)
{
    const char *key = snp_json_str(line, "run", all->record);
    const json_t *measures = json_object_get(line, "measures");
    int64_t now = snp_json_int(line, "time_ms", 0);
    const json_t *known = json_object_get(all->repairs, key);
    json_t *kept;

    if (now < all->since_ms || !json_is_object(measures) ||
        snp_json_int(known, "time_ms", 0) > now) {
        return;
    }
    kept = snp_need(json_pack("{s:I, s:o}", "time_ms", (json_int_t)now, "measures",
                              json_copy((json_t *)(uintptr_t)measures)));
    (void)json_object_set_new(all->repairs, key, kept);
    (void)json_object_set(all->patches, snp_json_str(line, "sha256", ""), kept);
}

/* Take the first decision after the verdict. */
static void decision_take(const struct counting *all, const json_t *line, bool is_applied)
{
    const json_t *kept = json_object_get(all->patches, snp_json_str(line, "sha256", ""));
    json_t *measures = json_object_get(kept, "measures");
    int64_t ms = snp_json_int(line, "time_ms", 0) - snp_json_int(kept, "time_ms", 0);

    if (measures != NULL && ms >= 0 && !json_is_boolean(json_object_get(measures, "acceptance"))) {
        (void)json_object_set_new(measures, "acceptance", json_boolean(is_applied));
        (void)json_object_set_new(measures, "time_to_decision", json_real((double)ms / MS));
    }
}

static int on_line(void *ctx, json_t *line, struct snp_err *err)
{
    struct counting *all = ctx;
    const char *step = snp_trajectory_step(line);

    (void)err;
    if (strcmp(step, "verdict") == 0) {
        verdict_take(all, line);
    } else if (strcmp(step, "apply") == 0 || strcmp(step, "declined") == 0) {
        decision_take(all, line, strcmp(step, "apply") == 0);
    }
    return 0;
}

static int records_read(struct snp_cli *cli, struct counting *all, struct snp_err *err)
{
    snp_autofree char *state = NULL;
    snp_autofree char *folder = NULL;
    snp_autojson json_t *paths = NULL;

    SNP_TRY(snp_state_dir(&state, err));
    folder = snp_need_format("%s/applied", state);
    SNP_TRY(snp_trajectory_list(folder, RECORDS_MAX, &paths, err));
    for (size_t i = json_array_size(paths); i-- > 0;) { /* oldest first */
        struct snp_trajectory_check check;
        struct snp_err why;

        all->record = json_string_value(json_array_get(paths, i));
        if (snp_trajectory_read(all->record, on_line, all, &check, &why) < 0) {
            snp_cli_warn(cli, "%s", why.msg);
        }
    }
    return 0;
}

/* Showing ------------------------------------------------------------------------------------ */

static size_t n_known(const json_t *list, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        n += !json_is_null(json_object_get(json_array_get(list, i), name));
    }
    return n;
}

static void table_print(const json_t *list, const json_t *measures)
{
    static const char *const heads[] = {"Measure", "Value", "Repairs", "What it is"};
    struct snp_table table = SNP_TABLE(heads);

    for (size_t m = 0; m < SNP_MEASURES; m++) {
        const struct snp_measure *one = &snp_measures[m];
        char text[SNP_MEASURE_TEXT];

        snp_measure_text(one, json_object_get(measures, one->name), text);
        snp_table_add(&table, one->name);
        snp_table_add(&table, text);
        snp_table_addf(&table, "%zu", n_known(list, one->name));
        snp_table_add(&table, one->how);
    }
    snp_table_print(stdout, &table, "");
}

/* "7d", "12h", "30m": milliseconds. */
static int since_parse(const char *text, int64_t *ret)
{
    static const char units[] = "mhd";
    static const int64_t of[] = {60, 3600, 86400};
    size_t n = strlen(text);
    const char *unit = n < 2 ? NULL : strchr(units, text[n - 1]);
    snp_autofree char *digits = unit == NULL ? NULL : strndup(text, n - 1);

    if (digits == NULL || snp_parse_i64(digits, ret) < 0 || *ret < 0 || *ret > 100000) {
        return -1;
    }
    *ret *= of[unit - units] * MS;
    return 0;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const char *since = snp_opts_str(opts, "since");
    snp_cleanup(counting_done) struct counting all = {.repairs = snp_need(json_object()),
                                                      .patches = snp_need(json_object())};
    snp_autojson json_t *list = snp_need(json_array());
    snp_autojson json_t *measures = NULL;
    snp_autojson json_t *shown = NULL;
    struct snp_err err;
    const char *key;
    json_t *repair;
    int64_t span = 0;

    if (since != NULL && since_parse(since, &span) < 0) {
        return snp_cli_usage(cli, "--since is a number of minutes, hours or days: 30m, 12h, 7d");
    }
    all.since_ms = since == NULL ? 0 : (int64_t)(snp_wall_us() / MS) - span;
    if (records_read(cli, &all, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    json_object_foreach(all.repairs, key, repair)
    {
        (void)json_array_append(list, json_object_get(repair, "measures"));
    }
    measures = snp_need(snp_measures_sum(list));
    if (cli->is_json) {
        shown = snp_need(json_pack("{s:s?, s:I, s:O}", "since", since, "repairs",
                                   (json_int_t)json_array_size(list), "measures", measures));
        return snp_cli_print_json(shown);
    }
    if (json_array_size(list) == 0) {
        (void)printf("No repairs were judged%s%s.\n", since == NULL ? "" : " in the last ",
                     since == NULL ? "" : since);
        return SNP_EXIT_OK;
    }
    table_print(list, measures);
    return SNP_EXIT_OK;
}

static const struct snp_opt options[] = {{"since", 0, SNP_OPT_STRING, "SPAN",
                                          "only verdicts of the last 30m, 12h, 7d (default: all)",
                                          0},
                                         SNP_CLI_OPT_JSON};

const struct snp_verb snp_verb_stats = {
    .name = "stats",
    .summary = "show statistics of tested repairs",
    .description = "Show statistics of all repairs that verify or agent --test judged for this "
                   "user: how many were ready at once and in the end, what they broke, and whether "
                   "apply applied them. Only the last verdict of a run or session is used. Values "
                   "that were not measured are unknown, never 0.",
    .spec = SNP_OPTIONS(options),
    .examples = "stats\nstats --since 7d --json",
    .run = run,
};
