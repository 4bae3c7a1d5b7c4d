/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are compared without case, because a project may lie on a file system that does so.
 *
 * What has to be named: files that a tool runs or obeys when a folder is opened or entered, a commit made, a branch
 * pushed or a package installed. A Makefile or a test runs when somebody asks for it, as any source does.
 */
#include "repair/place.h"

#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/str.h"

enum {
    PATH_MAX_BYTES = 3000,
    PART_MAX = 255,
};

/* Folders of version control: their files run commands. */
static const char *const closed_folders[] = {".git", ".hg", ".svn", ".jj", ".bzr"};

static const char *const cache_folders[] = {"__pycache__",       ".pytest_cache", ".mypy_cache",
                                            ".ruff_cache",       ".cache",        ".hypothesis",
                                            ".ipynb_checkpoints"};

/* A pattern with a "/" is of the end of a path, one without of a name. */
struct rule {
    const char *pattern;
    const char *why;
};

static const char by_hooks[] = "version control runs or obeys it";
static const char by_shell[] = "a shell runs it by itself";
static const char by_editor[] = "editors and assistants run or obey it by themselves";
static const char by_ci[] = "it runs on the machines that build the project";
static const char by_package[] =
    "package managers and build tools run or obey it by themselves";
static const char by_python[] = "every start of Python runs it";
static const char secret[] = "a file of secrets";

static const struct rule rules[] = {
    {".gitattributes",          by_hooks  },
    {".gitmodules",             by_hooks  },
    {".gitconfig",              by_hooks  },
    {"HEAD",                    by_hooks  }, /* a folder with this is a repository to git */
    {".githooks/*",             by_hooks  },
    {".husky/*",                by_hooks  },
    {".pre-commit-config.y*ml", by_hooks  },
    {"lefthook*.y*ml",          by_hooks  },
    {".lefthook*.y*ml",         by_hooks  },
    {".lintstagedrc*",          by_hooks  },
    {".envrc",                  by_shell  },
    {".autoenv*",               by_shell  },
    {".bashrc",                 by_shell  },
    {".bash_*",                 by_shell  },
    {".profile",                by_shell  },
    {".zsh*",                   by_shell  },
    {".zprofile",               by_shell  },
    {".mise.toml",              by_shell  },
    {"mise.toml",               by_shell  },
    {".vscode/*",               by_editor },
    {".idea/*",                 by_editor },
    {".fleet/*",                by_editor },
    {".zed/*",                  by_editor },
    {".cursor/*",               by_editor },
    {".claude/*",               by_editor },
    {".mcp.json",               by_editor },
    {"*.code-workspace",        by_editor },
    {"*.sublime-project",       by_editor },
    {".devcontainer/*",         by_editor },
    {".devcontainer.json",      by_editor },
    {".vimrc",                  by_editor },
    {".exrc",                   by_editor },
    {".nvim.lua",               by_editor },
    {".nvimrc",                 by_editor },
    {".dir-locals*.el",         by_editor },
    {".gdbinit",                by_editor },
    {".lldbinit",               by_editor },
    {"snipara-sandbox.toml",    by_editor },
    {".eslintrc*",              by_editor },
    {"eslint.config.*",         by_editor },
    {".prettierrc*",            by_editor },
    {".pylintrc",               by_editor },
    {".github/*",               by_ci     },
    {".gitlab-ci.yml",          by_ci     },
    {".gitea/*",                by_ci     },
    {".forgejo/*",              by_ci     },
    {".circleci/*",             by_ci     },
    {".buildkite/*",            by_ci     },
    {".travis.yml",             by_ci     },
    {".drone.yml",              by_ci     },
    {".woodpecker*",            by_ci     },
    {".woodpecker/*",           by_ci     },
    {"azure-pipelines*.yml",    by_ci     },
    {"bitbucket-pipelines.yml", by_ci     },
    {"appveyor.yml",            by_ci     },
    {"Jenkinsfile*",            by_ci     },
    {".ci/*",                   by_ci     },
    {".npmrc",                  by_package},
    {".yarnrc*",                by_package},
    {".yarn/*",                 by_package},
    {".pnp.*",                  by_package},
    {".pnpmfile.cjs",           by_package},
    {"pip.conf",                by_package},
    {".cargo/*",                by_package},
    {".bazelrc",                by_package},
    {".bundle/*",               by_package},
    {".Rprofile",               by_package},
    {".irbrc",                  by_package},
    {"node_modules/*",          by_package},
    {".venv/*",                 by_package},
    {"venv/*",                  by_package},
    {"sitecustomize.py",        by_python },
    {"usercustomize.py",        by_python },
    {"*.pth",                   by_python },
    {".env",                    secret    },
    {".env.*",                  secret    },
    {"*.pem",                   secret    },
    {"*.key",                   secret    },
    {"id_rsa*",                 secret    },
    {"id_ed25519*",             secret    },
    {".netrc",                  secret    },
    {".pypirc",                 secret    },
    {".aws/*",                  secret    },
    {".ssh/*",                  secret    },
    {"credentials*.json",       secret    },
};

/* Call for each part of a path until one answers true. */
static bool any_part(const char *path, bool (*is)(const char *part))
{
    char part[PART_MAX + 1];

    for (const char *at = path; *at != '\0';) {
        size_t n = strcspn(at, "/");

        if (n <= PART_MAX) {
            memcpy(part, at, n);
            part[n] = '\0';
            if (is(part)) {
                return true;
            }
        }
        at += n + (at[n] == '/' ? 1 : 0);
    }
    return false;
}

static bool is_of(const char *part, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(part, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_closed(const char *part)
{
    return is_of(part, closed_folders, SNP_ARRAY_LEN(closed_folders));
}

static bool is_cache(const char *part)
{
    return is_of(part, cache_folders, SNP_ARRAY_LEN(cache_folders));
}

bool snp_place_is_cache(const char *path)
{
    return any_part(path, is_cache) || snp_has_suffix(path, ".pyc");
}

bool snp_place_is_below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);

    while (n > 0 && prefix[n - 1] == '/') {
        n--;
    }
    return strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/' || n == 0);
}

bool snp_place_is_path(const char *path)
{
    size_t all = strlen(path);

    if (all == 0 || all > PATH_MAX_BYTES || path[all - 1] == '/') {
        return false;
    }
    for (const char *at = path;; at++) {
        size_t n = strcspn(at, "/");

        if (n == 0 || n > PART_MAX || (n == 1 && at[0] == '.') ||
            (n == 2 && at[0] == '.' && at[1] == '.')) {
            return false;
        }
        at += n;
        if (*at == '\0') {
            return true;
        }
    }
}

/* Nothing in it moves a cursor, ends a line or cannot be typed. */
static bool is_plain_text(const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            return false;
        }
    }
    return snp_utf8_valid(path, strlen(path));
}

/* A link may lead to a place of the project: relative, and never above its top. */
static bool leads_out(const char *path, const char *target)
{
    int depth = 0;

    for (const char *c = path; *c != '\0'; c++) {
        depth += *c == '/' ? 1 : 0;
    }
    for (const char *at = target; *at != '\0';) {
        size_t n = strcspn(at, "/");

        if (n == 2 && at[0] == '.' && at[1] == '.') {
            depth--;
        } else if (n > 0 && !(n == 1 && at[0] == '.')) {
            depth++;
        }
        if (depth < 0) {
            return true;
        }
        at += n + (at[n] == '/' ? 1 : 0);
    }
    return target[0] == '/' || target[0] == '\0';
}

static bool rule_fits(const char *pattern, const char *path)
{
    /* Any beginning of the path may stand before a pattern of several parts, and anything matches its end. */
    bool is_deep = strchr(pattern, '/') != NULL;

    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/' ? 1 : 0;
        if (fnmatch(pattern, at, FNM_CASEFOLD | (is_deep ? 0 : FNM_PATHNAME)) == 0) {
            return true;
        }
    }
    return false;
}

static const char *caution_of(const struct snp_patch_file *file)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(rules); i++) {
        if (rule_fits(rules[i].pattern, file->path)) {
            return rules[i].why;
        }
    }
    if (file->now.kind == SNP_PATCH_LINK && leads_out(file->path, file->now.target)) {
        return "a link that leads out of the project";
    }
    return NULL;
}

static const char *refusal_of(const struct snp_patch_file *file)
{
    const struct snp_patch_side *now = &file->now;

    if (!snp_place_is_path(file->path)) {
        return "not a path below the project";
    }
    if (!is_plain_text(file->path)) {
        return "its name has control characters, or is not UTF-8";
    }
    if (any_part(file->path, is_closed)) {
        return "it belongs to version control";
    }
    if (file->base.kind == SNP_PATCH_OTHER) {
        return "in the project it is a special file, unreadable, or behind a symbolic link";
    }
    if (file->base.kind == SNP_PATCH_FOLDER) {
        return "it is a folder in the project and none in the session";
    }
    if (now->kind == SNP_PATCH_FOLDER) {
        return "it is a folder in the session and none in the project";
    }
    if (now->kind == SNP_PATCH_OTHER) {
        return "it is a special file in the session";
    }
    return now->kind == SNP_PATCH_FILE && now->bytes == NULL
               ? "it is larger than 16 MiB, or has holes; copy it with get"
               : NULL;
}

void snp_place_judge(struct snp_patch_file *file)
{
    file->refusal = file->refusal == NULL ? refusal_of(file) : file->refusal;
    file->caution =
        file->caution == NULL && file->refusal == NULL ? caution_of(file) : file->caution;
}
