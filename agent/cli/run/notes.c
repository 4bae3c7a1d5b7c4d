/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warnings about a run's settings. A project's files may set them, and a project may be hostile:
 * relevant changes are reported with the file that made them.
 */
#include "cli/run/notes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/term.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "cli/run/tools.h"

enum {
    MS = 1000,
};

/* Settings ---------------------------------------------------------------------------------- */

/* The model to call; the configured text if it cannot be resolved. */
static void model_show(const struct snp_front *front)
{
    const struct snp_config *config = front->config;
    bool is_given = snp_config_origin(config, SNP_KEY_MODEL) != SNP_ORIGIN_DEFAULT;
    const char *name = snp_config_str(config, SNP_KEY_MODEL);
    const char *script = snp_config_str(config, SNP_KEY_REPLAY_FILE);
    struct snp_model_choice choice = {0};
    struct snp_err err;
    int r = snp_model_choose(front->models, is_given ? name : NULL, &choice, &err);

    if (is_given && snp_has_prefix(name, "replay/")) {
        snp_term_printf(stdout, "  Model: %s\n", name);
    } else if (r == 0 && snp_streq(choice.provider, "replay")) {
        snp_term_printf(stdout, "  Model: replay/%s\n", script == NULL ? "" : script);
    } else if (r == 0 && !is_given) {
        snp_term_printf(stdout, "  Model: %s/%s\n", choice.provider, choice.model);
    } else {
        (void)printf("  Model: %s%s\n", name, r < 0 ? " (not usable)" : "");
    }
}

static void origins_show(const struct snp_config *config, bool is_agent)
{
    static const enum snp_config_key keys[] = {
        SNP_KEY_MODEL,
        SNP_KEY_BACKEND,
        SNP_KEY_ENVIRONMENT,
        SNP_KEY_MAX_DEPTH,
        SNP_KEY_TOKEN_BUDGET,
        SNP_KEY_COST_LIMIT,
        SNP_KEY_TOOL_BUDGET,
        SNP_KEY_TIMEOUT_SECONDS,
        SNP_KEY_MAX_SUBCALLS,
        SNP_KEY_LOG_DIR,
        SNP_KEY_BASE_URL,
        SNP_KEY_SUB_CALLS_ENABLED,
        SNP_KEY_SUB_CALLS_MAX_PER_TURN,
        SNP_KEY_SUB_CALLS_BUDGET_INHERITANCE,
        SNP_KEY_SUB_CALLS_MAX_COST_PER_SESSION,
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(keys); i++) {
        if (snp_config_origin(config, keys[i]) != SNP_ORIGIN_DEFAULT &&
            !(is_agent && keys[i] == SNP_KEY_MAX_SUBCALLS)) {
            snp_term_printf(stdout, "  %s: set by %s\n", snp_config_info(keys[i])->name,
                            snp_config_source(config, keys[i]));
        }
    }
}

static void budget_show(const struct snp_run_budget *budget)
{
    if (budget->iterations > 0) {
        (void)printf("  Max Iterations: %lld\n", (long long)budget->iterations);
    }
    (void)printf("  Max Depth: %lld\n  Token Budget: %lld\n  Tool Budget: %lld\n",
                 (long long)budget->max_depth, (long long)budget->tokens,
                 (long long)budget->tool_calls);
    if (budget->cost_usd < 0) {
        (void)puts("  Cost Limit: none");
    } else {
        (void)printf("  Cost Limit: %g USD\n", budget->cost_usd);
    }
    (void)printf("  Timeout: %llds\n", (long long)(budget->wall_ms / MS));
}

void snp_run_notes_show(const struct snp_front *front, const struct snp_run_budget *budget)
{
    const struct snp_config *config = front->config;
    const char *slug = snp_config_str(config, SNP_KEY_SNIPARA_PROJECT_SLUG);
    char stronger[SNP_TIER_NAME_MAX + 1];

    (void)puts("Effective Configuration:");
    model_show(front);
    snp_term_printf(stdout, "  Backend: %s\n  Environment: %s\n",
                    snp_config_str(config, SNP_KEY_BACKEND),
                    snp_config_str(config, SNP_KEY_ENVIRONMENT));
    budget_show(budget);
    if (slug != NULL) {
        snp_term_printf(stdout, "  Snipara Project: %s\n", slug);
    }
    snp_run_tools_show(front->opts, config);
    origins_show(config, budget->iterations > 0);
    if (snp_cli_tier_stronger(config, stronger)) {
        snp_cli_warn(front->cli, "%s is weaker than %s (%s); see docs/reference/cli.md, doctor",
                     snp_config_str(config, SNP_KEY_ENVIRONMENT), stronger,
                     snp_config_source(config, SNP_KEY_ENVIRONMENT));
    }
}

/* The folder of records --------------------------------------------------------------------- */

/* Whether the folder, or its existing part, is below the working directory; false if unknown. */
static bool is_inside(const char *dir)
{
    char part[PATH_MAX];
    char real[PATH_MAX];
    char cwd[PATH_MAX];
    int len = snprintf(part, sizeof(part), "%s", dir);
    size_t n;

    if (len <= 0 || (size_t)len >= sizeof(part) || getcwd(cwd, sizeof(cwd)) == NULL) {
        return false;
    }
    while (realpath(part, real) == NULL) {
        char *slash = strrchr(part, '/');
        const char *last = slash == NULL ? part : slash + 1;

        if (errno != ENOENT || strcmp(last, "..") == 0) {
            return false;
        }
        if (slash == NULL) {
            return true; /* a new name in the working directory */
        }
        part[slash == part ? 1 : slash - part] = '\0';
    }
    n = strlen(cwd);
    return strncmp(real, cwd, n) == 0 && (real[n] == '\0' || real[n] == '/' || n == 1);
}

/* The kind and owner of a folder that is there. */
static int folder_check(const struct snp_front *front, const char *dir, struct snp_err *err)
{
    struct stat link;
    struct stat st;

    if (lstat(dir, &link) < 0 || stat(dir, &st) < 0 ||
        (S_ISLNK(link.st_mode) && !snp_config_is_chosen(front->config, SNP_KEY_LOG_DIR))) {
        return 0; /* it is created with 0700, or the error is reported then */
    }
    if ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "the folder of records, %.200s, is world-writable (mode %04o); run chmod "
                        "o-w on it, or use another --log-dir",
                        dir, (unsigned)(st.st_mode & 07777));
    }
    if (S_ISLNK(link.st_mode)) {
        char real[PATH_MAX];

        snp_cli_warn(front->cli,
                     "the folder of records, %.200s, is a symbolic link; records go to %.200s", dir,
                     realpath(dir, real) == NULL ? "where it leads" : real);
    }
    if (st.st_uid != geteuid()) {
        snp_cli_warn(front->cli, "the folder of records, %.200s, is not yours (uid %u)", dir,
                     (unsigned)st.st_uid);
    } else if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        snp_cli_warn(front->cli,
                     "the folder of records, %.200s, is writable by others (mode %04o), who can "
                     "remove records; run chmod go-w on it",
                     dir, (unsigned)(st.st_mode & 07777));
    }
    return 0;
}

int snp_run_notes_logs(const struct snp_front *front, struct snp_err *err)
{
    const char *dir = snp_config_str(front->config, SNP_KEY_LOG_DIR);
    enum snp_config_origin origin = snp_config_origin(front->config, SNP_KEY_LOG_DIR);

    if ((origin == SNP_ORIGIN_FILE || origin == SNP_ORIGIN_DOTENV) && !is_inside(dir)) {
        snp_cli_warn(front->cli, "records go to %.200s, outside the working directory (%.200s)",
                     dir, snp_config_source(front->config, SNP_KEY_LOG_DIR));
    }
    return folder_check(front, dir, err);
}
