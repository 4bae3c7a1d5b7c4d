/* SPDX-License-Identifier: Apache-2.0 */
/* `ps`, `attach` and `kill`: detached processes of sessions, which `exec --detach` starts. */
#include "base/wire/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/session/result.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/summary.h"
#include "base/wire/session.h"
#include "cli/cli.h"

enum {
    WORDS_MAX = 4096, /* bytes of a command line in a table */
    EXIT_SIGNAL = 128,
    SIGNAL_MAX = 16,
    OUTPUT_MAX = 64 << 20, /* bytes of a stream with --json */
};

/* A process named by a word. */
struct process_name {
    char *session; /* owned */
    uint64_t process;
};

static void target_done(struct process_name *target)
{
    free(target->session);
}

static int list_get(struct snp_cli *cli,
                    const char *session,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    return snp_remote_call(cli, SNP_WRITE(snp_process_list_request, .session = session), ret, err);
}

/* The only process, or the only one that runs. */
static int only_process(const char *session, json_t *list, uint64_t *ret, struct snp_err *err)
{
    size_t n_running = 0;
    size_t i;
    json_t *item;

    *ret = 0;
    json_array_foreach(list, i, item)
    {
        SNP_READ(snp_process_row, row, item);
        bool is_running = snp_streq(row.state, "running");

        n_running += is_running ? 1 : 0;
        *ret = is_running || json_array_size(list) == 1 ? row.process : *ret;
    }
    if (json_array_size(list) == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "session \"%s\" has no processes; exec --detach starts one", session);
    }
    return n_running == 1 || json_array_size(list) == 1
               ? 0
               : snp_fail(err, SNP_E_INVALID,
                          "session \"%s\" has %zu processes (%zu running); give %s:NUMBER", session,
                          json_array_size(list), n_running, session);
}

static int target_find(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct process_name *ret,
                       struct snp_err *err)
{
    const char *word = snp_opts_n_args(opts) == 0 ? NULL : snp_opts_arg(opts, 0);
    const char *number = word == NULL ? NULL : strrchr(word, ':');
    snp_autofree char *name =
        word == NULL
            ? NULL
            : snp_need(strndup(word, number == NULL ? strlen(word) : (size_t)(number - word)));
    snp_autoreply struct snp_reply reply = {0};

    if (number != NULL && (snp_parse_u64(number + 1, &ret->process) < 0 || ret->process == 0)) {
        return snp_fail(err, SNP_E_INVALID, "'%.80s' is not SESSION:NUMBER", word);
    }
    SNP_TRY(snp_remote_session(cli, name, &ret->session, err));
    if (number != NULL) {
        return 0;
    }
    SNP_TRY(list_get(cli, ret->session, &reply, err));
    return only_process(ret->session, json_object_get(reply.head, "processes"), &ret->process, err);
}

/* ps ---------------------------------------------------------------------------------------- */

/* The command line; a shell line as it was typed. */
static char *words_text(const json_t *argv)
{
    snp_autobuf struct snp_buf line = SNP_BUF(WORDS_MAX);
    const char *shell = json_string_value(json_array_get(argv, 2));
    size_t i;
    json_t *word;

    if (json_array_size(argv) == 3 && shell != NULL &&
        snp_streq(json_string_value(json_array_get(argv, 0)), "/bin/sh")) {
        return snp_need_copy(shell);
    }
    json_array_foreach((json_t *)(uintptr_t)argv, i, word)
    {
        if (snp_buf_addf(&line, "%s%s", i == 0 ? "" : " ", json_string_value(word)) < 0) {
            break; /* long; a table cuts it anyway */
        }
    }
    return snp_need_copy(snp_need(snp_buf_cstr(&line)));
}

static void rows_add(struct snp_table *table, const char *session, json_t *list)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        SNP_READ(snp_process_row, row, item);
        char state[SNP_SUMMARY_PROCESS];
        snp_autofree char *words = words_text(row.argv);

        snp_table_addf(table, "%s:%" PRIu64, session, row.process);
        snp_table_add(table, snp_summary_process(row.state, row.exit_code, row.signal, state));
        snp_table_add(table, snp_human_age(row.started).text);
        snp_table_add(table, snp_human_bytes(row.stdout_bytes + row.stderr_bytes).text);
        snp_table_add(table, words);
    }
}

/* The sessions to list: the given one, else all that have a name. New reference. */
static int sessions_find(struct snp_cli *cli,
                         const struct snp_opts *opts,
                         json_t **ret,
                         struct snp_err *err)
{
    snp_autofree char *given = NULL;
    snp_autoreply struct snp_reply reply = {0};
    size_t i;
    json_t *item;

    *ret = snp_need(json_array());
    SNP_TRY(snp_remote_given(opts, &given, err));
    if (given != NULL) {
        (void)json_array_append_new(*ret, json_string(given));
        return 0;
    }
    SNP_TRY(snp_remote_list(cli, &reply, err));
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        const char *name = snp_json_str(item, "name", NULL);

        if (name != NULL) {
            (void)json_array_append_new(*ret, json_string(name));
        }
    }
    return 0;
}

static int run_ps(struct snp_cli *cli, const struct snp_opts *opts)
{
    static const char *const heads[] = {"Process", "State", "Started", "Output", "Command"};
    struct snp_table table = SNP_TABLE(heads);
    snp_autojson json_t *sessions = NULL;
    snp_autojson json_t *all = snp_need(json_array());
    struct snp_err err;
    size_t i;
    json_t *session;
    int r = sessions_find(cli, opts, &sessions, &err);

    json_array_foreach(sessions, i, session)
    {
        const char *name = json_string_value(session);
        snp_autoreply struct snp_reply reply = {0};
        json_t *list;
        size_t j;
        json_t *row;

        r = r < 0 ? r : list_get(cli, name, &reply, &err);
        if ((r == SNP_E_NOT_FOUND || r == SNP_E_UNSUPPORTED) && json_array_size(sessions) > 1) {
            r = 0; /* destroyed in between, or in a tier without processes */
            continue;
        }
        list = json_object_get(reply.head, "processes");
        if (!cli->is_json) {
            rows_add(&table, name, list);
        }
        json_array_foreach(list, j, row)
        {
            (void)json_object_set_new(row, "session", json_string(name));
            (void)json_array_append(all, row);
        }
    }
    if (r == 0 && !cli->is_json) {
        snp_table_print(stdout, &table, "no processes");
        return SNP_EXIT_OK;
    }
    return snp_cli_end(cli, r, &err, all);
}

/* attach ------------------------------------------------------------------------------------ */

/* A read of a process, from its oldest stored output on. */
struct reading {
    struct snp_cli *cli;
    const struct process_name *target;
    bool follows;
    uint64_t at[2];
    struct snp_buf text[2]; /* for --json */
    int64_t exit_code;
    char signal[SIGNAL_MAX];
    bool is_ended;
    bool is_last; /* nothing follows this answer */
};

static int bytes_show(struct reading *r, int i, const char *bytes, size_t n, struct snp_err *err)
{
    FILE *stream = i == 0 ? stdout : stderr;

    if (r->cli->is_json) {
        return snp_buf_add(&r->text[i], bytes, n) < 0
                   ? snp_fail(err, SNP_E_LIMIT, "the output is too long for --json")
                   : 0;
    }
    return snp_term_write(stream, bytes, n) < 0 || fflush(stream) != 0
               ? snp_fail(err, SNP_E_SYS, "standard %s is closed", i == 0 ? "output" : "error")
               : 0;
}

/* Show what came of a stream, up to an incomplete UTF-8 character, which is read again. */
static int stream_show(
    struct reading *r, int i, uint64_t from, const char *bytes, size_t n, struct snp_err *err)
{
    const size_t begun = r->is_last ? 0 : snp_utf8_begun(bytes, n);
    const size_t shown = begun < n ? n - begun : n;

    if (from > r->at[i] && !r->cli->is_json) {
        (void)fflush(stdout);
        snp_term_printf(stderr, "[%" PRIu64 " earlier bytes of standard %s are no longer stored]\n",
                        from - r->at[i], i == 0 ? "output" : "error");
    }
    r->at[i] = from + shown;
    return bytes_show(r, i, bytes, shown, err);
}

/* Read once; 1: there may be more. */
static int read_once(struct reading *r, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    json_t *head = SNP_WRITE(snp_process_read_request, .session = r->target->session,
                             .process = r->target->process, .stdout = r->at[0], .stderr = r->at[1],
                             .length = SNP_FILE_CHUNK_MAX,
                             .wait_ms = r->follows ? SNP_PROCESS_WAIT_MAX_MS : 0);

    SNP_TRY(snp_remote_call(r->cli, head, &reply, err));
    SNP_READ(snp_process_read_answer, got, reply.head);
    if (got.stdout_len + got.stderr_len != reply.raw_len) {
        return snp_fail(err, SNP_E_PEER, "the daemon sent an invalid answer");
    }
    r->is_last = got.eof || (got.stdout_len + got.stderr_len == 0 && !r->follows);
    SNP_TRY(stream_show(r, 0, got.stdout, reply.raw, got.stdout_len, err));
    SNP_TRY(stream_show(r, 1, got.stderr, reply.raw + got.stdout_len, got.stderr_len, err));
    r->is_ended = snp_streq(got.state, "ended");
    r->exit_code = got.exit_code;
    (void)snprintf(r->signal, sizeof(r->signal), "%s", got.signal == NULL ? "" : got.signal);
    return r->is_last ? 0 : 1;
}

static int reading_exit(const struct reading *r)
{
    if (!r->is_ended) {
        return SNP_EXIT_OK;
    }
    return r->signal[0] != '\0'            ? EXIT_SIGNAL + snp_signal_number(r->signal)
           : r->exit_code == SNP_NO_NUMBER ? SNP_EXIT_FAILED
                                           : (int)r->exit_code;
}

static int reading_end(struct reading *r)
{
    const char *name = r->signal[0] == '\0' ? NULL : r->signal;
    char state[SNP_SUMMARY_PROCESS];
    snp_autojson json_t *answer = NULL;

    if (!r->cli->is_json) {
        (void)fflush(stdout);
        if (!r->is_ended || name != NULL || r->exit_code != 0) {
            snp_term_printf(
                stderr, "[%s:%" PRIu64 ": %s]\n", r->target->session, r->target->process,
                snp_summary_process(r->is_ended ? "ended" : "running", r->exit_code, name, state));
        }
        return reading_exit(r);
    }
    answer = snp_need(json_pack(
        "{s:s, s:I, s:s, s:o, s:s?, s:o, s:o}", "session", r->target->session, "process",
        (json_int_t)r->target->process, "state", r->is_ended ? "ended" : "running", "exit_code",
        r->exit_code == SNP_NO_NUMBER ? json_null() : json_integer(r->exit_code), "signal", name,
        "stdout", snp_json_bytes(snp_buf_bytes(&r->text[0]), r->text[0].len), "stderr",
        snp_json_bytes(snp_buf_bytes(&r->text[1]), r->text[1].len)));
    return snp_cli_print_json(answer) == SNP_EXIT_OK ? reading_exit(r) : SNP_EXIT_FAILED;
}

/* Write bytes to the process, then close its standard input if asked to. */
static int input_write(struct snp_cli *cli,
                       const struct process_name *target,
                       const char *bytes,
                       size_t n,
                       bool closes,
                       struct snp_err *err)
{
    size_t done = 0;

    do {
        snp_autoreply struct snp_reply reply = {0};
        snp_autojson json_t *head = SNP_WRITE(snp_process_write_request, .session = target->session,
                                              .process = target->process, .close = closes,
                                              .wait_ms = SNP_PROCESS_WAIT_MAX_MS);
        const struct snp_call call = {.head = head, .raw = bytes + done, .raw_len = n - done};

        SNP_TRY_MEMORY(head, err);
        SNP_TRY(snp_remote_send(cli, &call, &reply, err));
        SNP_READ(snp_process_write_answer, got, reply.head);
        if (got.written > n - done) {
            return snp_fail(err, SNP_E_PEER, "the daemon sent an invalid answer");
        }
        done += got.written;
    } while (done < n);
    return 0;
}

/* Pass all of fd on to the process. */
static int input_pass(struct snp_cli *cli,
                      const struct process_name *target,
                      int fd,
                      bool closes,
                      struct snp_err *err)
{
    static char bytes[SNP_PROCESS_WRITE_MAX];
    ssize_t n;

    while ((n = SNP_RETRY(read(fd, bytes, sizeof(bytes)))) > 0) {
        SNP_TRY(input_write(cli, target, bytes, (size_t)n, false, err));
    }
    if (n < 0) {
        return snp_fail_sys(err, errno, "cannot read the input");
    }
    return input_write(cli, target, bytes, 0, closes, err);
}

/*
 * While output is shown, a child with another connection passes input on. Call this before the
 * first request. Returns its pid.
 */
static pid_t input_fork(struct snp_cli *cli, const struct snp_opts *opts, int fd)
{
    snp_cleanup(target_done) struct process_name target = {0};
    struct snp_err err;
    const pid_t parent = getpid();
    const pid_t pid = fork();
    int r;

    if (pid != 0) {
        return pid;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent || target_find(cli, opts, &target, &err) < 0) {
        _exit(SNP_EXIT_FAILED); /* the parent reports it */
    }
    cli->is_json = false; /* standard output is the parent's */
    r = input_pass(cli, &target, fd, !snp_opts_flag(opts, "keep-open", false), &err);
    /* The parent reports other failures; it is none if the process reads no more. */
    if (r == SNP_E_SYS) {
        (void)snp_cli_fail(cli, &err);
    }
    _exit(SNP_EXIT_OK);
}

static int input_open(const char *path, int *ret, struct snp_err *err)
{
    *ret = snp_streq(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                : SNP_RETRY(open(path, O_RDONLY | O_CLOEXEC));
    return *ret < 0 ? snp_fail_sys(err, errno, "open %s", path) : 0;
}

/* Begin to pass input on; without a child, pass all of it. */
static int input_begin(
    struct reading *r, const struct snp_opts *opts, int fd, pid_t child, struct snp_err *err)
{
    int failed;

    if (fd < 0) {
        return 0;
    }
    if (child < 0) {
        return input_pass(r->cli, r->target, fd, !snp_opts_flag(opts, "keep-open", false), err);
    }
    failed = input_write(r->cli, r->target, "", 0, false, err); /* could it be written to? */
    return failed == SNP_E_NOT_FOUND ? 0 : failed;              /* its output is still shown */
}

static int run_attach(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(target_done) struct process_name target = {0};
    struct reading reading = {
        .cli = cli,
        .target = &target,
        .follows = snp_opts_flag(opts, "follow", true),
        .text = {SNP_BUF(OUTPUT_MAX), SNP_BUF(OUTPUT_MAX)},
    };
    snp_autoclose int fd = -1;
    const char *path = snp_opts_str(opts, "stdin");
    pid_t child = -1;
    struct snp_err err;
    int r = path == NULL ? 0 : input_open(path, &fd, &err);

    if (fd >= 0 && reading.follows) {
        child = input_fork(cli, opts, fd);
    }
    SNP_THEN(r, target_find(cli, opts, &target, &err));
    SNP_THEN(r, input_begin(&reading, opts, fd, child, &err));
    if (r == 0) {
        do {
            r = read_once(&reading, &err);
        } while (r > 0);
    }
    if (child > 0) {
        (void)kill(child, SIGKILL);
        (void)SNP_RETRY(waitpid(child, NULL, 0));
    }
    r = r < 0 ? snp_cli_fail(cli, &err) : reading_end(&reading);
    snp_buf_done(&reading.text[0]);
    snp_buf_done(&reading.text[1]);
    return r;
}

/* kill -------------------------------------------------------------------------------------- */

static int kill_tell(struct snp_cli *cli, const char *name, const json_t *answer)
{
    (void)cli;
    if (snp_json_bool(answer, "sent", false)) {
        return SNP_EXIT_OK;
    }
    snp_term_printf(stderr, "%s had ended\n", name);
    return SNP_EXIT_FAILED;
}

static int run_kill(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(target_done) struct process_name target = {0};
    const char *given = snp_opts_str(opts, "signal");
    const int number = snp_signal_number(given == NULL ? "TERM" : given);
    snp_autofree char *name = NULL;
    struct snp_err err;
    int r;

    if (number == 0) {
        return snp_cli_usage(cli, "no signal '%.40s'; give a name, such as INT, or 1 to 64", given);
    }
    r = target_find(cli, opts, &target, &err);
    name = snp_need_format("%s:%" PRIu64, r < 0 ? "" : target.session, target.process);
    return snp_remote_end(cli, r, &err,
                          SNP_WRITE(snp_process_signal_request, .session = target.session,
                                    .process = target.process, .signal = (uint64_t)number),
                          kill_tell, name);
}

/* Verbs ------------------------------------------------------------------------------------- */

static const struct snp_opt ps_options[] = {SNP_CLI_OPT_SESSION, SNP_CLI_OPT_JSON};
static const struct snp_opt attach_options[] = {
    {"follow", 0, SNP_OPT_BOOL, NULL,
     "continue until the process ends (default), or stop after the stored output", 0},
    {"stdin", 0, SNP_OPT_STRING, "FILE",
     "write FILE to the standard input of the process, and close it; - passes on the standard "
     "input of this command",
     0},
    {"keep-open", 0, SNP_OPT_FLAG, NULL, "after --stdin, leave the standard input open", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt kill_options[] = {
    {"signal", 0, SNP_OPT_STRING, "NAME", "signal to send (default TERM)", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg ps_args[] = {
    {"SESSION", "only processes of this session (default: of all)", 0, 1}};
static const struct snp_opt_arg process_args[] = {
    {"SESSION:NUMBER", "the process; SESSION is enough if only one runs", 0, 1}};

const struct snp_verb snp_verb_ps = {
    .name = "ps",
    .summary = "list detached processes of sessions",
    .description = "List the processes that exec --detach started, running and ended. They end "
                   "with the sandbox of their session: when it hibernates, is rolled back or "
                   "cleared, or when a cell has to be killed.",
    .spec = SNP_SPEC(ps_options, ps_args),
    .examples = "exec -s work --detach --sh 'python3 -m http.server 8000'\n"
                "ps work\n"
                "attach work:1",
    .run = run_ps,
};

const struct snp_verb snp_verb_attach = {
    .name = "attach",
    .summary = "show the output of a detached process until it ends",
    .description = "Print the stored output of a process, then its output as it comes, until it "
                   "ends. Ctrl-C stops only this command; the process continues, and attach works "
                   "again. The last bytes of each stream are stored, as many as the session's "
                   "--output, at most 256 KiB. --stdin needs a process started with "
                   "exec --detach --open-stdin.",
    .spec = SNP_SPEC(attach_options, process_args),
    .examples = "attach work:1\n"
                "attach work:1 --no-follow\n"
                "attach work:1 --stdin -\n"
                "attach work:1 --stdin request.txt --keep-open --no-follow",
    .exit_codes = "0    the process exited with 0, or still runs\n"
                  "130  Ctrl-C stopped this command\n"
                  "Otherwise the exit code of the process, or 128 + N if signal N ended it.",
    .run = run_attach,
};

const struct snp_verb snp_verb_kill = {
    .name = "kill",
    .summary = "send a signal to a detached process",
    .description = "Send a signal to a running process, and to the other programs in its process "
                   "group.",
    .spec = SNP_SPEC(kill_options, process_args),
    .examples = "kill work:1\nkill work:1 --signal KILL",
    .run = run_kill,
};
