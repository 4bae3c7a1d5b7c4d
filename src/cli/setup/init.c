/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `init`: a first configuration. Files are written whole or not at all, and nothing
 * that exists is replaced without --force; .env.example never is.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"

enum {
    TEMPLATE_MAX_BYTES = 64 * 1024,
    FILE_MODE = 0644,
    FOLDER_MODE = 0755
};

static const char head[] =
    "# snipara-sandbox configuration. Command-line options override environment variables\n"
    "# (SNIPARA_SANDBOX_MODEL), which override this file. `snipara-sandbox config show` prints\n"
    "# every value and its source.\n"
    "\n"
    "[snipara_sandbox]\n"
    "backend = \"litellm\"\n"
    "model = \"gpt-4o-mini\"\n"
    "environment = \"auto\"  # auto, native, docker or local; wasm runs in native\n"
    "max_depth = 30  # turns of a run\n"
    "max_subcalls = 60  # model calls of a run\n"
    "token_budget = 400000\n"
    "cost_limit = 2.0  # USD\n"
    "verbose = false\n"
    "\n"
    "# Limits of a sandbox\n";

static const char docker[] =
    "\n"
    "# Docker. docker_cpus and docker_memory apply in every tier, unless the limits above are set\n"
    "docker_image = \"python:3.11-slim\"\n"
    "# docker_runtime = \"runsc\"  # gVisor (default: the runtime of the engine)\n"
    "docker_cpus = 1.0\n"
    "docker_memory = \"512m\"\n"
    "docker_network_disabled = true\n"
    "docker_mount_workspace = true\n"
    "# docker_workspace_path = \".\"\n"
    "docker_workspace_setup = \"none\"  # none, package, tests-only, dev\n"
    "# docker_workspace_install_command = \"python -m pip install -e .\"\n"
    "# docker_workspace_install_extras = [\"pytest\"]\n";

static const char snipara[] = "\n"
                              "# Keys of Snipara: accepted as in 2.x, without effect\n"
                              "# snipara_api_key = \"\"\n"
                              "# snipara_project_slug = \"\"\n";

static const char env_example[] = "OPENAI_API_KEY=\n"
                                  "ANTHROPIC_API_KEY=\n"
                                  "SNIPARA_API_KEY=\n"
                                  "SNIPARA_PROJECT_SLUG=\n";

/* `# memory = "512m"  # memory of the whole sandbox, no swap: 16 MiB to 1 TiB` */
static int add_limit(struct snp_buf *out, enum snp_limit limit)
{
    const struct snp_config_info *info = snp_config_info(SNP_KEY_OF_LIMIT(limit));
    const struct snp_limit_info *row = snp_limit_info(limit);
    const char *quote = row->unit == SNP_UNIT_BYTES ? "\"" : "";
    char low[32];
    char high[32];
    return snp_buf_addf(out, "# %s = %s%s%s  # %s: %s to %s\n", info->name, quote, info->fallback,
                        quote, row->help, snp_limit_format(limit, row->min, low, sizeof(low)),
                        snp_limit_format(limit, row->max, high, sizeof(high)));
}

static int build_template(struct snp_buf *out, bool with_snipara)
{
    int r = snp_buf_adds(out, head);
    for (int i = 0; r == 0 && i < SNP_LIMIT_N; i++) {
        r = add_limit(out, (enum snp_limit)i);
    }
    if (r == 0) {
        r = snp_buf_adds(out, docker);
    }
    if (r == 0 && with_snipara) {
        r = snp_buf_adds(out, snipara);
    }
    return r;
}

/* created: an array that receives the path. */
static int write_file(
    const char *path, const char *bytes, size_t n, json_t *created, struct snp_err *err)
{
    int r = snp_file_write_atomic(path, bytes, n, FILE_MODE, err);

    if (r == 0) {
        (void)json_array_append_new(created, snp_cli_path_json(path));
    }
    return r;
}

/* The existing configuration (caller frees), NULL if none. */
static char *find_existing(const char *dir)
{
    static const char *const names[] = {"snipara-sandbox.toml", "rlm.toml"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        snp_autofree char *path = snp_need_format("%s/%s", dir, names[i]);
        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            return SNP_TAKE_PTR(path);
        }
    }
    return NULL;
}

static int write_files(const char *dir, bool with_snipara, json_t *created, struct snp_err *err)
{
    snp_autofree char *config = snp_need_format("%s/snipara-sandbox.toml", dir);
    snp_autofree char *example = snp_need_format("%s/.env.example", dir);
    snp_autobuf struct snp_buf text = {0};
    snp_buf_init(&text, TEMPLATE_MAX_BYTES);
    (void)snp_need(build_template(&text, with_snipara) < 0 ? NULL : &text);
    int r = snp_mkdir_p(dir, FOLDER_MODE, err);
    if (r == 0) {
        r = write_file(config, snp_buf_bytes(&text), text.len, created, err);
    }
    if (r == 0) {
        struct snp_err unknown;
        /* Its values are the defaults, so they apply even if trust cannot be recorded. */
        (void)!snp_trust_add_own(config, snp_buf_bytes(&text), text.len, "init", &unknown);
    }
    if (r == 0 && faccessat(AT_FDCWD, example, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        r = write_file(example, env_example, sizeof(env_example) - 1, created, err);
    }
    return r;
}

static int created_print(const json_t *created, bool as_json, bool with_snipara)
{
    size_t i;
    json_t *path;

    if (as_json) {
        snp_autojson json_t *answer = json_pack("{s:O}", "created", created);

        return snp_cli_print_json(answer);
    }
    json_array_foreach(created, i, path)
    {
        (void)fputs("Created ", stdout);
        if (snp_term_write(stdout, json_string_value(path), json_string_length(path)) < 0) {
            return SNP_EXIT_FAILED;
        }
        (void)putchar('\n');
    }
    if (with_snipara) {
        snp_term_printf(
            stdout, "Tip: SNIPARA_API_KEY and SNIPARA_PROJECT_SLUG are read from .env too; this "
                    "version does not use them yet (--no-snipara leaves them out).\n");
    }
    return SNP_EXIT_OK;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *created = json_array();
    struct snp_err err;
    const char *dir = snp_opts_n_args(opts) > 0 ? snp_opts_arg(opts, 0) : ".";
    bool with_snipara = !snp_opts_flag(opts, "no-snipara", false);
    snp_autofree char *existing = find_existing(dir);

    if (existing != NULL && !snp_opts_flag(opts, "force", false)) {
        (void)snp_fail(&err, SNP_E_DENIED, "Config already exists: %s (--force replaces it)",
                       existing);
        return snp_cli_fail(cli, &err);
    }
    return write_files(dir, with_snipara, created, &err) < 0
               ? snp_cli_fail(cli, &err)
               : created_print(created, cli->is_json, with_snipara);
}

static const struct snp_opt options[] = {
    {"no-snipara", 0, SNP_OPT_FLAG, NULL, "omit the keys of the Snipara service", 0},
    {"force", 'f', SNP_OPT_FLAG, NULL, "replace an existing configuration", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg args[] = {
    {"DIR", "folder of the project (default: the current one)", 0, 1},
};

const struct snp_verb snp_verb_init = {
    .name = "init",
    .summary = "write snipara-sandbox.toml and .env.example",
    .description = "Write a first snipara-sandbox.toml, and .env.example if there is none. An "
                   "existing configuration is not changed.",
    .spec = SNP_SPEC(options, args),
    .examples = "init\ninit ./project --no-snipara",
    .exit_codes = "0  written\n"
                  "1  a configuration exists, or the folder cannot be written\n"
                  "2  usage error; nothing was done",
    .run = run,
};
