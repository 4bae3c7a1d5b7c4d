/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands as tools: each call is a process that gets the arguments as one line of JSON on its
 * standard input; its standard output is the answer. The call ends when its first process exits;
 * the rest of its group is killed then, or immediately when the call is cancelled.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mcp/process.h"
#include "base/str.h"
#include "base/text/say.h"
#include "usertool/usertool_priv.h"

enum {
    READ_BYTES = 64 << 10,
};

struct command {
    struct snp_toolbox *box;
    struct snp_toolbox_texts argv;
    struct snp_toolbox_texts env;
    char *cwd;
};

struct command_call {
    struct snp_toolbox *box;
    struct snp_usercall *call; /* NULL: no recipient */
    struct snp_process process;
    struct snp_buf in;
    struct snp_buf out;
    bool is_too_much;
};

static void job_free(void *owner)
{
    struct command_call *job = owner;
    struct snp_toolbox *box = job->box;

    snp_buf_done(&job->in);
    snp_buf_done(&job->out);
    free(job);
    snp_toolbox_release(box);
}

/* Output -------------------------------------------------------------------------------------- */

/* Whether more may follow. */
static bool end_read(struct command_call *job, int which)
{
    char bytes[READ_BYTES];
    size_t n = snp_process_read(&job->process, which, bytes, sizeof(bytes));

    if (which == SNP_PROCESS_OUT && !job->is_too_much && snp_buf_add(&job->out, bytes, n) < 0) {
        job->is_too_much = true;
        snp_process_kill(&job->process, SIGKILL);
    }
    return n > 0 && !job->is_too_much;
}

/* Read only the bytes in the pipes at exit: other processes may hold the pipes open. */
static void rest_read(struct command_call *job, int which)
{
    size_t most = (size_t)SNP_USERTOOL_REPLY_MAX / READ_BYTES + 2;

    for (size_t i = 0; i < most && job->process.ends[which].fd >= 0 && end_read(job, which); i++) {
    }
}

/* The end ------------------------------------------------------------------------------------- */

/* "exit code 3: ..." with its error output, or its output. */
static void failure_answer(struct command_call *job, struct snp_usercall *call)
{
    const struct snp_process *process = &job->process;
    snp_autosay struct snp_say text = SNP_SAY(SNP_PROCESS_SAID_MAX + 256);
    bool is_signal = WIFSIGNALED(process->status);
    const char *said = process->n_said > 0 ? process->said : snp_buf_bytes(&job->out);
    size_t n = process->n_said > 0 ? process->n_said : job->out.len;

    if (job->is_too_much) {
        snp_say(&text, "the command wrote more than %d KiB and was stopped",
                SNP_USERTOOL_REPLY_MAX >> 10);
    } else {
        snp_say(&text, is_signal ? "ended by signal %d" : "exit code %d",
                is_signal ? WTERMSIG(process->status) : WEXITSTATUS(process->status));
        snp_say(&text, n > 0 ? ": " : "");
        snp_say_bytes(&text, said, n > SNP_PROCESS_SAID_MAX ? SNP_PROCESS_SAID_MAX : n);
    }
    snp_usercall_answer(call, true, text.r < 0 ? "" : snp_buf_bytes(&text.buf),
                        text.r < 0 ? 0 : text.buf.len);
}

static void on_ended(struct command_call *job)
{
    struct snp_usercall *call;

    if (!snp_process_reap(&job->process)) {
        return;
    }
    rest_read(job, SNP_PROCESS_OUT);
    rest_read(job, SNP_PROCESS_ERRORS);
    call = SNP_TAKE_PTR(job->call);
    if (call != NULL && (job->is_too_much || job->process.status != 0)) {
        failure_answer(job, call);
    } else if (call != NULL) {
        snp_usercall_answer(call, false, job->out.len == 0 ? "" : snp_buf_bytes(&job->out),
                            job->out.len);
    }
    snp_process_close(&job->process);
}

/* Input --------------------------------------------------------------------------------------- */

static void on_writable(struct command_call *job)
{
    ssize_t n = SNP_RETRY(
        write(job->process.ends[SNP_PROCESS_IN].fd, snp_buf_bytes(&job->in), job->in.len));

    if (n > 0) {
        snp_buf_consume(&job->in, (size_t)n);
    }
    /* A command need not read its input. */
    if (job->in.len == 0 || (n < 0 && errno != EAGAIN)) {
        snp_process_end_close(&job->process, SNP_PROCESS_IN);
    }
}

/* Calls --------------------------------------------------------------------------------------- */

static void on_ready(void *owner, int which)
{
    if (which == SNP_PROCESS_IN) {
        on_writable(owner);
    } else if (which == SNP_PROCESS_ENDED) {
        on_ended(owner);
    } else {
        (void)end_read(owner, which);
    }
}

static int command_begin(void *ctx,
                         struct snp_usercall *call,
                         const json_t *arguments,
                         struct snp_err *err)
{
    const struct command *command = ctx;
    const struct snp_child child = {
        .argv = (const char *const *)command->argv.items,
        .env = (const char *const *)command->env.items,
        .cwd = command->cwd,
    };
    struct command_call *job = calloc(1, sizeof(*job));
    snp_autofree char *text = snp_json_text(arguments);
    int r;

    if (job == NULL || text == NULL) {
        free(job);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    job->box = command->box;
    job->process.owner = job;
    job->process.ready = on_ready;
    job->process.closed = job_free;
    snp_buf_init(&job->in, SNP_USERTOOL_ARGUMENTS_MAX + 1);
    snp_buf_init(&job->out, SNP_USERTOOL_REPLY_MAX);
    snp_toolbox_hold(job->box);
    r = snp_buf_adds(&job->in, text) < 0 || snp_buf_adds(&job->in, "\n") < 0
            ? snp_fail(err, SNP_E_NOMEM, "out of memory")
            : snp_process_start(&job->process, snp_toolbox_loop(job->box), &child, "command", err);
    if (r < 0) {
        if (job->process.n_handles == 0) {
            job_free(job);
        }
        return r;
    }
    job->call = call;
    snp_process_watch_input(&job->process, true);
    snp_usercall_keep(call, job);
    return 0;
}

static void command_cancel(void *ctx, struct snp_usercall *call)
{
    struct command_call *job = snp_usercall_kept(call);

    (void)ctx;
    job->call = NULL;
    snp_process_kill(&job->process, SIGKILL); /* its end closes the rest */
}

static void command_free(void *ctx)
{
    struct command *command = ctx;

    snp_toolbox_texts_done(&command->argv);
    snp_toolbox_texts_done(&command->env);
    free(command->cwd);
    free(command);
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Whether it can be started, as far as known before a model calls it. */
static int program_check(const struct command *command, const char *name, struct snp_err *err)
{
    const char *program = command->argv.items[0];
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe) */
    struct stat st;
    bool is_there = false;

    if (command->cwd != NULL && (stat(command->cwd, &st) < 0 || !S_ISDIR(st.st_mode))) {
        return snp_fail(err, SNP_E_INVALID, "%.64s: no such folder: %.200s (cwd)", name,
                        command->cwd);
    }
    if (strchr(program, '/') != NULL) {
        snp_autofree char *file = program[0] == '/' || command->cwd == NULL
                                      ? strdup(program)
                                      : snp_format("%s/%s", command->cwd, program);

        is_there = file == NULL || is_program(file);
        path = NULL;
    } else if (path == NULL) {
        is_there = true; /* the system's own folders are looked through */
    }
    while (path != NULL && *path != '\0' && !is_there) {
        size_t n = strcspn(path, ":");
        snp_autofree char *file = snp_format("%.*s/%s", (int)n, n == 0 ? "." : path, program);

        is_there = file == NULL || is_program(file);
        path += n + (path[n] == ':' ? 1 : 0);
    }
    return is_there
               ? 0
               : snp_fail(err, SNP_E_INVALID, "%.64s: no program '%.200s', or it cannot be started",
                          name, program);
}

int snp_toolbox_command_add(struct snp_toolbox *box,
                            struct snp_toolbox_command *spec,
                            struct snp_err *err)
{
    struct command *command = calloc(1, sizeof(*command));
    struct snp_usertool tool = {
        .name = spec->name,
        .description = spec->description,
        .schema = spec->schema,
        .manner = SNP_SCHEMA_STRICT,
        .origin = spec->is_ours ? "context" : "command",
        .is_ours = spec->is_ours,
        .timeout_ms = spec->timeout_ms,
        .begin = command_begin,
        .cancel = command_cancel,
        .free = command_free,
        .ctx = command,
    };
    int r;

    if (command == NULL) {
        snp_toolbox_texts_done(&spec->argv);
        snp_toolbox_texts_done(&spec->env);
        free(spec->cwd);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *command = (struct command){box, spec->argv, spec->env, spec->cwd};
    spec->argv = (struct snp_toolbox_texts){0};
    spec->env = (struct snp_toolbox_texts){0};
    spec->cwd = NULL;
    r = snp_usertools_add(snp_toolbox_tools(box), &tool, err);
    if (r < 0) {
        command_free(command);
        return r;
    }
    return program_check(command, spec->name, err);
}
