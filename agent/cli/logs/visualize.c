/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `visualize`: runs and sessions as a page in a browser, written into a file or served to this user
 * alone. To serve, it becomes another program (cli/logs/visualize.h).
 */
#include "cli/logs/visualize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli/need.h"
#include "base/cli/session/history.h"
#include "base/cli/session/list.h"
#include "base/cli/spawn.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/policy/session_name.h"
#include "base/str.h"
#include "cli/run/runs.h"
#include "main/verbs.h"
#include "trajectory/reader.h"

enum {
    TAIL_DEFAULT = 50,
    PORT_MAX = 65535,
};

static const char *const of_serving[] = {"port", "host", "allow-remote", "allow-host"};

/* Selection --------------------------------------------------------------------------------- */

void snp_visualize_done(struct snp_visualize *v)
{
    free(v->path);
    free(v->session);
    *v = (struct snp_visualize){0};
}

static void on_warn(void *ctx, const char *text)
{
    snp_cli_warn(ctx, "%s", text);
}

static json_t *brief_of(const json_t *item)
{
    const char *id = snp_json_str(item, "id", "");

    return snp_need(
        json_pack("{s:s, s:s, s:O?, s:O?, s:O?, s:O?, s:O?}", "id", snp_json_str(item, "name", id),
                  "kind", "session", "state", json_object_get(item, "state"), "used",
                  json_object_get(item, "used"), "cells", json_object_get(item, "cells"), "tier",
                  json_object_get(item, "tier"), "project", json_object_get(item, "project")));
}

static json_t *on_list(void *ctx, const char *asked)
{
    snp_autojson json_t *rows = snp_sessions_of_exec(ctx, asked);
    json_t *list = snp_need(json_array());
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        (void)json_array_append_new(list, brief_of(row));
    }
    return list;
}

static int on_read(void *ctx,
                   const char *id,
                   int (*record)(void *record_ctx, json_t *record, struct snp_err *err),
                   void *record_ctx,
                   struct snp_err *err)
{
    return snp_history_read(ctx, id, record, record_ctx, err);
}

static const struct snp_page_sessions sessions = {.list = on_list, .read = on_read};

/* The name, or else the id, of the session with this name or id; NULL = there is none. */
static char *session_find(struct snp_cli *cli, const char *name)
{
    snp_autojson json_t *rows = NULL;
    struct snp_err ignored;
    size_t i;
    json_t *row;

    if (snp_session_name_check(name, &ignored) < 0) {
        return NULL;
    }
    rows = snp_sessions_of_exec(cli, name);
    json_array_foreach(rows, i, row)
    {
        const char *id = snp_json_str(row, "id", "");
        const char *known = snp_json_str(row, "name", id);

        if (strcmp(known, name) == 0 || strcmp(id, name) == 0) {
            return snp_need_copy(known);
        }
    }
    return NULL;
}

int snp_visualize_find(const struct snp_visualize *v,
                       const char *name,
                       char **ret_path,
                       char **ret_session,
                       struct snp_err *err)
{
    if (snp_trajectory_find(v->page.dir, name, ret_path, err) == 0) {
        return 0;
    }
    *ret_session = session_find(v->cli, name);
    if (*ret_session == NULL) {
        err->code = SNP_E_NOT_FOUND; /* not a usage error, even if the prefix is ambiguous */
        return SNP_E_NOT_FOUND;
    }
    return 0;
}

static int read_into(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     struct snp_visualize *v,
                     struct snp_err *err)
{
    int64_t tail = snp_opts_int(opts, "tail", TAIL_DEFAULT);
    int64_t port = snp_opts_int(opts, "port", 0);
    int r;

    if (tail < 1 || tail > SNP_PAGE_RUNS_MAX) {
        return snp_fail(err, SNP_E_INVALID, "--tail must be 1 to %d", SNP_PAGE_RUNS_MAX);
    }
    if (port < 0 || port > PORT_MAX) {
        return snp_fail(err, SNP_E_INVALID, "--port must be 1 to %d, or 0 for a free one",
                        PORT_MAX);
    }
    r = snp_cli_config(cli, opts, &v->config, err);
    if (r < 0) {
        return r;
    }
    v->cli = cli;
    v->page = (struct snp_page){.dir = snp_config_str(v->config, SNP_KEY_LOG_DIR),
                                .tail = (size_t)tail,
                                .sessions = &sessions,
                                .warn = on_warn,
                                .ctx = cli};
    if (snp_opts_n_args(opts) > 0) {
        r = snp_visualize_find(v, snp_opts_arg(opts, 0), &v->path, &v->session, err);
    }
    v->page.path = v->path;
    v->page.session = v->session;
    return r;
}

int snp_visualize_read(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_visualize *ret,
                       struct snp_err *err)
{
    int r;

    *ret = (struct snp_visualize){0};
    r = read_into(cli, opts, ret, err);
    if (r < 0) {
        snp_visualize_done(ret);
    }
    return r;
}

/* Into a file ------------------------------------------------------------------------------- */

static int written_print(const char *path, const struct snp_page_made *made, size_t bytes)
{
    snp_autojson json_t *answer = json_pack(
        "{s:o, s:I, s:I, s:I}", "file", snp_cli_path_json(path), "runs", (json_int_t)made->n_runs,
        "sessions", (json_int_t)made->n_sessions, "bytes", (json_int_t)bytes);

    return snp_cli_print_json(answer);
}

static int write_out(struct snp_visualize *v,
                     const char *out_path,
                     bool as_json,
                     struct snp_err *err)
{
    snp_autobuf struct snp_buf out = {0};
    struct snp_page_made made;
    int r;

    const char *dir = v->page.dir;

    if (v->path != NULL || v->session != NULL) {
        v->page.dir = NULL; /* this one alone */
    }
    snp_buf_init(&out, SNP_PAGE_MAX);
    r = snp_page_make(&v->page, &out, &made, err);
    if (r == 0 && made.n_listed == 0) {
        r = snp_fail(err, SNP_E_NOT_FOUND, "no runs in %s, and no sessions", dir);
    }
    r = r < 0 ? r : snp_file_write_atomic(out_path, snp_buf_bytes(&out), out.len, 0600, err);
    if (r == 0 && as_json) {
        return written_print(out_path, &made, out.len) == SNP_EXIT_OK
                   ? 0
                   : snp_fail_sys(err, errno, "write");
    }
    if (r == 0) {
        snp_term_printf(stdout, "%s: %zu %s, %zu %s, %zu KiB\n", out_path, made.n_runs,
                        made.n_runs == 1 ? "run" : "runs", made.n_sessions,
                        made.n_sessions == 1 ? "session" : "sessions", (out.len + 1023) / 1024);
    }
    return r;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_visualize_done) struct snp_visualize v = {0};
    const char *out = snp_opts_str(opts, "out");
    struct snp_err err;
    int r;

    for (size_t i = 0; out != NULL && i < SNP_ARRAY_LEN(of_serving); i++) {
        if (snp_opts_given(opts, of_serving[i])) {
            return snp_cli_usage(cli, "--%s is for serving pages; --out writes one", of_serving[i]);
        }
    }
    if (out == NULL) {
        r = snp_become("visualize", cli->argv, &err);
        return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
    }
    r = snp_visualize_read(cli, opts, &v, &err);
    r = r < 0 ? r : write_out(&v, out, cli->is_json, &err);
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

/* The verb ---------------------------------------------------------------------------------- */

static const struct snp_opt options[] = {
    SNP_RUNS_OPT_DIR('d'),
    {"out", 'o', SNP_OPT_STRING, "FILE", "write one page that needs no other files, and exit", 0},
    {"tail", 'n', SNP_OPT_INT, "N", "list the newest N runs, and N sessions (default 50)", 0},
    {"port", 'p', SNP_OPT_INT, "N", "port to serve on (default 8501; 0: a free one)", 0},
    {"host", 0, SNP_OPT_STRING, "HOST",
     "address to serve on, a number or localhost (default 127.0.0.1)", 0},
    {"allow-remote", 0, SNP_OPT_FLAG, NULL, "allow a HOST that other machines can reach", 0},
    {"allow-host", 0, SNP_OPT_LIST, "NAME", "another host name that browsers may use (repeatable)",
     0},
    {"json", 0, SNP_OPT_FLAG, NULL, "print the address, or the written file, as JSON", 0},
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt_arg args[] = {
    {"RUN",
     "the run to show: its id, or the beginning of its id; or the name of a session of exec "
     "(default: the newest run)",
     0, 1},
};

const struct snp_verb snp_verb_visualize = {
    .name = "visualize",
    .summary = "show runs and sessions in a browser: cells, plots, times, tokens",
    .description =
        "Show runs, and the cells of sessions of exec. Without --out it serves pages until "
        "Ctrl-C, and prints their address. The address contains a secret: anyone who has it can "
        "read the pages. Reload the page for updates. With --out it writes one file; if RUN is "
        "given, the file contains only that run.",
    .spec = SNP_SPEC(options, args),
    .examples = "visualize\nvisualize 3f2a\nvisualize work\nvisualize 3f2a --out "
                "run.html\nvisualize --dir "
                "/var/log/runs --port 0",
    .run = run,
};
