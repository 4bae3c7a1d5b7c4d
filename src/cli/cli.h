/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CLI_H
#define SNP_CLI_CLI_H

/*
 * The command line: a table of verbs, one file each. A verb gets its parsed words,
 * prints to stdout what was asked for and to stderr what went wrong, and returns the exit status:
 * 0 done, 1 failed, 2 used wrongly.
 */

#include <stdio.h>

#include "base/err.h"
#include "cli/opt.h"
#include "config/config.h"

enum {
    SNP_EXIT_OK = 0,
    SNP_EXIT_FAILED = 1,
    SNP_EXIT_USAGE = 2,
};

struct snp_verb;

/* One run of the program. */
struct snp_cli {
    const char *program;                 /* "snipara-sandbox", or "rlm" when called so */
    char command[96];                    /* "snipara-sandbox sessions list": for messages */
    const struct snp_verb *const *verbs; /* all verbs, NULL-terminated */
    char *const *argv;                   /* as main() got it */
};

struct snp_verb {
    const char *name;
    const char *summary;     /* one line in the list of verbs */
    const char *description; /* a paragraph of its --help; NULL = summary */
    struct snp_opt_spec spec;
    bool
        asks_models; /* then it is named when a .env says in vain which keys, and where they go */
    const char *examples;   /* lines of --help, without the program's name; NULL = none */
    const char *exit_codes; /* lines; NULL = the usual three */
    /* Verbs below this one (`sessions list`), NULL-terminated; then spec and run are unused. */
    const struct snp_verb *const *verbs;
    const struct snp_verb *fallback; /* of those: run when none of them is named; NULL = help */
    int (*run)(struct snp_cli *cli, const struct snp_opts *opts);
};

extern const struct snp_verb snp_verb_exec;
extern const struct snp_verb snp_verb_sessions;
extern const struct snp_verb snp_verb_template;
extern const struct snp_verb snp_verb_put;
extern const struct snp_verb snp_verb_get;
extern const struct snp_verb snp_verb_ls;
extern const struct snp_verb snp_verb_output;
extern const struct snp_verb snp_verb_snapshot;
extern const struct snp_verb snp_verb_snapshots;
extern const struct snp_verb snp_verb_fork;
extern const struct snp_verb snp_verb_rollback;
extern const struct snp_verb snp_verb_diff;
extern const struct snp_verb snp_verb_history;
extern const struct snp_verb snp_verb_show;
extern const struct snp_verb snp_verb_rerun;
extern const struct snp_verb snp_verb_checkpoint;
extern const struct snp_verb snp_verb_hibernate;
extern const struct snp_verb snp_verb_export;
extern const struct snp_verb snp_verb_import;
extern const struct snp_verb snp_verb_gc;
extern const struct snp_verb snp_verb_models;
extern const struct snp_verb snp_verb_run;
extern const struct snp_verb snp_verb_agent;
extern const struct snp_verb snp_verb_resume;
extern const struct snp_verb snp_verb_runs;
extern const struct snp_verb snp_verb_replay;
extern const struct snp_verb snp_verb_logs;
extern const struct snp_verb snp_verb_visualize;
extern const struct snp_verb snp_verb_init;
extern const struct snp_verb snp_verb_trust;
extern const struct snp_verb snp_verb_config;
extern const struct snp_verb snp_verb_doctor;
extern const struct snp_verb snp_verb_daemon;
extern const struct snp_verb snp_verb_completion;
extern const struct snp_verb snp_verb_man;
extern const struct snp_verb snp_verb_mcp;
extern const struct snp_verb snp_verb_mcp_serve;
extern const struct snp_verb snp_verb_mcp_install;
extern const struct snp_verb snp_verb_version;

/* The whole program below main(): find the verb, run it; the exit status. */
int snp_cli_run(const struct snp_verb *const *verbs, int argc, char *const *argv);

/*
 * Load the configuration: the file of --config if the verb has such an option and it
 * was given, and over it every option whose row names a key. What it has to warn of, such
 * as a key nobody knows or what of an untrusted file is ignored, goes to stderr. *ret is the caller's.
 */
int snp_cli_config(struct snp_cli *cli,
                   const struct snp_verb *verb,
                   const struct snp_opts *opts,
                   struct snp_config **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* "snipara-sandbox exec: MESSAGE" on stderr, control characters escaped; returns the exit status of err->code. */
int snp_cli_fail(const struct snp_cli *cli, const struct snp_err *err);
/* The same for a usage error found by the verb, and a second line pointing to --help; returns 2. */
int snp_cli_usage(const struct snp_cli *cli, const char *fmt, ...) SNP_PRINTF(2, 3);
/* "snipara-sandbox exec: warning: MESSAGE" on stderr. */
void snp_cli_warn(const struct snp_cli *cli, const char *fmt, ...) SNP_PRINTF(2, 3);
/* Ask on the terminal, "QUESTION [y/N] "; false: no, or nobody is there to be asked. */
bool snp_cli_confirm(const char *question);
/* Is there somebody to be asked? */
bool snp_cli_can_ask(void);
/* Print the program's name and version, a line; the exit status. */
int snp_version_print(void);
/*
 * The lists that verbs show without a word, and a line of how to go on: `next` is a command without the program's
 * name. session: NULL = snapshots of all. dir: of records; resumable: only runs that `resume` takes. They return the
 * exit status.
 */
int snp_sessions_tell(struct snp_cli *cli, bool is_json, const char *next);
int snp_snapshots_tell(struct snp_cli *cli,
                       const char *session,
                       bool is_json,
                       const char *next);
int snp_runs_tell(
    struct snp_cli *cli, const char *dir, bool resumable, bool is_json, const char *next);
/* That line, on stderr. */
void snp_cli_next(const struct snp_cli *cli, const char *next);
/* A path of this machine, escaped where it is not UTF-8. New reference; NULL: out of memory. */
json_t *snp_cli_path_json(const char *path);
/* Print a JSON value, indented by 2, and a newline to stdout. Returns 0, or 1 if stdout is broken. */
int snp_cli_print_json(const json_t *value);

/* Texts and options of the program itself, for --help and the manual page. */
extern const char snp_cli_about[];
extern const char snp_cli_exit_codes[];
const struct snp_opt_spec *snp_cli_root_spec(void);

/* Rows that several verbs share. */
#define SNP_CLI_OPT_CONFIG                                            \
    {                                                                 \
        "config", 'c', SNP_OPT_STRING, "PATH",                        \
            "configuration file (default: ./snipara-sandbox.toml)", 0 \
    }
/* The session a verb is about, as a word or with -s: see snp_remote_session_of. */
#define SNP_CLI_OPT_SESSION                                              \
    {                                                                    \
        "session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION", 0 \
    }
#define SNP_CLI_OPT_SESSION_AT                                            \
    {                                                                     \
        "session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION@", 0 \
    }
#define SNP_CLI_OPT_SESSION_OF_PATH                                                           \
    {                                                                                         \
        "session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION:; then give PATH alone", \
            0                                                                                 \
    }
#define SNP_CLI_ARG_SESSION                                                                    \
    {                                                                                          \
        "SESSION",                                                                             \
            "name or id; may be left out if only one session exists, or one called `default`", \
            0, 1                                                                               \
    }
#define SNP_CLI_OPT_JSON                               \
    {                                                  \
        "json", 0, SNP_OPT_FLAG, NULL, "print JSON", 0 \
    }

/* One row for each limit, in the order of the table of limits. */
#define SNP_CLI_LIMIT_ROW(limit, flag, short_name, metavar, help)                \
    {                                                                            \
        flag, short_name, SNP_OPT_STRING, metavar, help, SNP_KEY_OF_LIMIT(limit) \
    }
#define SNP_CLI_OPT_LIMITS                                                                 \
    SNP_CLI_LIMIT_ROW(SNP_LIMIT_WALL, "timeout", 't', "S",                                 \
                      "wall clock of one cell in seconds: 0.05 to 600 (default 30)"),      \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_CPUS, "cpus", 0, "N",                                  \
                          "processors it may keep busy: 0.01 to 64 (default 1.0)"),        \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_MEMORY, "memory", 'm', "SIZE",                         \
                          "memory, no swap: 16m to 1t (default 512m)"),                    \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_PROCESSES, "processes", 0, "N",                        \
                          "processes and threads: 1 to 4096 (default 64)"),                \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_TMP, "tmp-size", 0, "SIZE",                            \
                          "size of /tmp, and of /dev/shm: 1m to 64g (default 64m)"),       \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_WORKSPACE, "workspace-size", 0, "SIZE",                \
                          "bytes written to /workspace: 1m to 1t (default 1g)"),           \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_INODES, "workspace-files", 0, "N",                     \
                          "files created in /workspace: 10 to 10000000 (default 100000)"), \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_FILE, "file-size", 0, "SIZE",                          \
                          "size of one file: 4k to 1t (default 512m)"),                    \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_OPEN_FILES, "open-files", 0, "N",                      \
                          "open files of one process: 16 to 65536 (default 256)"),         \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_OUTPUT, "output", 0, "N",                              \
                          "characters of output shown: 100 to 10000000 (default 100000)")

#endif
