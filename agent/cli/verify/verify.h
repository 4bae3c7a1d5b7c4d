/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_VERIFY_H
#define SNP_CLI_VERIFY_VERIFY_H

/* Test a session's changes to its project. */

#include "base/cli/cli.h"

/* Kinds of commands, in the order of their runs. */
enum snp_verify_kind {
    SNP_VERIFY_TEST = 0,
    SNP_VERIFY_REGRESS,
    SNP_VERIFY_HIDDEN,
    SNP_VERIFY_KINDS,
};

/* All members are borrowed. */
struct snp_verify {
    struct snp_cli *cli;
    const char *session;
    const char *const *commands[SNP_VERIFY_KINDS];
    size_t n_commands[SNP_VERIFY_KINDS];
    const char *const *scope; /* prefixes of paths that may change; none: all */
    size_t n_scope;
    const char *hidden_files;    /* folder copied only into sessions of the verdict; NULL = none */
    const char *const *samples;  /* commands that print results for sample data */
    const char *const *expected; /* for each, the file with the expected output */
    size_t n_samples;
    bool allows_uncovered; /* lines of the change that no command runs */
    uint64_t wall_ms;      /* of one command */
    const json_t *attempt; /* members for the evidence about how the change was made; NULL = none */
    void (*progress)(void *ctx, const char *text); /* NULL = none */
    void *ctx;
};

/* Options of a verb that verifies or evaluates, and what they say. */
#define SNP_VERIFY_OPTS_PROOF                                                                      \
    {                                                                                              \
        "sample",                                                                                  \
        0,                                                                                         \
        SNP_OPT_LIST,                                                                              \
        "CMD",                                                                                     \
        "prints the code's output for sample data; may be repeated",                               \
        0},                                                                                        \
        {"expect",                                                                                 \
         0,                                                                                        \
         SNP_OPT_LIST,                                                                             \
         "FILE",                                                                                   \
         "expected output of a --sample; one for each, in the same order",                         \
         0},                                                                                       \
    {                                                                                              \
        "allow-uncovered", 0, SNP_OPT_FLAG, NULL, "allow changed lines that no test command runs", \
            0                                                                                      \
    }
int snp_verify_proof_options(const struct snp_opts *opts,
                             struct snp_verify *ret,
                             struct snp_err *err) SNP_NODISCARD;

/* Options of a verb that verifies. */
#define SNP_VERIFY_OPTS                                                                          \
    {"test", 0, SNP_OPT_LIST, "CMD", "tests that failed and must pass now; may be repeated", 0}, \
        {"regress",                                                                              \
         0,                                                                                      \
         SNP_OPT_LIST,                                                                           \
         "CMD",                                                                                  \
         "tests that passed and must still pass; may be repeated",                               \
         0},                                                                                     \
        {"hidden-test",                                                                          \
         0,                                                                                      \
         SNP_OPT_LIST,                                                                           \
         "CMD",                                                                                  \
         "tests whose names and output the model does not see; may be repeated",                 \
         0},                                                                                     \
        {"hidden-files",                                                                         \
         0,                                                                                      \
         SNP_OPT_STRING,                                                                         \
         "DIR",                                                                                  \
         "folder of hidden tests, shown at /workspace/NAME only in sandboxes that run them",     \
         0},                                                                                     \
        SNP_VERIFY_OPTS_PROOF,                                                                   \
        {"scope",                                                                                \
         0,                                                                                      \
         SNP_OPT_LIST,                                                                           \
         "PREFIX",                                                                               \
         "only files below this path may change (default: all); may be repeated",                \
         0},                                                                                     \
    {                                                                                            \
        "test-timeout", 0, SNP_OPT_INT, "S",                                                     \
            "wall-clock limit of one command in seconds: 1 to 600 (default 300)", 0              \
    }
int snp_verify_options(const struct snp_opts *opts,
                       struct snp_verify *ret,
                       struct snp_err *err) SNP_NODISCARD;

/*
 * Run the tests on the clean project alone, before there is a change. exec: of its sessions,
 * {"project", "defaults"}. SNP_E_INVALID: no test of a command fails, so it proves no change.
 * *needs_sample: the caller's: paths of which a change needs a sample, and none is given.
 */
int snp_verify_begin(const struct snp_verify *asked,
                     const json_t *exec,
                     json_t **needs_sample,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Verify, write the evidence, and record the verdict. *ret: the evidence, the caller's, with
 * members verdict, reasons, folder. SNP_E_DENIED: session or project changed during the
 * verification.
 */
int snp_verify_run(const struct snp_verify *asked, json_t **ret, struct snp_err *err) SNP_NODISCARD;

#endif
