/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/session/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "base/wire/session.h"

void snp_sessions_print(const json_t *list)
{
    static const char *const heads[] = {"Name", "State",  "Cells",  "Last used",
                                        "Tier", "Memory", "Project"}; /* 80 columns */
    struct snp_table table = SNP_TABLE(heads);

    for (size_t i = 0; i < json_array_size(list); i++) {
        SNP_READ(snp_session_row, row, json_array_get(list, i));
        snp_table_addf(&table, "%.*s", row.name == NULL ? 12 : SNP_SESSION_NAME_MAX,
                       row.name == NULL ? row.id : row.name);
        snp_table_add(&table, row.state);
        snp_table_addf(&table, "%" PRIu64, row.cells);
        snp_table_add(&table, snp_human_age(row.used).text);
        snp_table_add(&table, row.tier);
        snp_table_add(&table, snp_human_bytes(row.memory_peak_bytes).text);
        snp_table_add(&table, row.project);
    }
    snp_table_print(stdout, &table, "no sessions");
}

static int by_use(const void *a, const void *b)
{
    SNP_READ(snp_session_row, x, *(json_t *const *)a);
    SNP_READ(snp_session_row, y, *(json_t *const *)b);

    return (x.used < y.used) - (x.used > y.used);
}

void snp_sessions_sort(json_t *list)
{
    size_t n = json_array_size(list);
    snp_autofree json_t **rows = snp_need(calloc(n + 1, sizeof(json_t *)));

    for (size_t i = 0; i < n; i++) {
        rows[i] = json_incref(json_array_get(list, i));
    }
    qsort(rows, n, sizeof(json_t *), by_use);
    for (size_t i = 0; i < n; i++) {
        (void)json_array_set_new(list, i, rows[i]);
    }
}

json_t *snp_sessions_of_exec(struct snp_cli *cli, const char *asked)
{
    snp_autoreply struct snp_reply reply = {0};
    json_t *list = snp_need(json_array());
    struct snp_err ignored;
    size_t i;
    json_t *item;

    if (snp_remote_find(cli, &ignored) < 0 || snp_remote_list(cli, &reply, &ignored) < 0) {
        return list;
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        const char *name = snp_json_str(item, "name", "");

        if ((name[0] != '\0' && !snp_has_prefix(name, "run-")) || snp_streq(name, asked) ||
            snp_streq(snp_json_str(item, "id", ""), asked)) {
            (void)json_array_append(list, item);
        }
    }
    snp_sessions_sort(list);
    return list;
}

void snp_sessions_below(struct snp_cli *cli)
{
    snp_autojson json_t *list = snp_sessions_of_exec(cli, NULL);

    if (json_array_size(list) > 0) {
        (void)puts("\nSessions of exec; to list the cells of one: snipara-sandbox history NAME");
        snp_sessions_print(list);
    }
}
