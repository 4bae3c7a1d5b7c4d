/* SPDX-License-Identifier: Apache-2.0 */
/* Option parser: each way to write an option, each mistake, and help from the same table. */
#include "base/cli/opt.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "unit/harness.h"

static const struct snp_opt options[] = {
    {"json", 'j', SNP_OPT_FLAG, NULL, "print JSON", 0},
    {"verbose", 'v', SNP_OPT_FLAG, NULL, "tell more", 0},
    {"stream", 0, SNP_OPT_BOOL, NULL, "as it comes", 0},
    {"file", 'f', SNP_OPT_STRING, "PATH", "read code from a file", 0},
    {"count", 'n', SNP_OPT_INT, "N", "how many", 0},
    {"ratio", 0, SNP_OPT_FLOAT, "X", "how much", 0},
    {"env", 'e', SNP_OPT_LIST, "NAME=VALUE", "a variable for the code", 0},
};
static const struct snp_opt_arg args[] = {
    {"CODE", "code to run", 1, 1},
    {"ARG", "words for it", 0, 2},
};
static const struct snp_opt_spec spec = {options, SNP_ARRAY_LEN(options), args, SNP_ARRAY_LEN(args),
                                         false};
static const struct snp_opt_arg any_args[] = {{"WORD", "any", 0, 0}};
static const struct snp_opt_spec raw_spec = {options, SNP_ARRAY_LEN(options), any_args, 1, true};

enum {
    WORDS_MAX = 16
};

/* Words are separated by one blank each; the copy lives as long as the test program. */
static int parse(const struct snp_opt_spec *of,
                 const char *line,
                 struct snp_opts **ret,
                 struct snp_err *err)
{
    static char text[512];
    static char *words[WORDS_MAX];
    int n = 0;
    (void)snprintf(text, sizeof(text), "%s", line);
    for (char *at = text; at != NULL && *at != '\0' && n < WORDS_MAX;) {
        words[n++] = at;
        at = strchr(at, ' ');
        if (at != NULL) {
            *at++ = '\0';
        }
    }
    return snp_opts_parse(of, n, words, ret, err);
}

static struct snp_opts *good(const char *line)
{
    struct snp_opts *opts = NULL;
    struct snp_err err;
    if (parse(&spec, line, &opts, &err) < 0) {
        fail_msg("%s: %s", line, err.msg);
    }
    return opts;
}

static void bad(const char *line, const char *message)
{
    struct snp_opts *opts = NULL;
    struct snp_err err;
    assert_int_equal(parse(&spec, line, &opts, &err), SNP_E_INVALID);
    assert_null(opts);
    assert_string_equal(err.msg, message);
}

TEST(a_value_may_be_written_in_four_ways)
{
    static const char *const lines[] = {"--file a.py x",    "--file=a.py x", "-f a.py x",
                                        "-fa.py x",         "x -f a.py",     "x -jvfa.py",
                                        "-f b.py x -f a.py"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(lines); i++) {
        struct snp_opts *opts = good(lines[i]);
        assert_string_equal(snp_opts_str(opts, "file"), "a.py");
        assert_string_equal(snp_opts_arg(opts, 0), "x");
        assert_int_equal(snp_opts_n_args(opts), 1);
        snp_opts_free(opts);
    }
}

TEST(flags_combine)
{
    struct snp_opts *opts = good("-jv x");
    assert_true(snp_opts_flag(opts, "json", false));
    assert_true(snp_opts_flag(opts, "verbose", false));
    assert_false(snp_opts_given(opts, "stream"));
    snp_opts_free(opts);
}

TEST(booleans_have_a_negative_and_a_fallback)
{
    struct snp_opts *opts = good("x --no-stream");
    assert_true(snp_opts_given(opts, "stream"));
    assert_false(snp_opts_flag(opts, "stream", true));
    snp_opts_free(opts);
    opts = good("x --no-stream --stream");
    assert_true(snp_opts_flag(opts, "stream", false));
    snp_opts_free(opts);
    opts = good("x");
    assert_true(snp_opts_flag(opts, "stream", true));
    snp_opts_free(opts);
    bad("x --no-json", "unknown option '--no-json'");
}

TEST(numbers_are_read_exactly)
{
    struct snp_opts *opts = good("x -n -5 --ratio=0.25");
    assert_int_equal(snp_opts_int(opts, "count", 1), -5);
    assert_true(snp_opts_float(opts, "ratio", 1) == 0.25);
    snp_opts_free(opts);
    opts = good("x");
    assert_int_equal(snp_opts_int(opts, "count", 7), 7);
    assert_true(snp_opts_float(opts, "ratio", 1.5) == 1.5);
    snp_opts_free(opts);
    bad("x --count 5x", "--count: expected a whole number, got '5x'");
    bad("x --count 1.5", "--count: expected a whole number, got '1.5'");
    bad("x --ratio abc", "--ratio: expected a number, got 'abc'");
    bad("x --count=", "--count: expected a whole number, got ''");
}

TEST(lists_keep_every_value_in_order)
{
    struct snp_opts *opts = good("x -e A=1 --env=B=2 --env C=3");
    const char *const *items = NULL;
    assert_int_equal(snp_opts_list(opts, "env", &items), 3);
    assert_string_equal(items[0], "A=1");
    assert_string_equal(items[1], "B=2");
    assert_string_equal(items[2], "C=3");
    assert_null(items[3]);
    snp_opts_free(opts);
}

TEST(dashes_end_the_options)
{
    size_t before = 0;
    struct snp_opts *opts = good("x -- --json -v");
    assert_true(snp_opts_dashes(opts, &before));
    assert_int_equal(before, 1);
    assert_int_equal(snp_opts_n_args(opts), 3);
    assert_string_equal(snp_opts_args(opts)[1], "--json");
    assert_null(snp_opts_args(opts)[3]);
    assert_null(snp_opts_arg(opts, 3));
    assert_false(snp_opts_given(opts, "json"));
    snp_opts_free(opts);
}

TEST(one_dash_is_an_argument)
{
    struct snp_opts *opts = good("-");
    assert_string_equal(snp_opts_arg(opts, 0), "-");
    assert_false(snp_opts_dashes(opts, NULL));
    snp_opts_free(opts);
}

TEST(the_first_argument_may_end_the_options)
{
    struct snp_opts *opts = NULL;
    struct snp_err err;
    assert_int_equal(parse(&raw_spec, "--json exec --unknown --help", &opts, &err), 0);
    assert_true(snp_opts_flag(opts, "json", false));
    assert_false(snp_opts_help(opts));
    assert_int_equal(snp_opts_n_args(opts), 3);
    snp_opts_free(opts);
}

TEST(mistakes_are_named_and_the_nearest_option_suggested)
{
    bad("x --jsno", "unknown option '--jsno'; did you mean --json?");
    bad("x --streem", "unknown option '--streem'; did you mean --stream?");
    bad("x --fil=a", "unknown option '--fil'; did you mean --file?");
    bad("x --qqqqqqqq", "unknown option '--qqqqqqqq'");
    bad("x -q", "unknown option '-q'");
    bad("x -jq", "unknown option '-q' in '-jq'");
    bad("x --file", "--file needs a value: PATH");
    bad("x -f", "-f needs a value: PATH");
    bad("x --json=1", "--json takes no value");
    bad("", "missing argument CODE");
    bad("--json", "missing argument CODE");
    bad("a b c d",
        "unexpected argument 'd'; it takes CODE (code to run), ARG (words for it); options: "
        "--file PATH, --count N, --ratio X");
}

TEST(help_wins_over_mistakes_but_not_over_dashes)
{
    static const char *const lines[] = {"--help", "-h", "--nonsense --help", "a b c d --help"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(lines); i++) {
        struct snp_opts *opts = good(lines[i]);
        assert_true(snp_opts_help(opts));
        snp_opts_free(opts);
    }
    struct snp_opts *opts = good("-- --help");
    assert_false(snp_opts_help(opts));
    snp_opts_free(opts);
}

TEST(help_lists_every_row_and_fits_the_width)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    snp_opt_print(out, &spec, 50);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(options); i++) {
        assert_non_null(strstr(text, options[i].name));
    }
    assert_non_null(strstr(text, "  -f, --file PATH"));
    assert_non_null(strstr(text, "      --[no-]stream"));
    assert_non_null(strstr(text, "  -h, --help"));
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 50);
    }
    free(text);
}

TEST(wrapping_keeps_breaks_and_every_word)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    snp_opt_wrap(out, "one two three\nfour averyveryverylongword", 2, 12);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "  one two\n  three\n  four\n  averyveryverylongword\n");
    free(text);
}

TEST(usage_shows_what_is_optional)
{
    char out[64];
    assert_string_equal(snp_opt_usage(&spec, out, sizeof(out)), "[OPTIONS] CODE [ARG...]");
}

/* The rows every verb takes for limits are typed in by hand: held to the table here. */
TEST(limit_rows_match_the_table_of_limits)
{
    static const struct snp_opt rows[] = {SNP_CLI_OPT_LIMITS};
    assert_int_equal(SNP_ARRAY_LEN(rows), SNP_LIMIT_N);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct snp_limit_info *limit = snp_limit_info((enum snp_limit)i);
        const struct snp_config_info *key = snp_config_info(SNP_KEY_OF_LIMIT(i));
        assert_string_equal(rows[i].name, limit->flag + 2);
        assert_int_equal(rows[i].key, SNP_KEY_OF_LIMIT(i));
        char tail[64];
        (void)snprintf(tail, sizeof(tail), "(default %s", key->fallback);
        const char *end = strstr(rows[i].help, tail);
        assert_non_null(end);
        assert_non_null(strchr("),", end[strlen(tail)]));
        /* ": LEAST to MOST (default" reads back as the range */
        const char *range = strstr(rows[i].help, ": ") + 2;
        const char *to = strstr(range, " to ");
        snp_autofree char *least = strndup(range, (size_t)(to - range));
        snp_autofree char *most = strndup(to + 4, strcspn(to + 4, " "));
        struct snp_err err;
        uint64_t value = 0;
        assert_int_equal(snp_limit_parse((enum snp_limit)i, least, "help", &value, &err), 0);
        assert_int_equal(value, limit->min);
        assert_int_equal(snp_limit_parse((enum snp_limit)i, most, "help", &value, &err), 0);
        assert_int_equal(value, limit->max);
    }
}

RUN(UNIT(a_value_may_be_written_in_four_ways),
    UNIT(flags_combine),
    UNIT(booleans_have_a_negative_and_a_fallback),
    UNIT(numbers_are_read_exactly),
    UNIT(lists_keep_every_value_in_order),
    UNIT(dashes_end_the_options),
    UNIT(one_dash_is_an_argument),
    UNIT(the_first_argument_may_end_the_options),
    UNIT(mistakes_are_named_and_the_nearest_option_suggested),
    UNIT(help_wins_over_mistakes_but_not_over_dashes),
    UNIT(help_lists_every_row_and_fits_the_width),
    UNIT(wrapping_keeps_breaks_and_every_word),
    UNIT(usage_shows_what_is_optional),
    UNIT(limit_rows_match_the_table_of_limits))
