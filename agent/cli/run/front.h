/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_FRONT_H
#define SNP_CLI_RUN_FRONT_H

/*
 * Shared code of the verbs that drive a run: loop, signals, progress, and the end for people and
 * programs.
 */

#include "base/cli/cli.h"
#include "base/rundir.h"
#include "run/run.h"
#include "usertool/program.h"

struct snp_front {
    struct snp_cli *cli;
    const struct snp_opts *opts;
    const struct snp_config *config; /* borrowed */
    bool has_events;                 /* JSON lines while it works */
    bool is_for_programs;            /* standard output has JSON only: no text for people */
    bool is_verbose;
    /* ends like an interrupted run when the reader of standard output, or the caller, ends */
    bool is_attached;
    /* borrowed: the program that started it; NULL = a user's command */
    struct snp_caller *caller;
    const char *output; /* folder that changed files are copied to; NULL = none. Set after open */

    /* Private to front.c. */
    uv_loop_t loop;
    bool has_loop;
    uv_signal_t signals[2];
    /* standard output, opened again, or the caller; its loop is NULL if it is not watched */
    uv_poll_t reader;
    int reader_fd;
    struct snp_program_tools program_tools;
    struct snp_models *models;
    unsigned char key[SNP_RUN_KEY]; /* of the record */
    struct snp_sandboxes *sandboxes;
    const char *tier;            /* borrowed: snp_cli_tier() */
    struct snp_toolbox *toolbox; /* NULL = no user tools */
    bool has_tools;              /* the toolbox is open, or failed to open */
    struct snp_run *run;
    struct snp_cli judge; /* of verdicts; owned: its signal_fd */
    bool is_told;         /* the model got the reasons that the user can also remove */
    bool has_status;      /* a line of progress stands on the terminal */
    bool is_in_text;      /* streamed text has begun and has no final newline yet */
    bool is_done;
    unsigned n_signals;
    bool has_failed;
    struct snp_err err;
};

/* Options of all verbs that drive a run. */
#define SNP_FRONT_OPT_EVENTS                                                             \
    {                                                                                    \
        "events", 0, SNP_OPT_FLAG, NULL,                                                 \
            "print each record as a line of JSON during the run, and the result last", 0 \
    }
#define SNP_FRONT_OPT_VERBOSE                                         \
    {                                                                 \
        "verbose", 'v', SNP_OPT_FLAG, NULL,                           \
            "show what the model writes, and a summary at the end", 0 \
    }

/* After this, snp_front_fail and snp_front_done may be called. */
void snp_front_init(struct snp_front *front, struct snp_cli *cli, const struct snp_opts *opts);
/* Load the configuration and make the loop and the models. */
int snp_front_open(struct snp_front *front, struct snp_err *err) SNP_NODISCARD;
void snp_front_done(struct snp_front *front);

/*
 * Watch the caller, or with --attached the reader of standard output. SNP_E_INVALID: it is not a
 * pipe.
 */
int snp_front_attach(struct snp_front *front, struct snp_err *err) SNP_NODISCARD;

/* Run to the end and print the result; returns the exit status. */
int snp_front_start(struct snp_front *front, const struct snp_run_spec *spec);
int snp_front_resume(struct snp_front *front,
                     const char *path,
                     const struct snp_run_changes *changes);

/* --output, which must not exist yet. SNP_E_INVALID. */
int snp_front_output(struct snp_front *front, struct snp_err *err) SNP_NODISCARD;

/* A warning, for people and for a caller; dropped for other programs. */
void snp_front_warn(const struct snp_front *front, const char *fmt, ...) SNP_PRINTF(2, 3);

/* Report a failure before the run in the selected format; returns the exit status. */
int snp_front_fail(const struct snp_front *front, const struct snp_err *err);

/*
 * The `exec` settings of every cell: the project is the option --project, or the working directory;
 * *ret is the caller's. SNP_E_INVALID, SNP_E_NOT_FOUND, SNP_E_DENIED.
 */
int snp_front_exec(struct snp_front *front, json_t **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * The same for an untrusted record: project (NULL = none), the rest as configured. *ret is the
 * caller's.
 */
int snp_front_exec_of(const struct snp_config *config,
                      const char *project,
                      json_t **ret,
                      struct snp_err *err) SNP_NODISCARD;

/*
 * Run the tests that a change must make pass, before a model is paid. SNP_E_INVALID: no test of a
 * command fails.
 */
int snp_front_tests(struct snp_front *front,
                    const json_t *repair,
                    const json_t *exec,
                    struct snp_err *err) SNP_NODISCARD;

/* --cost-limit: a number of USD, or "none" (below 0). SNP_E_INVALID. */
int snp_front_cost(const char *text, double *ret, struct snp_err *err) SNP_NODISCARD;

#endif
