/* SPDX-License-Identifier: Apache-2.0 */
/* `sessions list`, `show`, `set`, `move`, `clear` and `destroy`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/list.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/config/config.h"
#include "base/session/policy.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "base/wire/session.h"
#include "cli/cli.h"

enum {
    EVENTS_MAX = 20,
};

int snp_sessions_names(struct snp_cli *cli)
{
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    size_t i;
    json_t *item;

    if (snp_remote_find(cli, &err) < 0) {
        return SNP_EXIT_OK; /* without a daemon there are no sessions */
    }
    if (snp_remote_list(cli, &reply, &err) < 0) {
        return SNP_EXIT_FAILED;
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        SNP_READ(snp_session_row, row, item);
        if (row.name != NULL) {
            (void)puts(row.name);
        }
    }
    return SNP_EXIT_OK;
}

/* A list may be empty because the journal was lost; the event is reported until it is solved. */
static void loss_tell(struct snp_cli *cli)
{
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err ignored;
    size_t i;
    json_t *event;

    if (snp_remote_call(cli, SNP_WRITE(snp_journal_events_request, .limit = EVENTS_MAX), &reply,
                        &ignored) < 0) {
        return;
    }
    json_array_foreach(json_object_get(reply.head, "events"), i, event)
    {
        SNP_READ(snp_journal_row, row, event);
        if (!row.solved &&
            (snp_streq(row.kind, "journal_lost") || snp_streq(row.kind, "salvage"))) {
            snp_cli_warn(cli, "sessions may be missing: the journal was lost or damaged; details: "
                              "snipara-sandbox doctor");
            return;
        }
    }
}

int snp_sessions_tell(struct snp_cli *cli, const char *next)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autojson json_t *unsaved = snp_need(json_array());
    struct snp_err err;
    json_t *list;
    size_t i;
    json_t *item;
    int r = snp_remote_list(cli, &reply, &err);

    list = json_object_get(reply.head, "sessions");
    snp_sessions_sort(list);
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, list);
    }
    snp_sessions_print(list);
    if (json_array_size(list) == 0) {
        loss_tell(cli);
    }
    json_array_foreach(list, i, item)
    {
        SNP_READ(snp_session_row, row, item);
        snp_missing_tell(item, row.name == NULL ? row.id : row.name);
        if (row.unsaved != NULL) {
            (void)json_array_append(unsaved, (json_t *)(uintptr_t)row.unsaved);
        }
    }
    snp_unsaved_tell(cli, unsaved);
    if (next != NULL) {
        snp_cli_next(cli, json_array_size(list) > 0 ? next : "exec --session NAME CODE");
    }
    return SNP_EXIT_OK;
}

static int run_list(struct snp_cli *cli, const struct snp_opts *opts)
{
    return snp_opts_flag(opts, "names", false) ? snp_sessions_names(cli)
                                               : snp_sessions_tell(cli, NULL);
}

/* show ------------------------------------------------------------------------------------ */

enum {
    FIELD_COLUMNS = 17,
    CONTROL_MAX = 16 << 10,
};

/* Members added from the manifest. */
static const char *const manifest_members[] = {
    "template_hash", "interpreter", "python", "packages", "venv_unused", "rootfs", "kernel",
};

/* The form of a member; members without a row are printed unchanged. */
enum member_form {
    FORM_PLAIN = 0,
    FORM_WHEN,
    FORM_SPAN_MS,
    FORM_BYTES,
    FORM_HIDDEN,
};

static const struct {
    const char *member;
    enum member_form form;
    const char *label;
} shown_members[] = {
    {"created", FORM_WHEN, "created"},
    {"used", FORM_WHEN, "last used"},
    {"idle_ms", FORM_SPAN_MS, "idle for"},
    {"memory_bytes", FORM_BYTES, "memory limit"},
    {"memory_peak_bytes", FORM_BYTES, "memory used"},
    {"disk_bytes", FORM_BYTES, "on disk"},
    {"snapshots_bytes", FORM_BYTES, "by snapshots"},
    {"limits", FORM_HIDDEN, NULL}, /* the manifest has them, with the enforcing control */
    {"manifest", FORM_HIDDEN, NULL},
    {"missing", FORM_HIDDEN, NULL}, /* printed as a sentence */
    {"unsaved", FORM_HIDDEN, NULL}, /* the same */
};

static void field_put(const char *label, const char *text)
{
    size_t n = strlen(label);

    snp_term_put(stdout, SNP_STYLE_CYAN, label);
    (void)printf("%*s", n < FIELD_COLUMNS ? (int)(FIELD_COLUMNS - n) : 1, "");
    snp_term_text(stdout, text, strlen(text), n < FIELD_COLUMNS ? FIELD_COLUMNS : n + 1);
    (void)putchar('\n');
}

/* Text unchanged, anything else as JSON; the caller frees. */
static char *value_text(const json_t *value)
{
    return json_is_string(value) ? snp_need_copy(json_string_value(value))
                                 : snp_need(snp_json_text(value));
}

static void member_put(const char *member, const json_t *value)
{
    snp_autofree char *text = NULL;
    enum member_form form = FORM_PLAIN;
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
    switch (form) {
    case FORM_WHEN:
        text = snp_need_format("%s (%s)", snp_human_when(json_number_value(value)).text,
                               snp_human_age(json_number_value(value)).text);
        break;
    case FORM_SPAN_MS:
        text = snp_need_copy(snp_human_span((uint64_t)json_integer_value(value) * 1000).text);
        break;
    case FORM_BYTES:
        text = snp_need_copy(snp_human_bytes((uint64_t)json_integer_value(value)).text);
        break;
    case FORM_PLAIN:
    case FORM_HIDDEN:
        text = value_text(value);
    }
    field_put(label, text);
}

/*
 * "memory          512 MiB (cgroup v1 memory); 1 GiB at the next wake". Files that use memory get
 * less of it than the limit that is set for them.
 */
static void limits_put(const json_t *in_force, const json_t *policy)
{
    struct snp_limits next;
    struct snp_err ignored;

    snp_limits_default(&next);
    (void)!snp_limits_from_json(policy, &next, &ignored);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const char *key = snp_limit_info((enum snp_limit)i)->key;
        const json_t *limit = json_object_get(in_force, key);
        const int64_t value = snp_json_int(limit, "value", 0);
        const int64_t set = snp_json_int(limit, "set", value);
        const char *why = set != (int64_t)next.value[i] ? " at the next wake"
                          : set != value                ? " is set, but memory allows less"
                                                        : "";
        char then[64];
        snp_autofree char *text = snp_need_format(
            "%s (%s)%s%s%s", snp_json_str(limit, "text", "?"),
            snp_json_str(limit, "by", "not enforced"), why[0] == '\0' ? "" : "; ",
            why[0] == '\0' ? ""
                           : snp_limit_format((enum snp_limit)i, next.value[i], then, sizeof(then)),
            why);

        field_put(key, text);
    }
}

/* Print the details of a control other than whether it is enforced, on one line. */
static void control_put(const char *name, json_t *control)
{
    snp_autobuf struct snp_buf line = {0};
    const char *key;
    json_t *value;
    int r;

    snp_buf_init(&line, CONTROL_MAX);
    r = snp_buf_adds(&line,
                     snp_json_bool(control, "enforced", false) ? "enforced" : "NOT enforced");
    json_object_foreach(control, key, value)
    {
        snp_autofree char *shown = value_text(value);

        if (strcmp(key, "enforced") != 0 && strcmp(key, "limits") != 0 && r == 0) {
            r = snp_buf_addf(&line, "; %s: %s", key, shown);
        }
    }
    field_put(name, r < 0 ? "?" : snp_need(snp_buf_cstr(&line)));
}

static void manifest_put(const json_t *manifest, const json_t *limits)
{
    json_t *controls = json_object_get(manifest, "controls");
    const char *key;
    json_t *value;
    size_t i;

    for (i = 0; i < SNP_ARRAY_LEN(manifest_members); i++) {
        const char *text = snp_json_str(manifest, manifest_members[i], NULL);

        if (text != NULL) {
            field_put(manifest_members[i], text);
        }
    }
    snp_term_put(stdout, SNP_STYLE_BOLD, "\nlimits\n");
    limits_put(json_object_get(json_object_get(controls, "resources"), "limits"), limits);
    snp_term_put(stdout, SNP_STYLE_BOLD, "\ncontrols\n");
    json_object_foreach(controls, key, value)
    {
        control_put(key, value);
    }
    json_array_foreach(json_object_get(manifest, "degraded"), i, value)
    {
        field_put("degraded", json_is_string(value) ? json_string_value(value) : "?");
    }
}

static int show_tell(struct snp_cli *cli, const char *session, const json_t *answer)
{
    const json_t *manifest = json_object_get(answer, "manifest");
    const char *key;
    json_t *value;

    (void)cli;
    json_object_foreach((json_t *)(uintptr_t)answer, key, value)
    {
        member_put(key, value);
    }
    if (json_is_object(manifest)) {
        manifest_put(manifest, json_object_get(answer, "limits"));
    }
    snp_missing_tell(answer, snp_json_str(answer, "name", session));
    return SNP_EXIT_OK;
}

/* move -------------------------------------------------------------------------------------- */

static int move(struct snp_cli *cli,
                const struct snp_opts *opts,
                const char *session,
                bool is_lossy,
                struct snp_reply *ret,
                struct snp_err *err)
{
    const struct snp_config *config = NULL;
    const char *tier = snp_opts_str(opts, "to");
    snp_autojson json_t *defaults = NULL;

    SNP_TRY(snp_cli_config(cli, opts, &config, err));
    SNP_TRY(snp_cli_tier_check(config, err));
    /* An image is pulled or built first. */
    SNP_TRY(snp_cli_session_defaults(config, tier, true, &defaults, err));
    return snp_remote_call(cli,
                           SNP_WRITE(snp_sessions_move_request, .session = session, .tier = tier,
                                     .rootfs = snp_json_str(defaults, "rootfs", NULL),
                                     .network = snp_json_bool(defaults, "network", false),
                                     .allow_degraded = snp_opts_flag(opts, "allow-degraded", false),
                                     .lossy = is_lossy),
                           ret, err);
}

static int run_move(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *session = NULL;
    struct snp_sessions_move_answer answer;
    bool is_sure = snp_opts_flag(opts, "yes", false);
    struct snp_err err;
    int r;

    if (snp_opts_str(opts, "to") == NULL) {
        return snp_cli_usage(cli, "missing option --to, as in --to docker");
    }
    r = snp_remote_session_of(cli, opts, &session, &err);
    r = r < 0 ? r : move(cli, opts, session, is_sure, &reply, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    snp_record_read(reply.head, &snp_sessions_move_answer_form, &answer);
    snp_lost_tell(answer.lost, answer.moved ? "left behind" : "cannot move");
    if (cli->is_json) {
        int exit_code = snp_cli_end(cli, 0, &err, reply.head);

        return answer.moved ? exit_code : SNP_EXIT_FAILED;
    }
    if (!answer.moved) {
        (void)snp_fail(&err, SNP_E_DENIED,
                       "%s was not moved from %s: items that cannot move would be lost; delete "
                       "them, or use --yes to move without them",
                       session, answer.from);
        return snp_cli_fail(cli, &err);
    }
    snp_term_printf(stdout, "Moved %s from %s to %s; the next cell wakes it there.\n", session,
                    answer.from, answer.to);
    return SNP_EXIT_OK;
}

/* set --------------------------------------------------------------------------------------- */

static bool is_among(const json_t *keys, const char *key)
{
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)keys, i, one)
    {
        if (snp_streq(json_string_value(one), key)) {
            return true;
        }
    }
    return false;
}

/* "memory: 64 MiB -> 1 GiB, at the next wake" */
static void limits_tell(const struct snp_sessions_set_answer *answer)
{
    struct snp_limits was;
    struct snp_limits now;
    struct snp_err ignored;
    bool is_said = false;

    snp_limits_default(&was);
    snp_limits_default(&now);
    (void)!snp_limits_from_json(answer->was, &was, &ignored);
    (void)!snp_limits_from_json(answer->limits, &now, &ignored);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        enum snp_limit limit = (enum snp_limit)i;
        const char *key = snp_limit_info(limit)->key;
        bool is_later = is_among(answer->at_wake, key);
        char before[64];
        char after[64];

        (void)snp_limit_format(limit, was.value[i], before, sizeof(before));
        (void)snp_limit_format(limit, now.value[i], after, sizeof(after));
        if (was.value[i] != now.value[i] || is_later) {
            snp_term_printf(stdout, "%s: %s%s%s%s\n", key,
                            was.value[i] == now.value[i] ? "" : before,
                            was.value[i] == now.value[i] ? "" : " -> ", after,
                            is_later ? ", at the next wake" : "");
            is_said = true;
        }
    }
    if (!is_said) {
        (void)puts("Nothing changed.");
    }
}

static int set_tell(struct snp_cli *cli, const char *session, const json_t *answer)
{
    SNP_READ(snp_sessions_set_answer, set, answer);
    snp_autofree char *hibernate = snp_need_format("hibernate %s", session);

    limits_tell(&set);
    if (json_is_string(set.untried)) {
        snp_cli_warn(cli,
                     "not tested whether session %s fits (%s); data that do not fit are lost at "
                     "the next wake, unless you hibernate the session",
                     session, json_string_value(set.untried));
    }
    if (json_array_size(set.at_wake) > 0 && snp_streq(set.state, "idle")) {
        snp_cli_next(cli, hibernate);
    }
    return SNP_EXIT_OK;
}

static int run_set(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct snp_config *config = NULL;
    snp_autofree char *session = NULL;
    snp_autojson json_t *limits = NULL;
    struct snp_err err;
    int r = snp_cli_config(cli, opts, &config, &err);

    if (r == 0) {
        limits = snp_need(snp_config_limits_explicit(config));
    }
    if (r == 0 && json_object_size(limits) == 0) {
        return snp_cli_usage(cli, "no limit to change; name one, such as --memory 1g");
    }
    r = r < 0 ? r : snp_remote_session_of(cli, opts, &session, &err);
    return snp_remote_end(cli, r, &err,
                          SNP_WRITE(snp_sessions_set_request, .session = session, .limits = limits),
                          set_tell, session);
}

/* destroy ---------------------------------------------------------------------------------- */

/* Report the cell that was cut off by the end of its session, if any. */
static void ended_tell(const json_t *answer, const char *session)
{
    const json_t *member = json_object_get(answer, "ended");
    SNP_READ(snp_ended_row, ended, member);

    if (member != NULL) {
        (void)fflush(stdout);
        snp_term_printf(stderr, "cut off: cell %" PRIu64 " of %s, which had run for %s\n",
                        ended.cell, session, snp_human_span(ended.ran_ms * 1000).text);
    }
}

/* session: name or id to end; shown: its name in the answer. */
static int destroy_one(
    struct snp_cli *cli, const char *session, const char *shown, json_t *done, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    int r = snp_remote_call(cli, SNP_WRITE(snp_sessions_destroy_request, .session = session),
                            &reply, err);

    if (r == 0) {
        (void)json_array_append_new(done, json_string(shown));
        ended_tell(reply.head, shown);
    }
    return r;
}

/* Why --all skips a session; NULL: it belongs to the user. */
static const char *others(const struct snp_session_row *row)
{
    return row->name == NULL  ? "owned by a program, ends with it"
           : row->client != 0 ? "in use by a program"
           : strcmp(row->name, "default") == 0 || snp_has_prefix(row->name, "default-")
               ? "owned by an AI client"
               : NULL;
}

/* Ask for confirmation at a terminal. */
static bool confirm_all(const json_t *rows)
{
    snp_autofree char *question = NULL;
    size_t n = 0;
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)rows, i, item)
    {
        SNP_READ(snp_session_row, row, item);
        n += others(&row) == NULL ? 1 : 0;
    }
    question = snp_need_format("Destroy %zu session%s and everything in %s?", n, n == 1 ? "" : "s",
                               n == 1 ? "it" : "them");
    return n == 0 || !snp_cli_can_ask() || snp_cli_confirm(question);
}

static int destroy_all(struct snp_cli *cli, bool is_sure, json_t *done, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    size_t i;
    json_t *item;
    int r = snp_remote_list(cli, &reply, err);
    const json_t *rows = json_object_get(reply.head, "sessions");

    if (r == 0 && !is_sure && !confirm_all(rows)) {
        return snp_fail(err, SNP_E_DENIED, "nothing was destroyed");
    }
    json_array_foreach((json_t *)(uintptr_t)rows, i, item)
    {
        SNP_READ(snp_session_row, row, item);
        const char *name = row.name == NULL ? row.id : row.name;

        if (others(&row) != NULL) {
            snp_term_printf(stderr, "kept: %s (%s); name it to destroy it\n", name, others(&row));
            continue;
        }
        r = destroy_one(cli, row.id, name, done, err);
        /* Already gone is success. */
        if (r < 0 && r != SNP_E_NOT_FOUND) {
            return r;
        }
    }
    return r == SNP_E_NOT_FOUND ? 0 : r;
}

static int run_destroy(struct snp_cli *cli, const struct snp_opts *opts)
{
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
    if (r == 0 && all) {
        r = destroy_all(cli, snp_opts_flag(opts, "yes", false), done, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < n; i++) {
        const char *session = i < n_given ? given[i] : snp_opts_arg(opts, i - n_given);

        if (destroy_one(cli, session, session, done, &err) < 0) {
            exit_code = snp_cli_fail(cli, &err);
        }
    }
    return snp_cli_done_list(cli, "destroyed", done, all ? "no sessions" : NULL, exit_code);
}

/* clear ------------------------------------------------------------------------------------ */

static int clear(struct snp_cli *cli,
                 const char *session,
                 bool idle_only,
                 struct snp_reply *ret,
                 struct snp_err *err)
{
    return snp_remote_call(
        cli, SNP_WRITE(snp_sessions_clear_request, .session = session, .idle_only = idle_only), ret,
        err);
}

static int run_clear(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *session = NULL;
    bool is_sure = snp_opts_flag(opts, "yes", false);
    struct snp_err err;
    int r;

    if (snp_opts_n_args(opts) == 0 && snp_opts_str(opts, "session") == NULL) {
        return snp_cli_usage(cli, "give the name of the session to clear"); /* required even for the
                                                                        * only session */
    }
    r = snp_remote_session_of(cli, opts, &session, &err);
    r = r < 0 ? r : clear(cli, session, !is_sure, &reply, &err);
    if (r == SNP_E_DENIED && !is_sure && snp_cli_can_ask()) {
        (void)snp_cli_fail(cli, &err);
        if (!snp_cli_confirm("Clear the session and cut the cell off?")) {
            (void)fputs("nothing was cleared\n", stderr);
            return SNP_EXIT_FAILED;
        }
        r = clear(cli, session, false, &reply, &err);
    }
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, reply.head);
    }
    snp_term_printf(stdout, "cleared %s: no variables, no files, no history, no snapshots\n",
                    session);
    ended_tell(reply.head, session);
    return SNP_EXIT_OK;
}

/* Verbs ------------------------------------------------------------------------------------ */

static const struct snp_opt show_options[] = {SNP_CLI_OPT_SESSION, SNP_CLI_OPT_JSON};
static const struct snp_opt clear_options[] = {
    SNP_CLI_OPT_SESSION,
    {"yes", 'y', SNP_OPT_FLAG, NULL, "do not ask, even if a cell is running", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt move_options[] = {
    {"to", 0, SNP_OPT_STRING, "TIER", "target tier: native, docker or local (weaker)",
     SNP_KEY_ENVIRONMENT},
    {"yes", 'y', SNP_OPT_FLAG, NULL, "move without the items that cannot move", 0},
    SNP_CLI_OPT_SESSION,
    {"allow-degraded", 0, SNP_OPT_FLAG, NULL, "move even if this host lacks a control", 0},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt set_options[] = {
    SNP_CLI_OPT_LIMITS,
    SNP_CLI_OPT_SESSION,
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt list_options[] = {
    {"names", 0, SNP_OPT_FLAG, NULL, "print only the names, one a line", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt destroy_options[] = {
    {"all", 0, SNP_OPT_FLAG, NULL,
     "all sessions except those of AI clients and running programs; asks at a terminal", 0},
    {"yes", 'y', SNP_OPT_FLAG, NULL, "do not ask", 0},
    {"session", 's', SNP_OPT_LIST, "NAME", "the same as SESSION; may be repeated", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg one_session[] = {SNP_CLI_ARG_SESSION};
static const struct snp_opt_arg named_session[] = {{"SESSION", "name or id", 0, 1}};
static const struct snp_opt_arg any_sessions[] = {
    {"SESSION", "name or id (its first 8 digits are enough)", 0, 0}};

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "list the sessions, the most recently used first",
    .spec = SNP_OPTIONS(list_options),
    .run = run_list,
};
static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "show one session: its limits and the enforced controls",
    .spec = SNP_SPEC(show_options, one_session),
    .run = snp_remote_ask,
    .request = &snp_sessions_show_request_form,
    .tell = show_tell,
};
static const struct snp_verb verb_destroy = {
    .name = "destroy",
    .summary = "end sessions and delete their variables, files, history and snapshots",
    .description = "End sessions permanently: this deletes their variables, files, history and "
                   "snapshots, in memory and on disk. Forks stay. To keep a copy, use `export` "
                   "first; to keep name and limits, use `sessions clear`.",
    .spec = SNP_SPEC(destroy_options, any_sessions),
    .run = run_destroy,
};
static const struct snp_verb verb_clear = {
    .name = "clear",
    .summary = "delete a session's contents; keep its name and limits",
    .description = "Delete a session's variables, files, history and snapshots. Name, template, "
                   "limits and project stay. If a cell is running, it asks before cutting the cell "
                   "off; without a terminal it refuses unless --yes is given.",
    .spec = SNP_SPEC(clear_options, named_session),
    .examples = "sessions clear work\nsessions clear work --yes",
    .run = run_clear,
};
static const struct snp_verb verb_move = {
    .name = "move",
    .summary = "move a session to another tier",
    .description =
        "Save a session and test that it can be restored in the other tier; only then end it in "
        "the current tier. The next cell wakes it there with variables, files, "
        "history and snapshots. Anything that cannot move is listed first, and without "
        "--yes the session then does not move. Processes and threads of the session "
        "end.",
    .spec = SNP_SPEC(move_options, named_session),
    .examples = "sessions move work --to docker\nsessions move work --to native --yes",
    .run = run_move,
};
static const struct snp_verb verb_set = {
    .name = "set",
    .summary = "change limits of a session",
    .description =
        "Change limits of a session permanently; its forks inherit them. Other limits do not "
        "change. A limit applies at once if the kernel can change it while the session runs. "
        "Otherwise it applies at the next wake, as its line of the output says; after `hibernate` "
        "the next cell wakes the session. A hibernated session is woken first if a limit of "
        "memory, "
        "files or processes is lowered.",
    .spec = SNP_SPEC(set_options, named_session),
    .examples = "sessions set work --memory 1g --timeout 60\nsessions set work --cpus 2 --json",
    .run = run_set,
};
static const struct snp_verb *const verbs[] = {&verb_list,  &verb_show,    &verb_set, &verb_move,
                                               &verb_clear, &verb_destroy, NULL};

const struct snp_verb snp_verb_sessions = {
    .name = "sessions",
    .summary = "list, show, change, move, clear and end sessions",
    .verbs = verbs,
    .fallback = &verb_list,
};
