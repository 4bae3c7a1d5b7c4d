/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `trust`: approve the files of a folder. A file is read once; the same bytes are shown, hashed and
 * recorded, so a file that is replaced during this is not trusted.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/config/dotenv.h"
#include "base/str.h"
#include "cli/cli.h"

enum {
    INDENT = 4,
};

static const char *const names[] = {"snipara-sandbox.toml", "rlm.toml", ".env"};

/* ---- what a file sets ---- */

/* Print on one line, or continue at column `at`: untrusted text must not look like our lines. */
static void print_text(const char *text, size_t at)
{
    snp_autojson json_t *value = snp_json_bytes(text, strlen(text));
    snp_autofree char *quoted = NULL;

    for (const char *c = text; *c != '\0' && quoted == NULL; c++) {
        quoted = (unsigned char)*c < ' ' ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    }
    text = quoted == NULL ? text : quoted;
    snp_term_text(stdout, text, strlen(text), at);
}

static void print_asks(const struct snp_config_source *file)
{
    const char *name = NULL;
    json_t *value = NULL;

    print_text(file->path, INDENT);
    if (json_object_size(file->asks) == 0) {
        (void)puts(":\n  sets nothing that needs trust");
        return;
    }
    (void)puts(" sets:");
    json_object_foreach((json_t *)(uintptr_t)file->asks, name, value)
    {
        snp_autofree char *text = json_is_string(value) ? snp_need_copy(json_string_value(value))
                                                        : json_dumps(value, JSON_ENCODE_ANY);
        (void)printf("  %s = ", name);
        print_text(text == NULL ? "?" : text, strlen(name) + 5);
        (void)putchar('\n');
    }
}

static json_t *file_to_json(const struct snp_config_source *file, bool is_trusted)
{
    return json_pack("{s:o, s:I, s:s, s:O*, s:b}", "path", snp_cli_path_json(file->path), "owner",
                     (json_int_t)file->source->owner, "sha256", file->source->hash, "sets",
                     file->asks, "trusted", is_trusted);
}

/* Show a file, and trust it unless only_show. Its JSON is added to list. */
static int take(const struct snp_config_source *file,
                bool only_show,
                bool as_json,
                json_t *list,
                struct snp_err *err)
{
    bool was_trusted = file->trust == SNP_TRUST_GIVEN;

    if (!as_json) {
        print_asks(file);
    }
    int r = only_show ? 0 : snp_trust_add(file->path, file->source, "trust", err);
    if (r < 0) {
        return r;
    }
    if (!as_json) {
        snp_term_printf(stdout, "%s\n",
                        !only_show    ? "  trusted from now on, until it changes"
                        : was_trusted ? "  trusted"
                        : file->trust == SNP_TRUST_CHANGED ? "  changed since it was trusted"
                                                           : "  not trusted");
    }
    (void)json_array_append_new(list, file_to_json(file, !only_show || was_trusted));
    return 0;
}

static int take_all(struct snp_cli *cli,
                    const char *dir,
                    const struct snp_opts *opts,
                    json_t *list,
                    struct snp_err *err)
{
    static const char *const no_variables[] = {NULL};
    const struct snp_config_request request = {.cwd = dir, .environ = no_variables};
    snp_autoconfig struct snp_config *config = NULL;
    const char *const *lines = NULL;
    int r = snp_config_load(&request, &config, err);

    if (r < 0) {
        return r;
    }
    size_t n = snp_config_warnings(config, &lines);
    for (size_t i = 0; i < n; i++) {
        snp_cli_warn(cli, "%s", lines[i]);
    }
    for (int kind = 0; kind < SNP_FILE_N && r == 0; kind++) {
        struct snp_config_source file;
        snp_config_source_of(config, (enum snp_config_file_kind)kind, &file);
        if (file.path != NULL) {
            r = take(&file, snp_opts_flag(opts, "show", false), cli->is_json, list, err);
        }
    }
    return r == 0 && json_array_size(list) == 0
               ? snp_fail(err, SNP_E_NOT_FOUND, "no configuration that is yours in %.200s", dir)
               : r;
}

/* ---- taking it back ---- */

static int revoke_one(const char *path, json_t *revoked, struct snp_err *err)
{
    int r = snp_trust_revoke(path, err);

    if (r == 0) {
        (void)json_array_append_new(revoked, snp_cli_path_json(path));
    }
    return r == SNP_E_NOT_FOUND ? 0 : r;
}

/* A file by its path, or those of a folder: they may be gone or changed. */
static int revoke_all(const char *what, json_t *revoked, struct snp_err *err)
{
    snp_autofree char *dir = realpath(what, NULL);
    snp_autofree char *env_file = NULL;
    snp_autofree char *foreign = NULL;
    struct snp_config_text source = {0};
    struct stat st;
    int r = 0;

    if (dir == NULL || stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        r = revoke_one(what, revoked, err);
    } else {
        for (size_t i = 0; i < SNP_ARRAY_LEN(names) && r == 0; i++) {
            snp_autofree char *path = snp_need_format("%s/%s", dir, names[i]);
            r = revoke_one(path, revoked, err);
        }
        (void)!snp_dotenv_find(dir, &env_file, &source, &foreign, err);
        snp_source_done(&source);
        r = r < 0 || env_file == NULL ? r : revoke_one(env_file, revoked, err);
    }
    return r == 0 && json_array_size(revoked) == 0
               ? snp_fail(err, SNP_E_NOT_FOUND,
                          "nothing was trusted in %.200s; --list shows trusted files", what)
               : r;
}

static int revoke(struct snp_cli *cli, const char *what)
{
    snp_autojson json_t *revoked = json_array();
    struct snp_err err;
    size_t i;
    json_t *path;

    if (revoke_all(what, revoked, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (cli->is_json) {
        snp_autojson json_t *answer = json_pack("{s:O}", "revoked", revoked);
        return snp_cli_print_json(answer);
    }
    json_array_foreach(revoked, i, path)
    {
        (void)fputs("Revoked ", stdout);
        print_text(json_string_value(path), INDENT);
        (void)putchar('\n');
    }
    return SNP_EXIT_OK;
}

/* ---- the list ---- */

static void print_list(const json_t *list)
{
    static const char *const heads[] = {"File", "State", "By", "When"};
    struct snp_table table = SNP_TABLE(heads);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *record = json_array_get(list, i);

        snp_table_add(&table, snp_json_str(record, "path", "?"));
        snp_table_add(&table, snp_json_str(record, "state", "?"));
        snp_table_add(&table, snp_json_str(record, "by", "?"));
        snp_table_add(&table, snp_human_age((double)snp_json_int(record, "at", 0)).text);
    }
    snp_table_print(stdout, &table, "No file is trusted");
}

static int show_list(struct snp_cli *cli)
{
    snp_autojson json_t *list = NULL;
    struct snp_err err;
    int r = snp_trust_list(&list, &err);

    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, list);
    }
    print_list(list);
    return SNP_EXIT_OK;
}

/* ---- the verb ---- */

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const char *what = snp_opts_n_args(opts) > 0 ? snp_opts_arg(opts, 0) : ".";
    bool is_list = snp_opts_flag(opts, "list", false);
    bool is_revoke = snp_opts_flag(opts, "revoke", false);
    snp_autojson json_t *files = json_array();
    struct snp_err err;

    if (is_list + is_revoke + snp_opts_flag(opts, "show", false) > 1) {
        return snp_cli_usage(cli, "give one of --show, --list and --revoke");
    }
    if (is_list) {
        return show_list(cli);
    }
    if (is_revoke) {
        return revoke(cli, what);
    }
    snp_autofree char *dir = realpath(what, NULL);
    int r = dir == NULL ? snp_fail_sys(&err, errno, "%.200s", what)
                        : take_all(cli, dir, opts, files, &err);
    snp_autojson json_t *answer = json_pack("{s:O}", "files", files);
    return r < 0 || cli->is_json ? snp_cli_end(cli, r, &err, answer) : SNP_EXIT_OK;
}

static const struct snp_opt options[] = {
    {"show", 0, SNP_OPT_FLAG, NULL, "only show the settings that need trust", 0},
    {"list", 0, SNP_OPT_FLAG, NULL, "list trusted files", 0},
    {"revoke", 0, SNP_OPT_FLAG, NULL, "stop trusting the files of a folder, or one file", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg args[] = {
    {"DIR", "the folder (default: the current one)", 0, 1},
};

const struct snp_verb snp_verb_trust = {
    .name = "trust",
    .summary = "trust this folder's settings for models, keys and limits",
    .description = "Files of a working folder (snipara-sandbox.toml, else rlm.toml, and .env) may "
                   "come from a stranger. Until you trust them they cannot set keys, addresses, "
                   "commands, weaker tiers or higher limits, and a line names the ignored "
                   "settings. This command shows these settings and trusts the files by path, "
                   "owner and content; a changed file needs trust again. Files that init wrote, "
                   "and --config, need no trust. A file that belongs to neither you nor root is "
                   "never read.",
    .spec = SNP_SPEC(options, args),
    .examples = "trust --show\ntrust\ntrust --revoke ./project",
    .exit_codes = "0  done\n"
                  "1  no such file, or nothing was trusted there\n"
                  "2  usage error, or a file is malformed; nothing was done",
    .run = run,
};
