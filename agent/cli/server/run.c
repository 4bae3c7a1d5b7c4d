/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation with an MCP server, for one command. Output of the server is never sent to a
 * terminal raw. Tokens come from files and variables, never from arguments, which other users can
 * read.
 */
#include "cli/server/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/text.h"

enum {
    FILE_MAX = 64 << 10,
    LINE_MAX_BYTES = 4096,
    LINE_CHARS = 500,
    HEADERS_MAX = 32,
    ENV_MAX = 256,
    MS_PER_S = 1000,
    TIMEOUT_MAX_S = 3600,
};

static const char token_variable[] = "SNIPARA_SANDBOX_MCP_TOKEN";

/* Settings from the options; the client copies them. */
struct client_arguments {
    struct snp_mcp_client_options options;
    char *token;       /* owned */
    char *header_text; /* owned; lines point into it */
    const char *headers[HEADERS_MAX + 1];
    char *env[ENV_MAX + 1]; /* owned */
    size_t n_env;
    json_t *capabilities;
};

static void given_done(struct client_arguments *given)
{
    if (given->token != NULL) {
        explicit_bzero(given->token, strlen(given->token));
    }
    if (given->header_text != NULL) {
        explicit_bzero(given->header_text, strlen(given->header_text));
    }
    free(given->token);
    free(given->header_text);
    for (size_t i = 0; i < given->n_env; i++) {
        free(given->env[i]);
    }
    json_decref(given->capabilities);
}

/* Options --------------------------------------------------------------------------------- */

size_t snp_mcp_run_own_args(const struct snp_opts *opts)
{
    size_t before = 0;

    return snp_opts_dashes(opts, &before) ? before : snp_opts_n_args(opts);
}

static int token_take(const struct snp_opts *opts,
                      struct client_arguments *given,
                      struct snp_err *err)
{
    const char *path = snp_opts_str(opts, "token-file");
    const char *variable = getenv(token_variable); /* NOLINT(concurrency-mt-unsafe) */
    int r = 0;

    if (path != NULL) {
        r = snp_file_read(path, FILE_MAX, &given->token, NULL, err);
        if (r == 0) {
            given->token[strcspn(given->token, "\r\n")] = '\0';
        }
    } else if (variable != NULL && *variable != '\0') {
        given->token = strdup(variable);
    }
    given->options.token = given->token;
    return r;
}

static int headers_take(const struct snp_opts *opts,
                        struct client_arguments *given,
                        struct snp_err *err)
{
    const char *path = snp_opts_str(opts, "header-file");
    size_t n = 0;
    char *line;
    int r;

    if (path == NULL) {
        return 0;
    }
    r = snp_file_read(path, FILE_MAX, &given->header_text, NULL, err);
    line = r < 0 ? NULL : given->header_text;
    while (line != NULL && *line != '\0') {
        size_t len = strcspn(line, "\r\n");
        char *next = line + len + strspn(line + len, "\r\n");

        line[len] = '\0';
        if (len > 0 && (n >= HEADERS_MAX || strchr(line, ':') == NULL || *line == ':')) {
            return snp_fail(err, SNP_E_INVALID,
                            "--header-file: at most %d lines, each 'Name: value'", HEADERS_MAX);
        }
        if (len > 0) {
            given->headers[n++] = line;
        }
        line = next;
    }
    given->options.headers = n > 0 ? given->headers : NULL;
    return r;
}

static int env_add(struct client_arguments *given, char *variable, struct snp_err *err)
{
    if (variable == NULL || given->n_env >= ENV_MAX) {
        free(variable);
        return snp_fail(err, SNP_E_LIMIT, "at most %d variables", ENV_MAX);
    }
    given->env[given->n_env++] = variable;
    return 0;
}

static int env_take(const struct snp_opts *opts,
                    struct client_arguments *given,
                    struct snp_err *err)
{
    const char *const *items = NULL;
    size_t n = snp_opts_list(opts, "pass-env", &items);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const char *value = getenv(items[i]); /* NOLINT(concurrency-mt-unsafe) */

        r = value == NULL ? snp_fail(err, SNP_E_NOT_FOUND, "--pass-env: %s is not set", items[i])
                          : env_add(given, snp_format("%s=%s", items[i], value), err);
    }
    n = snp_opts_list(opts, "set-env", &items);
    for (size_t i = 0; i < n && r == 0; i++) {
        r = env_add(given, strdup(items[i]), err);
    }
    given->options.env = given->n_env > 0 ? (const char *const *)given->env : NULL;
    return r;
}

static int protocol_take(const struct snp_opts *opts,
                         struct client_arguments *given,
                         struct snp_err *err)
{
    static const char *const names[] = {"auto", "legacy", "modern"};
    const char *name = snp_opts_str(opts, "protocol");
    double seconds = snp_opts_float(opts, "timeout", 60);

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (name == NULL || snp_streq(name, names[i])) {
            given->options.mode = (enum snp_mcp_client_mode)i;
            break;
        }
        if (i + 1 == SNP_ARRAY_LEN(names)) {
            return snp_fail(err, SNP_E_INVALID, "--protocol: auto, modern or legacy, not '%s'",
                            name);
        }
    }
    if (!(seconds >= 0.1) || seconds > TIMEOUT_MAX_S) {
        return snp_fail(err, SNP_E_INVALID, "--timeout: 0.1 to %d seconds", TIMEOUT_MAX_S);
    }
    given->options.timeout_ms = (uint64_t)(seconds * MS_PER_S);
    return 0;
}

/* The command after `--`, or the URL. */
static int server_take(const struct snp_opts *opts,
                       size_t n_own,
                       struct client_arguments *given,
                       struct snp_err *err)
{
    size_t before = snp_mcp_run_own_args(opts);
    bool has_command = before < snp_opts_n_args(opts);

    given->options.url = snp_opts_str(opts, "url");
    if (before > n_own) {
        return snp_fail(err, SNP_E_INVALID, "'%.60s': write the command of the server after --",
                        snp_opts_arg(opts, n_own));
    }
    if (has_command == (given->options.url != NULL)) {
        return snp_fail(err, SNP_E_INVALID, "name the server: --url URL or -- COMMAND");
    }
    if (has_command) {
        given->options.argv = snp_opts_args(opts) + before;
        return given->header_text != NULL || snp_opts_given(opts, "token-file") ||
                       snp_opts_given(opts, "ca-file")
                   ? snp_fail(err, SNP_E_INVALID,
                              "--token-file, --header-file and --ca-file are for --url; a command "
                              "takes secrets as variables (--pass-env)")
                   : env_take(opts, given, err);
    }
    if (snp_opts_given(opts, "set-env") || snp_opts_given(opts, "pass-env")) {
        return snp_fail(err, SNP_E_INVALID, "--set-env and --pass-env are for a command");
    }
    given->options.ca_file = snp_opts_str(opts, "ca-file");
    return token_take(opts, given, err);
}

/* Callbacks ------------------------------------------------------------------------------- */

static int on_asked(
    void *ctx, const char *method, const json_t *params, json_t **ret, struct snp_err *err)
{
    (void)ctx;
    if (!snp_streq(method, "elicitation/create")) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "this client does not answer that");
    }
    *ret = snp_need(snp_mcp_elicit_defaults(params));
    return 0;
}

/* Print "server: LINE" on standard error, cleaned. */
static void line_show(const char *who, const char *line, size_t n)
{
    snp_autobuf struct snp_buf shown = {0};

    snp_buf_init(&shown, (size_t)LINE_MAX_BYTES * 8);
    if (snp_text_line(&shown, line, n, LINE_CHARS) == 0) {
        snp_term_printf(stderr, "%s: %.*s\n", who, (int)shown.len,
                        shown.len == 0 ? "" : snp_buf_bytes(&shown));
    }
}

static void on_said(void *ctx, const char *bytes, size_t n)
{
    struct snp_mcp_run *run = ctx;

    while (n > 0) {
        const char *end = memchr(bytes, '\n', n);
        size_t len = end == NULL ? n : (size_t)(end - bytes);
        bool is_full = snp_buf_add(&run->said, bytes, len) < 0;

        if (end != NULL || is_full) {
            line_show("server", run->said.len == 0 ? "" : snp_buf_bytes(&run->said), run->said.len);
            snp_buf_clear(&run->said);
        }
        len += end == NULL ? 0 : 1;
        bytes += len;
        n -= len;
    }
}

static void on_progress(void *ctx, double progress, double total, const char *message)
{
    (void)ctx;
    if (total > 0) {
        (void)fprintf(stderr, "progress: %.6g of %.6g%s%s\n", progress, total,
                      *message == '\0' ? "" : " ", message);
    } else {
        (void)fprintf(stderr, "progress: %.6g%s%s\n", progress, *message == '\0' ? "" : " ",
                      message);
    }
}

/* The conversation ------------------------------------------------------------------------ */

static void handles_close(struct snp_mcp_run *run)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(run->signals); i++) {
        if (uv_is_closing((uv_handle_t *)&run->signals[i]) == 0) {
            uv_close((uv_handle_t *)&run->signals[i], NULL);
        }
    }
}

static void on_closed(void *ctx)
{
    handles_close(ctx);
}

void snp_mcp_run_end(struct snp_mcp_run *run, int status)
{
    if (run->is_over) {
        return;
    }
    run->is_over = true;
    run->status = status;
    (void)fflush(stdout);
    snp_mcp_client_close(run->client, on_closed, run);
}

void snp_mcp_run_fail(struct snp_mcp_run *run, const struct snp_err *err)
{
    if (!run->is_over) {
        (void)snp_cli_fail(run->cli, err);
    }
    snp_mcp_run_end(run, snp_code_exit(err->code));
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct snp_mcp_run *run = handle->data;
    struct snp_err err;

    run->cli->signal_no = number;
    (void)snp_fail(&err, SNP_E_PEER, "interrupted");
    snp_mcp_run_fail(run, &err);
}

static void on_opened(void *ctx, const struct snp_err *err)
{
    struct snp_mcp_run *run = ctx;

    if (err != NULL) {
        snp_mcp_run_fail(run, err);
    } else {
        run->begin(run);
    }
}

void snp_mcp_run_call(struct snp_mcp_run *run,
                      const char *method,
                      json_t *params,
                      void (*done)(void *ctx, const struct snp_mcp_client_end *end))
{
    bool is_verbose = snp_opts_flag(run->opts, "verbose", false);
    const struct snp_mcp_client_call call = {
        .method = method,
        .params = params,
        .progress = is_verbose ? on_progress : NULL,
        .done = done,
        .ctx = run,
    };
    struct snp_err err;

    if (snp_mcp_client_call(run->client, &call, NULL, &err) < 0) {
        snp_mcp_run_fail(run, &err);
    }
}

void snp_mcp_run_list(struct snp_mcp_run *run,
                      const char *method,
                      void (*done)(void *ctx,
                                   const struct snp_mcp_client_end *end,
                                   json_t *items,
                                   const json_t *notes))
{
    struct snp_err err;

    if (snp_mcp_client_list(run->client, method, 0, done, run, &err) < 0) {
        snp_mcp_run_fail(run, &err);
    }
}

/* Make a client from the options; it begins to open. SNP_E_INVALID: usage error. */
static int client_make(struct snp_mcp_run *run, size_t n_own, struct snp_err *err)
{
    snp_cleanup(given_done) struct client_arguments given = {0};
    int r = headers_take(run->opts, &given, err);

    r = r < 0 ? r : protocol_take(run->opts, &given, err);
    r = r < 0 ? r : server_take(run->opts, n_own, &given, err);
    if (r < 0) {
        return r;
    }
    if (snp_opts_flag(run->opts, "accept-defaults", false)) {
        given.capabilities = json_pack("{s:{s:{}}}", "elicitation", "form");
        given.options.capabilities = given.capabilities;
        given.options.asked = on_asked;
    }
    given.options.said = snp_opts_flag(run->opts, "verbose", false) ? on_said : NULL;
    given.options.opened = on_opened;
    given.options.ctx = run;
    return snp_mcp_client_new(&run->loop, &given.options, &run->client, err);
}

int snp_mcp_run(struct snp_mcp_run *run, size_t n_own, void (*begin)(struct snp_mcp_run *run))
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct snp_err err;
    int r;

    if (uv_loop_init(&run->loop) < 0) {
        (void)snp_fail(&err, SNP_E_SYS, "no event loop");
        return snp_cli_fail(run->cli, &err);
    }
    run->begin = begin;
    snp_buf_init(&run->said, LINE_MAX_BYTES);
    for (size_t i = 0; i < SNP_ARRAY_LEN(numbers); i++) {
        (void)uv_signal_init(&run->loop, &run->signals[i]);
        run->signals[i].data = run; /* signals are handled before a server is started */
        (void)uv_signal_start(&run->signals[i], on_signal, numbers[i]);
    }
    r = client_make(run, n_own, &err);
    if (r < 0) {
        handles_close(run);
        run->status = r == SNP_E_INVALID ? snp_cli_usage(run->cli, "%s", err.msg)
                                         : snp_cli_fail(run->cli, &err);
    }
    (void)uv_run(&run->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&run->loop);
    snp_buf_done(&run->said);
    return run->status;
}
