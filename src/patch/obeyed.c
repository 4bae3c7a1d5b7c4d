/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are compared without case, because file systems may ignore case.
 *
 * Tools run or obey these files when a folder is opened or entered, a commit made, a branch pushed
 * or a package installed. A Makefile or a test is not listed: like any source, it runs on request.
 */
#include "patch/obeyed.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/macro.h"

/* A pattern with a "/" matches the end of a path, a pattern without one matches a name. */
struct obeyed_rule {
    const char *pattern;
    const char *why;
};

static const char by_hooks[] = "version control runs or obeys it";
static const char by_shell[] = "a shell runs it automatically";
static const char by_editor[] = "editors run or obey it automatically";
static const char by_model[] = "AI assistants obey it automatically";
static const char by_ci[] = "it runs on the machines that build the project";
static const char by_package[] = "package managers and build tools run or obey it automatically";
static const char by_checker[] =
    "test runners, linters and formatters run or obey it automatically";
static const char by_python[] = "every start of Python runs it";
static const char secret[] = "a file of secrets";

static const struct obeyed_rule rules[] = {
    {".gitattributes", by_hooks},
    {".gitmodules", by_hooks},
    {".gitconfig", by_hooks},
    {"HEAD", by_hooks}, /* git treats a folder with this file as a repository */
    {".githooks/*", by_hooks},
    {".husky/*", by_hooks},
    {".overcommit.yml", by_hooks},
    {".pre-commit-config.y*ml", by_hooks},
    {".pre-commit-hooks.y*ml", by_hooks},
    {"lefthook*.y*ml", by_hooks},
    {"lefthook*.toml", by_hooks},
    {"lefthook*.json", by_hooks},
    {".lefthook*", by_hooks},
    {".lefthook/*", by_hooks},
    {".lintstagedrc*", by_hooks},
    {"lint-staged.config.*", by_hooks},
    {".simple-git-hooks.*", by_hooks},
    {"simple-git-hooks.*", by_hooks},
    {".huskyrc*", by_hooks},
    {".czrc", by_hooks},
    {".commitlintrc*", by_hooks},
    {"commitlint.config.*", by_hooks},
    {".hgrc", by_hooks},
    {"hgrc", by_hooks},
    {".envrc", by_shell},
    {".autoenv*", by_shell},
    {".bashrc", by_shell},
    {".bash_*", by_shell},
    {".profile", by_shell},
    {".inputrc", by_shell},
    {".zsh*", by_shell},
    {".zprofile", by_shell},
    {".zlogin", by_shell},
    {".kshrc", by_shell},
    {".cshrc", by_shell},
    {".tcshrc", by_shell},
    {"config.fish", by_shell},
    {".tmux.conf", by_shell},
    {".screenrc", by_shell},
    {".mise.toml", by_shell},
    {".mise.*.toml", by_shell},
    {"mise.toml", by_shell},
    {"mise.*.toml", by_shell},
    {".mise/*", by_shell},
    {".rtx.toml", by_shell},
    {".tool-versions", by_shell},
    {".nvmrc", by_shell},
    {".node-version", by_shell},
    {".python-version", by_shell},
    {".ruby-version", by_shell},
    {".sdkmanrc", by_shell},
    {"devenv.nix", by_shell},
    {"devbox.json", by_shell},
    {"shell.nix", by_shell},
    {"flake.nix", by_shell},
    {".vscode/*", by_editor},
    {".idea/*", by_editor},
    {"*.iml", by_editor},
    {".fleet/*", by_editor},
    {".zed/*", by_editor},
    {".helix/*", by_editor},
    {".nova/*", by_editor},
    {".theia/*", by_editor},
    {".vs/*", by_editor},
    {"*.code-workspace", by_editor},
    {"*.sublime-project", by_editor},
    {".devcontainer/*", by_editor},
    {".devcontainer.json", by_editor},
    {".gitpod.*", by_editor},
    {"devfile.y*ml", by_editor},
    {".replit", by_editor},
    {".vimrc", by_editor},
    {".gvimrc", by_editor},
    {".exrc", by_editor},
    {".nvim.lua", by_editor},
    {".nvimrc", by_editor},
    {".lvimrc", by_editor},
    {".local.vimrc", by_editor},
    {".dir-locals*.el", by_editor},
    {".emacs*", by_editor},
    {".gdbinit", by_editor},
    {".lldbinit", by_editor},
    {".pdbrc*", by_editor},
    {".ipython/*", by_editor},
    {".jupyter/*", by_editor},
    {"snipara-sandbox.toml", by_model},
    {"rlm.toml", by_model},
    {".snipara/*", by_model},
    {".mcp.json", by_model},
    {"mcp.json", by_model},
    {".cursor/*", by_model},
    {".cursorrules", by_model},
    {".cursorignore", by_model},
    {".claude/*", by_model},
    {"CLAUDE*.md", by_model},
    {"AGENTS*.md", by_model},
    {"AGENT.md", by_model},
    {"GEMINI.md", by_model},
    {".gemini/*", by_model},
    {".codex/*", by_model},
    {".windsurf/*", by_model},
    {".windsurfrules", by_model},
    {".clinerules*", by_model},
    {".clinerules/*", by_model},
    {".roo/*", by_model},
    {".roomodes", by_model},
    {".roorules*", by_model},
    {".continue/*", by_model},
    {".continuerules", by_model},
    {".aider*", by_model},
    {".amazonq/*", by_model},
    {".kiro/*", by_model},
    {".junie/*", by_model},
    {".goosehints", by_model},
    {".opencode/*", by_model},
    {"opencode.json*", by_model},
    {"copilot-instructions.md", by_model},
    {".rules", by_model},
    {".github/*", by_ci},
    {".gitlab-ci.y*ml", by_ci},
    {".gitlab/*", by_ci},
    {".gitea/*", by_ci},
    {".forgejo/*", by_ci},
    {".circleci/*", by_ci},
    {".buildkite/*", by_ci},
    {".teamcity/*", by_ci},
    {".semaphore/*", by_ci},
    {".travis.y*ml", by_ci},
    {".drone.y*ml", by_ci},
    {".cirrus.y*ml", by_ci},
    {".cirrus.star", by_ci},
    {".woodpecker*", by_ci},
    {".woodpecker/*", by_ci},
    {".builds/*", by_ci},
    {".build.yml", by_ci},
    {"azure-pipelines*.y*ml", by_ci},
    {"bitbucket-pipelines.y*ml", by_ci},
    {"cloudbuild*.y*ml", by_ci},
    {"buildspec*.y*ml", by_ci},
    {"codefresh.y*ml", by_ci},
    {"wercker.yml", by_ci},
    {"appveyor.y*ml", by_ci},
    {".appveyor.y*ml", by_ci},
    {"Jenkinsfile*", by_ci},
    {".ci/*", by_ci},
    {".readthedocs.y*ml", by_ci},
    {"renovate.json*", by_ci},
    {".renovaterc*", by_ci},
    {"netlify.toml", by_ci},
    {"vercel.json", by_ci},
    {".npmrc", by_package},
    {".yarnrc*", by_package},
    {".yarn/*", by_package},
    {".pnp.*", by_package},
    {".pnpmfile.*", by_package},
    {"pnpm-workspace.y*ml", by_package},
    {"bunfig.toml", by_package},
    {".bunfig.toml", by_package},
    {"pip.conf", by_package},
    {"pip.ini", by_package},
    {"uv.toml", by_package},
    {".condarc", by_package},
    {".cargo/*", by_package},
    {"build.rs", by_package},
    {"rust-toolchain*", by_package},
    {".bazelrc", by_package},
    {".bazelversion", by_package},
    {".buckconfig*", by_package},
    {".bundle/*", by_package},
    {".gemrc", by_package},
    {".mvn/*", by_package},
    {"gradle.properties", by_package},
    {"init.gradle*", by_package},
    {"gradle/wrapper/*", by_package},
    {".sbtopts", by_package},
    {".jvmopts", by_package},
    {".Rprofile", by_package},
    {".Renviron", by_package},
    {".irbrc", by_package},
    {".pryrc", by_package},
    {".node_repl_history", by_package},
    {".php.ini", by_package},
    {".user.ini", by_package},
    {".htaccess", by_package},
    {"node_modules/*", by_package},
    {".venv/*", by_package},
    {"venv/*", by_package},
    {".direnv/*", by_package},
    {".eslintrc*", by_checker},
    {"eslint.config.*", by_checker},
    {".prettierrc*", by_checker},
    {"prettier.config.*", by_checker},
    {".stylelintrc*", by_checker},
    {"stylelint.config.*", by_checker},
    {".babelrc*", by_checker},
    {"babel.config.*", by_checker},
    {"postcss.config.*", by_checker},
    {".postcssrc*", by_checker},
    {"tailwind.config.*", by_checker},
    {".swcrc", by_checker},
    {".mocharc*", by_checker},
    {"jest.config.*", by_checker},
    {"vitest.config.*", by_checker},
    {"vite.config.*", by_checker},
    {"webpack.config.*", by_checker},
    {"rollup.config.*", by_checker},
    {"biome.json*", by_checker},
    {".pylintrc", by_checker},
    {"pylintrc", by_checker},
    {".flake8", by_checker},
    {".coveragerc", by_checker},
    {".rubocop*", by_checker},
    {".rspec", by_checker},
    {".simplecov", by_checker},
    {".clang-tidy", by_checker},
    {".clangd", by_checker},
    {".golangci.*", by_checker},
    {".phpcs*", by_checker},
    {"sitecustomize.py", by_python},
    {"usercustomize.py", by_python},
    {"*.pth", by_python},
    {"pyvenv.cfg", by_python},
    {".env", secret},
    {".env.*", secret},
    {"*.pem", secret},
    {"*.key", secret},
    {"id_rsa*", secret},
    {"id_ed25519*", secret},
    {"id_ecdsa*", secret},
    {".netrc", secret},
    {"_netrc", secret},
    {".pypirc", secret},
    {".pgpass", secret},
    {".my.cnf", secret},
    {".git-credentials", secret},
    {".aws/*", secret},
    {".ssh/*", secret},
    {".gnupg/*", secret},
    {".kube/*", secret},
    {".docker/*", secret},
    {"credentials*.json", secret},
};

static bool rule_fits(const char *pattern, const char *path)
{
    /* A pattern with several parts may begin at any folder of the path. */
    bool is_deep = strchr(pattern, '/') != NULL;

    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/' ? 1 : 0;
        if (fnmatch(pattern, at, FNM_CASEFOLD | (is_deep ? 0 : FNM_PATHNAME)) == 0) {
            return true;
        }
    }
    return false;
}

const char *snp_obeyed_by(const char *path)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(rules); i++) {
        if (rule_fits(rules[i].pattern, path)) {
            return rules[i].why;
        }
    }
    return NULL;
}
