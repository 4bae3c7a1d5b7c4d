/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_OPT_H
#define SNP_BASE_CLI_OPT_H

/*
 * Command lines from tables: parsing, and the help printed from the same rows.
 * Understood: --opt value, --opt=value, -o value, -ovalue, -abc, --no-x for booleans,
 * options after positionals, and `--` after which everything is positional.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum snp_opt_type {
    SNP_OPT_FLAG = 0, /* --json */
    SNP_OPT_BOOL,     /* --stream / --no-stream */
    SNP_OPT_STRING,
    SNP_OPT_INT,
    SNP_OPT_FLOAT,
    SNP_OPT_LIST, /* string, may be repeated */
};

/* One option. --help / -h is added to every command. */
struct snp_opt {
    const char *name; /* "memory" for --memory */
    char short_name;  /* 'm' for -m; 0 = none */
    enum snp_opt_type type;
    const char *metavar; /* "SIZE"; NULL for flags and booleans */
    const char *help;    /* one sentence */
    int key;             /* enum snp_config_key it sets (see snp_cli_config); 0 = none */
};

/* One positional argument; optional ones and the repeated one come last. */
struct snp_opt_arg {
    const char *name; /* "CODE" */
    const char *help;
    unsigned min; /* 0 = optional */
    unsigned max; /* 0 = any number (only the last) */
};

/* The options and arguments of a command; all tables static. */
struct snp_opt_spec {
    const struct snp_opt *options;
    size_t n_options;
    const struct snp_opt_arg *args;
    size_t n_args;
    bool stop_at_arg; /* the first positional ends the options, as `--` would */
};

/* Make a spec of two arrays; for one without arguments see SNP_OPTIONS. */
#define SNP_SPEC(options_, args_)                                                     \
    {                                                                                 \
        .options = (options_), .n_options = SNP_ARRAY_LEN(options_), .args = (args_), \
        .n_args = SNP_ARRAY_LEN(args_)                                                \
    }
#define SNP_OPTIONS(options_)                                       \
    {                                                               \
        .options = (options_), .n_options = SNP_ARRAY_LEN(options_) \
    }

struct snp_opts;

/*
 * Parse argv[0..argc), the words after the command's name. Texts are borrowed from argv. *ret is
 * the caller's: snp_opts_free(). SNP_E_INVALID: one line, with the nearest name for an unknown
 * option. With --help anywhere before `--`, snp_opts_help() is true and nothing else is checked.
 */
int snp_opts_parse(const struct snp_opt_spec *spec,
                   int argc,
                   char *const *argv,
                   struct snp_opts **ret,
                   struct snp_err *err) SNP_NODISCARD;
void snp_opts_free(struct snp_opts *opts);
SNP_DEFINE_CLEANUP(struct snp_opts *, snp_opts_free)

bool snp_opts_help(const struct snp_opts *opts);

/*
 * Values by long name; a name that is not in the table is our bug (assertion). The last value wins,
 * except for lists.
 */
bool snp_opts_given(const struct snp_opts *opts, const char *name);
bool snp_opts_flag(const struct snp_opts *opts, const char *name, bool fallback);
const char *snp_opts_str(const struct snp_opts *opts, const char *name); /* NULL = not given */
int64_t snp_opts_int(const struct snp_opts *opts, const char *name, int64_t fallback);
double snp_opts_float(const struct snp_opts *opts, const char *name, double fallback);
size_t snp_opts_list(const struct snp_opts *opts, const char *name, const char *const **ret_items);

/* Positionals, in order. snp_opts_arg gives NULL past the end. */
size_t snp_opts_n_args(const struct snp_opts *opts);
const char *snp_opts_arg(const struct snp_opts *opts, size_t i);
/* All positionals, NULL-terminated. Borrowed from opts. */
const char *const *snp_opts_args(const struct snp_opts *opts);
/* Whether `--` was given; *ret_before (may be NULL) = number of positionals before it. */
bool snp_opts_dashes(const struct snp_opts *opts, size_t *ret_before);

/* The text of an option as given, by its row in the table; NULL = not given. */
const char *snp_opts_text_at(const struct snp_opts *opts, size_t i);

/* Write "[OPTIONS] [CODE]", the part after the command's name, into out; returns out. */
const char *snp_opt_usage(const struct snp_opt_spec *spec, char *out, size_t out_len);
/* Print the sections "Arguments:" and "Options:", wrapped to width columns. */
void snp_opt_print(FILE *out, const struct snp_opt_spec *spec, unsigned width);
/* Print text filled to width columns, every line after `indent` blanks; '\n' stays a break. */
void snp_opt_wrap(FILE *out, const char *text, unsigned indent, unsigned width);
/* One paragraph of such text if the cursor is already at column `indent`. */
void snp_opt_fill(FILE *out, const char *text, unsigned indent, unsigned width);

#endif
