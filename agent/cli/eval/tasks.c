/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks. Three shapes become one: HumanEval's, MBPP's, and that of SWE-bench with a folder for
 * a repository.
 */
#include "cli/eval/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/input.h"
#include "base/cli/need.h"
#include "base/str.h"

enum {
    FILE_MAX_BYTES = 256 << 20,
    TEXT_MAX = 4 << 20,
};

void snp_tasks_done(struct snp_tasks *tasks)
{
    json_decref(tasks->list);
    json_decref(tasks->samples);
}

bool snp_task_is_repair(const json_t *task)
{
    return json_object_get(task, "repo") != NULL;
}

/* The first member that is a text; NULL: none is. */
static const char *text_of(const json_t *line, const char *const *names)
{
    const char *text = NULL;

    for (; *names != NULL && text == NULL; names++) {
        text = snp_json_str(line, *names, NULL);
    }
    return text;
}

/*
 * An array of texts, or, as in SWE-bench, a text that is such an array in JSON. New reference, or
 * NULL.
 */
static json_t *list_of(const json_t *line, const char *name)
{
    const json_t *value = json_object_get(line, name);
    const char *text = json_string_value(value);
    struct snp_err ignored;
    json_t *list = NULL;

    if (text != NULL) {
        return snp_json_parse_any(text, strlen(text), &list, &ignored) < 0 ? NULL : list;
    }
    return json_is_array(value) ? json_incref((json_t *)(uintptr_t)value) : NULL;
}

/* The texts of an array, each as a line. */
static char *lines_of(const json_t *list)
{
    snp_autobuf struct snp_buf out = SNP_BUF(TEXT_MAX);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));

        (void)!snp_buf_addf(&out, "%s\n", text == NULL ? "" : text);
    }
    return snp_need_copy(snp_need(snp_buf_cstr(&out)));
}

/* NULL: the object has none of the three shapes. */
static json_t *task_make(const json_t *line, const char *folder)
{
    static const char *const ids[] = {"task_id", "instance_id", NULL};
    static const char *const prompts[] = {"prompt", "text", "problem_statement", NULL};
    const json_t *number = json_object_get(line, "task_id");
    const char *repo = snp_json_str(line, "repo", NULL);
    const char *id = text_of(line, ids);
    snp_autofree char *own = json_is_integer(number)
                                 ? snp_need_format("%lld", (long long)json_integer_value(number))
                                 : NULL;
    snp_autojson json_t *tests = list_of(line, "test_list");
    snp_autojson json_t *imports = list_of(line, "test_imports");
    json_t *fail = list_of(line, "FAIL_TO_PASS");

    id = id == NULL ? own : id;
    if (id == NULL || text_of(line, prompts) == NULL) {
        json_decref(fail);
        return NULL;
    }
    if (repo != NULL && fail != NULL) {
        snp_autofree char *path =
            repo[0] == '/' ? snp_need_copy(repo) : snp_need_format("%s/%s", folder, repo);

        return json_pack("{s:s, s:s, s:s, s:o, s:o?, s:s}", "id", id, "prompt",
                         text_of(line, prompts), "repo", path, "test", fail, "regress",
                         list_of(line, "PASS_TO_PASS"), "command",
                         snp_json_str(line, "test_cmd", "python3 -m pytest -q"));
    }
    json_decref(fail);
    if (snp_json_str(line, "entry_point", NULL) != NULL &&
        snp_json_str(line, "test", NULL) != NULL) {
        return json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", id, "prompt",
                         snp_json_str(line, "prompt", ""), "setup",
                         snp_json_str(line, "prompt", ""), "test", snp_json_str(line, "test", ""),
                         "entry", snp_json_str(line, "entry_point", ""));
    }
    if (tests != NULL) {
        snp_autofree char *text = lines_of(tests);
        snp_autofree char *head = lines_of(imports);
        snp_autofree char *setup =
            snp_need_format("%s%s", head, snp_json_str(line, "test_setup_code", ""));
        snp_autofree char *prompt = snp_need_format("%s\nYour code should pass these tests:\n%s",
                                                    text_of(line, prompts), text);

        return json_pack("{s:s, s:s, s:s, s:s, s:n}", "id", id, "prompt", prompt, "setup", setup,
                         "test", text, "entry");
    }
    return NULL;
}

/* Each line of a file. */
struct task_reader {
    struct snp_tasks *tasks;
    const char *folder;
    int (*take)(struct task_reader *all, const json_t *line);
};

static int task_take(struct task_reader *all, const json_t *line)
{
    json_t *task = task_make(line, all->folder);

    return task == NULL ? -1 : json_array_append_new(all->tasks->list, task);
}

static int sample_take(struct task_reader *all, const json_t *line)
{
    static const char *const texts[] = {"completion", "model_patch", "code", NULL};
    static const char *const ids[] = {"task_id", "instance_id", NULL};
    const json_t *number = json_object_get(line, "task_id");
    const char *id = text_of(line, ids);
    snp_autofree char *own = json_is_integer(number)
                                 ? snp_need_format("%lld", (long long)json_integer_value(number))
                                 : NULL;
    const char *text = text_of(line, texts);
    json_t *list = NULL;

    id = id == NULL ? own : id;
    if (id == NULL || text == NULL) {
        return -1;
    }
    list = json_object_get(all->tasks->samples, id);
    if (list == NULL) {
        list = json_array();
        (void)json_object_set_new(all->tasks->samples, id, list);
    }
    return json_array_append_new(list, json_string(text));
}

static int lines_read(const char *path, struct task_reader *all, struct snp_err *err)
{
    snp_autofree char *text = NULL;
    char hash[SNP_PATCH_HASH_LEN + 1] = "";
    char both[(2 * SNP_PATCH_HASH_LEN) + 1];
    size_t n = 0;
    size_t number = 1;

    SNP_TRY(snp_read_input(path, FILE_MAX_BYTES, &text, &n, err));
    if (snp_patch_hash(text, n, hash) < 0) {
        return snp_fail(err, SNP_E_SYS, "no SHA-256");
    }
    (void)snprintf(both, sizeof(both), "%s%s", all->tasks->sha256, hash);
    (void)!snp_patch_hash(both, strlen(both), all->tasks->sha256);
    for (char *at = text; *at != '\0'; number++) {
        snp_autojson json_t *line = NULL;
        size_t len = strcspn(at, "\n");

        if (strspn(at, " \t\r\n") < len) {
            if (snp_json_parse(at, len, &line, err) < 0) {
                return snp_err_wrap(err, "%.100s, line %zu", path, number);
            }
            if (all->take(all, line) < 0) {
                return snp_fail(err, SNP_E_INVALID,
                                "%.100s, line %zu has none of the known shapes "
                                "(docs/reference/eval.md)",
                                path, number);
            }
        }
        at += len + (at[len] == '\n' ? 1 : 0);
    }
    return 0;
}

int snp_tasks_read(const char *path, struct snp_tasks *ret, struct snp_err *err)
{
    snp_autofree char *real = realpath(path, NULL);
    struct task_reader all = {.tasks = ret, .take = task_take};
    char *slash;

    *ret = (struct snp_tasks){.list = snp_need(json_array()), .samples = snp_need(json_object())};
    if (real == NULL) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no such file: %.150s", path);
    }
    slash = strrchr(real, '/');
    *slash = '\0';
    all.folder = real;
    SNP_TRY(lines_read(path, &all, err));
    return json_array_size(ret->list) > 0
               ? 0
               : snp_fail(err, SNP_E_INVALID, "%.100s has no tasks", path);
}

int snp_tasks_samples(const char *path, struct snp_tasks *tasks, struct snp_err *err)
{
    struct task_reader all = {.tasks = tasks, .take = sample_take};

    return lines_read(path, &all, err);
}
