/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The option parser: one pass over the words, a slot per row of the table. Only the table decides
 * which words are values, never their form.
 */

#include "base/cli/opt.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/str.h"

enum {
    OPTIONS_MAX = 64,
    TEXT_SHOWN = 60,
    OPTIONS_SHOWN = 3,    /* in the error for one word too many */
    HELP_COLUMN_MAX = 30, /* help starts at this column at most */
    HELP_GAP = 2,
    USAGE_MAX_BYTES = 128,
};

struct option_slot {
    const char *text;   /* borrowed from argv; NULL = not given */
    const char **items; /* owned, of lists; NULL-terminated */
    size_t n_items;
    int64_t integer;
    double number;
    bool is_given;
    bool is_on; /* of flags and booleans */
};

struct snp_opts {
    const struct snp_opt_spec *spec; /* borrowed */
    struct option_slot slots[OPTIONS_MAX];
    const char **args; /* owned array of borrowed texts, NULL-terminated */
    size_t n_args;
    size_t args_before_dashes;
    bool has_dashes;
    bool want_help;
};

/* The words not read yet. */
struct argument_cursor {
    int argc;
    char *const *argv;
    int at;
};

static bool takes_value(const struct snp_opt *opt)
{
    return opt->type != SNP_OPT_FLAG && opt->type != SNP_OPT_BOOL;
}

static int find_long(const struct snp_opt_spec *spec, const char *name, size_t n)
{
    for (size_t i = 0; i < spec->n_options; i++) {
        const char *known = spec->options[i].name;
        if (strlen(known) == n && memcmp(known, name, n) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int find_short(const struct snp_opt_spec *spec, char name)
{
    for (size_t i = 0; i < spec->n_options; i++) {
        if (spec->options[i].short_name == name) {
            return (int)i;
        }
    }
    return -1;
}

static int unknown_long(const struct snp_opt_spec *spec,
                        const char *name,
                        size_t n,
                        struct snp_err *err)
{
    const char *known[OPTIONS_MAX + 1];
    size_t n_known = 0;
    for (size_t i = 0; i < spec->n_options; i++) {
        known[n_known++] = spec->options[i].name;
    }
    known[n_known++] = "help";
    char text[TEXT_SHOWN + 1];
    (void)snprintf(text, sizeof(text), "%.*s", (int)(n < TEXT_SHOWN ? n : TEXT_SHOWN), name);
    const char *nearest = snp_suggest(text, known, n_known);
    if (nearest == NULL) {
        return snp_fail(err, SNP_E_INVALID, "unknown option '--%s'", text);
    }
    return snp_fail(err, SNP_E_INVALID, "unknown option '--%s'; did you mean --%s?", text, nearest);
}

static void list_append(struct option_slot *slot, const char *text)
{
    const char **grown = snp_need(realloc(slot->items, (slot->n_items + 2) * sizeof(*grown)));
    grown[slot->n_items++] = text;
    grown[slot->n_items] = NULL;
    slot->items = grown;
}

static int set_value(struct snp_opts *opts, size_t i, const char *text, struct snp_err *err)
{
    const struct snp_opt *opt = &opts->spec->options[i];
    struct option_slot *slot = &opts->slots[i];
    if (opt->type == SNP_OPT_INT && snp_parse_i64(text, &slot->integer) < 0) {
        return snp_fail(err, SNP_E_INVALID, "--%s: expected a whole number, got '%.*s'", opt->name,
                        TEXT_SHOWN, text);
    }
    if (opt->type == SNP_OPT_FLOAT && snp_parse_double(text, &slot->number) < 0) {
        return snp_fail(err, SNP_E_INVALID, "--%s: expected a number, got '%.*s'", opt->name,
                        TEXT_SHOWN, text);
    }
    slot->text = text;
    slot->is_given = true;
    if (opt->type == SNP_OPT_LIST) {
        list_append(slot, text);
    }
    return 0;
}

static void set_switch(struct snp_opts *opts, size_t i, bool is_on)
{
    opts->slots[i].is_given = true;
    opts->slots[i].is_on = is_on;
    opts->slots[i].text = is_on ? "true" : "false";
}

/* The value of an option that is not joined to it: the next word. */
static int next_value(struct argument_cursor *words,
                      const char *shown,
                      const struct snp_opt *opt,
                      const char **ret,
                      struct snp_err *err)
{
    if (words->at == words->argc) {
        return snp_fail(err, SNP_E_INVALID, "%s needs a value: %s", shown, opt->metavar);
    }
    *ret = words->argv[words->at++];
    return 0;
}

/* The row of boolean x for "--no-x", or -1. */
static int find_negated(const struct snp_opt_spec *spec, const char *name, size_t n)
{
    static const char prefix[] = "no-";
    size_t skip = sizeof(prefix) - 1;
    if (n <= skip || memcmp(name, prefix, skip) != 0) {
        return -1;
    }
    int i = find_long(spec, name + skip, n - skip);
    return i >= 0 && spec->options[i].type == SNP_OPT_BOOL ? i : -1;
}

static int read_long(struct snp_opts *opts,
                     struct argument_cursor *words,
                     const char *name,
                     struct snp_err *err)
{
    const char *value = strchr(name, '=');
    size_t n = value == NULL ? strlen(name) : (size_t)(value - name);
    int i = find_long(opts->spec, name, n);
    bool is_on = i >= 0;
    if (i < 0) {
        i = find_negated(opts->spec, name, n);
    }
    if (i < 0) {
        return unknown_long(opts->spec, name, n, err);
    }
    const struct snp_opt *opt = &opts->spec->options[i];
    if (!takes_value(opt)) {
        if (value != NULL) {
            return snp_fail(err, SNP_E_INVALID, "--%s takes no value", opt->name);
        }
        set_switch(opts, (size_t)i, is_on);
        return 0;
    }
    if (value != NULL) {
        return set_value(opts, (size_t)i, value + 1, err);
    }
    char shown[TEXT_SHOWN];
    (void)snprintf(shown, sizeof(shown), "--%s", opt->name);
    int r = next_value(words, shown, opt, &value, err);
    return r < 0 ? r : set_value(opts, (size_t)i, value, err);
}

/* A word of short options: -abc, -ovalue, -o value. */
static int read_shorts(struct snp_opts *opts,
                       struct argument_cursor *words,
                       const char *letters,
                       struct snp_err *err)
{
    for (const char *at = letters; *at != '\0'; at++) {
        int i = find_short(opts->spec, *at);
        if (i < 0) {
            return snp_fail(err, SNP_E_INVALID, "unknown option '-%c'%s%.*s%s", *at,
                            at == letters && at[1] == '\0' ? "" : " in '-",
                            at == letters && at[1] == '\0' ? 0 : TEXT_SHOWN, letters,
                            at == letters && at[1] == '\0' ? "" : "'");
        }
        const struct snp_opt *opt = &opts->spec->options[i];
        if (!takes_value(opt)) {
            set_switch(opts, (size_t)i, true);
            continue;
        }
        const char *value = at + 1;
        if (*value == '\0') {
            char shown[3] = {'-', *at, '\0'};
            int r = next_value(words, shown, opt, &value, err);
            if (r < 0) {
                return r;
            }
        }
        return set_value(opts, (size_t)i, value, err);
    }
    return 0;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

static bool is_help(const struct snp_opt_spec *spec, const char *word)
{
    return snp_streq(word, "--help") || (snp_streq(word, "-h") && find_short(spec, 'h') < 0);
}

static int read_words(struct snp_opts *opts, struct argument_cursor *words, struct snp_err *err)
{
    int r = 0;
    bool only_args = false;
    while (r == 0 && words->at < words->argc && !opts->want_help) {
        const char *word = words->argv[words->at++];
        if (only_args || !is_option(word)) {
            opts->args[opts->n_args++] = word;
            only_args = only_args || opts->spec->stop_at_arg;
        } else if (snp_streq(word, "--")) {
            opts->has_dashes = true;
            opts->args_before_dashes = opts->n_args;
            only_args = true;
        } else if (is_help(opts->spec, word)) {
            opts->want_help = true;
        } else if (word[1] == '-') {
            r = read_long(opts, words, word + 2, err);
        } else {
            r = read_shorts(opts, words, word + 1, err);
        }
    }
    return r;
}

/* Report one word too many, with the meaning of the others and the options that take a value. */
static int too_many(const struct snp_opt_spec *spec, const char *word, struct snp_err *err)
{
    snp_autobuf struct snp_buf takes = {0};
    size_t n_shown = 0;
    int r = 0;

    snp_buf_init(&takes, sizeof(err->msg));
    for (size_t i = 0; r == 0 && i < spec->n_args; i++) {
        r = snp_buf_addf(&takes, "%s %s (%s)", i == 0 ? "; it takes" : ",", spec->args[i].name,
                         spec->args[i].help);
    }
    for (size_t i = 0; r == 0 && i < spec->n_options && n_shown < OPTIONS_SHOWN; i++) {
        const struct snp_opt *opt = &spec->options[i];

        if (takes_value(opt)) {
            r = snp_buf_addf(&takes, "%s --%s %s", n_shown > 0 ? "," : "; options:", opt->name,
                             opt->metavar);
            n_shown++;
        }
    }
    return snp_fail(err, SNP_E_INVALID, "unexpected argument '%.*s'%s", TEXT_SHOWN, word,
                    n_shown == 0 ? "" : snp_buf_cstr(&takes));
}

static int check_args(const struct snp_opts *opts, struct snp_err *err)
{
    size_t most = 0;
    size_t least = 0;
    bool is_open = false;
    for (size_t i = 0; i < opts->spec->n_args; i++) {
        const struct snp_opt_arg *arg = &opts->spec->args[i];
        least += arg->min;
        most += arg->max;
        is_open = is_open || arg->max == 0;
        if (opts->n_args < least) {
            return snp_fail(err, SNP_E_INVALID, "missing argument %s", arg->name);
        }
    }
    if (!is_open && opts->n_args > most) {
        return too_many(opts->spec, opts->args[most], err);
    }
    return 0;
}

/* --help takes precedence over earlier mistakes, unless it is the value of an option. */
static bool has_help(const struct snp_opt_spec *spec, int argc, char *const *argv)
{
    for (int i = 0; i < argc && !snp_streq(argv[i], "--"); i++) {
        if (snp_streq(argv[i], "--help")) {
            return true;
        }
        if (spec->stop_at_arg && !is_option(argv[i])) {
            return false;
        }
    }
    return false;
}

int snp_opts_parse(const struct snp_opt_spec *spec,
                   int argc,
                   char *const *argv,
                   struct snp_opts **ret,
                   struct snp_err *err)
{
    SNP_ASSERT(spec->n_options <= OPTIONS_MAX);
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = snp_need(calloc(1, sizeof(*opts)));
    opts->spec = spec;
    opts->args = snp_need(calloc((size_t)argc + 1, sizeof(*opts->args)));
    struct argument_cursor words = {argc, argv, 0};
    int r = read_words(opts, &words, err);
    if (r == 0 && !opts->want_help) {
        r = check_args(opts, err);
    }
    if (r == SNP_E_INVALID && has_help(spec, argc, argv)) {
        opts->want_help = true;
        r = 0;
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(opts);
    }
    return r;
}

void snp_opts_free(struct snp_opts *opts)
{
    if (opts == NULL) {
        return;
    }
    for (size_t i = 0; i < OPTIONS_MAX; i++) {
        free(opts->slots[i].items);
    }
    free(opts->args);
    free(opts);
}

bool snp_opts_help(const struct snp_opts *opts)
{
    return opts->want_help;
}

static const struct option_slot *slot_by_name(const struct snp_opts *opts, const char *name)
{
    int i = find_long(opts->spec, name, strlen(name));
    SNP_ASSERT(i >= 0);
    return &opts->slots[i];
}

bool snp_opts_given(const struct snp_opts *opts, const char *name)
{
    return slot_by_name(opts, name)->is_given;
}

bool snp_opts_flag(const struct snp_opts *opts, const char *name, bool fallback)
{
    const struct option_slot *slot = slot_by_name(opts, name);
    return slot->is_given ? slot->is_on : fallback;
}

const char *snp_opts_str(const struct snp_opts *opts, const char *name)
{
    return slot_by_name(opts, name)->text;
}

int64_t snp_opts_int(const struct snp_opts *opts, const char *name, int64_t fallback)
{
    const struct option_slot *slot = slot_by_name(opts, name);
    return slot->is_given ? slot->integer : fallback;
}

double snp_opts_float(const struct snp_opts *opts, const char *name, double fallback)
{
    const struct option_slot *slot = slot_by_name(opts, name);
    return slot->is_given ? slot->number : fallback;
}

size_t snp_opts_list(const struct snp_opts *opts, const char *name, const char *const **ret_items)
{
    const struct option_slot *slot = slot_by_name(opts, name);
    *ret_items = (const char *const *)slot->items;
    return slot->n_items;
}

size_t snp_opts_n_args(const struct snp_opts *opts)
{
    return opts->n_args;
}

const char *snp_opts_arg(const struct snp_opts *opts, size_t i)
{
    return i < opts->n_args ? opts->args[i] : NULL;
}

const char *const *snp_opts_args(const struct snp_opts *opts)
{
    return (const char *const *)opts->args;
}

bool snp_opts_dashes(const struct snp_opts *opts, size_t *ret_before)
{
    if (ret_before != NULL) {
        *ret_before = opts->has_dashes ? opts->args_before_dashes : opts->n_args;
    }
    return opts->has_dashes;
}

const char *snp_opts_text_at(const struct snp_opts *opts, size_t i)
{
    SNP_ASSERT(i < opts->spec->n_options);
    return opts->slots[i].text;
}

/* ---- help ---- */

const char *snp_opt_usage(const struct snp_opt_spec *spec, char *out, size_t out_len)
{
    size_t used = (size_t)snprintf(out, out_len, "[OPTIONS]");
    for (size_t i = 0; i < spec->n_args && used < out_len; i++) {
        const struct snp_opt_arg *arg = &spec->args[i];
        used += (size_t)snprintf(out + used, out_len - used, " %s%s%s%s", arg->min == 0 ? "[" : "",
                                 arg->name, arg->max == 1 ? "" : "...", arg->min == 0 ? "]" : "");
    }
    return out;
}

/* Print one paragraph; the output's cursor is at column `indent` already. */
static void wrap_paragraph(FILE *out, const char *text, size_t n, unsigned indent, unsigned width)
{
    snp_term_fill_to(out, text, n, indent, indent, width);
    (void)fputc('\n', out);
}

void snp_opt_wrap(FILE *out, const char *text, unsigned indent, unsigned width)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        (void)fprintf(out, "%*s", n == 0 ? 0 : (int)indent, "");
        wrap_paragraph(out, text, n, indent, width);
        text += n;
        text += *text == '\n' ? 1 : 0;
    }
}

void snp_opt_fill(FILE *out, const char *text, unsigned indent, unsigned width)
{
    wrap_paragraph(out, text, strlen(text), indent, width);
}

/* "  -m, --memory SIZE" */
static int option_label(const struct snp_opt *opt, char *out, size_t out_len)
{
    char letter[] = "    ";
    if (opt->short_name != 0) {
        letter[0] = '-';
        letter[1] = opt->short_name;
        letter[2] = ',';
    }
    return snprintf(out, out_len, "  %s--%s%s%s%s", letter,
                    opt->type == SNP_OPT_BOOL ? "[no-]" : "", opt->name,
                    opt->metavar == NULL ? "" : " ", opt->metavar == NULL ? "" : opt->metavar);
}

/* Print a label, then help in its column, on the next line if the label is too long. */
static void print_row(
    FILE *out, const char *label, const char *help, unsigned column, unsigned width)
{
    unsigned at = (unsigned)strlen(label);
    (void)fputs(label, out);
    if (at + HELP_GAP > column) {
        (void)fputc('\n', out);
        at = 0;
    }
    (void)fprintf(out, "%*s", (int)(column - at), "");
    wrap_paragraph(out, help, strlen(help), column, width);
}

static unsigned help_column(const struct snp_opt_spec *spec)
{
    unsigned column = 0;
    char label[USAGE_MAX_BYTES];
    for (size_t i = 0; i < spec->n_options; i++) {
        unsigned n = (unsigned)option_label(&spec->options[i], label, sizeof(label)) + HELP_GAP;
        column = n > column && n <= HELP_COLUMN_MAX ? n : column;
    }
    for (size_t i = 0; i < spec->n_args; i++) {
        unsigned n = 2 + (unsigned)strlen(spec->args[i].name) + HELP_GAP;
        column = n > column && n <= HELP_COLUMN_MAX ? n : column;
    }
    static const unsigned least = sizeof("  -h, --help") - 1 + HELP_GAP;
    return column > least ? column : least;
}

void snp_opt_print(FILE *out, const struct snp_opt_spec *spec, unsigned width)
{
    static const struct snp_opt help = {"help", 'h', SNP_OPT_FLAG, NULL, "show this and exit", 0};
    unsigned column = help_column(spec);
    char label[USAGE_MAX_BYTES];
    if (spec->n_args > 0) {
        (void)fputs("\nArguments:\n", out);
    }
    for (size_t i = 0; i < spec->n_args; i++) {
        (void)snprintf(label, sizeof(label), "  %s", spec->args[i].name);
        print_row(out, label, spec->args[i].help, column, width);
    }
    (void)fputs("\nOptions:\n", out);
    for (size_t i = 0; i < spec->n_options; i++) {
        (void)option_label(&spec->options[i], label, sizeof(label));
        print_row(out, label, spec->options[i].help, column, width);
    }
    struct snp_opt last = help;
    last.short_name = find_short(spec, 'h') < 0 ? 'h' : '\0';
    (void)option_label(&last, label, sizeof(label));
    print_row(out, label, last.help, column, width);
}
