/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `check`: reports which names, attributes, imports and arguments in files exist. The files are
 * read inside a session that shows the project.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/project_dir.h"
#include "base/cli/term.h"
#include "base/policy/limits.h"
#include "base/session/policy.h"
#include "base/str.h"
#include "cli/check/ground.h"
#include "main/verbs.h"

enum {
    FILES_MAX = 1000,
    TEXT_MAX = 32 << 20,
};

struct checking {
    struct snp_cli *cli;
    const struct snp_config *config;
    char *project;  /* owned */
    json_t *python; /* owned: paths in the project */
    json_t *files;  /* owned: findings of each file */
};

static void checking_done(struct checking *c)
{
    free(c->project);
    json_decref(c->python);
    json_decref(c->files);
}

/* Selecting files --------------------------------------------------------------------------- */

static int file_add(struct checking *c, const char *given, struct snp_err *err)
{
    snp_autofree char *path = realpath(given, NULL);
    size_t n = strlen(c->project);
    json_t *name;

    if (path == NULL) {
        return errno == ENOENT ? snp_fail(err, SNP_E_NOT_FOUND, "no file '%.300s'", given)
                               : snp_fail_sys(err, errno, "open %.300s", given);
    }
    if (strncmp(path, c->project, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
        return snp_fail(err, SNP_E_DENIED,
                        "%.200s is outside the project %.200s; use --dir for another project",
                        given, c->project);
    }
    name = json_string(path[n] == '\0' ? "." : path + n + 1);
    if (name == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the path of a file is not UTF-8");
    }
    return json_array_append_new(c->python, name) == 0 ? 0
                                                       : snp_fail(err, SNP_E_SYS, "out of memory");
}

static int files_find(struct checking *c, const struct snp_opts *opts, struct snp_err *err)
{
    size_t n = snp_opts_n_args(opts);

    if (n > FILES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "at most %d files at once; a folder counts as one",
                        FILES_MAX);
    }
    SNP_TRY(snp_project_dir(snp_opts_str(opts, "dir"), &c->project, err));
    for (size_t i = 0; i < n; i++) {
        SNP_TRY(file_add(c, snp_opts_arg(opts, i), err));
    }
    return 0;
}

/* Check in a temporary session, which ends with this process. */
static int python_check(struct checking *c, struct snp_err *err)
{
    bool has_template = snp_config_origin(c->config, SNP_KEY_TEMPLATE) == SNP_ORIGIN_CLI;
    snp_autojson json_t *limits = snp_config_limits_explicit(c->config);
    snp_autojson json_t *defaults = NULL;
    struct snp_session_changes of = {.project = c->project, .project_fd = -1};
    struct snp_box_spec spec = {.cli = c->cli, .changes = &of, .limits = limits};
    snp_autobox struct snp_patch_session box = {0};

    SNP_TRY(snp_cli_session_settings(c->config, &defaults, err));
    spec.defaults = defaults;
    of.template =
        has_template ? (char *)(uintptr_t)snp_config_str(c->config, SNP_KEY_TEMPLATE) : NULL;
    c->cli->takes_signals = true;
    SNP_TRY(snp_box_begin(&spec, "", &box, err));
    return snp_ground_read(&box, c->python, &c->files, err);
}

/* Reporting ---------------------------------------------------------------------------------- */

struct counts {
    int64_t errors;
    int64_t warnings;
    int64_t unread; /* files */
    int64_t known;
    int64_t unknown;
};

/* As one line: a path may have newlines, and must not look like a finding of another file. */
static void line_add(const struct snp_buf *line, struct snp_buf *out)
{
    snp_autofree char *text = snp_term_line(snp_buf_bytes(line), line->len);

    (void)!snp_buf_addf(out, "%s\n", text);
}

/* Count the findings of all files, and append them as lines to out. */
static struct counts files_tell(const json_t *files, struct snp_buf *out)
{
    struct counts n = {0};

    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const json_t *findings = json_object_get(file, "findings");
        const char *path = snp_json_str(file, "path", "?");
        const char *error = snp_json_str(file, "error", NULL);

        if (error != NULL) {
            snp_autobuf struct snp_buf line = SNP_BUF(TEXT_MAX);

            n.unread++;
            (void)!snp_buf_addf(&line, "%s: not checked: %s", path, error);
            line_add(&line, out);
        }
        n.known += snp_json_int(file, "known", 0);
        n.unknown += snp_json_int(file, "unknown", 0);
        for (size_t f = 0; f < json_array_size(findings); f++) {
            const json_t *finding = json_array_get(findings, f);
            bool is_error = snp_streq(snp_json_str(finding, "severity", ""), "error");
            snp_autobuf struct snp_buf line = SNP_BUF(TEXT_MAX);

            n.errors += is_error;
            n.warnings += !is_error;
            (void)!snp_buf_addf(&line, "%s:", path);
            snp_ground_line(finding, &line);
            line_add(&line, out);
        }
    }
    return n;
}

static int checked(struct checking *c, const struct counts *n, const struct snp_buf *lines)
{
    int code = n->errors > 0 || n->unread > 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK;
    int r = 0;

    if (c->cli->is_json) {
        snp_autojson json_t *answer = snp_need(json_pack(
            "{s:o, s:O, s:I, s:I, s:I, s:I, s:I}", "project", snp_cli_path_json(c->project),
            "files", c->files, "errors", (json_int_t)n->errors, "warnings", (json_int_t)n->warnings,
            "not_checked", (json_int_t)n->unread, "known", (json_int_t)n->known, "unknown",
            (json_int_t)n->unknown));

        r = snp_cli_print_json(answer);
        return r == SNP_EXIT_OK ? code : r;
    }
    r = lines->len > 0 ? snp_term_write(stdout, snp_buf_bytes(lines), lines->len) : 0;
    snp_term_printf(stderr,
                    "%zu file%s: %lld error%s, %lld warning%s; %lld names and calls exist, %lld "
                    "cannot be checked\n",
                    json_array_size(c->files), json_array_size(c->files) == 1 ? "" : "s",
                    (long long)n->errors, n->errors == 1 ? "" : "s", (long long)n->warnings,
                    n->warnings == 1 ? "" : "s", (long long)n->known, (long long)n->unknown);
    return r < 0 ? SNP_EXIT_FAILED : code;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(checking_done) struct checking c = {
        .cli = cli,
        .python = snp_need(json_array()),
    };
    snp_autobuf struct snp_buf lines = SNP_BUF(TEXT_MAX);
    struct counts n;
    struct snp_err err;
    int r = snp_cli_config(cli, opts, &c.config, &err);

    SNP_THEN(r, files_find(&c, opts, &err));
    SNP_THEN(r, python_check(&c, &err));
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    n = files_tell(c.files, &lines);
    return checked(&c, &n, &lines);
}

static const struct snp_opt options[] = {
    {"dir", 'C', SNP_OPT_STRING, "DIR",
     "the project (default: the Git repository around this folder, else this folder)", 0},
    {"template", 0, SNP_OPT_STRING, "NAME",
     "the template whose packages the files may use (default: as in exec)", SNP_KEY_TEMPLATE},
    {"timeout", 't', SNP_OPT_STRING, "S", "wall clock in seconds: 0.05 to 600 (default 30)",
     SNP_KEY_OF_LIMIT(SNP_LIMIT_WALL)},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg args[] = {
    {"FILE", "a file of the project, or a folder: all files below it in these languages", 1, 0}};

const struct snp_verb snp_verb_check = {
    .name = "check",
    .summary = "find names, attributes, imports and arguments that do not exist",
    .description = "Find modules, imports, attributes, calls and arguments that exist neither in "
                   "the project nor in the installed packages, in Python, TypeScript, JavaScript, "
                   "Go, Java, Rust, C, C++, Ruby and Bash. The files are read inside a sandbox and "
                   "not run. Names that cannot be checked are counted and are not errors. "
                   "Deprecated functions are warnings.",
    .spec = SNP_SPEC(options, args),
    .examples = "check src/auth.py\ncheck . --json",
    .exit_codes = "0  everything that can be checked exists\n"
                  "1  something does not exist, or a file was not checked\n"
                  "2  usage error; nothing was done",
    .run = run,
};
