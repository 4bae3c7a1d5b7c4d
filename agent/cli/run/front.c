/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs on the command line.
 *
 * Standard output has what was asked for: the answer, or JSON. Progress, streamed text and what
 * went wrong go to standard error. All text of models and sandboxes is shown through term.h.
 */
#include "cli/run/front.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/cli/project_dir.h"
#include "base/cli/remedy.h"
#include "base/cli/serve/caller.h"
#include "base/cli/session/files.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/session/policy.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "base/text/escape.h"
#include "base/text/summary.h"
#include "base/text/text.h"
#include "cli/run/calls.h"
#include "cli/run/limits.h"
#include "cli/run/show.h"
#include "cli/run/tools.h"
#include "cli/sandbox/sandbox.h"
#include "cli/verify/evidence.h"
#include "cli/verify/verify.h"
#include "repair/verdict.h"
#include "trajectory/reader.h"

enum {
    CHANGED_SHOWN = 5,
    CHANGED_MAX = 64 << 10, /* bytes of their names */
    SIGNALS_MAX = 2,        /* after so many, the recorded end is not awaited */
};

/* Progress ---------------------------------------------------------------------------------- */

static void status_clear(struct snp_front *front)
{
    if (front->has_status) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        front->has_status = false;
    }
}

static bool wants_status(const struct snp_front *front)
{
    return !front->is_for_programs && !front->is_in_text && snp_term_is(stderr);
}

/* One line, overwritten by the next: where the run stands. */
static void status_show(struct snp_front *front,
                        const char *what,
                        const struct snp_run_state *state)
{
    char place[64] = "";
    char cost[32] = "";
    char line[256];

    if (!wants_status(front)) {
        return;
    }
    if (state->kind == SNP_RUN_AGENT) {
        (void)snprintf(place, sizeof(place), "iteration %lld/%lld, ", (long long)state->iteration,
                       (long long)state->budget.iterations);
    }
    if (!state->is_cost_unknown) {
        (void)snprintf(cost, sizeof(cost), ", $%.4f", state->cost_usd);
    }
    status_clear(front);
    (void)snprintf(line, sizeof(line), "%sturn %lld, %lld tokens%s: %.40s", place,
                   (long long)(state->turn + (state->answer == NULL ? 1 : 0)),
                   (long long)snp_run_state_tokens(state), cost, what);
    (void)fprintf(stderr, "%.*s", (int)snp_term_width(stderr) - 1, line);
    (void)fflush(stderr);
    front->has_status = true;
}

void snp_front_warn(const struct snp_front *front, const char *fmt, ...)
{
    char message[sizeof(((struct snp_err *)0)->msg)];
    va_list args;

    if (front->is_for_programs && front->caller == NULL) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    snp_cli_warn(front->cli, "%s", message);
}

static void line_print(const json_t *value)
{
    snp_autofree char *text = snp_need(snp_json_text(value));

    (void)puts(text);
    (void)fflush(stdout);
}

/*
 * The call of the current answer that a record belongs to. NULL: it is refused, or of another
 * level.
 */
static const json_t *call_of(const struct snp_run_state *state, const json_t *record)
{
    const char *id = snp_json_str(record, "tool_call_id", "");
    size_t i;
    json_t *call;

    json_array_foreach((json_t *)(uintptr_t)snp_run_state_calls(state), i, call)
    {
        if (strcmp(snp_json_str(call, "id", ""), id) == 0) {
            return call;
        }
    }
    return NULL;
}

/* Show code before it runs, and its result. */
static void verbose_show(struct snp_front *front,
                         const char *step,
                         const json_t *record,
                         const struct snp_run_state *state)
{
    bool is_tool = strcmp(step, "tool") == 0;

    if (!is_tool && strcmp(step, "tool_result") != 0) {
        return;
    }
    status_clear(front);
    if (is_tool) {
        snp_run_call_show(stderr, call_of(state, record));
    } else {
        snp_run_result_show(stderr, json_object_get(record, "content"));
    }
    (void)fflush(stderr);
}

static void on_record(void *ctx, const json_t *record, const struct snp_run_state *state)
{
    struct snp_front *front = ctx;
    const char *step = snp_trajectory_step(record);

    if (front->caller != NULL) {
        snp_caller_record(front->caller, snp_json_str(state->head, "trajectory_id", ""), record);
    } else if (front->has_events) {
        line_print(record);
    }
    if (front->is_in_text) {
        (void)fputc('\n', stderr);
        front->is_in_text = false;
    }
    if (strcmp(step, "ask") == 0) {
        status_show(front, "asking the model", state);
    } else if (strcmp(step, "tool") == 0) {
        status_show(front, snp_json_str(record, "name", "tool"), state);
    }
    if (front->is_verbose && !front->is_for_programs) {
        verbose_show(front, step, record, state);
    }
}

static void on_model(void *ctx, const struct snp_model_event *event)
{
    struct snp_front *front = ctx;

    if (event->type == SNP_MODEL_EVENT_TEXT && front->caller != NULL) {
        snp_caller_text(front->caller, event->text, event->len);
    }
    if (event->type == SNP_MODEL_EVENT_RETRY) {
        status_clear(front);
        snp_front_warn(front, "%s; try %u in %.1f s",
                       event->err == NULL ? "no answer" : event->err->msg, event->next_try,
                       (double)event->wait_ms / 1000);
        return;
    }
    if (event->type != SNP_MODEL_EVENT_TEXT || !front->is_verbose || front->is_for_programs ||
        event->len == 0) {
        return;
    }
    status_clear(front);
    (void)!snp_term_write(stderr, event->text, event->len);
    front->is_in_text = event->text[event->len - 1] != '\n';
}

static void on_end(void *ctx, const struct snp_err *err)
{
    struct snp_front *front = ctx;

    front->is_done = true;
    front->has_failed = err != NULL;
    if (err != NULL) {
        front->err = *err;
    }
    uv_stop(&front->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct snp_front *front = handle->data;

    front->cli->signal_no = number;
    status_clear(front);
    if (++front->n_signals >= SIGNALS_MAX) {
        uv_stop(&front->loop); /* without waiting for running work */
    } else if (front->run != NULL) {
        snp_run_cancel(front->run);
    }
}

/* Repeated calls have no further effect. */
static void stop(void *ctx)
{
    struct snp_front *front = ctx;

    front->n_signals = front->n_signals == 0 ? 1 : front->n_signals;
    if (front->run != NULL) {
        snp_run_cancel(front->run);
    }
}

/*
 * The reader of standard output has ended, and with it the parent. Everything that ran is recorded.
 */
static void on_reader_gone(uv_poll_t *handle, int status, int events)
{
    struct snp_front *front = handle->data;

    (void)status;
    (void)events;
    front->n_signals = SIGNALS_MAX;
    uv_stop(&front->loop);
}

/* Life -------------------------------------------------------------------------------------- */

static bool on_caller_answer(void *ctx, uint64_t call, bool ok, const char *bytes, size_t n)
{
    struct snp_front *front = ctx;

    return snp_program_answer(&front->program_tools, call, ok, bytes, n);
}

static void on_caller(uv_poll_t *handle, int status, int events)
{
    struct snp_front *front = handle->data;
    const struct snp_caller_ops ops = {.interrupt = stop, .answer = on_caller_answer, .ctx = front};

    (void)status;
    (void)events;
    if (!snp_caller_receive(front->caller, &ops)) {
        (void)uv_poll_stop(handle);
        stop(front);
    }
}

static int64_t left_ms(void *ctx)
{
    const struct snp_front *front = ctx;

    return front->run == NULL ? INT64_MAX : snp_run_may_take_ms(front->run);
}

static int caller_watch(struct snp_front *front, struct snp_err *err)
{
    if (uv_poll_init(&front->loop, &front->reader, front->caller->fd) < 0) {
        return snp_fail(err, SNP_E_SYS, "cannot watch the program");
    }
    front->reader.data = front;
    front->caller->left_ms = left_ms;
    front->caller->left_ctx = front;
    (void)uv_poll_start(&front->reader, UV_READABLE | UV_DISCONNECT, on_caller);
    on_caller(&front->reader, 0, 0); /* data received with the request */
    return 0;
}

/*
 * Open standard output again: watching makes a descriptor non-blocking, and other processes may
 * share it.
 */
int snp_front_attach(struct snp_front *front, struct snp_err *err)
{
    struct stat st;

    if (front->caller != NULL) {
        front->is_attached = true;
        return caller_watch(front, err);
    }
    front->is_attached = snp_opts_flag(front->opts, "attached", false);
    if (!front->is_attached) {
        return 0;
    }
    if (fstat(STDOUT_FILENO, &st) < 0 || !S_ISFIFO(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "--attached needs a pipe as standard output");
    }
    front->reader_fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (front->reader_fd < 0) { /* ENXIO: the reader has already ended */
        return snp_fail_sys(err, errno, "watch the reader of standard output");
    }
    if (uv_poll_init(&front->loop, &front->reader, front->reader_fd) < 0) {
        return snp_fail(err, SNP_E_SYS, "cannot watch standard output");
    }
    front->reader.data = front;
    (void)uv_poll_start(&front->reader, UV_DISCONNECT, on_reader_gone);
    return 0;
}

static int signals_open(struct snp_front *front, struct snp_err *err)
{
    static const int numbers[] = {SIGINT, SIGTERM};

    for (size_t i = 0; i < SNP_ARRAY_LEN(numbers); i++) {
        if (uv_signal_init(&front->loop, &front->signals[i]) < 0 ||
            uv_signal_start(&front->signals[i], on_signal, numbers[i]) < 0) {
            return snp_fail(err, SNP_E_SYS, "no signals");
        }
        front->signals[i].data = front;
    }
    return 0;
}

void snp_front_init(struct snp_front *front, struct snp_cli *cli, const struct snp_opts *opts)
{
    *front = (struct snp_front){
        .cli = cli,
        .opts = opts,
        .caller = snp_caller_of(cli),
        .has_events = snp_opts_flag(opts, "events", false),
        .is_verbose = snp_opts_flag(opts, "verbose", false),
        .reader_fd = -1,
    };
    front->is_for_programs = front->has_events || cli->is_json || cli->listener != NULL;
}

int snp_front_open(struct snp_front *front, struct snp_err *err)
{
    int r = snp_cli_config(front->cli, front->opts, &front->config, err);

    if (r < 0) {
        return r;
    }
    front->tier = snp_cli_tier(front->config);
    front->is_verbose = front->is_verbose || snp_config_bool(front->config, SNP_KEY_VERBOSE);
    if (uv_loop_init(&front->loop) < 0) {
        return snp_fail(err, SNP_E_SYS, "no event loop");
    }
    front->has_loop = true;
    r = snp_models_new(&front->loop, front->config, &front->models, err);
    r = r < 0 ? r : snp_sandboxes_new(&front->loop, &front->sandboxes, err);
    return r < 0 ? r : signals_open(front, err);
}

/* Tools ------------------------------------------------------------------------------------- */

static void on_tools(void *ctx, const struct snp_err *err)
{
    struct snp_front *front = ctx;

    uv_stop(&front->loop);
    front->has_tools = true;
    front->has_failed = err != NULL;
    if (err != NULL) {
        front->err = *err;
    }
}

static void on_tools_closed(void *ctx)
{
    struct snp_front *front = ctx;

    uv_stop(&front->loop);
    front->toolbox = NULL;
}

static void tools_close(struct snp_front *front)
{
    if (front->toolbox != NULL) {
        snp_toolbox_close(front->toolbox, on_tools_closed, front);
    }
    while (front->toolbox != NULL) {
        (void)uv_run(&front->loop, UV_RUN_ONCE);
    }
}

static void on_tool_call(
    void *ctx, uint32_t number, const char *tool, const char *arguments, size_t n)
{
    struct snp_front *front = ctx;

    snp_caller_event(front->caller, SNP_WRITE(snp_event_tool, .call = number, .tool = tool),
                     arguments, n);
}

/* Make the tools of the options, of the program, and, with a project, of its index. */
static int tools_make(struct snp_front *front, const char *project, struct snp_err *err)
{
    const json_t *given = front->caller == NULL ? NULL : front->caller->request.tools;
    snp_autofree char *program = NULL;
    struct snp_err ignored;
    int r = snp_run_tools_make(&front->loop, front->opts, front->config, &front->toolbox, err);

    if (project != NULL && snp_own_program("snipara-sandbox", &program, &ignored) < 0) {
        project = NULL;
    }
    if (r < 0 || (json_array_size(given) == 0 && project == NULL)) {
        return r;
    }
    front->program_tools = (struct snp_program_tools){.call = on_tool_call, .ctx = front};
    if (front->toolbox == NULL) {
        r = snp_toolbox_new(&front->loop, &front->toolbox, err);
    }
    if (project != NULL) {
        SNP_THEN(r, snp_toolbox_add_context(front->toolbox, program, project, err));
    }
    SNP_THEN(r, snp_toolbox_add_program(front->toolbox, given, &front->program_tools, err));
    return r;
}

/* Open the user's tools that the options allow; wait for servers. */
static int tools_open(struct snp_front *front, const char *project, struct snp_err *err)
{
    snp_autofree char *unused = snp_run_tools_unused(front->opts, front->config);
    size_t i;
    json_t *note;
    int r = tools_make(front, project, err);

    if (unused != NULL) {
        snp_front_warn(front, "%s", unused);
    }
    if (r < 0 || front->toolbox == NULL) {
        return r;
    }
    snp_toolbox_open(front->toolbox, on_tools, front);
    while (!front->has_tools && front->n_signals == 0) {
        (void)uv_run(&front->loop, UV_RUN_ONCE);
    }
    if (!front->has_tools) {
        return snp_fail(err, SNP_E_TIMEOUT, "stopped before the run began");
    }
    if (front->has_failed) {
        *err = front->err;
        return err->code;
    }
    json_array_foreach((json_t *)(uintptr_t)snp_toolbox_notes(front->toolbox), i, note)
    {
        snp_front_warn(front, "%s", json_string_value(note));
    }
    return 0;
}

/* Texts of an array of a record; the caller frees, the texts are borrowed. */
static const char **texts_of(const json_t *repair, const char *member, size_t *ret_n)
{
    const json_t *list = json_object_get(repair, member);
    size_t n = json_array_size(list);
    const char **texts = snp_need(calloc(n + 1, sizeof(*texts)));

    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        texts[i] = text == NULL ? "" : text;
    }
    *ret_n = n;
    return texts;
}

static void on_verify(void *ctx, const char *text)
{
    const struct snp_front *front = ctx;

    if (front->is_verbose && !front->is_for_programs) {
        snp_term_printf(stderr, "Running %.100s\n", text);
    }
}

/* Without changes there is no session, or one equal to the project. */
static json_t *unchanged_verdict(void)
{
    return json_pack("{s:s, s:[{s:s, s:s}]}", "verdict", snp_verdict_failed, "reasons", "word",
                     snp_verdict_failed, "text", "nothing was changed");
}

/*
 * Whether a verdict has reasons for the model. Reasons that the user can also remove are sent to it
 * once.
 */
static bool is_for_model(const json_t *verdict, bool is_told)
{
    const char *word = snp_verdict_word_of_change(json_object_get(verdict, "reasons"), is_told);

    return strcmp(word, snp_verdict_ready) != 0 && strcmp(word, snp_verdict_passed) != 0;
}

/* Receives signals during a verdict, as records of a signalfd. */
static int told_fd = -1;

static void on_signal_meanwhile(int number)
{
    const struct signalfd_siginfo info = {.ssi_signo = (uint32_t)number};
    int eno = errno;

    (void)!write(told_fd, &info, sizeof(info));
    errno = eno;
}

static int judge_open(struct snp_front *front, struct snp_err *err)
{
    int pair[2];

    if (front->judge.signal_fd > 0) {
        return 0;
    }
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    front->judge = *front->cli;
    front->judge.unsaved = NULL;
    front->judge.signal_no = 0;
    front->judge.signal_fd = pair[0];
    told_fd = pair[1]; /* as long as the process */
    return 0;
}

/* The request of a record of `repair`. */
struct repair_request {
    struct snp_verify asked;
    const char **texts[SNP_VERIFY_KINDS + 3]; /* owned */
};

static void judging_done(struct repair_request *of)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(of->texts); i++) {
        free(of->texts[i]);
    }
}

static void judging_make(struct snp_front *front, const json_t *repair, struct repair_request *ret)
{
    static const char *const members[] = {"test", "regress", "hidden"};
    struct snp_verify *asked = &ret->asked;
    size_t n_expected;

    *asked = (struct snp_verify){
        .hidden_files = snp_json_str(repair, "hidden_files", NULL),
        .allows_uncovered = snp_json_bool(repair, "allow_uncovered", false),
        .wall_ms = (uint64_t)snp_json_int(repair, "wall_ms", 0),
        .progress = on_verify,
        .ctx = front,
    };
    for (size_t i = 0; i < SNP_VERIFY_KINDS; i++) {
        ret->texts[i] = texts_of(repair, members[i], &asked->n_commands[i]);
        asked->commands[i] = ret->texts[i];
    }
    asked->scope = ret->texts[SNP_VERIFY_KINDS] = texts_of(repair, "scope", &asked->n_scope);
    asked->samples = ret->texts[SNP_VERIFY_KINDS + 1] =
        texts_of(repair, "sample", &asked->n_samples);
    asked->expected = ret->texts[SNP_VERIFY_KINDS + 2] = texts_of(repair, "expect", &n_expected);
    asked->n_samples = n_expected < asked->n_samples ? n_expected : asked->n_samples;
}

/*
 * Run a verdict, or with exec the tests before there is a change (*ret: paths that need a sample).
 * The loop does not run, so signals interrupt the running command.
 */
static int verify(struct snp_front *front,
                  struct snp_verify *asked,
                  const json_t *exec,
                  json_t **ret,
                  struct snp_err *err)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    const struct sigaction action = {.sa_handler = on_signal_meanwhile};
    struct sigaction before[SNP_ARRAY_LEN(numbers)];
    int r;

    SNP_TRY(judge_open(front, err));
    asked->cli = &front->judge;
    for (size_t i = 0; i < SNP_ARRAY_LEN(numbers); i++) {
        (void)sigaction(numbers[i], &action, &before[i]);
    }
    r = exec == NULL ? snp_verify_run(asked, ret, err) : snp_verify_begin(asked, exec, ret, err);
    for (size_t i = 0; i < SNP_ARRAY_LEN(numbers); i++) {
        (void)sigaction(numbers[i], &before[i], NULL);
    }
    if (snp_sandbox_interrupted(&front->judge) != 0) {
        front->cli->signal_no = front->judge.signal_no;
        stop(front);
    }
    return r;
}

int snp_front_tests(struct snp_front *front,
                    const json_t *repair,
                    const json_t *exec,
                    struct snp_err *err)
{
    snp_cleanup(judging_done) struct repair_request of = {0};
    snp_autojson json_t *needs_sample = NULL;
    size_t n;

    judging_make(front, repair, &of);
    SNP_TRY(verify(front, &of.asked, exec, &needs_sample, err));
    n = json_array_size(needs_sample);
    if (n > 0) {
        snp_front_warn(
            front,
            "a change of %.200s%s, which transforms data, is ready for human review only "
            "with --sample CMD --expect FILE",
            json_string_value(json_array_get(needs_sample, 0)),
            n == 1 ? "" : " or of similar files");
    }
    return 0;
}

static int on_judge(void *ctx,
                    const json_t *repair,
                    const char *session,
                    const json_t *attempt,
                    json_t **ret,
                    struct snp_err *err)
{
    struct snp_front *front = ctx;
    snp_cleanup(judging_done) struct repair_request of = {0};
    snp_autofree char *feedback = NULL;
    int r;

    status_clear(front);
    judging_make(front, repair, &of);
    of.asked.session = session;
    of.asked.attempt = attempt;
    r = verify(front, &of.asked, NULL, ret, err);
    if (r == SNP_E_NOT_FOUND) {
        *ret = snp_need(unchanged_verdict());
        r = 0;
    }
    if (r < 0) {
        return snp_err_wrap(err, "verdict");
    }
    feedback = snp_evidence_feedback(*ret);
    (void)json_object_del(*ret, "runs"); /* evidence.json has them */
    (void)json_object_set_new(
        *ret, "feedback", is_for_model(*ret, front->is_told) ? json_string(feedback) : json_null());
    front->is_told = front->is_told || !is_for_model(*ret, true);
    return 0;
}

static struct snp_run_with with_make(struct snp_front *front)
{
    int64_t most = snp_config_int(front->config, SNP_KEY_MAX_PARALLEL);
    bool is_parallel = snp_config_bool(front->config, SNP_KEY_PARALLEL_TOOLS);

    return (struct snp_run_with){
        .loop = &front->loop,
        .models = front->models,
        .sandbox = front->sandboxes->sandbox,
        .usertools = front->toolbox == NULL ? NULL : snp_toolbox_tools(front->toolbox),
        .parallel = is_parallel ? (unsigned)most : 1,
        .judge = on_judge,
        .judge_ctx = front,
        .key = front->key,
    };
}

void snp_front_done(struct snp_front *front)
{
    status_clear(front);
    snp_run_free(front->run);
    tools_close(front);
    snp_sandboxes_free(front->sandboxes);
    snp_models_free(front->models);
    if (front->judge.signal_fd > 0) {
        snp_closep(&front->judge.signal_fd);
    }
    if (front->has_loop) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(front->signals); i++) {
            uv_handle_t *handle = (uv_handle_t *)&front->signals[i];

            if (handle->loop != NULL && uv_is_closing(handle) == 0) {
                uv_close(handle, NULL);
            }
        }
        if (front->reader.loop != NULL) {
            uv_close((uv_handle_t *)&front->reader, NULL);
        }
        (void)uv_run(&front->loop, UV_RUN_NOWAIT);
        (void)uv_run(&front->loop, UV_RUN_NOWAIT);
        (void)uv_loop_close(&front->loop); /* busy while a thread connects; the process ends */
    }
    if (front->reader_fd > 0) {
        snp_closep(&front->reader_fd);
    }
    explicit_bzero(front->key, sizeof(front->key));
}

/* The end ----------------------------------------------------------------------------------- */

int snp_front_fail(const struct snp_front *front, const struct snp_err *err)
{
    snp_autojson json_t *object = NULL;

    if (front->caller != NULL) {
        snp_caller_fail(front->caller, err);
        return snp_code_exit(err->code);
    }
    if (!front->is_for_programs) {
        return snp_cli_fail(front->cli, err);
    }
    object = json_pack("{s:b, s:o, s:o}", "success", 0, "error", snp_cli_remedy_text(err),
                       "failure", snp_json_from_err(err));
    if (front->has_events) {
        line_print(object);
    } else {
        (void)snp_cli_print_json(object);
    }
    return snp_code_exit(err->code);
}

/* A command that resumes an unfinished run, ready to paste. */
static void way_out_print(const struct snp_front *front, const json_t *result)
{
    bool is_elsewhere = snp_config_origin(front->config, SNP_KEY_LOG_DIR) == SNP_ORIGIN_CLI;
    snp_autofree char *dir =
        is_elsewhere ? snp_shell_word(snp_config_str(front->config, SNP_KEY_LOG_DIR)) : NULL;
    const char *options = snp_json_str(result, "resume_with", "");

    if (options[0] == '\0' &&
        snp_run_budget_is_most(snp_run_state(front->run), snp_json_str(result, "stopped_by", ""))) {
        return;
    }
    if (strcmp(snp_json_str(json_object_get(result, "remedy"), "kind", ""),
               snp_remedy_name(SNP_REMEDY_RECOVER)) == 0) {
        (void)fputs("--recover replay runs the missing cells again instead\n", stderr);
        options = "--recover checkpoint";
    }
    snp_term_printf(stderr, "Continue with: snipara-sandbox resume %.8s%s%s%s%s\n",
                    snp_json_str(result, "trajectory_id", ""), dir == NULL ? "" : " --dir ",
                    dir == NULL ? "" : dir, options[0] == '\0' ? "" : " ", options);
}

/* Print names of both lists, at most CHANGED_SHOWN, and a command that copies the first one out. */
static void changed_print(const json_t *files, const char *session)
{
    snp_autojson json_t *names = json_copy(json_object_get(files, "created"));
    snp_autobuf struct snp_buf shown = SNP_BUF(CHANGED_MAX);
    snp_autofree char *word = NULL;
    snp_autofree char *from = NULL;
    const char *first = NULL;
    size_t i;
    json_t *name;

    if (names == NULL || json_array_extend(names, json_object_get(files, "modified")) < 0) {
        return;
    }
    for (i = json_array_size(names); i > 0; i--) {
        const char *path = json_string_value(json_array_get(names, i - 1));

        if (snp_summary_is_cache(path)) {
            (void)json_array_remove(names, i - 1);
        }
    }
    first = json_string_value(json_array_get(names, 0));
    if (first == NULL) {
        return;
    }
    (void)!snp_buf_adds(&shown, "Your project is unchanged. Changed in the sandbox: ");
    json_array_foreach(names, i, name)
    {
        if (i == CHANGED_SHOWN) {
            (void)!snp_buf_addf(&shown, " and %zu more", json_array_size(names) - i);
            break;
        }
        (void)!snp_buf_addf(&shown, "%s%s", i == 0 ? "" : ", ", json_string_value(name));
    }
    snp_term_text(stderr, snp_buf_bytes(&shown), shown.len, 0);
    from = snp_need_format("%s:%s", session, first);
    word = from == NULL ? NULL : snp_shell_word(from);
    (void)fputs("\nCopy it with: snipara-sandbox get ", stderr);
    (void)!snp_term_write(stderr, word == NULL ? "" : word, word == NULL ? 0 : strlen(word));
    (void)fputc('\n', stderr);
}

/* The verdict, and how to apply the changes. */
static void verdict_print(const json_t *result, const char *session)
{
    const json_t *verdict = json_object_get(result, "verdict");
    const char *word = snp_json_str(verdict, "verdict", NULL);
    const json_t *reasons = json_object_get(verdict, "reasons");

    if (word == NULL) {
        return;
    }
    (void)fprintf(stderr, "Verdict: %s\n", word);
    for (size_t i = 0; i < json_array_size(reasons); i++) {
        const char *text = snp_json_str(json_array_get(reasons, i), "text", "");

        (void)fputs("- ", stderr);
        snp_term_text(stderr, text, strlen(text), 2);
        (void)fputc('\n', stderr);
    }
    if (session == NULL) {
        return;
    }
    if (strcmp(word, snp_verdict_unproven) == 0 && !is_for_model(verdict, true)) {
        snp_term_printf(stderr,
                        "The model cannot fix this. Test the same change again, with the "
                        "missing options: snipara-sandbox verify %s --test CMD ...\n",
                        session);
    }
    snp_term_printf(stderr, "Look at it and apply it with: snipara-sandbox apply %s%s\n", session,
                    strcmp(word, snp_verdict_ready) == 0 ? "" : " --unverified");
}

static void hints_print(const struct snp_front *front, const json_t *result)
{
    const char *session = snp_json_str(result, "session", NULL);

    verdict_print(result, session);

    if (session != NULL) {
        changed_print(json_object_get(result, "files"), session);
    }
    if (!snp_json_bool(result, "success", false)) {
        way_out_print(front, result);
    }
}

/* The parent of a new folder must exist and be writable; checked before a model is paid. */
static int parent_check(const char *output, struct snp_err *err)
{
    snp_autofree char *parent = NULL;
    size_t n = strlen(output);
    struct stat st;

    while (n > 0 && output[n - 1] == '/') {
        n--;
    }
    while (n > 0 && output[n - 1] != '/') {
        n--;
    }
    parent = n == 0 ? snp_need_copy(".") : snp_need(strndup(output, n));
    if (stat(parent, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return snp_fail(err, SNP_E_NOT_FOUND, "--output: no such folder: %.150s; make it first",
                        parent);
    }
    return faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) < 0
               ? snp_fail(err, SNP_E_DENIED, "--output: cannot write to %.150s: %s", parent,
                          strerrordesc_np(errno))
               : 0;
}

int snp_front_output(struct snp_front *front, struct snp_err *err)
{
    struct stat st;

    front->output = snp_opts_str(front->opts, "output");
    if (front->output != NULL && lstat(front->output, &st) == 0) {
        return snp_fail(err, SNP_E_DENIED, "--output: %.150s exists; name a new folder",
                        front->output);
    }
    return front->output == NULL ? 0 : parent_check(front->output, err);
}

/* Copy changed files into --output; if all are there, destroy the session of a finished run. */
static int files_export(struct snp_front *front, json_t *result, struct snp_err *err)
{
    const json_t *files = json_object_get(result, "files");
    snp_autojson json_t *paths = json_copy(json_object_get(files, "created"));
    snp_autojson json_t *session = json_incref(json_object_get(result, "session"));
    struct snp_remote_file from = {.cli = front->cli,
                                   .session = json_string_value(session),
                                   .path = "/workspace",
                                   .is_written = true};
    struct snp_moved moved;
    int r;

    (void)json_array_extend(paths, json_object_get(files, "modified"));
    if (front->output != NULL && json_array_size(paths) == 0 && !front->is_for_programs) {
        snp_term_printf(stderr, "--output: no files were written or changed; %s was not made\n",
                        front->output);
    }
    if (front->output == NULL || from.session == NULL || json_array_size(paths) == 0) {
        return 0;
    }
    r = snp_tree_get_files(&from, paths, front->output, &moved, err);
    if (r < 0) {
        return snp_err_wrap(err, "--output");
    }
    (void)json_object_set_new(result, "output",
                              snp_json_bytes(front->output, strlen(front->output)));
    if (!front->is_for_programs) {
        snp_term_printf(stderr, "%llu file%s in %s\n", (unsigned long long)moved.files,
                        moved.files == 1 ? "" : "s", front->output);
        if (moved.skipped > 0) {
            snp_term_printf(stderr,
                            "Skipped %llu: links, pipes, folders, names that are not UTF-8, or "
                            "removed during the copy.\n",
                            (unsigned long long)moved.skipped);
        }
    }
    if (snp_json_bool(result, "success", false) && moved.skipped == 0 &&
        snp_sandbox_end(front->cli, snipara_destroy(snp_sandbox(), from.session), NULL, err) == 0) {
        (void)json_object_set_new(result, "session", json_null());
    }
    return 0;
}

static int end_print(struct snp_front *front)
{
    snp_autojson json_t *result = NULL;
    struct snp_err err;
    bool is_ok;

    status_clear(front);
    if (!front->is_done) { /* a second signal */
        (void)snp_fail(&err, SNP_E_TIMEOUT,
                       "stopped before the end was recorded; continue with resume");
        return snp_front_fail(front, &err);
    }
    result = snp_need(snp_run_result(front->run, front->is_verbose));
    snp_run_way_out(result, snp_run_state(front->run)->kind == SNP_RUN_AGENT,
                    front->caller != NULL);
    is_ok = snp_json_bool(result, "success", false) &&
            (json_object_get(result, "verdict") == NULL ||
             strcmp(snp_json_str(json_object_get(result, "verdict"), "verdict", ""),
                    snp_verdict_ready) == 0);
    if (files_export(front, result, &err) < 0) {
        snp_cli_warn(front->cli, "%s", err.msg);
        is_ok = false;
    }
    if (front->caller != NULL) {
        snp_run_free(SNP_TAKE_PTR(front->run)); /* the receiver of the result may resume the run */
        snp_caller_end(front->caller, result);
    } else if (front->has_events) {
        line_print(result);
    } else if (front->cli->is_json) {
        if (snp_cli_print_json(result) != SNP_EXIT_OK) {
            return SNP_EXIT_FAILED;
        }
    } else {
        snp_run_show(snp_run_state(front->run), result, front->is_verbose);
        hints_print(front, result);
    }
    return is_ok ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static int finish(struct snp_front *front)
{
    int exit_code;

    if (front->n_signals > 0) { /* signals before the run existed */
        snp_run_cancel(front->run);
    }
    while (!front->is_done && front->n_signals < SIGNALS_MAX) {
        (void)uv_run(&front->loop, UV_RUN_DEFAULT);
    }
    exit_code = end_print(front);
    if (!front->is_done) {
        /* exit() would wait for a thread that connects to a daemon which does not respond. */
        (void)fflush(NULL);
        _exit(snp_cli_exit(front->cli, exit_code));
    }
    return exit_code;
}

/*
 * Open the user's tools, then begin `spec` or (NULL) resume the run of the record at path. project:
 * for lookups by tools; NULL = none.
 */
static int begin(struct snp_front *front,
                 const struct snp_run_spec *spec,
                 const char *path,
                 const struct snp_run_changes *changes,
                 const char *project,
                 struct snp_err *err)
{
    const struct snp_run_watch watch = {
        .record = on_record, .model = on_model, .done = on_end, .ctx = front};
    struct snp_run_with with;
    int r = tools_open(front, project, err);

    if (r < 0) {
        return r;
    }
    with = with_make(front);
    return spec != NULL ? snp_run_new(&with, spec, &watch, &front->run, err)
                        : snp_run_resume(&with, path, changes, &watch, &front->run, err);
}

int snp_front_start(struct snp_front *front, const struct snp_run_spec *spec)
{
    const char *project = snp_json_str(spec->exec, "project", NULL);
    int exit_code;
    struct snp_err err;

    if (snp_run_key(front->key, &err) < 0 || begin(front, spec, NULL, NULL, project, &err) < 0) {
        return snp_front_fail(front, &err);
    }
    if (front->caller != NULL) { /* it receives nothing after the result */
        snp_cli_tier_stand_in(front->cli, front->config, front->tier);
        return finish(front);
    }
    exit_code = finish(front);
    snp_cli_tier_notice(front->cli, front->config, front->tier);
    return exit_code;
}

struct recorded {
    bool is_agent;
    char *project; /* owned: project whose index the run searched; NULL = none */
};

static void recorded_done(struct recorded *recorded)
{
    free(recorded->project);
}

static int on_recorded(void *ctx, json_t *record, struct snp_err *err)
{
    struct recorded *recorded = ctx;
    const char *dir = snp_json_str(json_object_get(record, "exec"), "project", NULL);
    size_t i;
    json_t *tool;

    (void)err;
    recorded->is_agent = recorded->is_agent || snp_streq(snp_json_str(record, "kind", ""), "agent");
    json_array_foreach(json_object_get(record, "user_tools"), i, tool)
    {
        if (recorded->project == NULL && dir != NULL &&
            snp_streq(snp_json_str(tool, "origin", ""), "context")) {
            recorded->project = snp_need_copy(dir);
        }
    }
    return 0;
}

int snp_front_resume(struct snp_front *front,
                     const char *path,
                     const struct snp_run_changes *changes)
{
    struct snp_trajectory_check check;
    snp_cleanup(recorded_done) struct recorded recorded = {0};
    struct snp_err err;
    int r = snp_run_key(front->key, &err);

    r = r < 0 ? r : snp_trajectory_own(path, front->key, &check, &err);
    SNP_THEN(r, snp_trajectory_read(path, on_recorded, &recorded, &check, &err));
    if (r == 0 && recorded.is_agent) {
        snp_run_limits_cap(front, changes->budget);
    }
    SNP_THEN(r, begin(front, NULL, path, changes, recorded.project, &err));
    if (r < 0) {
        err.code = err.code == SNP_E_INVALID ? SNP_E_DENIED : err.code; /* no usage error */
        return snp_front_fail(front, &err);
    }
    return finish(front);
}

/* Settings ---------------------------------------------------------------------------------- */

static int project_find(struct snp_front *front, char **ret_path, struct snp_err *err)
{
    const char *dir = snp_opts_str(front->opts, "project");
    const char *shown;
    int r;

    *ret_path = NULL;
    if (snp_opts_flag(front->opts, "no-project", false)) {
        return dir == NULL
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "give --project or --no-project, not both");
    }
    shown = dir == NULL ? snp_cli_workspace(front->config, front->tier, ".") : dir;
    if (shown == NULL) {
        return 0;
    }
    r = snp_project_shown(shown, "--project", ret_path, err);
    if (r < 0 && dir == NULL) {
        snp_front_warn(front, "no project: %s", err->msg);
        return 0;
    }
    return r;
}

int snp_front_exec_of(const struct snp_config *config,
                      const char *project,
                      json_t **ret,
                      struct snp_err *err)
{
    snp_autojson json_t *defaults = NULL;

    /*
     * Saved after each cell's answer, concurrently with the next: an interrupted run resumes with
     * everything, except the last cells if the machine failed before they were on disk. `resume`
     * reports those (--recover).
     */
    SNP_TRY(snp_cli_session_settings(config, &defaults, err));
    *ret = json_pack("{s:O, s:s*, s:b, s:b, s:s*, s:s}", "defaults", defaults, "project", project,
                     "require_exact", snp_config_bool(config, SNP_KEY_REQUIRE_EXACT), "transaction",
                     snp_config_bool(config, SNP_KEY_TRANSACTION), "durability",
                     snp_config_str(config, SNP_KEY_DURABILITY), "checkpoint", "after");
    return *ret == NULL ? snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8") : 0;
}

int snp_front_exec(struct snp_front *front, json_t **ret, struct snp_err *err)
{
    bool is_degraded = snp_opts_flag(front->opts, "allow-degraded", false);
    snp_autofree char *project = NULL;
    int r = project_find(front, &project, err);

    r = r < 0 ? r : snp_front_exec_of(front->config, project, ret, err);
    if (r == 0) {
        (void)json_object_set_new(*ret, "allow_degraded", json_boolean(is_degraded));
        (void)json_object_set_new(*ret, "attached", json_boolean(front->is_attached));
    }
    return r;
}

int snp_front_cost(const char *text, double *ret, struct snp_err *err)
{
    if (text == NULL) {
        return 0;
    }
    if (strcmp(text, "none") == 0) {
        *ret = -1;
        return 0;
    }
    if (snp_parse_double(text, ret) < 0 || *ret < 0) {
        return snp_fail(err, SNP_E_INVALID, "--cost-limit is a number of USD, or none, not '%.40s'",
                        text);
    }
    return 0;
}
