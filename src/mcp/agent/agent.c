/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of agents.
 *
 * Invariants: an agent is in the service's list from its start until its process has been reaped.
 * It notices that we are gone when its standard output has no reader (--attached), so closing that,
 * or dying, ends it. The task is passed in a memory file, not in arguments, which all users of the
 * machine can read.
 */
#include "mcp/agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/fd.h"
#include "base/mcp/caps.h"
#include "base/mcp/lines.h"
#include "base/str.h"
#include "base/text/text.h"
#include "mcp/caps.h"

enum {
    READ_BYTES = 64 << 10,
    LOOKED_AT = 256 << 10, /* bytes of a record; a longer one is not reported */
    NUMBER_MAX = 32,
    ARGS_MAX = 32,
    OF_BUDGET = 6, /* words of the client's limits */
};

struct snp_agent {
    struct snp_mcp_sandboxes *service;
    pid_t pid;    /* -1 = reaped */
    int out_fd;   /* owned: its standard output; -1 = closed */
    int ended_fd; /* owned: its pidfd */
    uv_poll_t out;
    uv_poll_t ended;
    uv_timer_t late; /* time limit for the start of its record */
    unsigned n_handles;
    struct snp_mcp_lines lines;
    snp_agent_started started; /* NULL: already called */
    void *ctx;
    struct snp_err said; /* its message if it did not begin; code 0 = none yet */
    char id[SNP_AGENT_ID_LEN + 1];
    char doing[SNP_AGENT_DOING_MAX];
    bool is_over; /* its record has ended, though the process may still exist */
    struct snp_agent *next;
};

/* Handles ----------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct snp_agent *agent = handle->data;

    if (--agent->n_handles == 0) {
        snp_mcp_lines_done(&agent->lines);
        snp_closep(&agent->ended_fd);
        free(agent);
    }
}

static void out_close(struct snp_agent *agent)
{
    if (agent->out_fd >= 0) {
        uv_close((uv_handle_t *)&agent->out, on_closed);
        snp_closep(&agent->out_fd);
    }
}

/* Remove from the list, and free with the last handle. */
static void agent_forget(struct snp_agent *agent)
{
    struct snp_agent **at = &agent->service->agents;

    while (*at != agent) {
        at = &(*at)->next;
    }
    *at = agent->next;
    agent->service->n_agents--;
    out_close(agent);
    uv_close((uv_handle_t *)&agent->ended, on_closed);
    uv_close((uv_handle_t *)&agent->late, on_closed);
}

static void started_call(struct snp_agent *agent, const json_t *head, const struct snp_err *err)
{
    snp_agent_started started = agent->started;

    (void)uv_timer_stop(&agent->late);
    agent->started = NULL;
    if (started != NULL) {
        started(agent->ctx, head, err);
    }
}

/* Its output -------------------------------------------------------------------------------- */

static void doing_set(struct snp_agent *agent, const json_t *record)
{
    const char *step = snp_json_str(record, "step", "");
    snp_autobuf struct snp_buf line = SNP_BUF(SNP_AGENT_DOING_MAX - 1);
    int r = -1;

    if (strcmp(step, "ask") == 0) {
        r = snp_buf_addf(&line, "iteration %lld: asking the model",
                         (long long)snp_json_int(record, "iteration", 0));
    } else if (strcmp(step, "tool") == 0) {
        const char *name = snp_json_str(record, "name", "a tool");

        r = snp_buf_adds(&line, "running ");
        r = r < 0 ? r : snp_text_line(&line, name, strlen(name), SNP_AGENT_DOING_MAX / 2);
    }
    if (r == 0) {
        (void)snprintf(agent->doing, sizeof(agent->doing), "%s", snp_buf_cstr(&line));
    }
}

static void line_take(struct snp_agent *agent, const char *text, size_t n)
{
    snp_autojson json_t *record = NULL;
    struct snp_err ignored;
    const char *id;

    if ((agent->started == NULL && n > LOOKED_AT) ||
        snp_json_parse(text, n, &record, &ignored) < 0) {
        return;
    }
    if (agent->started == NULL) {
        agent->is_over = agent->is_over || json_object_get(record, "end") != NULL;
        doing_set(agent, record);
        return;
    }
    id = snp_json_str(record, "trajectory_id", "");
    if (strlen(id) == SNP_AGENT_ID_LEN && json_object_get(record, "end") == NULL) {
        memcpy(agent->id, id, SNP_AGENT_ID_LEN + 1);
        (void)snprintf(agent->doing, sizeof(agent->doing), "beginning");
        started_call(agent, record, NULL);
    } else if (json_object_get(record, "error") != NULL) {
        if (snp_json_to_err(json_object_get(record, "failure"), &agent->said) == SNP_E_PEER) {
            (void)snp_fail(&agent->said, SNP_E_PEER, "%s", snp_json_str(record, "error", ""));
        }
        agent->said.code = SNP_E_PEER; /* its limits are not this server's */
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct snp_agent *agent = poll->data;
    char bytes[READ_BYTES];
    ssize_t n = SNP_RETRY(read(agent->out_fd, bytes, sizeof(bytes)));
    const char *line = NULL;
    size_t len = 0;

    (void)status; /* read() reports errors */
    (void)events;
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0 || snp_mcp_lines_add(&agent->lines, bytes, (size_t)n) < 0) {
        out_close(agent);
        return;
    }
    while (snp_mcp_lines_next(&agent->lines, &line, &len)) {
        line_take(agent, line, len);
    }
}

/* Its end ----------------------------------------------------------------------------------- */

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct snp_agent *agent = poll->data;
    struct snp_err err = agent->said;
    int how = 0;

    (void)status;
    (void)events;
    if (SNP_RETRY(waitpid(agent->pid, &how, WNOHANG)) == 0) {
        return;
    }
    agent->pid = -1;
    if (agent->out_fd >= 0) { /* its last output can be read now */
        on_readable(&agent->out, 0, UV_READABLE);
        err = agent->said;
    }
    if (agent->started != NULL && err.code == 0) {
        (void)snp_fail(&err, SNP_E_PEER, "the agent's process ended with %s %d",
                       WIFSIGNALED(how) ? "signal" : "status",
                       WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    }
    started_call(agent, NULL, &err);
    agent_forget(agent);
}

static void on_late(uv_timer_t *timer)
{
    struct snp_agent *agent = timer->data;

    (void)snp_fail(&agent->said, SNP_E_TIMEOUT, "the agent's record did not begin within %d s",
                   SNP_MCP_AGENT_BEGIN_MS / 1000);
    (void)kill(agent->pid, SIGKILL); /* not reaped, so the number is still valid */
}

/* The start --------------------------------------------------------------------------------- */

static int task_file(const char *task, int *ret, struct snp_err *err)
{
    snp_autoclose int fd = memfd_create("task", MFD_CLOEXEC);
    size_t n = strlen(task);

    if (fd < 0 || snp_write_all(fd, task, n) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        return snp_fail_sys(err, errno, "keep the task");
    }
    *ret = SNP_TAKE_FD(fd);
    return 0;
}

/* fds: the child's standard input and output. */
static int spawn(const struct snp_mcp_options *options,
                 const struct snp_agent_spec *spec,
                 const int fds[2],
                 pid_t *ret,
                 struct snp_err *err)
{
    char iterations[NUMBER_MAX];
    char tokens[NUMBER_MAX];
    char cost[NUMBER_MAX] = "unpriced"; /* the agent knows the model and its price */
    const char *const more[] = {"--events", "--attached", "-"};
    const char *argv[ARGS_MAX + 1] = {NULL};
    const struct snp_child child = {.has_only_env = true,
                                    .argv = argv,
                                    .env = options->agent_env,
                                    .fds = {fds[0], fds[1], STDERR_FILENO}};
    size_t n = 0;

    while (n < ARGS_MAX - SNP_ARRAY_LEN(more) - OF_BUDGET && options->agent_argv[n] != NULL) {
        argv[n] = options->agent_argv[n];
        n++;
    }
    if (spec->tokens > 0) {
        (void)snprintf(tokens, sizeof(tokens), "%lld", (long long)spec->tokens);
        argv[n++] = "--budget";
        argv[n++] = tokens;
    }
    if (spec->iterations > 0) {
        (void)snprintf(iterations, sizeof(iterations), "%lld", (long long)spec->iterations);
        argv[n++] = "--max-iterations";
        argv[n++] = iterations;
    }
    if (spec->has_cost) {
        if (spec->cost_usd >= 0) {
            (void)snprintf(cost, sizeof(cost), "%.17g", spec->cost_usd);
        }
        argv[n++] = "--cost-limit";
        argv[n++] = cost;
    }
    memcpy(argv + n, more, sizeof(more));
    return snp_child_start(&child, ret, err);
}

static int pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/*
 * Add the running agent to the list and watch it. SNP_E_SYS: impossible; only the closing of
 * handles is left.
 */
static int agent_watch(struct snp_agent *agent, struct snp_err *err)
{
    struct snp_mcp_sandboxes *service = agent->service;

    if (uv_poll_init(service->loop, &agent->out, agent->out_fd) < 0) {
        return snp_fail(err, SNP_E_SYS, "the agent's output cannot be watched");
    }
    SNP_ASSERT(uv_poll_init(service->loop, &agent->ended, agent->ended_fd) == 0);
    snp_mcp_lines_init(&agent->lines, SNP_MCP_MESSAGE_MAX);
    (void)uv_timer_init(service->loop, &agent->late);
    agent->out.data = agent;
    agent->ended.data = agent;
    agent->late.data = agent;
    (void)uv_poll_start(&agent->out, UV_READABLE, on_readable);
    (void)uv_poll_start(&agent->ended, UV_READABLE, on_ended);
    (void)uv_timer_start(&agent->late, on_late, SNP_MCP_AGENT_BEGIN_MS, 0);
    agent->n_handles = 3;
    agent->next = service->agents;
    service->agents = agent;
    service->n_agents++;
    return 0;
}

static int process_start(struct snp_agent *agent,
                         const struct snp_agent_spec *spec,
                         struct snp_err *err)
{
    snp_autoclose int in = -1;
    int out[2] = {-1, -1};
    int r = task_file(spec->task, &in, err);

    if (r == 0 && pipe2(out, O_CLOEXEC) < 0) {
        r = snp_fail_sys(err, errno, "pipe");
    }
    if (r == 0) {
        r = spawn(&agent->service->options, spec, (const int[]){in, out[1]}, &agent->pid, err);
    }
    snp_closep(&out[1]);
    agent->out_fd = out[0];
    if (r < 0) {
        return r;
    }
    agent->ended_fd = pidfd_open(agent->pid);
    r = agent->ended_fd < 0 || snp_set_nonblock(agent->out_fd, true) < 0
            ? snp_fail_sys(err, errno, "watch the agent's process")
            : agent_watch(agent, err);
    if (r < 0) {
        (void)kill(agent->pid, SIGKILL);
        (void)SNP_RETRY(waitpid(agent->pid, NULL, 0));
    }
    return r;
}

static bool is_full(const struct snp_mcp_sandboxes *service)
{
    size_t n = 0;

    if (service->n_agents < SNP_MCP_AGENTS_MAX) {
        return false;
    }
    for (const struct snp_agent *agent = service->agents; agent != NULL; agent = agent->next) {
        n += agent->is_over ? 0 : 1;
    }
    return n >= SNP_MCP_AGENTS_MAX || service->n_agents >= (size_t)2 * SNP_MCP_AGENTS_MAX;
}

int snp_agent_start(struct snp_mcp_sandboxes *service,
                    const struct snp_agent_spec *spec,
                    snp_agent_started started,
                    void *ctx,
                    struct snp_err *err)
{
    struct snp_agent *agent;
    int r;

    if (service->options.agent_argv == NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "this server does not start agents");
    }
    if (is_full(service)) {
        return snp_fail(err, SNP_E_LIMIT,
                        "%d agents are running, the most that one server starts: wait for one "
                        "with snipara_agent_status, or stop one with snipara_agent_cancel",
                        SNP_MCP_AGENTS_MAX);
    }
    agent = calloc(1, sizeof(*agent));
    if (agent == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *agent = (struct snp_agent){.service = service,
                                .pid = -1,
                                .out_fd = -1,
                                .ended_fd = -1,
                                .started = started,
                                .ctx = ctx};
    r = process_start(agent, spec, err);
    if (r < 0) {
        snp_closep(&agent->out_fd);
        snp_closep(&agent->ended_fd);
        free(agent);
        return r;
    }
    return 0;
}

static const struct snp_agent *find(const struct snp_mcp_sandboxes *service, const char *id)
{
    const struct snp_agent *agent = service->agents;
    size_t n = strlen(id);

    while (agent != NULL && (n < SNP_AGENT_ID_MIN || strncmp(agent->id, id, n) != 0)) {
        agent = agent->next;
    }
    return agent;
}

const char *snp_agent_doing(const struct snp_mcp_sandboxes *service, const char *id)
{
    const struct snp_agent *agent = find(service, id);

    return agent == NULL ? NULL : agent->doing;
}

bool snp_agent_is_ours(const struct snp_mcp_sandboxes *service, const char *id)
{
    return find(service, id) != NULL;
}

bool snp_agent_signal(const struct snp_mcp_sandboxes *service, const char *id, int number)
{
    const struct snp_agent *agent = find(service, id);

    return agent != NULL && kill(agent->pid, number) == 0;
}

/* The end of the server --------------------------------------------------------------------- */

void snp_agents_leave(struct snp_mcp_sandboxes *service)
{
    for (struct snp_agent *agent = service->agents; agent != NULL; agent = agent->next) {
        agent->started = NULL;
        out_close(agent);
    }
}

bool snp_agents_are_gone(const struct snp_mcp_sandboxes *service)
{
    return service->agents == NULL;
}

void snp_agents_drop(struct snp_mcp_sandboxes *service)
{
    while (service->agents != NULL) {
        struct snp_agent *agent = service->agents;

        agent->started = NULL;
        (void)kill(agent->pid, SIGKILL);
        (void)waitpid(agent->pid, NULL, WNOHANG); /* if not exited yet, its new parent reaps it */
        agent_forget(agent);
    }
}
