/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: precedence between all sources, every type from each of them, .env, TOML. */
#include "base/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/config/allow.h"
#include "base/config/dotenv.h"
#include "base/config/toml.h"
#include "base/fd.h"
#include "base/str.h"
#include "model/route.h"
#include "unit/harness.h"

enum {
    ENV_MAX = 8,
    PATH_BYTES = 256
};

/* A folder of its own per test, and the request that sees only it. */
struct fixture {
    char dir[64];
    const char *vars[ENV_MAX + 1];
    struct snp_config_request request;
};

static const char *path_of(const struct fixture *fix, const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", fix->dir, name);
    return path;
}

static void put(const struct fixture *fix, const char *name, const char *text)
{
    struct snp_err err;
    assert_int_equal(snp_file_write_atomic(path_of(fix, name), text, strlen(text), 0600, &err), 0);
}

static void make_dir(const struct fixture *fix, const char *name)
{
    struct snp_err err;
    assert_int_equal(snp_mkdir_p(path_of(fix, name), 0700, &err), 0);
}

static void begin(struct fixture *fix)
{
    *fix = (struct fixture){.dir = "/tmp/snp-config-test-XXXXXX"};
    assert_non_null(mkdtemp(fix->dir));
    make_dir(fix, ".git"); /* the search for .env ends here */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    assert_int_equal(setenv("SNIPARA_SANDBOX_STATE_DIR", path_of(fix, "state"), 1), 0);
    fix->request = (struct snp_config_request){.cwd = fix->dir, .environ = fix->vars};
}

static void end(const struct fixture *fix)
{
    static const char *const names[] = {"sub/deep/.env",
                                        "sub/deep",
                                        "sub/.git",
                                        "sub/.env",
                                        "sub/snipara-sandbox.toml",
                                        "sub",
                                        ".env",
                                        ".git",
                                        "snipara-sandbox.toml",
                                        "rlm.toml",
                                        "state",
                                        "other.toml"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        (void)remove(path_of(fix, names[i])); /* most are not there */
    }
    assert_int_equal(rmdir(fix->dir), 0);
}

static struct snp_config *load(const struct fixture *fix)
{
    struct snp_config *config = NULL;
    struct snp_err err;
    if (snp_config_load(&fix->request, &config, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return config;
}

/* Loading fails with the code, and the message holds both parts. */
static void refused(const struct fixture *fix, int code, const char *part, const char *other)
{
    struct snp_config *config = NULL;
    struct snp_err err;
    assert_int_equal(snp_config_load(&fix->request, &config, &err), code);
    assert_null(config);
    assert_null(strchr(err.msg, '\n'));
    if (strstr(err.msg, part) == NULL || strstr(err.msg, other) == NULL) {
        fail_msg("no '%s' or '%s' in: %s", part, other, err.msg);
    }
}

/* One variable, or one line of the file, that must be refused. */
static void refused_env(const char *variable, const char *part, const char *other)
{
    struct fixture fix;
    begin(&fix);
    fix.vars[0] = variable;
    refused(&fix, SNP_E_INVALID, part, other);
    end(&fix);
}

static void refused_file(const char *line, const char *part, const char *other)
{
    struct fixture fix;
    char text[256];
    begin(&fix);
    (void)snprintf(text, sizeof(text), "[snipara_sandbox]\n%s\n", line);
    put(&fix, "snipara-sandbox.toml", text);
    refused(&fix, SNP_E_INVALID, part, other);
    end(&fix);
}

TEST(defaults_are_the_documented_ones)
{
    struct fixture fix;
    begin(&fix);
    snp_autoconfig struct snp_config *config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_BACKEND), "litellm");
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "gpt-4o-mini");
    assert_string_equal(snp_config_str(config, SNP_KEY_ENVIRONMENT), "auto");
    assert_string_equal(snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_SETUP), "none");
    assert_null(snp_config_str(config, SNP_KEY_API_KEY));
    assert_null(snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_PATH));
    assert_int_equal(snp_config_int(config, SNP_KEY_MAX_DEPTH), 30);
    assert_int_equal(snp_config_int(config, SNP_KEY_TIMEOUT_SECONDS), 900);
    assert_true(snp_config_float(config, SNP_KEY_SUB_CALLS_BUDGET_INHERITANCE) == 0.5);
    assert_true(snp_config_bool(config, SNP_KEY_SUB_CALLS_ENABLED));
    assert_false(snp_config_bool(config, SNP_KEY_MEMORY_ENABLED));
    assert_string_equal(snp_config_source(config, SNP_KEY_MODEL), "default");
    assert_null(snp_config_file(config));
    assert_null(snp_config_env_file(config));
    end(&fix);
}

TEST(limits_of_the_table_of_keys_are_those_of_the_table_of_limits)
{
    struct fixture fix;
    begin(&fix);
    snp_autoconfig struct snp_config *config = load(&fix);
    struct snp_limits limits;
    struct snp_limits fallback;
    snp_config_limits(config, &limits);
    snp_limits_default(&fallback);
    assert_memory_equal(&limits, &fallback, sizeof(limits));
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct snp_limit_info *row = snp_limit_info((enum snp_limit)i);
        assert_int_equal(snp_config_key_from_name(row->key), SNP_KEY_OF_LIMIT(i));
    }
    end(&fix);
}

TEST(every_key_has_both_prefixes_and_a_name_of_its_own)
{
    for (int i = SNP_KEY_NONE + 1; i < SNP_KEY_N; i++) {
        const struct snp_config_info *info = snp_config_info((enum snp_config_key)i);
        int n_new = 0;
        int n_old = 0;
        assert_int_equal(snp_config_key_from_name(info->name), i);
        for (size_t at = 0; at < SNP_CONFIG_ENV_NAMES && info->env[at] != NULL; at++) {
            n_new += snp_has_prefix(info->env[at], "SNIPARA_SANDBOX_") ? 1 : 0;
            n_old += snp_has_prefix(info->env[at], "RLM_") ? 1 : 0;
        }
        assert_int_equal(n_new, 1);
        assert_int_equal(n_old, 1);
    }
    assert_int_equal(snp_config_key_from_name("no_such_key"), SNP_KEY_NONE);
}

/*
 * Every pair of sources: bits of a number say which of them hold the key, the strongest must win.
 * Model "s0" comes from the weakest source, "s5" from the strongest. A .env that nobody has trusted
 * overrides no variable of the process, by none of its names.
 */
TEST(precedence_holds_for_every_combination_of_sources)
{
    enum {
        N_SOURCES = 6
    };
    static const char *const env_lines[] = {"RLM_MODEL=s1", "SNIPARA_SANDBOX_MODEL=s2"};
    for (unsigned bits = 0; bits < 1U << N_SOURCES; bits++) {
        struct fixture fix;
        size_t n = 0;
        char text[128];
        begin(&fix);
        if ((bits & 1) != 0) {
            put(&fix, "snipara-sandbox.toml", "[snipara_sandbox]\nmodel = \"s0\"\n");
        }
        /* .env: the legacy name (s1) and the new one (s2); the process's: s3 and s4 */
        (void)snprintf(text, sizeof(text), "%s\n%s\n", (bits & 2) != 0 ? env_lines[0] : "",
                       (bits & 4) != 0 ? env_lines[1] : "");
        put(&fix, ".env", text);
        if ((bits & 8) != 0) {
            fix.vars[n++] = "RLM_MODEL=s3";
        }
        if ((bits & 16) != 0) {
            fix.vars[n++] = "SNIPARA_SANDBOX_MODEL=s4";
        }
        snp_autoconfig struct snp_config *config = load(&fix);
        if ((bits & 32) != 0) {
            struct snp_err err;
            assert_int_equal(snp_config_set(config, SNP_KEY_MODEL, "s5", "--model", &err), 0);
        }
        const char *expected = "gpt-4o-mini";
        static const char *const names[] = {"s0", "s1", "s2", "s3", "s4", "s5"};
        for (unsigned i = 0; i < N_SOURCES; i++) {
            expected = (bits & 1U << i) != 0 ? names[i] : expected;
        }
        assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), expected);
        end(&fix);
    }
}

TEST(every_value_knows_its_source)
{
    struct fixture fix;
    struct snp_err err;
    begin(&fix);
    put(&fix, "snipara-sandbox.toml", "[snipara_sandbox]\nmodel = \"m\"\nmax_depth = 5\n");
    put(&fix, ".env", "RLM_TEMPLATE=data\n");
    fix.vars[0] = "SNIPARA_SANDBOX_MEMORY=1g";
    snp_autoconfig struct snp_config *config = load(&fix);
    assert_int_equal(snp_config_set(config, SNP_KEY_OF_LIMIT(SNP_LIMIT_CPUS), "2", "--cpus", &err),
                     0);
    char expected[PATH_BYTES + 8];
    assert_string_equal(snp_config_source(config, SNP_KEY_MODEL),
                        path_of(&fix, "snipara-sandbox.toml"));
    (void)snprintf(expected, sizeof(expected), ".env: %s", path_of(&fix, ".env"));
    assert_string_equal(snp_config_source(config, SNP_KEY_TEMPLATE), expected);
    assert_string_equal(snp_config_source(config, SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY)),
                        "SNIPARA_SANDBOX_MEMORY");
    assert_string_equal(snp_config_source(config, SNP_KEY_OF_LIMIT(SNP_LIMIT_CPUS)), "--cpus");
    assert_int_equal(snp_config_origin(config, SNP_KEY_TEMPLATE), SNP_ORIGIN_DOTENV);
    assert_int_equal(snp_config_origin(config, SNP_KEY_MODEL), SNP_ORIGIN_FILE);
    snp_autojson json_t *explicit_limits = snp_config_limits_explicit(config);
    assert_int_equal(json_object_size(explicit_limits), 1);
    assert_int_equal(snp_json_int(explicit_limits, "cpus_milli", 0), 2000);
    end(&fix);
}

/* In the replaced product the file won over the environment, and these lists were errors. */
TEST(lists_of_the_environment_are_comma_lists_or_json)
{
    static const struct {
        const char *variable;
        size_t n;
        const char *second;
    } cases[] = {
        {"SNIPARA_SANDBOX_ALLOWED_PATHS=/a,/b", 2, "/b"},
        {"RLM_ALLOWED_PATHS= /a , /with blank ,", 2, "/with blank"},
        {"SNIPARA_SANDBOX_ALLOWED_PATHS=[\"/a\", \"/c,d\"]", 2, "/c,d"},
        {"SNIPARA_SANDBOX_ALLOWED_PATHS=/only", 1, NULL},
        {"SNIPARA_SANDBOX_ALLOWED_PATHS=", 0, NULL},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        struct fixture fix;
        const char *const *items = NULL;
        begin(&fix);
        fix.vars[0] = cases[i].variable;
        fix.vars[1] = "SNIPARA_SANDBOX_DOCKER_WORKSPACE_INSTALL_EXTRAS=fastapi redis,rich";
        snp_autoconfig struct snp_config *config = load(&fix);
        assert_int_equal(snp_config_list(config, SNP_KEY_ALLOWED_PATHS, &items), cases[i].n);
        if (cases[i].n == 2) {
            assert_string_equal(items[1], cases[i].second);
            assert_null(items[2]);
        }
        assert_int_equal(snp_config_list(config, SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS, &items),
                         3);
        assert_string_equal(items[2], "rich");
        end(&fix);
    }
}

TEST(wrong_types_in_the_environment_name_key_source_and_expectation)
{
    refused_env("SNIPARA_SANDBOX_MAX_DEPTH=deep", "max_depth from SNIPARA_SANDBOX_MAX_DEPTH: ",
                "expected a whole number, got 'deep'");
    refused_env("RLM_TEMPERATURE=hot", "temperature from RLM_TEMPERATURE: ", "expected a number");
    refused_env("RLM_VERBOSE=maybe", "verbose from RLM_VERBOSE: ", "expected true or false");
    refused_env("SNIPARA_SANDBOX_BACKEND=bard", "expected one of litellm, openai, anthropic",
                "'bard'");
    refused_env("SNIPARA_SANDBOX_ENVIRONMENT=moon", ", wasm, vm", "'moon'");
    refused_env("SNIPARA_SANDBOX_ALLOWED_PATHS=[1]", "allowed_paths", "item 1 is 1");
    refused_env("SNIPARA_SANDBOX_ALLOWED_PATHS=[\"a\"", "comma list or a JSON array",
                "allowed_paths");
    refused_env("SNIPARA_SANDBOX_MEMORY=lots", "memory from SNIPARA_SANDBOX_MEMORY",
                "a size such as 512m");
    refused_env("RLM_MODEL=\xff\xfe", "model from RLM_MODEL", "UTF-8");
}

TEST(wrong_types_in_the_file_name_key_file_and_expectation)
{
    refused_file("max_depth = \"deep\"", "max_depth in /tmp/",
                 "expected a whole number, got 'deep'");
    refused_file("max_depth = 4.5", "max_depth in /tmp/", "got 4.5");
    refused_file("model = 5", "model in /tmp/", "expected text, got 5");
    refused_file("model = [\"a\"]", "model in /tmp/", "got a list");
    refused_file("verbose = 2", "verbose in /tmp/", "expected true or false, got 2");
    refused_file("allowed_paths = 7", "allowed_paths in /tmp/", "expected a list of texts");
    refused_file("allowed_paths = [\"a\", 7]", "allowed_paths in /tmp/", "item 2 is 7");
    refused_file("log_dir = 2024-01-01", "log_dir in /tmp/", "got a date");
    refused_file("temperature = inf", "temperature in /tmp/", "got a date, time, infinity or NaN");
    refused_file("memory = true", "memory in /tmp/", "got true");
    refused_file("model = \"a\\u0000b\"", "model in /tmp/", "NUL");
}

TEST(out_of_range_names_the_range)
{
    refused_env("SNIPARA_SANDBOX_MAX_DEPTH=0", "max_depth", "1 to 10000");
    refused_env("RLM_SUB_CALLS_BUDGET_INHERITANCE=1.5", "sub_calls_budget_inheritance", "0 to 1");
    refused_env("SNIPARA_SANDBOX_TIMEOUT=601", "SNIPARA_SANDBOX_TIMEOUT", "0.05 s to 600 s");
    refused_file("memory = \"1k\"", "memory in /tmp/", "16 MiB to 1 TiB");
    refused_file("processes = -1", "processes in /tmp/", "whole number");
}

TEST(secrets_are_never_repeated)
{
    struct fixture fix;
    begin(&fix);
    put(&fix, "other.toml", "[snipara_sandbox]\napi_key = \"sk-secret\"\n");
    fix.request.config_path = "other.toml";
    fix.vars[0] = "SNIPARA_API_KEY=rlm-secret";
    fix.vars[1] = "SNIPARA_PROJECT_SLUG=demo";
    snp_autoconfig struct snp_config *config = load(&fix);
    snp_autojson json_t *object = snp_config_to_json(config);
    snp_autofree char *text = snp_json_text(object);
    assert_null(strstr(text, "secret"));
    assert_true(snp_json_bool(object, "api_key_set", false));
    assert_true(snp_json_bool(object, "snipara_api_key_set", false));
    assert_true(snp_json_bool(object, "snipara_enabled", false));
    assert_null(json_object_get(object, "api_key"));
    end(&fix);
}

TEST(numbers_and_booleans_may_be_written_as_text)
{
    struct fixture fix;
    begin(&fix);
    fix.request.config_path = "other.toml";
    put(&fix, "other.toml",
        "[snipara_sandbox]\nmax_depth = \"5\"\nverbose = \"Yes\"\nparallel_tools = 1\n"
        "temperature = 1\ntool_budget = 7.0\ntimeout = 1.5\nmemory = 33554432\ncpus = \"0.5\"\n"
        "docker_workspace_install_extras = \"a b, c\"\n");
    snp_autoconfig struct snp_config *config = load(&fix);
    struct snp_limits limits;
    const char *const *items = NULL;
    snp_config_limits(config, &limits);
    assert_int_equal(snp_config_int(config, SNP_KEY_MAX_DEPTH), 5);
    assert_int_equal(snp_config_int(config, SNP_KEY_TOOL_BUDGET), 7);
    assert_true(snp_config_bool(config, SNP_KEY_VERBOSE));
    assert_true(snp_config_bool(config, SNP_KEY_PARALLEL_TOOLS));
    assert_true(snp_config_float(config, SNP_KEY_TEMPERATURE) == 1.0);
    assert_int_equal(limits.value[SNP_LIMIT_WALL], 1500);
    assert_int_equal(limits.value[SNP_LIMIT_MEMORY], 33554432);
    assert_int_equal(limits.value[SNP_LIMIT_CPUS], 500);
    assert_int_equal(snp_config_list(config, SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS, &items), 3);
    end(&fix);
}

TEST(files_and_tables_are_found_in_the_documented_order)
{
    struct fixture fix;
    begin(&fix);
    put(&fix, "rlm.toml", "[rlm]\nmodel = \"legacy\"\n");
    struct snp_config *config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "legacy");
    snp_config_free(config);

    put(&fix, "snipara-sandbox.toml", "[rlm]\nmodel = \"old table\"\n");
    config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "old table");
    snp_config_free(config);

    put(&fix, "snipara-sandbox.toml", "[rlm]\nmodel = \"a\"\n[snipara_sandbox]\nmodel = \"b\"\n");
    config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "b");
    snp_config_free(config);

    put(&fix, "other.toml", "[snipara_sandbox]\nmodel = \"named\"\n");
    fix.request.config_path = "./other.toml";
    config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "named");
    assert_string_equal(snp_config_file(config), path_of(&fix, "other.toml"));
    snp_config_free(config);

    fix.request.config_path = "missing.toml";
    refused(&fix, SNP_E_NOT_FOUND, "missing.toml", "configuration");
    end(&fix);
}

TEST(malformed_toml_names_file_line_and_column)
{
    struct fixture fix;
    begin(&fix);
    put(&fix, "snipara-sandbox.toml", "[snipara_sandbox]\nmodel = \"a\"\nmax_depth = = 5\n");
    refused(&fix, SNP_E_INVALID, "/snipara-sandbox.toml:3:13: ", "");
    put(&fix, "snipara-sandbox.toml", "[snipara_sandbox]\nmodel = \"a\"\nmodel = \"b\"\n");
    refused(&fix, SNP_E_INVALID, "/snipara-sandbox.toml:3:", "model");
    /* what the TOML library itself would abort on */
    put(&fix, "snipara-sandbox.toml",
        "[snipara_sandbox]\nmodel = \"\xc3\xa9\"\n  [[[a]]]\nx = 1\n");
    refused(&fix, SNP_E_INVALID, "/snipara-sandbox.toml:3:5: ", "unexpected character");
    put(&fix, "snipara-sandbox.toml", "snipara_sandbox = 5\n");
    refused(&fix, SNP_E_INVALID, "snipara_sandbox", "expected a table");
    end(&fix);
}

TEST(unknown_keys_are_passed_over_with_a_warning)
{
    struct fixture fix;
    const char *const *lines = NULL;
    begin(&fix);
    put(&fix, "snipara-sandbox.toml",
        "[snipara_sandbox]\nmodle = \"x\"\nqqqqqqqqqqqqqqq = 1\n[tool]\na = 1\n");
    struct snp_config *config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "gpt-4o-mini");
    assert_int_equal(snp_config_warnings(config, &lines), 2);
    bool first = strstr(lines[0], "modle") != NULL;
    assert_true(snp_has_suffix(lines[first ? 0 : 1], "unknown key 'modle'; did you mean model?"));
    assert_true(snp_has_suffix(lines[first ? 1 : 0], "unknown key 'qqqqqqqqqqqqqqq'"));
    snp_config_free(config);
    put(&fix, "snipara-sandbox.toml", "model = \"x\"\n");
    config = load(&fix);
    assert_int_equal(snp_config_warnings(config, &lines), 1);
    assert_non_null(strstr(lines[0], "no table [snipara_sandbox]"));
    snp_config_free(config);
    end(&fix);
}

TEST(docker_keys_stand_in_for_limits_that_are_not_set)
{
    struct fixture fix;
    struct snp_limits limits;
    begin(&fix);
    put(&fix, "snipara-sandbox.toml",
        "[snipara_sandbox]\ndocker_timeout = 7\ndocker_memory = \"64m\"\ncpus = 0.5\n"
        "docker_cpus = 0.25\n");
    struct snp_config *config = load(&fix);
    snp_config_limits(config, &limits);
    assert_int_equal(limits.value[SNP_LIMIT_WALL], 7000);
    assert_int_equal(limits.value[SNP_LIMIT_MEMORY], 64 << 20);
    assert_int_equal(limits.value[SNP_LIMIT_CPUS], 500);
    assert_true(snp_has_prefix(snp_config_source(config, SNP_KEY_OF_LIMIT(SNP_LIMIT_WALL)),
                               "docker_timeout: /tmp/"));
    snp_config_free(config);
    fix.vars[0] = "RLM_TIMEOUT=9";
    fix.vars[1] = "RLM_DOCKER_CPUS=0.1"; /* what the user lowered so, a file does not raise */
    config = load(&fix);
    snp_config_limits(config, &limits);
    assert_int_equal(limits.value[SNP_LIMIT_WALL], 9000);
    assert_int_equal(limits.value[SNP_LIMIT_CPUS], 100);
    snp_config_free(config);
    put(&fix, "snipara-sandbox.toml", "[snipara_sandbox]\ndocker_memory = \"plenty\"\n");
    fix.request.config_path = "snipara-sandbox.toml";
    refused(&fix, SNP_E_INVALID, "docker_memory: /tmp/", "a size such as 512m");
    end(&fix);
}

TEST(a_flag_that_is_refused_leaves_the_old_value)
{
    struct fixture fix;
    struct snp_err err;
    begin(&fix);
    snp_autoconfig struct snp_config *config = load(&fix);
    assert_int_equal(snp_config_set(config, SNP_KEY_MAX_DEPTH, "0", "--max-depth", &err),
                     SNP_E_INVALID);
    assert_true(snp_has_prefix(err.msg, "--max-depth: 0 is out of range"));
    assert_int_equal(snp_config_int(config, SNP_KEY_MAX_DEPTH), 30);
    assert_string_equal(snp_config_source(config, SNP_KEY_MAX_DEPTH), "default");
    end(&fix);
}

TEST(dotenv_is_searched_upwards_until_a_repository_ends)
{
    struct fixture fix;
    begin(&fix);
    make_dir(&fix, "sub/deep");
    put(&fix, ".env", "RLM_MODEL=top\n");
    char cwd[PATH_BYTES];
    (void)snprintf(cwd, sizeof(cwd), "%s", path_of(&fix, "sub/deep"));
    fix.request.cwd = cwd;
    struct snp_config *config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "top");
    snp_config_free(config);

    put(&fix, "sub/.git", "gitdir: elsewhere\n"); /* a worktree's .git is a file */
    config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "gpt-4o-mini");
    snp_config_free(config);

    put(&fix, "sub/.env", "RLM_MODEL=sub\n");
    config = load(&fix);
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "sub");
    snp_config_free(config);

    /* with --config the search starts beside that file */
    put(&fix, "sub/snipara-sandbox.toml", "");
    fix.request.cwd = fix.dir;
    fix.request.config_path = "sub/snipara-sandbox.toml";
    config = load(&fix);
    assert_string_equal(snp_config_env_file(config), path_of(&fix, "sub/.env"));
    snp_config_free(config);
    end(&fix);
}

TEST(dotenv_never_hides_or_changes_the_process_environment)
{
    struct fixture fix;
    begin(&fix);
    put(&fix, ".env",
        "SNP_TEST_ONLY_HERE=dotenv\nSNP_TEST_BOTH=dotenv\nSNIPARA_SANDBOX_MODEL=dotenv\n");
    fix.vars[0] = "SNP_TEST_BOTH=process";
    fix.vars[1] = "SNIPARA_SANDBOX_MODEL=";
    snp_autoconfig struct snp_config *config = load(&fix);
    assert_string_equal(snp_config_env_any(config, "SNP_TEST_ONLY_HERE"), "dotenv");
    assert_null(snp_config_env(config, "SNP_TEST_ONLY_HERE")); /* nobody has trusted the file */
    assert_string_equal(snp_config_env(config, "SNP_TEST_BOTH"), "process");
    assert_null(snp_config_env(config, "SNP_TEST"));
    /* an empty variable hides the line of .env, and itself sets nothing */
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "gpt-4o-mini");
    for (char **var = environ; *var != NULL; var++) {
        assert_false(snp_has_prefix(*var, "SNP_TEST_ONLY_HERE="));
    }
    end(&fix);
}

/* The column `trust`: what a stranger's file may set, from either file, and what it may not. */
TEST(untrusted_files_widen_nothing)
{
    static const struct {
        const char *line;
        enum snp_config_key key;
        bool is_used;
    } cases[] = {
        {"model = \"anthropic/claude-x\"", SNP_KEY_MODEL, true},
        {"model = \"replay/answers\"", SNP_KEY_MODEL, false},
        {"model = \"ollama_chat/llama\"", SNP_KEY_MODEL, false},
        {"model = \"nobody/llama\"", SNP_KEY_MODEL, false},
        {"model = \"mistral-large\"", SNP_KEY_MODEL, true},
        {"max_subcalls = 0", SNP_KEY_MAX_SUBCALLS, false},
        {"tool_budget = 0", SNP_KEY_TOOL_BUDGET, false},
        {"sub_calls_max_per_turn = 0", SNP_KEY_SUB_CALLS_MAX_PER_TURN, true},
        {"backend = \"litellm\"", SNP_KEY_BACKEND, true},
        {"backend = \"anthropic\"", SNP_KEY_BACKEND, false},
        {"environment = \"local\"", SNP_KEY_ENVIRONMENT, false},
        {"environment = \"native\"", SNP_KEY_ENVIRONMENT, true},
        {"docker_memory = \"513m\"", SNP_KEY_DOCKER_MEMORY, false},
        {"docker_memory = \"64m\"", SNP_KEY_DOCKER_MEMORY, true},
        {"memory = \"20g\"", SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY), false},
        {"token_budget = 400001", SNP_KEY_TOKEN_BUDGET, false},
        {"token_budget = 399999", SNP_KEY_TOKEN_BUDGET, true},
        {"sub_calls_max_cost_per_session = 1.1", SNP_KEY_SUB_CALLS_MAX_COST_PER_SESSION, false},
        {"transaction = false", SNP_KEY_TRANSACTION, false},
        {"require_exact = true", SNP_KEY_REQUIRE_EXACT, true},
        {"checkpoint = \"cell\"", SNP_KEY_CHECKPOINT, true},
        {"checkpoint = \"off\"", SNP_KEY_CHECKPOINT, false},
        {"log_dir = \"a/..b\"", SNP_KEY_LOG_DIR, true},
        {"log_dir = \"a/../../b\"", SNP_KEY_LOG_DIR, false},
        {"log_dir = \"/tmp/b\"", SNP_KEY_LOG_DIR, false},
        {"base_url = \"http://x\"", SNP_KEY_BASE_URL, false},
        {"record_file = \"r\"", SNP_KEY_RECORD_FILE, false},
        {"context_embeddings = \"openai/e\"", SNP_KEY_CONTEXT_EMBEDDINGS, false},
        {"price_file = \"r\"", SNP_KEY_PRICE_FILE, false},
        {"api_key = \"sk\"", SNP_KEY_API_KEY, false},
        {"snipara_base_url = \"http://x\"", SNP_KEY_SNIPARA_BASE_URL, false},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        struct fixture fix;
        char text[256];
        size_t n = strcspn(cases[i].line, " ");
        begin(&fix);
        (void)snprintf(text, sizeof(text), "[snipara_sandbox]\n%s\n", cases[i].line);
        put(&fix, "snipara-sandbox.toml", text);
        (void)snprintf(text, sizeof(text), "%s=%s\n", snp_config_info(cases[i].key)->env[0],
                       cases[i].line + n + 3);
        put(&fix, ".env", text);
        struct snp_config *config = load(&fix);
        snp_autofree char *toml = snp_config_ignored(config, SNP_FILE_TOML, true);
        snp_autofree char *dotenv = snp_config_ignored(config, SNP_FILE_DOTENV, true);
        bool is_named = toml != NULL && dotenv != NULL &&
                        strstr(toml, snp_config_info(cases[i].key)->name) != NULL &&
                        strstr(dotenv, snp_config_info(cases[i].key)->env[0]) != NULL;
        if (is_named == cases[i].is_used || (toml == NULL) != cases[i].is_used) {
            fail_msg("%s: %s", cases[i].line, toml == NULL ? "let through" : toml);
        }
        if (!cases[i].is_used) {
            assert_int_equal(snp_config_origin(config, cases[i].key), SNP_ORIGIN_DEFAULT);
        }
        snp_config_free(config);
        fix.request.config_path = "snipara-sandbox.toml"; /* the user's word */
        config = load(&fix);
        assert_int_not_equal(snp_config_origin(config, cases[i].key), SNP_ORIGIN_DEFAULT);
        snp_config_free(config);
        end(&fix);
    }
}

/* The list of allow.c is of the providers that have an address of their own, with TLS. */
TEST(untrusted_files_choose_models_of_well_known_addresses_only)
{
    const struct snp_model_route *route;
    size_t n = 0;
    for (size_t i = 0; (route = snp_model_route_at(i)) != NULL; i++) {
        bool is_https = route->base_url != NULL && snp_has_prefix(route->base_url, "https://");
        snp_autojson json_t *model = json_sprintf("%s/m", route->name);
        assert_int_equal(snp_config_is_harmless(SNP_KEY_MODEL, model), is_https);
        n += is_https ? 1 : 0;
    }
    assert_true(n > 5);
}

/* What the process says under another name of the key is not the file's to take back. */
TEST(an_untrusted_dotenv_overrides_no_variable_of_the_process)
{
    static const char text[] =
        "SNIPARA_SANDBOX_REQUIRE_EXACT=false\nSNIPARA_SANDBOX_MODEL=gpt-4o\n";
    struct fixture fix;
    begin(&fix);
    put(&fix, ".env", text);
    fix.vars[0] = "RLM_REQUIRE_EXACT=true";
    struct snp_config *config = load(&fix);
    assert_true(snp_config_bool(config, SNP_KEY_REQUIRE_EXACT));
    assert_string_equal(snp_config_str(config, SNP_KEY_MODEL), "gpt-4o");
    snp_config_free(config);
    fix.vars[0] = NULL;
    config = load(&fix);
    assert_false(snp_config_bool(config, SNP_KEY_REQUIRE_EXACT));
    snp_config_free(config);
    end(&fix);
}

/* Nor is what a file says that the user has trusted; but a limit may be lowered. */
TEST(an_untrusted_dotenv_takes_back_nothing_of_a_trusted_file)
{
    static const struct {
        const char *toml;
        const char *dotenv;
        enum snp_config_key key;
        bool is_used;
    } cases[] = {
        {"require_exact = true", "SNIPARA_SANDBOX_REQUIRE_EXACT=false", SNP_KEY_REQUIRE_EXACT,
         false},
        {"model = \"ollama/x\"", "SNIPARA_SANDBOX_MODEL=gpt-4o", SNP_KEY_MODEL, false},
        {"memory = \"128m\"", "SNIPARA_SANDBOX_MEMORY=256m", SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY),
         false},
        {"memory = \"128m\"", "SNIPARA_SANDBOX_DOCKER_MEMORY=256m",
         SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY), false},
        {"memory = \"128m\"", "SNIPARA_SANDBOX_DOCKER_MEMORY=64m",
         SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY), true},
        {"max_depth = 3", "RLM_MAX_DEPTH=2", SNP_KEY_MAX_DEPTH, true},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        struct fixture fix;
        char text[256];
        begin(&fix);
        (void)snprintf(text, sizeof(text), "[snipara_sandbox]\n%s\n", cases[i].toml);
        put(&fix, "other.toml", text);
        put(&fix, ".env", cases[i].dotenv);
        fix.request.config_path = "other.toml"; /* the user's word */
        snp_autoconfig struct snp_config *config = load(&fix);
        enum snp_config_origin origin = snp_config_origin(config, cases[i].key);
        if ((origin == SNP_ORIGIN_DOTENV) != cases[i].is_used) {
            fail_msg("%s, %s", cases[i].toml, cases[i].dotenv);
        }
        end(&fix);
    }
}

static void count_warning(void *arg, unsigned line, const char *what)
{
    unsigned *lines = arg;
    assert_non_null(what);
    *lines = *lines * 100 + line;
}

TEST(dotenv_lines_are_read_as_a_shell_would)
{
    static const char text[] = "# comment\n"
                               "\n"
                               "PLAIN=value\r\n"
                               "  export   EXPORTED=yes # comment\n"
                               "SINGLE='a # $b \"c\"'\n"
                               "DOUBLE=\"a \\\"b\\\" \\n # c\" # comment\n"
                               "EQUALS=a=b=c\n"
                               "HASH=a#b\n"
                               "EMPTY=\n"
                               "BLANKS=  a b  \n"
                               "JOINED=a'b c'\"d\"\n"
                               "ESCAPED=a\\ \\#b\n"
                               "TWICE=1\n"
                               "TWICE=2\n"
                               "LAST=no newline";
    static const struct {
        const char *name;
        const char *value;
    } expected[] = {
        {"PLAIN", "value"},
        {"EXPORTED", "yes"},
        {"SINGLE", "a # $b \"c\""},
        {"DOUBLE", "a \"b\" \\n # c"},
        {"EQUALS", "a=b=c"},
        {"HASH", "a#b"},
        {"EMPTY", ""},
        {"BLANKS", "a b"},
        {"JOINED", "ab cd"},
        {"ESCAPED", "a #b"},
        {"TWICE", "2"},
        {"LAST", "no newline"},
    };
    unsigned warned = 0;
    struct snp_err err;
    snp_autojson json_t *vars = NULL;
    assert_int_equal(snp_dotenv_parse(text, sizeof(text) - 1, count_warning, &warned, &vars, &err),
                     0);
    assert_int_equal(warned, 0);
    assert_int_equal(json_object_size(vars), SNP_ARRAY_LEN(expected));
    for (size_t i = 0; i < SNP_ARRAY_LEN(expected); i++) {
        assert_string_equal(snp_json_str(vars, expected[i].name, "(absent)"), expected[i].value);
    }
}

TEST(dotenv_lines_that_make_no_sense_are_skipped_and_counted)
{
    static const char text[] = "no equals\nGOOD=1\n=x\n1BAD=2\nOPEN='abc\nBYTES=\xff\n";
    unsigned warned = 0;
    struct snp_err err;
    snp_autojson json_t *vars = NULL;
    assert_int_equal(snp_dotenv_parse(text, sizeof(text) - 1, count_warning, &warned, &vars, &err),
                     0);
    assert_int_equal(warned, 103040506);
    assert_int_equal(json_object_size(vars), 1);
    assert_string_equal(snp_json_str(vars, "GOOD", ""), "1");
}

TEST(toml_becomes_json_of_the_same_shape)
{
    static const char text[] = "i = -5\nf = 0.5\nb = true\ns = \"\\u00e9\"\nd = 2024-01-01\n"
                               "a = [1, [\"x\"]]\n[t.u]\nv = 'w'\n";
    struct snp_toml_fault fault = {0};
    snp_autojson json_t *document = NULL;
    assert_int_equal(snp_toml_parse(text, sizeof(text) - 1, &document, &fault), 0);
    snp_autojson json_t *expected =
        json_pack("{s:i, s:f, s:b, s:s, s:n, s:[i, [s]], s:{s:{s:s}}}", "i", -5, "f", 0.5, "b", 1,
                  "s", "\xc3\xa9", "d", "a", 1, "x", "t", "u", "v", "w");
    assert_int_equal(json_equal(document, expected), 1);
}

RUN(UNIT(defaults_are_the_documented_ones),
    UNIT(limits_of_the_table_of_keys_are_those_of_the_table_of_limits),
    UNIT(every_key_has_both_prefixes_and_a_name_of_its_own),
    UNIT(precedence_holds_for_every_combination_of_sources),
    UNIT(every_value_knows_its_source),
    UNIT(lists_of_the_environment_are_comma_lists_or_json),
    UNIT(wrong_types_in_the_environment_name_key_source_and_expectation),
    UNIT(wrong_types_in_the_file_name_key_file_and_expectation),
    UNIT(out_of_range_names_the_range),
    UNIT(secrets_are_never_repeated),
    UNIT(numbers_and_booleans_may_be_written_as_text),
    UNIT(files_and_tables_are_found_in_the_documented_order),
    UNIT(malformed_toml_names_file_line_and_column),
    UNIT(unknown_keys_are_passed_over_with_a_warning),
    UNIT(docker_keys_stand_in_for_limits_that_are_not_set),
    UNIT(a_flag_that_is_refused_leaves_the_old_value),
    UNIT(dotenv_is_searched_upwards_until_a_repository_ends),
    UNIT(dotenv_never_hides_or_changes_the_process_environment),
    UNIT(untrusted_files_widen_nothing),
    UNIT(untrusted_files_choose_models_of_well_known_addresses_only),
    UNIT(an_untrusted_dotenv_overrides_no_variable_of_the_process),
    UNIT(an_untrusted_dotenv_takes_back_nothing_of_a_trusted_file),
    UNIT(dotenv_lines_are_read_as_a_shell_would),
    UNIT(dotenv_lines_that_make_no_sense_are_skipped_and_counted),
    UNIT(toml_becomes_json_of_the_same_shape))
