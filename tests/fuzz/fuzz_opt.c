/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line: words that end with NUL, parsed by a table with one option of each kind,
 * once with options anywhere and once only before the first argument. What was given can be
 * asked for, numbers are numbers, every word is an option, a value or an argument; a refusal
 * is one line.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/opt.h"
#include "fuzz/target.h"

enum {
    WORDS_MAX = 64
};

static const struct snp_opt options[] = {
    {.name = "json", .short_name = 'j', .type = SNP_OPT_FLAG, .help = "flag"},
    {.name = "stream", .type = SNP_OPT_BOOL, .help = "yes or no"},
    {.name = "session",
     .short_name = 's',
     .type = SNP_OPT_STRING,
     .metavar = "NAME",
     .help = "text"},
    {.name = "count", .short_name = 'n', .type = SNP_OPT_INT, .metavar = "N", .help = "number"},
    {.name = "timeout",
     .short_name = 't',
     .type = SNP_OPT_FLOAT,
     .metavar = "S",
     .help = "seconds"},
    {.name = "set-env", .short_name = 'e', .type = SNP_OPT_LIST, .metavar = "K=V", .help = "list"},
};

static const struct snp_opt_arg args[] = {{"CODE", "what to run", 0, 1},
                                          {"MORE", "the rest", 0, 0}};

static void check_parsed(const struct snp_opts *opts, int argc)
{
    const char *const *list = NULL;
    const char *const *all = snp_opts_args(opts);
    size_t n_args = snp_opts_n_args(opts);
    size_t n_list = snp_opts_list(opts, "set-env", &list);
    size_t before = 0;

    SNP_ASSERT(n_args + n_list <= (size_t)argc);
    for (size_t i = 0; i < n_args; i++) {
        SNP_ASSERT(all[i] != NULL && all[i] == snp_opts_arg(opts, i));
    }
    SNP_ASSERT(all[n_args] == NULL && snp_opts_arg(opts, n_args) == NULL);
    for (size_t i = 0; i < n_list; i++) {
        SNP_ASSERT(list[i] != NULL);
    }
    SNP_ASSERT(!snp_opts_dashes(opts, &before) || before <= n_args);
    SNP_ASSERT(snp_opts_given(opts, "session") == (snp_opts_str(opts, "session") != NULL));
    SNP_ASSERT(snp_opts_given(opts, "set-env") == (n_list > 0));
    SNP_ASSERT(isfinite(snp_opts_float(opts, "timeout", 0)));
    (void)snp_opts_int(opts, "count", 0);
    SNP_ASSERT(snp_opts_flag(opts, "json", false) == snp_opts_given(opts, "json"));
    (void)snp_opts_flag(opts, "stream", false);
    for (size_t i = 0; i < SNP_ARRAY_LEN(options); i++) {
        (void)snp_opts_text_at(opts, i);
    }
}

static void parse(int argc, char *const *argv, bool stop_at_arg)
{
    const struct snp_opt_spec spec = {options, SNP_ARRAY_LEN(options), args, SNP_ARRAY_LEN(args),
                                      stop_at_arg};
    struct snp_opts *opts = NULL;
    struct snp_err err = {0};
    int r = snp_opts_parse(&spec, argc, argv, &opts, &err);

    if (r < 0) {
        SNP_ASSERT(r == SNP_E_INVALID && opts == NULL && err.msg[0] != '\0');
        return;
    }
    if (!snp_opts_help(opts)) {
        check_parsed(opts, argc);
    }
    snp_opts_free(opts);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    char *text = malloc(n + 1);
    int argc = 0;

    SNP_ASSERT(text != NULL);
    memcpy(text, bytes, n);
    text[n] = '\0';
    for (size_t at = 0; at < n && argc < WORDS_MAX; at += strlen(text + at) + 1) {
        argv[argc++] = text + at;
    }
    parse(argc, argv, false);
    parse(argc, argv, true);
    free(text);
    return 0;
}
