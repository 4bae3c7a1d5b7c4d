/* SPDX-License-Identifier: Apache-2.0 */
/* `sessions list`, `show`, `clear` and `destroy`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/show/human.h"
#include "cli/show/lost.h"
#include "cli/show/term.h"
#include "wire/session.h"

enum {
    COLUMNS = 11,
    CELL_MAX = 48,
    ID_SHOWN = 12,
};

static const char *const heads[COLUMNS] = {"Name",     "ID",        "State",  "Tier",
                                           "Template", "Cells",     "Epoch",  "Memory",
                                           "Disk",     "Last used", "Project"};

/* The texts of one row that are not in the JSON as they are shown. */
struct row {
    char id[ID_SHOWN + 1];
    char cells[CELL_MAX];
    char epoch[CELL_MAX];
    char memory[CELL_MAX];
    char disk[CELL_MAX];
    char used[SNP_HUMAN_MAX];
};

static void row_fill(const json_t *session, struct row *row, const char **cells)
{
    (void)snprintf(row->id, sizeof(row->id), "%.*s", ID_SHOWN,
                   snp_json_str(session, "id", "?"));
    (void)snprintf(row->cells, sizeof(row->cells), "%lld",
                   (long long)snp_json_int(session, "cells", 0));
    cells[0] = snp_json_str(session, "name", "");
    cells[1] = row->id;
    cells[2] = snp_json_str(session, "state", "?");
    cells[3] = snp_json_str(session, "tier", "?");
    cells[4] = snp_json_str(session, "template", "?");
    cells[5] = row->cells;
    (void)snprintf(row->epoch, sizeof(row->epoch), "%lld",
                   (long long)snp_json_int(session, "epoch", 0));
    cells[6] = row->epoch;
    cells[7] = snp_format_bytes((uint64_t)snp_json_int(session, "memory_peak_bytes", 0),
                                row->memory, sizeof(row->memory));
    cells[8] = snp_format_bytes((uint64_t)snp_json_int(session, "disk_bytes", 0), row->disk,
                                sizeof(row->disk));
    cells[9] = snp_human_age(snp_json_number(session, "used"), row->used, sizeof(row->used));
    cells[10] = snp_json_str(session, "project", "");
}

static int list_print(const json_t *list, struct snp_err *err)
{
    size_t n = json_array_size(list);
    snp_autofree struct row *rows = calloc(n + 1, sizeof(*rows));
    snp_autofree const char **cells = calloc((n + 1) * COLUMNS, sizeof(*cells));
    struct snp_table table = {.heads = heads, .n_cols = COLUMNS, .n_rows = n};

    if (rows == NULL || cells == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (n == 0) {
        (void)puts("no sessions");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        row_fill(json_array_get(list, i), &rows[i], &cells[i * COLUMNS]);
    }
    table.cells = cells;
    snp_table_print(stdout, &table);
    return 0;
}

static int sessions_get(struct snp_client **ret_client,
                        struct snp_reply *ret,
                        struct snp_err *err)
{
    int r = snp_remote_connect(false, ret_client, err);

    return r < 0 ? r
                 : snp_remote_call(*ret_client,
                                   snp_record_write(&snp_sessions_list_request_form, NULL), ret,
                                   err);
}

/* For the completion of shells: what has no name is left out, and no daemon is started. */
static int names_print(void)
{
    const struct snp_client_options options = {.has_start = false, .signal_fd = -1};
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    size_t i;
    json_t *item;

    if (snp_client_connect(&options, &client, &err) < 0) {
        return SNP_EXIT_OK; /* without a daemon there are no sessions */
    }
    if (snp_remote_call(client, snp_record_write(&snp_sessions_list_request_form, NULL), &reply,
                        &err) < 0) {
        return SNP_EXIT_FAILED;
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        const char *name = snp_json_str(item, "name", NULL);

        if (name != NULL) {
            (void)puts(name);
        }
    }
    return SNP_EXIT_OK;
}

int snp_sessions_tell(struct snp_cli *cli, bool is_json, const char *next)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    size_t i;
    json_t *row;

    if (sessions_get(&client, &reply, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (is_json) {
        return snp_cli_print_json(json_object_get(reply.head, "sessions"));
    }
    if (list_print(json_object_get(reply.head, "sessions"), &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, row)
    {
        snp_missing_tell(row, snp_json_str(row, "name", snp_json_str(row, "id", "?")));
    }
    if (next != NULL) {
        snp_cli_next(cli, json_array_size(json_object_get(reply.head, "sessions")) > 0
                              ? next
                              : "exec --session NAME CODE");
    }
    return SNP_EXIT_OK;
}

static int run_list(struct snp_cli *cli, const struct snp_opts *opts)
{
    return snp_opts_flag(opts, "names", false)
               ? names_print()
               : snp_sessions_tell(cli, snp_opts_flag(opts, "json", false), NULL);
}

/* show ------------------------------------------------------------------------------------ */

enum {
    SHOWN_MAX = 64,
    FIELD_COLUMNS = 17,
    CONTROL_MAX = 16 << 10,
};

/* What the manifest adds to the session's own members. */
static const char *const manifest_members[] = {
    "template_hash", "interpreter", "python", "packages", "venv_unused", "rootfs", "kernel",
};

/* How a member is shown; what has no row is shown as it is. */
enum form {
    FORM_PLAIN = 0,
    FORM_WHEN,
    FORM_SPAN_MS,
    FORM_BYTES,
    FORM_HIDDEN,
};

static const struct {
    const char *member;
    enum form form;
    const char *label;
} shown_members[] = {
    {"created",           FORM_WHEN,    "created"     },
    {"used",              FORM_WHEN,    "last used"   },
    {"idle_ms",           FORM_SPAN_MS, "idle for"    },
    {"memory_bytes",      FORM_BYTES,   "memory limit"},
    {"memory_peak_bytes", FORM_BYTES,   "memory used" },
    {"disk_bytes",        FORM_BYTES,   "on disk"     },
    {"snapshots_bytes",   FORM_BYTES,   "by snapshots"},
    {"limits",            FORM_HIDDEN,  NULL          }, /* the manifest has them, with who holds them */
    {"manifest",          FORM_HIDDEN,  NULL          },
    {"missing",           FORM_HIDDEN,  NULL          }, /* told as a sentence */
};

static void field_put(const char *label, const char *text)
{
    size_t n = strlen(label);

    snp_term_put(stdout, SNP_STYLE_CYAN, label);
    (void)printf("%*s", n < FIELD_COLUMNS ? (int)(FIELD_COLUMNS - n) : 1, "");
    if (snp_term_write(stdout, text, strlen(text)) < 0) {
        (void)putchar('?');
    }
    (void)putchar('\n');
}

static void member_put(const char *member, const json_t *value)
{
    snp_autofree char *text = NULL;
    char out[SHOWN_MAX];
    char age[SNP_HUMAN_MAX];
    enum form form = FORM_PLAIN;
    const char *label = member;

    for (size_t i = 0; i < SNP_ARRAY_LEN(shown_members); i++) {
        if (strcmp(shown_members[i].member, member) == 0) {
            form = shown_members[i].form;
            label = shown_members[i].label;
        }
    }
    if (form == FORM_HIDDEN || json_is_null(value)) {
        return;
    }
    if (form == FORM_WHEN) {
        double then = json_number_value(value);
        size_t n = strlen(snp_human_when(then, out, sizeof(out)));

        (void)snprintf(out + n, sizeof(out) - n, " (%s)",
                       snp_human_age(then, age, sizeof(age)));
        field_put(label, out);
        return;
    }
    if (form == FORM_SPAN_MS) {
        field_put(label,
                  snp_human_span((uint64_t)json_integer_value(value) * 1000, out, sizeof(out)));
        return;
    }
    if (form == FORM_BYTES) {
        field_put(label,
                  snp_format_bytes((uint64_t)json_integer_value(value), out, sizeof(out)));
        return;
    }
    text = json_is_string(value) ? strdup(json_string_value(value)) : snp_json_text(value);
    field_put(label, text == NULL ? "?" : text);
}

/* "memory          512 MiB (cgroup v1 memory)" */
static void limits_put(const json_t *limits)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)limits);
    const char *key;
    json_t *value;

    json_object_foreach(copy, key, value)
    {
        snp_autofree char *text = snp_format("%s (%s)", snp_json_str(value, "text", "?"),
                                             snp_json_str(value, "by", "not enforced"));

        field_put(key, text == NULL ? "?" : text);
    }
    json_decref(copy);
}

/* What a control says of itself besides whether it is enforced, in one line. */
static char *control_text(const json_t *control)
{
    snp_autobuf struct snp_buf line = {0};
    json_t *copy = json_copy((json_t *)(uintptr_t)control);
    const char *key;
    json_t *value;
    const char *text;
    int r;

    snp_buf_init(&line, CONTROL_MAX);
    r = snp_buf_adds(&line,
                     snp_json_bool(control, "enforced", false) ? "enforced" : "NOT enforced");
    json_object_foreach(copy, key, value)
    {
        snp_autofree char *shown = NULL;

        if (strcmp(key, "enforced") == 0 || strcmp(key, "limits") == 0 || r < 0) {
            continue;
        }
        shown = json_is_string(value) ? strdup(json_string_value(value)) : snp_json_text(value);
        r = snp_buf_addf(&line, "; %s: %s", key, shown == NULL ? "?" : shown);
    }
    json_decref(copy);
    text = r < 0 ? NULL : snp_buf_cstr(&line);
    return text == NULL ? NULL : strdup(text);
}

static void manifest_put(const json_t *manifest)
{
    const json_t *controls = json_object_get(manifest, "controls");
    const json_t *degraded = json_object_get(manifest, "degraded");
    json_t *copy = json_copy((json_t *)(uintptr_t)controls);
    const char *key;
    json_t *value;

    for (size_t i = 0; i < SNP_ARRAY_LEN(manifest_members); i++) {
        const char *text = snp_json_str(manifest, manifest_members[i], NULL);

        if (text != NULL) {
            field_put(manifest_members[i], text);
        }
    }
    snp_term_put(stdout, SNP_STYLE_BOLD, "\nlimits\n");
    limits_put(json_object_get(json_object_get(controls, "resources"), "limits"));
    snp_term_put(stdout, SNP_STYLE_BOLD, "\ncontrols\n");
    json_object_foreach(copy, key, value)
    {
        snp_autofree char *text = control_text(value);

        field_put(key, text == NULL ? "?" : text);
    }
    json_decref(copy);
    for (size_t i = 0; i < json_array_size(degraded); i++) {
        const char *text = json_string_value(json_array_get(degraded, i));

        field_put("degraded", text == NULL ? "?" : text);
    }
}

static void session_put(json_t *session)
{
    const json_t *manifest = json_object_get(session, "manifest");
    const char *key;
    json_t *value;

    json_object_foreach(session, key, value)
    {
        member_put(key, value);
    }
    if (json_is_object(manifest)) {
        manifest_put(manifest);
    }
}

static int run_show(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *session = NULL;
    struct snp_err err;
    int r = snp_remote_connect(false, &client, &err);

    if (r == 0) {
        r = snp_remote_session_of(client, opts, &session, &err);
    }
    if (r == 0) {
        r = snp_remote_call(client, SNP_WRITE(snp_sessions_show_request, .session = session),
                            &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    session_put(reply.head);
    snp_missing_tell(reply.head, snp_json_str(reply.head, "name", "?"));
    return SNP_EXIT_OK;
}

/* destroy ---------------------------------------------------------------------------------- */

/* Which cell was cut off by the end of its session, if one was. */
static void ended_tell(const json_t *answer, const char *session)
{
    const json_t *ended = json_object_get(answer, "ended");
    char span[SNP_HUMAN_MAX];

    if (json_is_object(ended)) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "cut off: cell %lld of %s, which had run for %s\n",
                      (long long)snp_json_int(ended, "cell", 0), session,
                      snp_human_span((uint64_t)snp_json_int(ended, "ran_ms", 0) * 1000, span,
                                     sizeof(span)));
    }
}

/* session: name or id to end; shown: how to call it in the answer. */
static int destroy_one(struct snp_client *client,
                       const char *session,
                       const char *shown,
                       json_t *done,
                       struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    int r = snp_remote_call(client, SNP_WRITE(snp_sessions_destroy_request, .session = session),
                            &reply, err);

    if (r == 0 && json_array_append_new(done, json_string(shown)) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    ended_tell(reply.head, shown);
    return r;
}

static int destroy_all(struct snp_client *client, json_t *done, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    const json_t *list;
    int r = snp_remote_call(client, snp_record_write(&snp_sessions_list_request_form, NULL),
                            &reply, err);

    if (r < 0) {
        return r;
    }
    list = json_object_get(reply.head, "sessions");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *id = snp_json_str(item, "id", "");

        r = destroy_one(client, id, snp_json_str(item, "name", id), done, err);
        /* One that ended meanwhile is what was wanted. */
        if (r < 0 && r != SNP_E_NOT_FOUND) {
            return r;
        }
    }
    return 0;
}

static int run_destroy(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autojson json_t *done = json_array();
    bool all = snp_opts_flag(opts, "all", false);
    const char *const *given = NULL;
    size_t n_given = snp_opts_list(opts, "session", &given);
    size_t n = snp_opts_n_args(opts) + n_given;
    struct snp_err err;
    int exit_code = SNP_EXIT_OK;
    int r;

    if (all == (n > 0)) {
        return snp_cli_usage(cli, "give the names of sessions, or --all");
    }
    r = snp_remote_refs_check(opts, &err);
    for (size_t i = 0; r == 0 && i < n_given; i++) {
        r = snp_remote_ref_check(given[i], &err);
    }
    r = r < 0 ? r : snp_remote_connect(false, &client, &err);
    if (r == 0 && all) {
        r = destroy_all(client, done, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < n; i++) {
        const char *session = i < n_given ? given[i] : snp_opts_arg(opts, i - n_given);

        if (destroy_one(client, session, session, done, &err) < 0) {
            exit_code = snp_cli_fail(cli, &err);
        }
    }
    if (snp_opts_flag(opts, "json", false)) {
        snp_autojson json_t *answer = json_pack("{s:O}", "destroyed", done);

        return snp_cli_print_json(answer) != 0 ? SNP_EXIT_FAILED : exit_code;
    }
    if (all && json_array_size(done) == 0) {
        (void)puts("no sessions");
    }
    for (size_t i = 0; i < json_array_size(done); i++) {
        (void)printf("destroyed %s\n", json_string_value(json_array_get(done, i)));
    }
    return exit_code;
}

/* clear ------------------------------------------------------------------------------------ */

static int clear(struct snp_client *client,
                 const char *session,
                 bool idle_only,
                 struct snp_reply *ret,
                 struct snp_err *err)
{
    return snp_remote_call(
        client,
        SNP_WRITE(snp_sessions_clear_request, .session = session, .idle_only = idle_only), ret,
        err);
}

static int run_clear(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *session = NULL;
    bool is_sure = snp_opts_flag(opts, "yes", false);
    struct snp_err err;
    int r;

    if (snp_opts_n_args(opts) == 0 && snp_opts_str(opts, "session") == NULL) {
        return snp_cli_usage(
            cli, "give the name of the session to clear"); /* also of the only one */
    }
    r = snp_remote_connect(false, &client, &err);
    if (r == 0) {
        r = snp_remote_session_of(client, opts, &session, &err);
    }
    if (r == 0) {
        r = clear(client, session, !is_sure, &reply, &err);
    }
    if (r == SNP_E_DENIED && !is_sure && snp_cli_can_ask()) {
        (void)snp_cli_fail(cli, &err);
        if (!snp_cli_confirm("Clear the session and cut the cell off?")) {
            (void)fputs("nothing was cleared\n", stderr);
            return SNP_EXIT_FAILED;
        }
        r = clear(client, session, false, &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    (void)printf("cleared %s: no variables, no files, no history, no snapshots\n", session);
    ended_tell(reply.head, session);
    return SNP_EXIT_OK;
}

/* Verbs ------------------------------------------------------------------------------------ */

static const struct snp_opt show_options[] = {SNP_CLI_OPT_SESSION, SNP_CLI_OPT_JSON};
static const struct snp_opt clear_options[] = {
    SNP_CLI_OPT_SESSION,
    {"yes", 'y', SNP_OPT_FLAG, NULL, "do not ask, also while a cell runs", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt list_options[] = {
    {"names", 0, SNP_OPT_FLAG, NULL, "print only the names, one a line", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt destroy_options[] = {
    {"all",     0,   SNP_OPT_FLAG, NULL,   "every session",                        0},
    {"session", 's', SNP_OPT_LIST, "NAME", "the same as SESSION; may be repeated", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg one_session[] = {SNP_CLI_ARG_SESSION};
static const struct snp_opt_arg named_session[] = {
    {"SESSION", "name or id", 0, 1}
};
static const struct snp_opt_arg any_sessions[] = {
    {"SESSION", "name or id (8 digits of it are enough)", 0, 0}
};

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "list the sessions",
    .spec = {list_options, SNP_ARRAY_LEN(list_options), NULL, 0, false},
    .run = run_list,
};
static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "show one session: its limits and what is enforced",
    .spec = {show_options, SNP_ARRAY_LEN(show_options), one_session, 1, false},
    .run = run_show,
};
static const struct snp_verb verb_destroy = {
    .name = "destroy",
    .summary = "end sessions and delete their variables, files and history",
    .description = "End sessions for good: this deletes their variables, files, history and "
                   "snapshots, in memory and on disk. Forks stay. To keep a copy, use `export` "
                   "first; to keep name and limits, use `sessions clear`.",
    .spec = {destroy_options, SNP_ARRAY_LEN(destroy_options), any_sessions, 1, false},
    .run = run_destroy,
};
static const struct snp_verb verb_clear = {
    .name = "clear",
    .summary = "empty a session: keep its name and limits only",
    .description =
        "Delete a session's variables, files, history and snapshots. Name, template, limits "
        "and project stay. While a cell runs it asks before cutting the cell off, and without "
        "a terminal it refuses, unless --yes is given.",
    .spec = {clear_options, SNP_ARRAY_LEN(clear_options), named_session, 1, false},
    .examples = "sessions clear work\nsessions clear work --yes",
    .run = run_clear,
};
static const struct snp_verb *const verbs[] = {&verb_list, &verb_show, &verb_clear,
                                               &verb_destroy, NULL};

const struct snp_verb snp_verb_sessions = {
    .name = "sessions",
    .summary = "list, show, clear and end sessions",
    .verbs = verbs,
    .fallback = &verb_list,
};
