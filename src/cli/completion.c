/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `completion`: scripts for bash, zsh and fish, written from the tables of verbs and options.
 * A script walks the words before the cursor to find the command, then offers its rows.
 */

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/wire/exec.h"
#include "cli/cli.h"

enum {
    PATH_MAX_BYTES = 96
};

/* A verb and the words that lead to it ("sessions list"); verb NULL is the program itself. */
struct verb_path {
    const char *path;
    const struct snp_verb *verb;
    const struct snp_verb *const *below; /* NULL for a verb with options */
};

typedef void (*visit_fn)(const struct verb_path *place);

static void visit_all(const struct snp_verb *const *verbs, const char *path, visit_fn visit)
{
    for (; *verbs != NULL; verbs++) {
        char own[PATH_MAX_BYTES];
        (void)snprintf(own, sizeof(own), "%s%s%s", path, path[0] == '\0' ? "" : " ",
                       (*verbs)->name);
        const struct verb_path place = {own, *verbs, (*verbs)->verbs};
        visit(&place);
        if ((*verbs)->verbs != NULL) {
            visit_all((*verbs)->verbs, own, visit);
        }
    }
}

static bool takes_value(const struct snp_opt *opt)
{
    return opt->metavar != NULL;
}

/* The values an option's key allows; NULL if any. NULL-terminated or SNP_CONFIG_CHOICES long. */
static const char *const *choices_of(const struct snp_opt *opt)
{
    if (snp_streq(opt->name, "recover")) {
        return snp_exec_recovers;
    }
    if (opt->key == SNP_KEY_NONE || opt->key == SNP_KEY_ENVIRONMENT) {
        return NULL;
    }
    const struct snp_config_info *info = snp_config_info((enum snp_config_key)opt->key);
    return info->choices[0] == NULL ? NULL : info->choices;
}

/* Names are fetched when needed; the daemon is asked only if it runs. */
static const char template_names[] = "template list --names";
static const char tier_names[] = "doctor --names";
static const char session_names[] = "sessions list --names";
static const char snapshot_names[] = "snapshots list --names";
static const char run_names[] = "runs list --names";
/* Names of sessions and snapshots. */
static const char both_names[] = "snapshots list --names --sessions";

/* The command that lists the values of an option; NULL = none does. */
static const char *names_of_option(const struct snp_opt *opt)
{
    if (opt->key == SNP_KEY_TEMPLATE) {
        return template_names;
    }
    if (opt->key == SNP_KEY_ENVIRONMENT) {
        return tier_names;
    }
    return snp_streq(opt->name, "session") ? session_names : NULL;
}

/* Completion of a verb's arguments. */
struct arguments {
    const char *path;
    const char *names; /* the command that lists them; NULL = words */
    const char *words; /* fixed ones */
    bool is_place;     /* SESSION:PATH */
    bool after_first;  /* the first one is a file */
};

static const struct arguments *arguments_of(const struct verb_path *place)
{
    static const struct arguments rows[] = {
        {"sessions show", session_names, NULL, false, false},
        {"sessions destroy", session_names, NULL, false, false},
        {"sessions set", session_names, NULL, false, false},
        {"sessions move", session_names, NULL, false, false},
        {"sessions clear", session_names, NULL, false, false},
        {"snapshots list", session_names, NULL, false, false},
        {"snapshots remove", snapshot_names, NULL, false, false},
        {"rollback", snapshot_names, NULL, false, false},
        {"fork", both_names, NULL, false, false},
        {"diff", both_names, NULL, false, false},
        {"history", session_names, NULL, false, false},
        {"show", session_names, NULL, true, false},
        {"rerun", session_names, NULL, true, false},
        {"checkpoint", session_names, NULL, false, false},
        {"hibernate", session_names, NULL, false, false},
        {"back", run_names, NULL, false, false},
        {"resume", run_names, NULL, false, false},
        {"replay", run_names, NULL, false, false},
        {"logs show", run_names, NULL, false, false},
        {"runs show", run_names, NULL, false, false},
        {"runs cancel", run_names, NULL, false, false},
        {"template show", template_names, NULL, false, false},
        {"template remove", template_names, NULL, false, false},
        {"put", session_names, NULL, true, true},
        {"get", session_names, NULL, true, false},
        {"ls", session_names, NULL, true, false},
        {"completion", NULL, "bash zsh fish", false, false},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (snp_streq(rows[i].path, place->path)) {
            return &rows[i];
        }
    }
    return NULL;
}

/*
 * Print the command that lists names; program: how the shell calls us, colon: as the shell's sed
 * needs it.
 */
static void put_names(const char *program, const char *names, const char *colon)
{
    (void)printf("%s %s 2>/dev/null", program, names);
    if (colon != NULL) {
        (void)printf(" | sed s/\\$/%s/", colon);
    }
}

static void put_choices(const char *const *choices)
{
    for (size_t i = 0; i < SNP_CONFIG_CHOICES && choices[i] != NULL; i++) {
        (void)printf("%s%s", i == 0 ? "" : " ", choices[i]);
    }
}

/* Print text inside single quotes of a shell; `also` (0 = none) is escaped with a backslash. */
static void put_quoted(const char *text, char also)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            (void)fputs("'\\''", stdout);
        } else if (also != '\0' && *text == also) {
            (void)printf("\\%c", *text);
        } else {
            (void)putchar(*text);
        }
    }
}

/* ---- bash and zsh: the path of the command, as a case over the words so far ---- */

static void put_path_pattern(const struct verb_path *place)
{
    (void)printf("|'%s'", place->path);
}

static void put_path_walk(const struct snp_verb *const *verbs)
{
    (void)fputs("        case \"$verb$word\" in\n        ''", stdout);
    visit_all(verbs, "", put_path_pattern);
    (void)fputs(") verb=\"$verb$word \" ;;\n        esac\n", stdout);
}

/* Lines that offer fixed values after an option: `'exec --template') WORDS`. */
static void put_value_case(const struct verb_path *place, const struct snp_opt *opt)
{
    const char *const *choices = choices_of(opt);
    const char *names = names_of_option(opt);
    if (!takes_value(opt)) {
        return;
    }
    (void)printf("    '%s --%s'", place->path, opt->name);
    if (opt->short_name != 0) {
        (void)printf("|'%s -%c'", place->path, opt->short_name);
    }
    (void)fputs(") values=", stdout);
    if (names != NULL) {
        (void)fputs("$(", stdout);
        put_names("$program", names, NULL);
        (void)fputs(") is_value=1 ;;\n", stdout);
        return;
    }
    (void)putchar('\'');
    if (choices != NULL) {
        put_choices(choices);
    }
    (void)fputs("' is_value=1 ;;\n", stdout);
}

static void put_value_cases(const struct verb_path *place)
{
    for (size_t i = 0; place->below == NULL && i < place->verb->spec.n_options; i++) {
        put_value_case(place, &place->verb->spec.options[i]);
    }
}

/* ---- bash ---- */

static void bash_words(const struct snp_verb *const *verbs)
{
    for (; *verbs != NULL; verbs++) {
        (void)printf("%s ", (*verbs)->name);
    }
}

static void bash_options(const struct snp_opt_spec *spec)
{
    for (size_t i = 0; i < spec->n_options; i++) {
        (void)printf("--%s ", spec->options[i].name);
        if (spec->options[i].type == SNP_OPT_BOOL) {
            (void)printf("--no-%s ", spec->options[i].name);
        }
    }
}

static void bash_case(const struct verb_path *place)
{
    const struct arguments *arguments = arguments_of(place);

    (void)printf("    '%s ') words='", place->path);
    if (place->below != NULL) {
        bash_words(place->below);
    } else {
        bash_options(&place->verb->spec);
    }
    (void)fputs("--help'", stdout);
    if (arguments != NULL) {
        /* Options only after a dash; otherwise names, then files. */
        (void)fputs("; [[ $cur == -* ]] || words=", stdout);
        if (arguments->words != NULL) {
            (void)printf("'%s'", arguments->words);
        } else {
            (void)printf("$(%s", arguments->after_first ? "[[ $prev == put ]] || " : "");
            put_names("$program", arguments->names, arguments->is_place ? ":" : NULL);
            (void)putchar(')');
        }
    }
    (void)fputs(" ;;\n", stdout);
}

static void put_bash(const struct snp_verb *const *verbs)
{
    (void)fputs("# bash completion of snipara-sandbox: put it where bash-completion looks, or\n"
                "#   source <(snipara-sandbox completion bash)\n"
                "_snipara_sandbox()\n{\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                "    local verb='' words='' values='' is_value='' word program=${COMP_WORDS[0]}\n"
                "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n",
                stdout);
    put_path_walk(verbs);
    (void)fputs("    done\n    case \"$verb$prev\" in\n", stdout);
    visit_all(verbs, "", put_value_cases);
    (void)fputs("    esac\n    case \"$verb\" in\n    '') words='", stdout);
    bash_words(verbs);
    (void)fputs("--version --help' ;;\n", stdout);
    visit_all(verbs, "", bash_case);
    (void)fputs("    esac\n"
                "    [[ $is_value ]] && words=$values\n"
                "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                "    [[ ${COMPREPLY[0]-} == *: ]] && compopt -o nospace 2>/dev/null\n"
                "    return 0\n"
                "}\n"
                "complete -o default -F _snipara_sandbox snipara-sandbox rlm\n",
                stdout);
}

/* ---- zsh ---- */

static void zsh_item(const char *prefix, const char *name, const char *help)
{
    (void)printf(" '%s%s:", prefix, name);
    put_quoted(help, ':');
    (void)putchar('\'');
}

static void zsh_words(const struct snp_verb *const *verbs)
{
    for (; *verbs != NULL; verbs++) {
        zsh_item("", (*verbs)->name, (*verbs)->summary);
    }
}

static void zsh_case(const struct verb_path *place)
{
    const struct arguments *arguments = arguments_of(place);

    (void)printf("    '%s ') items=(", place->path);
    if (place->below != NULL) {
        zsh_words(place->below);
    } else {
        for (size_t i = 0; i < place->verb->spec.n_options; i++) {
            const struct snp_opt *opt = &place->verb->spec.options[i];
            zsh_item("--", opt->name, opt->help);
            if (opt->type == SNP_OPT_BOOL) {
                zsh_item("--no-", opt->name, opt->help);
            }
        }
    }
    (void)fputs(" '--help:show help')", stdout);
    if (arguments != NULL && arguments->words != NULL) {
        (void)printf(" items+=(%s)", arguments->words);
    } else if (arguments != NULL) {
        (void)fputs(" items+=(${(f)\"$(", stdout);
        put_names("$program", arguments->names, arguments->is_place ? "\\\\\\\\:" : NULL);
        (void)fputs(")\"})", stdout);
    }
    (void)fputs(" ;;\n", stdout);
}

static void put_zsh(const struct snp_verb *const *verbs)
{
    (void)fputs("#compdef snipara-sandbox rlm\n"
                "# zsh completion of snipara-sandbox: save it as _snipara-sandbox in a folder "
                "of $fpath\n"
                "_snipara_sandbox() {\n"
                "    local verb='' values='' is_value='' word prev=${words[CURRENT-1]}\n"
                "    local program=${words[1]}\n"
                "    local -a items\n"
                "    for word in \"${(@)words[2,CURRENT-1]}\"; do\n",
                stdout);
    put_path_walk(verbs);
    (void)fputs("    done\n    case \"$verb$prev\" in\n", stdout);
    visit_all(verbs, "", put_value_cases);
    (void)fputs("    esac\n"
                "    if [[ -n $is_value ]]; then\n"
                "        if [[ -n $values ]]; then compadd -- ${=values}; else _files; fi\n"
                "        return\n"
                "    fi\n"
                "    case \"$verb\" in\n    '') items=(",
                stdout);
    zsh_words(verbs);
    (void)fputs(" '--version:show the version' '--help:show help') ;;\n", stdout);
    visit_all(verbs, "", zsh_case);
    (void)fputs("    esac\n"
                "    _describe 'snipara-sandbox' items || _files\n"
                "}\n"
                "compdef _snipara_sandbox snipara-sandbox rlm\n",
                stdout);
}

/* ---- fish ---- */

/* The condition for rows of a path: each of its words was seen. */
static void fish_condition(const char *path)
{
    (void)fputs("complete -c snipara-sandbox -n '", stdout);
    const char *joint = "";
    while (*path != '\0') {
        size_t n = strcspn(path, " ");
        (void)printf("%s__fish_seen_subcommand_from %.*s", joint, (int)n, path);
        joint = "; and ";
        path += n + (path[n] == ' ' ? 1 : 0);
    }
    if (joint[0] == '\0') {
        (void)fputs("__fish_use_subcommand", stdout);
    }
}

static void fish_words(const char *path, const struct snp_verb *const *verbs)
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        fish_condition(path);
        if (path[0] != '\0') {
            (void)fputs("; and not __fish_seen_subcommand_from ", stdout);
            bash_words(verbs);
        }
        (void)printf("' -f -a %s -d '", verbs[i]->name);
        put_quoted(verbs[i]->summary, '\0');
        (void)fputs("'\n", stdout);
    }
}

static void fish_option(const char *path, const char *prefix, const struct snp_opt *opt)
{
    const char *const *choices = choices_of(opt);
    const char *names = names_of_option(opt);
    fish_condition(path);
    (void)printf("' -l %s%s", prefix, opt->name);
    if (opt->short_name != 0 && prefix[0] == '\0') {
        (void)printf(" -s %c", opt->short_name);
    }
    if (choices != NULL) {
        (void)fputs(" -x -a '", stdout);
        put_choices(choices);
        (void)putchar('\'');
    } else if (names != NULL) {
        (void)fputs(" -x -a '(", stdout);
        put_names("snipara-sandbox", names, NULL);
        (void)fputs(")'", stdout);
    } else if (takes_value(opt)) {
        (void)fputs(" -r", stdout);
    }
    (void)fputs(" -d '", stdout);
    put_quoted(opt->help, '\0');
    (void)fputs("'\n", stdout);
}

static void fish_place(const struct verb_path *place)
{
    const struct arguments *arguments = arguments_of(place);

    if (place->below != NULL) {
        fish_words(place->path, place->below);
        return;
    }
    if (arguments != NULL) {
        fish_condition(place->path);
        (void)printf("'%s -a '", arguments->after_first ? "" : " -f");
        if (arguments->words != NULL) {
            (void)fputs(arguments->words, stdout);
        } else {
            (void)putchar('(');
            put_names("snipara-sandbox", arguments->names, arguments->is_place ? ":" : NULL);
            (void)putchar(')');
        }
        (void)fputs("'\n", stdout);
    }
    for (size_t i = 0; i < place->verb->spec.n_options; i++) {
        const struct snp_opt *opt = &place->verb->spec.options[i];
        fish_option(place->path, "", opt);
        if (opt->type == SNP_OPT_BOOL) {
            fish_option(place->path, "no-", opt);
        }
    }
}

static void put_fish(const struct snp_verb *const *verbs)
{
    (void)fputs("# fish completion of snipara-sandbox: save it as\n"
                "#   ~/.config/fish/completions/snipara-sandbox.fish\n"
                "complete -c rlm -w snipara-sandbox\n"
                "complete -c snipara-sandbox -l help -s h -d 'show help'\n"
                "complete -c snipara-sandbox -n __fish_use_subcommand -l version -s V -d 'show the "
                "version'\n",
                stdout);
    fish_words("", verbs);
    visit_all(verbs, "", fish_place);
}

/* ---- the verb ---- */

static const struct {
    const char *name;
    void (*put)(const struct snp_verb *const *verbs);
} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const char *name = snp_opts_arg(opts, 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(shells); i++) {
        if (snp_streq(shells[i].name, name)) {
            shells[i].put(cli->verbs);
            return SNP_EXIT_OK;
        }
    }
    return snp_cli_usage(cli, "unknown shell '%.40s': expected bash, zsh or fish", name);
}

static const struct snp_opt_arg args[] = {{"SHELL", "bash, zsh or fish", 1, 1}};

const struct snp_verb snp_verb_completion = {
    .name = "completion",
    .summary = "print a completion script for bash, zsh or fish",
    .spec = {.args = args, .n_args = SNP_ARRAY_LEN(args)},
    .examples = "completion bash > ~/.local/share/bash-completion/completions/snipara-sandbox",
    .run = run,
};
