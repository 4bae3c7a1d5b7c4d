/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Code shared by all verbs: finding the verb, its help, its configuration, its messages. The only
 * place that turns errors into exit statuses.
 */

#include "base/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/remedy.h"
#include "base/cli/spawn.h"
#include "base/cli/suite.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/str.h"
#include "base/text/escape.h"

enum {
    VERBS_MAX = 64,
    TEXT_SHOWN = 60,
    USAGE_MAX_BYTES = 256,
    MESSAGE_MAX_BYTES = 8192,
    PATH_SHOWN_MAX_BYTES = 64 << 10,
    JSON_DIGITS = 15, /* decimal digits that a double holds exactly */
    NAME_COLUMN = 14,
};

/* Commands of earlier releases that were removed. */
static const char *const later_verbs[] = {
    "snipara-status",
};

static const struct snp_opt root_options[] = {
    {"version", 'V', SNP_OPT_FLAG, NULL, "show the version and exit", 0},
};
static const struct snp_opt_spec root_spec = {
    .options = root_options,
    .n_options = SNP_ARRAY_LEN(root_options),
    .args = &(const struct snp_opt_arg){"COMMAND", "what to do", 0, 0},
    .n_args = 1,
    .stop_at_arg = true,
};
static const struct snp_opt_spec root_options_spec = {
    .options = root_options,
    .n_options = SNP_ARRAY_LEN(root_options),
};
static const struct snp_opt_spec group_spec = {
    .args = &(const struct snp_opt_arg){"COMMAND", "what to do", 0, 0},
    .n_args = 1,
    .stop_at_arg = true,
};

const char snp_cli_about[] =
    "Run untrusted code in sandboxes isolated by the kernel. Sessions start in "
    "milliseconds, keep variables and files, and report what was enforced, what was "
    "denied and what it cost.";
const char snp_cli_exit_codes[] = "0  done\n1  failed\n2  usage error; nothing was done";

const struct snp_opt_spec *snp_cli_root_spec(void)
{
    return &root_options_spec;
}

/* With --json, standard output is one value: the answer or the error. */
static struct {
    bool is_wanted;
    bool is_told;
    json_t *error; /* owned: the first error; NULL = none */
} json_answer;

/* ---- messages ---- */

static void note_error(const struct snp_err *err)
{
    if (json_answer.is_wanted && json_answer.error == NULL) {
        json_answer.error = snp_json_from_err(err);
        (void)json_object_set_new(json_answer.error, "message", snp_cli_remedy_text(err));
    }
    (void)fflush(stdout);
}

/*
 * Print one paragraph on stderr, whatever the message contains; before is "" to continue the
 * previous line.
 */
static void say(const char *before, const char *message)
{
    snp_autofree char *shown = snp_term_line(message, strlen(message));

    snp_term_put(stderr, SNP_STYLE_RED, before);
    (void)fputs(*before == '\0' ? "  " : ": ", stderr);
    snp_term_fill(stderr, shown, strlen(before) + 2, 2);
    (void)fputc('\n', stderr);
}

/* Print a message "what blocks; what lifts it; what to do without" with a line for each part. */
static void say_parts(const char *before, char *message)
{
    for (char *part = message; part != NULL;) {
        char *end = strstr(part, "; ");

        if (end != NULL) {
            *end = '\0';
        }
        say(part == message ? before : "", part);
        part = end == NULL ? NULL : end + 2;
    }
}

/* Remove the method's name from the message; it usually repeats the verb printed before it. */
static void own_words(const struct snp_cli *cli, char *message)
{
    const char *space = strrchr(cli->command, ' ');
    const char *verb = space == NULL ? cli->command : space + 1;
    size_t n = strlen(verb);

    if (strncmp(message, verb, n) == 0 && strncmp(message + n, ": ", 2) == 0) {
        memmove(message, message + n + 2, strlen(message + n + 2) + 1);
    }
}

/* Print the message, and below it the remedy. */
static void say_whole(const char *before, struct snp_err *err)
{
    snp_autobuf struct snp_buf words = {0};

    snp_buf_init(&words, MESSAGE_MAX_BYTES / 4);
    if (err->code == SNP_E_UNSUPPORTED) {
        say_parts(before, err->msg);
    } else {
        say(before, err->msg);
    }
    if (snp_cli_remedy_add(&words, err) == 0 && words.len > 0) {
        say("", snp_buf_cstr(&words));
    }
}

int snp_cli_fail(const struct snp_cli *cli, const struct snp_err *err)
{
    struct snp_err shown = *err;

    own_words(cli, shown.msg);
    if (cli->listener != NULL) {
        cli->listener->fail(cli->listener->ctx, &shown);
        return snp_code_exit(err->code);
    }
    note_error(&shown);
    say_whole(cli->command, &shown);
    return snp_code_exit(err->code);
}

int snp_cli_end(const struct snp_cli *cli, int r, const struct snp_err *err, const json_t *answer)
{
    if (r < 0) {
        return snp_cli_fail(cli, err);
    }
    if (cli->listener != NULL) {
        cli->listener->end(cli->listener->ctx, answer);
        return SNP_EXIT_OK;
    }
    return snp_cli_print_json(answer);
}

static int usage_error(const struct snp_cli *cli, const char *message)
{
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_INVALID, "%s", message);
    if (cli->listener != NULL) {
        cli->listener->fail(cli->listener->ctx, &err);
        return SNP_EXIT_USAGE;
    }
    note_error(&err);
    say(cli->command, message);
    (void)fprintf(stderr, "see '%s --help'\n", cli->command);
    return SNP_EXIT_USAGE;
}

int snp_cli_usage(const struct snp_cli *cli, const char *fmt, ...)
{
    char message[sizeof(((struct snp_err *)0)->msg)];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    return usage_error(cli, message);
}

void snp_cli_warn(const struct snp_cli *cli, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char message[MESSAGE_MAX_BYTES / 4];
    int n = snprintf(message, sizeof(message), "warning: ");
    (void)vsnprintf(message + n, sizeof(message) - (size_t)n, fmt, args);
    va_end(args);
    if (cli->listener != NULL) {
        cli->listener->warn(cli->listener->ctx, message + n);
        return;
    }
    (void)fflush(stdout);
    say(cli->command, message);
}

void snp_cli_next(const struct snp_cli *cli, const char *next)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "next: %s %s\n", cli->program, next);
}

bool snp_cli_can_ask(void)
{
    return snp_term_is(stdin);
}

bool snp_cli_confirm(const char *question)
{
    char line[16];

    if (!snp_cli_can_ask()) {
        return false;
    }
    (void)fflush(stdout);
    snp_term_printf(stderr, "%s [y/N] ", question);
    return fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

json_t *snp_cli_path_json(const char *path)
{
    snp_autobuf struct snp_buf shown = {0};

    if (snp_utf8_valid(path, strlen(path))) {
        return json_string(path);
    }
    snp_buf_init(&shown, PATH_SHOWN_MAX_BYTES);
    return snp_escape(&shown, path, strlen(path)) < 0
               ? NULL
               : json_stringn(snp_buf_bytes(&shown), shown.len);
}

int snp_cli_print_json(const json_t *value)
{
    size_t flags = JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(JSON_DIGITS);
    if (!snp_term_is(stdout)) {
        flags &= ~(size_t)JSON_ENSURE_ASCII;
    }
    snp_autojson json_t *whole = NULL;
    if (json_answer.error != NULL && json_is_object(value) &&
        json_object_get(value, "error") == NULL) {
        whole = json_deep_copy(value);
        (void)json_object_set(whole, "error", json_answer.error);
    }
    json_answer.is_told = true;
    int r = json_dumpf(whole == NULL ? value : whole, stdout, flags | JSON_ENCODE_ANY);
    return r < 0 || fputc('\n', stdout) == EOF ? SNP_EXIT_FAILED : SNP_EXIT_OK;
}

void snp_cli_print_url(const char *url, const char *token_file, bool as_json)
{
    snp_autojson json_t *answer =
        !as_json ? NULL
        : token_file == NULL
            ? json_pack("{s:s}", "url", url)
            : json_pack("{s:s, s:o}", "url", url, "token_file", snp_cli_path_json(token_file));

    if (answer != NULL) {
        (void)!snp_cli_print_json(answer); /* a broken standard output is reported at the end */
    } else {
        (void)printf("%s\n", url);
    }
    (void)fflush(stdout);
}

int snp_cli_done_list(
    const struct snp_cli *cli, const char *done, json_t *names, const char *nothing, int exit_code)
{
    snp_autojson json_t *answer = cli->is_json ? json_pack("{s:O}", done, names) : NULL;
    size_t i;
    json_t *name;

    if (cli->is_json) {
        return snp_cli_print_json(answer) != 0 ? SNP_EXIT_FAILED : exit_code;
    }
    if (nothing != NULL && json_array_size(names) == 0) {
        (void)puts(nothing);
    }
    json_array_foreach(names, i, name)
    {
        (void)printf("%s %s\n", done, json_string_value(name));
    }
    return exit_code;
}

/* ---- help ---- */

/* The group title printed above a verb; NULL = none. */
static const char *title_of(const char *verb)
{
    static const char *const titles[][2] = {
        {"exec", "Run code"},  {"sessions", "Sessions"}, {"put", "Files"},
        {"check", "Projects"}, {"run", "Models"},        {"init", "Setup"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(titles); i++) {
        if (snp_streq(titles[i][0], verb)) {
            return titles[i][1];
        }
    }
    return NULL;
}

static void print_verbs(FILE *out,
                        const struct snp_verb *const *verbs,
                        bool has_groups,
                        unsigned width)
{
    (void)fputs(has_groups ? "" : "\nCommands:\n", out);
    for (; *verbs != NULL; verbs++) {
        const char *title = has_groups ? title_of((*verbs)->name) : NULL;

        if (title != NULL) {
            (void)fprintf(out, "\n%s:\n", title);
        }
        (void)fprintf(out, "  %-*s", NAME_COLUMN - 2, (*verbs)->name);
        snp_opt_fill(out, (*verbs)->summary, NAME_COLUMN, width);
    }
}

/* Examples: one command per line, the program's name put before each. */
static void print_examples(FILE *out, const char *program, const char *examples)
{
    (void)fputs("\nExamples:\n", out);
    while (*examples != '\0') {
        size_t n = strcspn(examples, "\n");
        (void)fprintf(out, "  %s %.*s\n", program, (int)n, examples);
        examples += n + (examples[n] == '\n' ? 1 : 0);
    }
}

static int print_verb_help(const struct snp_cli *cli, const struct snp_verb *verb)
{
    unsigned width = snp_term_width(stdout);
    const struct snp_opt_spec *spec = verb->verbs != NULL ? &group_spec : &verb->spec;
    char usage[USAGE_MAX_BYTES] = "COMMAND [ARGS]...";
    if (verb->verbs == NULL) {
        (void)snp_opt_usage(spec, usage, sizeof(usage));
    }
    (void)printf("Usage: %s %s\n\n", cli->command, usage);
    snp_opt_wrap(stdout, verb->description != NULL ? verb->description : verb->summary, 2, width);
    if (verb->verbs != NULL) {
        print_verbs(stdout, verb->verbs, false, width);
    } else {
        snp_opt_print(stdout, spec, width);
    }
    if (verb->examples != NULL) {
        print_examples(stdout, cli->program, verb->examples);
    }
    (void)fputs("\nExit codes:\n", stdout);
    snp_opt_wrap(stdout, verb->exit_codes != NULL ? verb->exit_codes : snp_cli_exit_codes, 2,
                 width);
    return SNP_EXIT_OK;
}

static int print_root_help(const struct snp_cli *cli)
{
    unsigned width = snp_term_width(stdout);
    (void)printf("Usage: %s [OPTIONS] COMMAND [ARGS]...\n\n", cli->program);
    snp_opt_wrap(stdout, snp_cli_about, 2, width);
    (void)printf("\nStart with: %s exec 'print(6 * 7)'\n", cli->program);
    print_verbs(stdout, cli->verbs, true, width);
    snp_opt_print(stdout, snp_cli_root_spec(), width);
    (void)printf("\nHelp on a command: %s COMMAND --help\n", cli->program);
    return SNP_EXIT_OK;
}

/* ---- finding and running a verb ---- */

static const struct snp_verb *find_verb(const struct snp_verb *const *verbs, const char *name)
{
    for (; *verbs != NULL; verbs++) {
        if (snp_streq((*verbs)->name, name)) {
            return *verbs;
        }
    }
    return NULL;
}

static int unknown_verb(const struct snp_cli *cli,
                        const struct snp_verb *const *verbs,
                        const char *name)
{
    const char *names[VERBS_MAX];
    size_t n = 0;
    for (; n < VERBS_MAX && verbs[n] != NULL; n++) {
        names[n] = verbs[n]->name;
    }
    for (size_t i = 0; verbs == cli->verbs && i < SNP_ARRAY_LEN(later_verbs); i++) {
        if (snp_streq(later_verbs[i], name)) {
            return snp_cli_usage(cli, "unknown command '%s': this version does not have it yet",
                                 name);
        }
    }
    const char *nearest = snp_suggest(name, names, n);
    if (nearest != NULL) {
        return snp_cli_usage(cli, "unknown command '%.*s'; did you mean %s?", TEXT_SHOWN, name,
                             nearest);
    }
    for (size_t i = 0; i < n; i++) {
        if (verbs[i]->verbs != NULL && find_verb(verbs[i]->verbs, name) != NULL) {
            return snp_cli_usage(cli, "unknown command '%.*s'; did you mean %s %s?", TEXT_SHOWN,
                                 name, verbs[i]->name, name);
        }
    }
    if (verbs != cli->verbs && find_verb(cli->verbs, name) != NULL) {
        return snp_cli_usage(cli, "unknown command '%.*s'; did you mean snipara-sandbox %s?",
                             TEXT_SHOWN, name, name);
    }
    if (verbs == cli->verbs) {
        return snp_cli_usage(cli, "unknown command '%.*s'%s", TEXT_SHOWN, name,
                             snp_suite_verbs()[0] != NULL
                                 ? ""
                                 : "; commands about models and projects are in the package "
                                   "snipara-agent, which is not installed");
    }
    snp_autobuf struct snp_buf all = {0};
    snp_buf_init(&all, MESSAGE_MAX_BYTES / 4);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = snp_buf_addf(&all, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    return snp_cli_usage(cli, "unknown command '%.*s'; there are: %s", TEXT_SHOWN, name,
                         snp_buf_cstr(&all));
}

static bool has_option(const struct snp_verb *verb, const char *name)
{
    for (size_t i = 0; i < verb->spec.n_options; i++) {
        if (snp_streq(verb->spec.options[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Whether the words after a group's name are for its default verb. */
static bool is_for_fallback(const struct snp_verb *verb, int argc, char *const *argv)
{
    /* A word that the default verb would not take is a misspelt verb. */
    return verb->fallback != NULL &&
           (argc < 2 || (!snp_streq(argv[1], "--help") && !snp_streq(argv[1], "-h") &&
                         (argv[1][0] == '-' || verb->fallback->spec.n_args > 0) &&
                         find_verb(verb->verbs, argv[1]) == NULL));
}

/* Run the rest of a command line below `verbs`: argv[0] names one of them. */
static int run_below(struct snp_cli *cli,
                     const struct snp_verb *const *verbs,
                     int argc,
                     char *const *argv)
{
    const struct snp_verb *verb = find_verb(verbs, argv[0]);
    if (verb == NULL) {
        return unknown_verb(cli, verbs, argv[0]);
    }
    if (verb->program != NULL) {
        struct snp_err err;

        (void)!snp_become(verb->program, cli->argv, &err);
        return snp_cli_fail(cli, &err);
    }
    size_t used = strlen(cli->command);
    (void)snprintf(cli->command + used, sizeof(cli->command) - used, " %s", verb->name);

    verb = is_for_fallback(verb, argc, argv) ? verb->fallback : verb;
    const struct snp_opt_spec *spec = verb->verbs != NULL ? &group_spec : &verb->spec;
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = NULL;
    struct snp_err err;
    int r = snp_opts_parse(spec, argc - 1, argv + 1, &opts, &err);
    if (r < 0) {
        return usage_error(cli, err.msg);
    }
    if (snp_opts_help(opts) || (verb->verbs != NULL && snp_opts_n_args(opts) == 0)) {
        return print_verb_help(cli, verb);
    }
    if (verb->verbs != NULL) {
        int n = (int)snp_opts_n_args(opts);
        return run_below(cli, verb->verbs, n, argv + argc - n);
    }
    cli->verb = verb;
    cli->is_json = has_option(verb, "json") && snp_opts_flag(opts, "json", false);
    return verb->run(cli, opts);
}

/* `help sessions list` is `sessions list --help`. */
static int run_help(struct snp_cli *cli, int argc, char *const *argv)
{
    static char flag[] = "--help";
    snp_autofree char **words = snp_need(calloc((size_t)argc + 1, sizeof(*words)));

    if (argc == 0) {
        return print_root_help(cli);
    }
    memcpy(words, argv, (size_t)argc * sizeof(*words));
    words[argc] = flag;
    return run_below(cli, cli->verbs, argc + 1, words);
}

static int run_root(struct snp_cli *cli, int argc, char *const *argv)
{
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = NULL;
    struct snp_err err;
    if (snp_opts_parse(&root_spec, argc - 1, argv + 1, &opts, &err) < 0) {
        return usage_error(cli, err.msg);
    }
    if (snp_opts_flag(opts, "version", false)) {
        return snp_cli_version();
    }
    int n = (int)snp_opts_n_args(opts);
    if (snp_opts_help(opts) || n == 0) {
        return print_root_help(cli);
    }
    if (snp_streq(argv[argc - n], "help")) {
        return run_help(cli, n - 1, argv + argc - n + 1);
    }
    return run_below(cli, cli->verbs, n, argv + argc - n);
}

int snp_cli_version(void)
{
    return printf("snipara-sandbox %s\n", SNP_VERSION) < 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK;
}

int snp_cli_exit(const struct snp_cli *cli, int status)
{
    return status == SNP_EXIT_FAILED && cli->signal_no != 0 ? SNP_EXIT_SIGNAL + cli->signal_no
                                                            : status;
}

int snp_cli_run(const struct snp_verb *const *verbs, int argc, char *const *argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc == 0 ? "" : slash == NULL ? argv[0] : slash + 1;
    struct snp_cli cli = {
        .program = snp_streq(name, "rlm") ? "rlm" : "snipara-sandbox",
        .verbs = verbs,
        .argv = argv,
    };
    (void)snprintf(cli.command, sizeof(cli.command), "%s", cli.program);
    /* Needed even if the words cannot be parsed. Words after -- belong to another program. */
    for (int i = 1; i < argc && !snp_streq(argv[i], "--"); i++) {
        json_answer.is_wanted |= snp_streq(argv[i], "--json");
    }
    int status = run_root(&cli, argc > 0 ? argc : 1, argv);
    if (json_answer.error != NULL && !json_answer.is_told) {
        snp_autojson json_t *answer = json_object();
        (void)snp_cli_print_json(answer);
    }
    if (cli.unsaved != NULL) {
        snp_autofree char *text = snp_unsaved_text(cli.unsaved);
        snp_cli_warn(&cli, "%s", text);
    }
    json_decref(SNP_TAKE_PTR(cli.unsaved));
    json_decref(SNP_TAKE_PTR(json_answer.error));
    status = snp_cli_exit(&cli, status);
    snp_config_free(cli.config);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno != EPIPE) {
            say(cli.command, "standard output cannot be written");
        }
        status = status == SNP_EXIT_OK ? SNP_EXIT_FAILED : status;
    }
    return status;
}

/* ---- configuration ---- */

static void warn_all(const struct snp_cli *cli, const struct snp_config *config)
{
    const char *const *lines = NULL;
    size_t n = snp_config_warnings(config, &lines);
    for (size_t i = 0; i < n; i++) {
        snp_cli_warn(cli, "%s", lines[i]);
    }
}

/* Warn of the ignored settings of the folder's files, a line for each. */
static void warn_ignored(const struct snp_cli *cli,
                         const struct snp_verb *verb,
                         const struct snp_config *config)
{
    for (int kind = 0; kind < SNP_FILE_N; kind++) {
        snp_autofree char *line =
            snp_config_ignored(config, (enum snp_config_file_kind)kind, verb->asks_models);
        if (line != NULL) {
            snp_cli_warn(cli, "%s", line);
        }
    }
}

int snp_cli_config(struct snp_cli *cli,
                   const struct snp_opts *opts,
                   const struct snp_config **ret,
                   struct snp_err *err)
{
    const struct snp_verb *verb = cli->verb;
    struct snp_config_request request = {0};
    int r;

    if (cli->config != NULL) {
        *ret = cli->config;
        return 0;
    }
    if (has_option(verb, "config")) {
        request.config_path = snp_opts_str(opts, "config");
    }
    snp_autoconfig struct snp_config *config = NULL;
    r = snp_config_load(&request, &config, err);
    for (size_t i = 0; r == 0 && i < verb->spec.n_options; i++) {
        const struct snp_opt *opt = &verb->spec.options[i];
        const char *text = snp_opts_text_at(opts, i);

        if (opt->key != SNP_KEY_NONE && text != NULL) {
            char flag[TEXT_SHOWN];

            (void)snprintf(flag, sizeof(flag), "--%s", opt->name);
            r = snp_config_set(config, (enum snp_config_key)opt->key, text, flag, err);
        }
    }
    for (const struct snp_cli_setting *s = cli->settings; r == 0 && s != NULL && s->name != NULL;
         s++) {
        r = snp_config_set(config, s->key, s->text, s->name, err);
    }
    if (r == 0) {
        warn_all(cli, config);
        warn_ignored(cli, verb, config);
        *ret = cli->config = SNP_TAKE_PTR(config);
    }
    return r;
}
