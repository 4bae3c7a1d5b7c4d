/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_CLI_H
#define SNP_BASE_CLI_CLI_H

/*
 * The command line: a table of verbs, one file each. A verb gets its parsed words,
 * prints the answer to stdout and errors to stderr, and returns the exit status (verb.h).
 */

#include <stdio.h>

#include "base/cli/verb.h"
#include "base/config/config.h"
#include "base/err.h"

/* Receives errors, warnings and answers instead of the terminal. */
struct snp_cli_listener {
    void (*fail)(void *ctx, const struct snp_err *err);
    void (*warn)(void *ctx, const char *text);
    void (*end)(void *ctx, const json_t *answer);
    void *ctx;
};

/* A configuration value that takes precedence over options too. */
struct snp_cli_setting {
    enum snp_config_key key;
    const char *name; /* NULL ends a list */
    const char *text;
};

/* One run of the program. */
struct snp_cli {
    const char *program;                 /* "snipara-sandbox", or "rlm" if called by that name */
    char command[96];                    /* "snipara-sandbox sessions list": for messages */
    const struct snp_verb *const *verbs; /* all verbs, NULL-terminated */
    char *const *argv;                   /* as main() got it */
    const struct snp_verb *verb;         /* the running verb */
    bool is_json;                        /* --json was given to it */
    bool takes_signals; /* set before the first call: SIGINT and SIGTERM interrupt the cell */
    bool any_state;     /* set before: a daemon with another state folder is meant, too */
    int signal_fd;      /* borrowed; has records of signals, as a signalfd; 0 = none yet */
    int signal_no;      /* the first signal that stopped the command; 0 = none */
    struct snp_config *config; /* owned; NULL = not loaded yet */
    json_t *unsaved;           /* owned: why the session of the last call is unsaved; or NULL */
    const struct snp_cli_listener *listener; /* borrowed; NULL = the terminal */
    const struct snp_cli_setting *settings;  /* NULL = none */
};

/* The exit code of a command that ends with status; after a signal, 128 + its number. */
int snp_cli_exit(const struct snp_cli *cli, int status);

/* The whole program below main(): find the verb, run it; the exit status. */
int snp_cli_run(const struct snp_verb *const *verbs, int argc, char *const *argv);

/*
 * Load the configuration: the file of --config if cli->verb has that option and it was given, then
 * every option whose row names a key. Warnings, such as unknown keys or ignored lines of an
 * untrusted file, go to stderr. *ret is borrowed; one call per run is enough.
 */
int snp_cli_config(struct snp_cli *cli,
                   const struct snp_opts *opts,
                   const struct snp_config **ret,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * "snipara-sandbox exec: MESSAGE" on stderr, control characters escaped; returns the exit status
 * of err->code.
 */
int snp_cli_fail(const struct snp_cli *cli, const struct snp_err *err);
/* End a verb that failed (r < 0), or that answers with JSON; returns the exit status. */
int snp_cli_end(const struct snp_cli *cli, int r, const struct snp_err *err, const json_t *answer);
/*
 * End a verb that acts on each of its words: print "DONE NAME" for each of `names`, or {DONE:
 * names}; `nothing` (NULL: no line) if there are none. Returns exit_code, or 1.
 */
int snp_cli_done_list(
    const struct snp_cli *cli, const char *done, json_t *names, const char *nothing, int exit_code);
/*
 * The same for a usage error found by the verb, with a second line pointing to --help; returns 2.
 */
int snp_cli_usage(const struct snp_cli *cli, const char *fmt, ...) SNP_PRINTF(2, 3);
/* "snipara-sandbox exec: warning: MESSAGE" on stderr. */
void snp_cli_warn(const struct snp_cli *cli, const char *fmt, ...) SNP_PRINTF(2, 3);
/* Ask on the terminal, "QUESTION [y/N] "; false: no, or there is no terminal. */
bool snp_cli_confirm(const char *question);
/* Whether there is a terminal to ask on. */
bool snp_cli_can_ask(void);
/* Print the program's name and version on one line; returns the exit status. */
int snp_cli_version(void);
/* Print that line on stderr. */
void snp_cli_next(const struct snp_cli *cli, const char *next);
/* A path of this machine; invalid UTF-8 is escaped. New reference; NULL: out of memory. */
json_t *snp_cli_path_json(const char *path);
/*
 * Print a JSON value, indented by 2, and a newline to stdout. Returns 0, or 1 if stdout is broken.
 */
int snp_cli_print_json(const json_t *value);
/*
 * Print a server's address, and the file of its token (NULL = none), immediately: a line, or JSON.
 */
void snp_cli_print_url(const char *url, const char *token_file, bool as_json);

/* Texts and options of the program, for --help and the manual page. */
extern const char snp_cli_about[];
extern const char snp_cli_exit_codes[];
const struct snp_opt_spec *snp_cli_root_spec(void);

/* Rows that several verbs share. */
#define SNP_CLI_OPT_CONFIG                                            \
    {                                                                 \
        "config", 'c', SNP_OPT_STRING, "PATH",                        \
            "configuration file (default: ./snipara-sandbox.toml)", 0 \
    }
/* The session of a verb, as a word or with -s: see snp_remote_session_of. */
#define SNP_CLI_OPT_SESSION                                              \
    {                                                                    \
        "session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION", 0 \
    }
#define SNP_CLI_OPT_SESSION_AT                                            \
    {                                                                     \
        "session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION@", 0 \
    }
#define SNP_CLI_OPT_SESSION_OF_PATH                                                             \
    {                                                                                           \
        "session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION:; then give PATH alone", 0 \
    }
#define SNP_CLI_ARG_SESSION                                                                 \
    {                                                                                       \
        "SESSION", "name or id (default: the only session, or the session `default`)", 0, 1 \
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
#define SNP_CLI_OPT_LIMITS                                                                  \
    SNP_CLI_LIMIT_ROW(SNP_LIMIT_WALL, "timeout", 't', "S",                                  \
                      "wall-clock limit of one cell in seconds: 0.05 to 600 (default 30)"), \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_CPUS, "cpus", 0, "N",                                   \
                          "CPUs it may use: 0.01 to 64 (default 1.0)"),                     \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_MEMORY, "memory", 'm', "SIZE",                          \
                          "memory, no swap: 16m to 1t (default 512m)"),                     \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_PROCESSES, "processes", 0, "N",                         \
                          "processes and threads: 1 to 4096 (default 64)"),                 \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_TMP, "tmp-size", 0, "SIZE",                             \
                          "size of /tmp, and of /dev/shm: 1m to 64g (default 64m)"),        \
        SNP_CLI_LIMIT_ROW(                                                                  \
            SNP_LIMIT_WORKSPACE, "workspace-size", 0, "SIZE",                               \
            "bytes written to /workspace: 1m to 1t (default 1g, at most 7/8 of memory)"),   \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_INODES, "workspace-files", 0, "N",                      \
                          "files created in /workspace: 10 to 10000000 (default 100000)"),  \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_FILE, "file-size", 0, "SIZE",                           \
                          "size of one file: 4k to 1t (default 512m)"),                     \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_OPEN_FILES, "open-files", 0, "N",                       \
                          "open files of one process: 16 to 65536 (default 256)"),          \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_OUTPUT, "output", 0, "N",                               \
                          "characters of output shown: 100 to 10000000 (default 100000)")

#endif
