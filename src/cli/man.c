/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `man`: the manual page, written from the tables of verbs and options, as the completion
 * scripts are. `make install` installs what it prints.
 */

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum {
    PATH_MAX_BYTES = 96,
    USAGE_MAX_BYTES = 256
};

/* Escape text of a line for roff, so that no line is read as a request. */
static void put_text(const char *text, size_t n)
{
    if (n > 0 && (text[0] == '.' || text[0] == '\'')) {
        (void)fputs("\\&", stdout);
    }
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '\\':
            (void)fputs("\\e", stdout);
            break;
        case '-':
            (void)fputs("\\-", stdout);
            break;
        case '\'':
            (void)fputs("\\(aq", stdout);
            break;
        case '`':
            (void)fputs("\\(ga", stdout);
            break;
        case '^':
            (void)fputs("\\(ha", stdout);
            break;
        case '~':
            (void)fputs("\\(ti", stdout);
            break;
        default:
            (void)putchar(text[i]);
        }
    }
}

static void put(const char *text)
{
    put_text(text, strlen(text));
}

/* Print each line of text on a line of the page, between before and after. */
static void put_lines(const char *before, const char *text, const char *after)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        if (n > 0) {
            (void)fputs(before, stdout);
            put_text(text, n);
            (void)fputs(after, stdout);
        }
        text += n + (text[n] == '\n' ? 1 : 0);
    }
}

static void put_option(const struct snp_opt *opt)
{
    (void)fputs(".TP\n", stdout);
    if (opt->short_name != 0) {
        (void)printf("\\fB\\-%c\\fR, ", opt->short_name);
    }
    (void)printf("\\fB\\-\\-%s", opt->type == SNP_OPT_BOOL ? "\\fR[\\fBno\\-\\fR]\\fB" : "");
    put(opt->name);
    (void)fputs("\\fR", stdout);
    if (opt->metavar != NULL) {
        (void)fputs(" \\fI", stdout);
        put(opt->metavar);
        (void)fputs("\\fR", stdout);
    }
    (void)putchar('\n');
    put_lines("", opt->help, "\n");
}

static void put_spec(const struct snp_opt_spec *spec)
{
    for (size_t i = 0; i < spec->n_args; i++) {
        (void)fputs(".TP\n\\fI", stdout);
        put(spec->args[i].name);
        (void)fputs("\\fR\n", stdout);
        put_lines("", spec->args[i].help, "\n");
    }
    for (size_t i = 0; i < spec->n_options; i++) {
        put_option(&spec->options[i]);
    }
}

static void put_examples(const char *examples)
{
    (void)fputs(".PP\nExamples:\n.PP\n.nf\n.RS 4\n", stdout);
    put_lines("snipara\\-sandbox ", examples, "\n");
    (void)fputs(".RE\n.fi\n", stdout);
}

static void put_verb(const char *path, const struct snp_verb *verb)
{
    char usage[USAGE_MAX_BYTES];

    (void)fputs(".SS \"", stdout);
    put(path);
    (void)putchar(' ');
    put(snp_opt_usage(&verb->spec, usage, sizeof(usage)));
    (void)fputs("\"\n", stdout);
    put_lines(".PP\n", verb->description != NULL ? verb->description : verb->summary, "\n");
    put_spec(&verb->spec);
    if (verb->exit_codes != NULL) {
        (void)fputs(".PP\nExit status:\n", stdout);
        put_lines(".br\n", verb->exit_codes, "\n");
    }
    if (verb->examples != NULL) {
        put_examples(verb->examples);
    }
}

static void put_verbs(const struct snp_verb *const *verbs, const char *path)
{
    for (; *verbs != NULL; verbs++) {
        char own[PATH_MAX_BYTES];
        (void)snprintf(own, sizeof(own), "%s%s%s", path, path[0] == '\0' ? "" : " ",
                       (*verbs)->name);
        if ((*verbs)->verbs != NULL) {
            put_verbs((*verbs)->verbs, own);
        } else {
            put_verb(own, *verbs);
        }
    }
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    (void)opts;
    (void)fputs(".TH SNIPARA\\-SANDBOX 1 \"\" \"snipara\\-sandbox " SNP_VERSION "\"\n"
                ".SH NAME\nsnipara\\-sandbox \\- run untrusted code in sandboxes isolated by "
                "the kernel\n"
                ".SH SYNOPSIS\n\\fBsnipara\\-sandbox\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR "
                "[\\fIARGS\\fR]...\n.SH DESCRIPTION\n",
                stdout);
    put_lines("", snp_cli_about, "\n");
    (void)fputs(".PP\nEvery command has \\fB\\-h\\fR, \\fB\\-\\-help\\fR. "
                "\\fBrlm\\fR is the same program.\n.SH OPTIONS\n",
                stdout);
    put_spec(snp_cli_root_spec());
    (void)fputs(".SH COMMANDS\n", stdout);
    put_verbs(cli->verbs, "");
    (void)fputs(".SH \"EXIT STATUS\"\n", stdout);
    put_lines(".br\n", snp_cli_exit_codes, "\n");
    (void)fputs(".SH FILES\n"
                ".TP\n\\fIsnipara\\-sandbox.toml\\fR, \\fI.env\\fR\n"
                "settings of the working directory; \\fBsnipara\\-sandbox config show\\fR "
                "prints every setting and its source\n"
                ".TP\n\\fI\\(ti/.local/state/snipara\\-sandbox\\fR\n"
                "the journal of sessions, templates, the daemon\\(aqs log\n",
                stdout);
    return SNP_EXIT_OK;
}

const struct snp_verb snp_verb_man = {
    .name = "man",
    .summary = "print the manual page",
    .examples = "man | man -l -",
    .run = run,
};
