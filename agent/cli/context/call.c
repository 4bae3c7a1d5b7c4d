/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `context call`: convert a tool call to the words of another verb. The caller is a model: no
 * argument can become an option that is not listed here. The words run in this process, so they do
 * not show in lists of processes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/input.h"
#include "base/cli/need.h"
#include "base/str.h"
#include "cli/context/context.h"

enum {
    INPUT_MAX = 1 << 20,
    WORDS_MAX = 24,
    CALL_ARGS = 5,
};

const struct snp_verb *const *snp_context_verbs;
bool snp_context_is_call;

struct call_arg {
    const char *name;
    const char *option; /* NULL: the words after the options */
};

static const struct tool_call {
    const char *tool; /* without its prefix */
    const char *verb;
    struct call_arg args[CALL_ARGS];
} calls[] = {
    {"context_query",
     "query",
     {{"query", NULL},
      {"max_tokens", "--max-tokens"},
      {"search_mode", "--mode"},
      {"file", "--file"}}},
    {"search", "search", {{"pattern", NULL}, {"max_results", "--max-results"}}},
    {"read", "read", {{"file", NULL}}},
    {"sections", "sections", {{"filter", NULL}, {"limit", "--limit"}, {"offset", "--offset"}}},
    {"shared_context", "standards", {{"categories", "--category"}, {"max_tokens", "--max-tokens"}}},
};

static const struct tool_call *call_find(const char *name)
{
    name += snp_has_prefix(name, "snipara_") ? 8 : snp_has_prefix(name, "rlm_") ? 4 : 0;
    for (size_t i = 0; i < SNP_ARRAY_LEN(calls); i++) {
        if (snp_streq(calls[i].tool, name)) {
            return &calls[i];
        }
    }
    return NULL;
}

struct argument_list {
    char *items[WORDS_MAX + 1]; /* owned */
    size_t n;
};

static void words_done(struct argument_list *words)
{
    for (size_t i = 0; i < words->n; i++) {
        free(words->items[i]);
    }
}

/* word: consumed. Dropped if there is no room. */
static void word_add(struct argument_list *words, char *word)
{
    if (words->n == WORDS_MAX) {
        free(word);
        return;
    }
    words->items[words->n++] = word;
}

/* A string or an integer as text; NULL: another type. */
static char *value_text(const json_t *value)
{
    return json_is_integer(value) ? snp_need_format("%lld", (long long)json_integer_value(value))
           : json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value)
               ? snp_need_copy(json_string_value(value))
               : NULL;
}

/* A path of the run's session as a path of the project. */
static char *path_of(const char *path)
{
    return snp_need_copy(snp_has_prefix(path, "/workspace/") ? path + strlen("/workspace/") : path);
}

static void option_add(struct argument_list *words, const char *option, const json_t *value)
{
    snp_autofree char *text = value_text(value);
    size_t i;
    json_t *one;

    if (text != NULL && snp_streq(option, "--file")) {
        snp_autofree char *path = path_of(text);

        word_add(words, snp_need_format("%s=%s", option, path));
    } else if (text != NULL) {
        word_add(words, snp_need_format("%s=%s", option, text));
    }
    json_array_foreach((json_t *)(uintptr_t)value, i, one)
    {
        option_add(words, option, json_is_string(one) ? one : NULL);
    }
}

/* FILE:A-B */
static char *lines_of(const json_t *arguments, const char *file)
{
    long long first = (long long)snp_json_int(arguments, "start_line", 1);
    snp_autofree char *path = path_of(file);

    return json_object_get(arguments, "end_line") == NULL
               ? snp_need_format("%s:%lld", path, first)
               : snp_need_format("%s:%lld-%lld", path, first,
                                 (long long)snp_json_int(arguments, "end_line", 0));
}

static void words_make(const struct tool_call *call,
                       const json_t *arguments,
                       struct argument_list *words)
{
    snp_autofree char *rest = NULL;

    for (size_t i = 0; i < CALL_ARGS && call->args[i].name != NULL; i++) {
        const json_t *value = json_object_get(arguments, call->args[i].name);

        if (call->args[i].option == NULL) {
            rest = value_text(value);
        } else if (value != NULL) {
            option_add(words, call->args[i].option, value);
        }
    }
    if (snp_streq(call->verb, "query") && json_object_get(arguments, "max_tokens") == NULL) {
        word_add(words, snp_need_copy("--max-tokens=2000"));
    }
    if (snp_streq(call->verb, "standards")) {
        word_add(words,
                 snp_need_copy(snp_json_bool(arguments, "include_content", true) ? "--content"
                                                                                 : "--no-content"));
    }
    if (rest != NULL) {
        word_add(words, snp_need_copy("--"));
        word_add(words,
                 snp_streq(call->verb, "read") ? lines_of(arguments, rest) : snp_need_copy(rest));
    }
}

int snp_context_call(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct tool_call *call = call_find(snp_opts_arg(opts, 0));
    const char *dir = snp_opts_str(opts, "dir");
    snp_cleanup(words_done) struct argument_list words = {.n = 0};
    snp_autojson json_t *arguments = NULL;
    snp_autofree char *text = NULL;
    struct snp_err err;
    size_t n = 0;
    int r;

    if (call == NULL) {
        return snp_cli_usage(cli, "TOOL is context_query, search, read, sections or "
                                  "shared_context");
    }
    r = snp_read_input(snp_opts_n_args(opts) > 1 ? snp_opts_arg(opts, 1) : "-", INPUT_MAX, &text,
                       &n, &err);
    SNP_THEN(r, snp_json_parse(text, n, &arguments, &err));
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    word_add(&words, snp_need_copy("snipara-sandbox"));
    word_add(&words, snp_need_copy("context"));
    word_add(&words, snp_need_copy(call->verb));
    if (dir != NULL) {
        word_add(&words, snp_need_format("--dir=%s", dir));
    }
    if (cli->is_json) {
        word_add(&words, snp_need_copy("--json"));
    }
    words_make(call, arguments, &words);
    snp_context_is_call = true;
    return snp_cli_run(snp_context_verbs, (int)words.n, words.items);
}
