/* SPDX-License-Identifier: Apache-2.0 */
/* No model: prompts that are code, and remedies. */
#include "cli/run/no_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cli/need.h"
#include "base/cli/session/result.h"
#include "base/cli/term.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "cli/run/notes.h"
#include "cli/run/show.h"
#include "cli/sandbox/sandbox.h"
#include "run/code_prompt.h"

/* Code as prompts ----------------------------------------------------------------------------- */

/* A name followed by "(", and a ")": rare in natural language. */
static bool has_call(const char *text)
{
    const char *open = strchr(text, '(');

    for (; open != NULL; open = strchr(open + 1, '(')) {
        if (open > text && (isalnum((unsigned char)open[-1]) || open[-1] == '_') &&
            strchr(open, ')') != NULL) {
            return true;
        }
    }
    return false;
}

/* It did not compile, so nothing of it has run. */
static bool is_no_python(const struct snp_view *view, const json_t *result)
{
    const char *type = snp_json_str(json_object_get(result, "error"), "type", "");

    return (strcmp(type, "SyntaxError") == 0 || strcmp(type, "IndentationError") == 0) &&
           view->text[SNP_STREAM_STDOUT].len == 0;
}

/* The exit code, as for other runs. */
static int exit_of(const json_t *result)
{
    return snp_result_exit(result, SNP_EXIT_OF_PYTHON) == 0 ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static int show(const struct snp_front *front,
                struct snp_view *view,
                json_t *result,
                const char *id)
{
    snp_autojson json_t *whole = snp_view_result(view, result);

    (void)json_object_set_new(whole, "trajectory_id", json_string(id));
    if (front->is_for_programs) {
        return snp_cli_print_json(whole) == SNP_EXIT_OK ? exit_of(result) : SNP_EXIT_FAILED;
    }
    (void)fputs("No model configured; ran the prompt as Python.\n", stderr);
    if (front->is_verbose) {
        (void)fprintf(stderr, "Recorded: snipara-sandbox logs %.8s\n", id);
    }
    (void)!snp_term_write(stdout, snp_json_str(whole, "stdout", ""),
                          json_string_length(json_object_get(whole, "stdout")));
    (void)fflush(stdout);
    (void)!snp_term_write(stderr, snp_json_str(whole, "stderr", ""),
                          json_string_length(json_object_get(whole, "stderr")));
    view->is_live = true;
    return snp_view_finish(view, result) < 0 ? SNP_EXIT_FAILED : exit_of(result);
}

/* Make the exec request; *ret is also recorded. The only cell has the run's time limit. */
static int exec_make(struct snp_front *front,
                     const struct snp_run_spec *spec,
                     json_t **ret,
                     struct snp_err *err)
{
    snp_autojson json_t *cell =
        snp_need(json_pack("{s:s, s:s, s:I}", "method", "exec", "kind", "python", "code_len",
                           (json_int_t)strlen(spec->prompt)));

    SNP_TRY(snp_front_exec(front, ret, err));
    (void)json_object_update(*ret, cell);
    (void)json_object_del(*ret, "checkpoint");
    if ((uint64_t)spec->budget.wall_ms < spec->cell_ms) {
        (void)json_object_set_new(
            *ret, "limits", json_pack("{s:I}", "timeout_ms", (json_int_t)spec->budget.wall_ms));
    }
    return 0;
}

/* Record the outcome; returns the exit status. */
static int end(struct snp_front *front,
               struct snp_run_plain *plain,
               struct snp_view *view,
               json_t *result)
{
    const struct snp_feedback_output output = {
        .out = &view->text[SNP_STREAM_STDOUT],
        .err = &view->text[SNP_STREAM_STDERR],
        .out_gap = {view->gap_at[SNP_STREAM_STDOUT], (size_t)view->gap_chars[SNP_STREAM_STDOUT]},
        .err_gap = {view->gap_at[SNP_STREAM_STDERR], (size_t)view->gap_chars[SNP_STREAM_STDERR]},
    };
    struct snp_err err;
    int r = snp_run_plain_end(plain, result, &output, &err);
    int exit_code = show(front, view, result, snp_run_plain_id(plain));

    return r < 0 ? snp_front_fail(front, &err) : exit_code;
}

/* Report why the code could not run; returns the exit status. */
static int refuse(const struct snp_front *front, struct snp_err *err)
{
    (void)snp_err_wrap(err, "no model configured, so the prompt is run as Python");
    return snp_front_fail(front, err);
}

struct seeing {
    struct snp_view view;
    int r; /* < 0: an event could not be shown */
    struct snp_err err;
};

static void seeing_done(struct seeing *all)
{
    snp_view_done(&all->view);
}

static void on_event(void *ctx, const char *json, const char *bytes, size_t len)
{
    struct seeing *all = ctx;
    snp_autojson json_t *head = NULL;

    SNP_THEN(all->r, snp_json_parse(json, strlen(json), &head, &all->err));
    SNP_THEN(all->r, snp_view_event(&all->view, head, bytes, len, &all->err));
}

/* False: the prompt is not Python. */
static bool code_run(struct snp_front *front, const struct snp_run_spec *given, int *ret_exit)
{
    struct snp_run_spec spec = *given;
    snp_autojson json_t *exec = NULL;
    snp_autojson json_t *result = NULL;
    snp_autofree char *request = NULL;
    struct snp_run_plain *plain = NULL;
    snp_cleanup(seeing_done) struct seeing seen = {.r = 0};
    struct snp_err err;
    bool is_code = true;
    int r;

    snp_view_init(&seen.view, false, NULL);
    if (exec_make(front, given, &exec, &err) < 0) {
        *ret_exit = refuse(front, &err);
        return true;
    }
    spec.exec = exec;
    request = snp_need(snp_json_text(exec));
    front->cli->takes_signals = true;
    if (snp_run_notes_logs(front, &err) < 0 || snp_run_key(front->key, &err) < 0 ||
        snp_run_plain_new(&spec, front->key, &plain, &err) < 0) {
        *ret_exit = snp_front_fail(front, &err);
        return true;
    }
    r = snp_sandbox_run(
        front->cli,
        SNIPARA_RUN(.code = given->prompt, .event = on_event, .ctx = &seen, .request = request),
        &result, &err);
    if (r < 0 || seen.r < 0) {
        snp_run_plain_forget(plain);
        *ret_exit = refuse(front, r < 0 ? &err : &seen.err);
    } else if (is_no_python(&seen.view, result)) {
        snp_run_plain_forget(plain);
        is_code = false;
    } else {
        *ret_exit = end(front, plain, &seen.view, result);
        snp_cli_tier_notice(front->cli, front->config, front->tier);
    }
    snp_run_plain_free(plain);
    return is_code;
}

/* Remedies ------------------------------------------------------------------------------------ */

static const char *variable(const struct snp_front *front, const char *name)
{
    const char *value = snp_config_env(front->config, name);

    return value == NULL ? "" : value;
}

static bool is_claude(const struct snp_front *front)
{
    static const char *const names[] = {"CLAUDE_CODE", "MCP_SERVER_NAME",
                                        "SNIPARA_SANDBOX_CLAUDE_CODE_MODE", "RLM_CLAUDE_CODE_MODE"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (variable(front, names[i])[0] != '\0') {
            return true;
        }
    }
    return strcasestr(variable(front, "TERM_PROGRAM"), "claude") != NULL;
}

static void ways_print(const struct snp_front *front)
{
    if (is_claude(front)) {
        snp_term_printf(
            stderr, "Inside Claude, use the MCP tools instead: execute_python and the others of "
                    "`snipara-sandbox mcp-serve` (snipara-sandbox mcp-install claude); they need "
                    "no key.\n");
    }
    (void)fputs("Without a model:\n"
                "  snipara-sandbox exec 'print(6 * 7)'     run code in a sandbox\n"
                "  snipara-sandbox mcp-install CLIENT      give an AI client these sandboxes\n",
                stderr);
}

int snp_run_direct(struct snp_front *front,
                   const struct snp_run_spec *spec,
                   const struct snp_err *why)
{
    struct snp_err err = *why;
    int exit_code = SNP_EXIT_FAILED;

    if (front->caller == NULL && spec->kind == SNP_RUN_COMPLETION && has_call(spec->prompt) &&
        code_run(front, spec, &exit_code)) {
        return exit_code;
    }
    err.code = SNP_E_NOT_FOUND; /* not a usage error: the command is right, a key is missing */
    exit_code = snp_front_fail(front, &err);
    if (!front->is_for_programs) {
        ways_print(front);
    }
    return exit_code;
}
