/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands as tools: each call is a process that gets the arguments as one line of JSON on its standard input,
 * and whose standard output is the answer. It has ended when its first process has: what is left of
 * its group is killed then, and at once when the call is cancelled.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/fd.h"
#include "base/str.h"
#include "usertool/usertool_priv.h"

enum {
    READ_BYTES = 64 << 10,
    SAID_MAX = 2048, /* bytes of the end of its standard error */
    N_ENDS = 4,
};

enum {
    TO_CHILD = 0,
    FROM_CHILD,
    ERRORS,
    ENDED, /* its pidfd */
};

struct end {
    int fd;       /* owned */
    bool is_open; /* poll is initialised and not closed */
    uv_poll_t poll;
};

struct command {
    struct snp_toolbox *box;
    struct snp_toolbox_texts argv;
    struct snp_toolbox_texts env;
    char *cwd;
};

/* A process. */
struct job {
    struct snp_toolbox *box;
    struct snp_usercall *call; /* NULL: nobody waits */
    pid_t pid;                 /* -1 = reaped, or never started */
    int status;
    struct end ends[N_ENDS];
    size_t n_handles; /* not closed yet */
    struct snp_buf in;
    struct snp_buf out;
    bool is_too_much;
    char said[SAID_MAX];
    size_t n_said;
};

/* Handles ------------------------------------------------------------------------------------- */

static void job_free(struct job *job)
{
    struct snp_toolbox *box = job->box;

    snp_buf_done(&job->in);
    snp_buf_done(&job->out);
    free(job);
    snp_toolbox_release(box);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct job *job = handle->data;

    if (--job->n_handles == 0) {
        job_free(job);
    }
}

static void end_close(struct job *job, int which)
{
    struct end *end = &job->ends[which];

    if (end->is_open) {
        end->is_open = false;
        uv_close((uv_handle_t *)&end->poll, on_handle_closed);
    }
    snp_closep(&end->fd);
}

static void all_close(struct job *job)
{
    for (int i = 0; i < N_ENDS; i++) {
        end_close(job, i);
    }
}

static int end_open(struct job *job, int which, struct snp_err *err)
{
    struct end *end = &job->ends[which];
    int r = uv_poll_init(snp_toolbox_loop(job->box), &end->poll, end->fd);

    if (r < 0) {
        return snp_fail(err, SNP_E_SYS, "watch the command: %s", uv_strerror(r));
    }
    end->poll.data = job;
    end->is_open = true;
    job->n_handles++;
    return 0;
}

static void job_kill(const struct job *job)
{
    if (job->pid > 0) {
        (void)kill(-job->pid, SIGKILL);
    }
}

/* Output -------------------------------------------------------------------------------------- */

static void out_keep(struct job *job, const char *bytes, size_t n)
{
    if (job->is_too_much) {
        return;
    }
    if (snp_buf_add(&job->out, bytes, n) < 0) {
        job->is_too_much = true;
        job_kill(job);
    }
}

/* The end of what it says. */
static void said_keep(struct job *job, const char *bytes, size_t n)
{
    size_t keep;

    if (n > SAID_MAX) {
        bytes += n - SAID_MAX;
        n = SAID_MAX;
    }
    keep = job->n_said + n > SAID_MAX ? SAID_MAX - n : job->n_said;
    memmove(job->said, job->said + job->n_said - keep, keep);
    memcpy(job->said + keep, bytes, n);
    job->n_said = keep + n;
}

/* Whether there may be more. */
static bool end_read(struct job *job, int which)
{
    char bytes[READ_BYTES];
    ssize_t n = SNP_RETRY(read(job->ends[which].fd, bytes, sizeof(bytes)));

    if (n > 0) {
        (which == FROM_CHILD ? out_keep : said_keep)(job, bytes, (size_t)n);
        return !job->is_too_much;
    }
    if (n == 0 || errno != EAGAIN) {
        end_close(job, which);
    }
    return false;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;

    (void)status;
    (void)events;
    (void)end_read(job, poll == &job->ends[FROM_CHILD].poll ? FROM_CHILD : ERRORS);
}

/* What there is in the pipes when it has ended, and no more: others may have them too. */
static void rest_read(struct job *job, int which)
{
    size_t most = (size_t)SNP_USERTOOL_REPLY_MAX / READ_BYTES + 2;

    for (size_t i = 0; i < most && job->ends[which].fd >= 0 && end_read(job, which); i++) {
    }
}

/* The end ------------------------------------------------------------------------------------- */

/* "exit code 3: ..." with what it said, or what it wrote. */
static void failure_answer(struct job *job, struct snp_usercall *call)
{
    snp_autobuf struct snp_buf text = {0};
    bool is_signal = WIFSIGNALED(job->status);
    const char *said = job->n_said > 0    ? job->said
                       : job->out.len > 0 ? snp_buf_bytes(&job->out)
                                          : "";
    size_t n = job->n_said > 0 ? job->n_said : job->out.len;
    int r;

    n = n > SAID_MAX ? SAID_MAX : n;
    snp_buf_init(&text, SAID_MAX + 256);
    if (job->is_too_much) {
        r = snp_buf_addf(&text, "the command wrote more than %d KiB and was stopped",
                         SNP_USERTOOL_REPLY_MAX >> 10);
        n = 0;
    } else {
        r = snp_buf_addf(&text, is_signal ? "ended by signal %d" : "exit code %d",
                         is_signal ? WTERMSIG(job->status) : WEXITSTATUS(job->status));
    }
    if (n > 0) {
        r = r < 0 ? r : snp_buf_adds(&text, ": ");
        r = r < 0 ? r : snp_buf_add(&text, said, n);
    }
    snp_usercall_answer(call, true, r < 0 ? "" : snp_buf_bytes(&text), r < 0 ? 0 : text.len);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;
    struct snp_usercall *call;

    (void)status;
    (void)events;
    if (!snp_child_reap(job->pid, &job->status)) {
        return;
    }
    job->pid = -1;
    rest_read(job, FROM_CHILD);
    rest_read(job, ERRORS);
    call = SNP_TAKE_PTR(job->call);
    if (call != NULL && (job->is_too_much || job->status != 0)) {
        failure_answer(job, call);
    } else if (call != NULL) {
        snp_usercall_answer(call, false, job->out.len == 0 ? "" : snp_buf_bytes(&job->out),
                            job->out.len);
    }
    all_close(job);
}

/* Input --------------------------------------------------------------------------------------- */

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;
    ssize_t n = SNP_RETRY(write(job->ends[TO_CHILD].fd, snp_buf_bytes(&job->in), job->in.len));

    (void)status;
    (void)events;
    if (n > 0) {
        snp_buf_consume(&job->in, (size_t)n);
    }
    /* A command need not read what it is given. */
    if (job->in.len == 0 || (n < 0 && errno != EAGAIN)) {
        end_close(job, TO_CHILD);
    }
}

/* Calls --------------------------------------------------------------------------------------- */

static int job_start(struct job *job, const struct command *command, struct snp_err *err)
{
    const struct snp_child child = {
        .argv = (const char *const *)command->argv.items,
        .env = (const char *const *)command->env.items,
        .cwd = command->cwd,
    };
    int ends[3];
    int r = snp_child_start_piped(&child, ends, &job->pid, err);

    if (r < 0) {
        return r;
    }
    job->ends[TO_CHILD].fd = ends[0];
    job->ends[FROM_CHILD].fd = ends[1];
    job->ends[ERRORS].fd = ends[2];
    job->ends[ENDED].fd = snp_child_watch(job->pid);
    if (job->ends[ENDED].fd < 0) {
        return snp_fail_sys(err, errno, "watch the command");
    }
    for (int i = 0; i < N_ENDS && r == 0; i++) {
        r = end_open(job, i, err);
    }
    return r;
}

static int command_begin(void *ctx,
                         struct snp_usercall *call,
                         const json_t *arguments,
                         struct snp_err *err)
{
    const struct command *command = ctx;
    struct job *job = calloc(1, sizeof(*job));
    snp_autofree char *text = snp_json_text(arguments);
    int r;

    if (job == NULL || text == NULL) {
        free(job);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    job->box = command->box;
    job->call = call;
    job->pid = -1;
    for (int i = 0; i < N_ENDS; i++) {
        job->ends[i].fd = -1;
    }
    snp_buf_init(&job->in, SNP_USERTOOL_ARGUMENTS_MAX + 1);
    snp_buf_init(&job->out, SNP_USERTOOL_REPLY_MAX);
    snp_toolbox_hold(job->box);
    r = snp_buf_adds(&job->in, text) < 0 || snp_buf_adds(&job->in, "\n") < 0
            ? snp_fail(err, SNP_E_NOMEM, "out of memory")
            : job_start(job, command, err);
    if (r < 0) {
        job->call = NULL;
        if (job->pid > 0) {
            job_kill(job);
            (void)SNP_RETRY(waitpid(job->pid, &job->status, 0));
        }
        if (job->n_handles == 0) {
            for (int i = 0; i < N_ENDS; i++) {
                snp_closep(&job->ends[i].fd);
            }
            job_free(job);
        } else {
            all_close(job);
        }
        return r;
    }
    (void)uv_poll_start(&job->ends[TO_CHILD].poll, UV_WRITABLE, on_writable);
    (void)uv_poll_start(&job->ends[FROM_CHILD].poll, UV_READABLE, on_readable);
    (void)uv_poll_start(&job->ends[ERRORS].poll, UV_READABLE, on_readable);
    (void)uv_poll_start(&job->ends[ENDED].poll, UV_READABLE, on_ended);
    snp_usercall_keep(call, job);
    return 0;
}

static void command_cancel(void *ctx, struct snp_usercall *call)
{
    struct job *job = snp_usercall_kept(call);

    (void)ctx;
    job->call = NULL;
    job_kill(job); /* its end closes the rest */
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

/* Whether it can be started, as far as that is known before a model calls it. */
static int program_check(const struct command *command, const char *name, struct snp_err *err)
{
    const char *program = command->argv.items[0];
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe) */
    struct stat st;
    bool is_there = false;

    if (command->cwd != NULL && (stat(command->cwd, &st) < 0 || !S_ISDIR(st.st_mode))) {
        return snp_fail(err, SNP_E_INVALID, "%.64s: there is no folder '%.200s' (cwd)", name,
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
    return is_there ? 0
                    : snp_fail(err, SNP_E_INVALID,
                               "%.64s: there is no program '%.200s', or it cannot be started",
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
        .origin = "command",
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
