/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_VERB_H
#define SNP_BASE_CLI_VERB_H

/* A row of the tables of verbs. */

#include "base/cli/opt.h"
#include "base/json.h"

struct snp_cli;
struct snp_record;

enum {
    SNP_EXIT_OK = 0,
    SNP_EXIT_FAILED = 1,
    SNP_EXIT_USAGE = 2,
    SNP_EXIT_SIGNAL = 128, /* plus the signal's number */
};

struct snp_verb {
    const char *name;
    const char *summary;     /* one line in the list of verbs */
    const char *description; /* a paragraph of its --help; NULL = summary */
    struct snp_opt_spec spec;
    bool asks_models;       /* warn if a .env file's model keys or endpoints are ignored */
    const char *examples;   /* lines of --help, without the program's name; NULL = none */
    const char *exit_codes; /* lines; NULL = the usual three */
    /* Verbs below this one (`sessions list`), NULL-terminated; then spec and run are unused. */
    const struct snp_verb *const *verbs;
    const struct snp_verb *fallback; /* run when none of them is named; NULL = help */
    int (*run)(struct snp_cli *cli, const struct snp_opts *opts);
    /* For snp_remote_ask: a request about the session of the first word; tell prints the answer. */
    const struct snp_record *request;
    int (*tell)(struct snp_cli *cli, const char *session, const json_t *answer);
    const char *program; /* one of ours in the same folder, run by exec; NULL = this one */
};

#define SNP_VERB_DECLARE(name) extern const struct snp_verb snp_verb_##name;

#endif
