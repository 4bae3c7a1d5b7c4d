/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts. */
#include "run/attempt.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static void put(json_t **place, json_t *value)
{
    json_decref(*place);
    *place = value;
}

void snp_run_attempt_done(struct snp_run_attempt *attempt)
{
    json_decref(attempt->hypothesis);
    json_decref(attempt->invariant);
    *attempt = (struct snp_run_attempt){0};
}

/* The line of text that begins with word, ignoring marks of emphasis; NULL: none. */
static json_t *line_of(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    while (at != NULL && at > text && strchr("\n*_#- \t", at[-1]) == NULL) {
        at = strstr(at + 1, word);
    }
    return at == NULL ? NULL : snp_json_bytes(at, strcspn(at, "\n"));
}

void snp_run_attempt_text(struct snp_run_attempt *attempt, const char *text)
{
    json_t *hypothesis = line_of(text, "HYPOTHESIS:");
    json_t *invariant = line_of(text, "INVARIANT:");

    if (hypothesis != NULL) {
        put(&attempt->hypothesis, hypothesis);
        attempt->has_next_hypothesis = attempt->is_over;
    }
    if (invariant != NULL) {
        put(&attempt->invariant, invariant);
        attempt->has_next_invariant = attempt->is_over;
    }
    attempt->was_explained =
        attempt->was_explained ||
        (!attempt->has_changed && attempt->hypothesis != NULL && attempt->invariant != NULL);
}

static bool is_cache(const char *path)
{
    return path == NULL || strstr(path, "__pycache__") != NULL ||
           strstr(path, ".pytest_cache") != NULL;
}

static bool has_files(const json_t *files, const char *member)
{
    const json_t *list = json_object_get(files, member);
    bool has = false;

    for (size_t i = 0; i < json_array_size(list); i++) {
        has = has || !is_cache(json_string_value(json_array_get(list, i)));
    }
    return has;
}

/* Whether the call's text has the command, or its runner. */
static bool is_named(const char *text, const char *command)
{
    static const char *const runners[] = {"pytest", "unittest", "node --test"};
    bool is = strstr(text, command) != NULL;

    for (size_t i = 0; i < SNP_ARRAY_LEN(runners) && !is; i++) {
        is = strstr(command, runners[i]) != NULL && strstr(text, runners[i]) != NULL;
    }
    return is;
}

void snp_run_attempt_call(struct snp_run_attempt *attempt,
                          const json_t *repair,
                          const json_t *call,
                          const json_t *files)
{
    const json_t *commands = json_object_get(repair, "test");
    const json_t *arguments = json_object_get(call, "arguments");
    const char *key;
    json_t *value;

    for (size_t i = 0; i < json_array_size(commands) && !attempt->has_changed; i++) {
        const char *command = json_string_value(json_array_get(commands, i));

        json_object_foreach((json_t *)(uintptr_t)arguments, key, value)
        {
            attempt->was_run = attempt->was_run || (command != NULL && json_is_string(value) &&
                                                    is_named(json_string_value(value), command));
        }
    }
    attempt->has_changed = attempt->has_changed || has_files(files, "created") ||
                           has_files(files, "modified") || has_files(files, "deleted");
}

void snp_run_attempt_end(struct snp_run_attempt *attempt)
{
    attempt->is_over = true;
    attempt->has_next_hypothesis = false;
    attempt->has_next_invariant = false;
}

void snp_run_attempt_next(struct snp_run_attempt *attempt)
{
    struct snp_run_attempt next = {.n = attempt->n + 1};

    if (attempt->has_next_hypothesis) {
        next.hypothesis = SNP_TAKE_PTR(attempt->hypothesis);
    }
    if (attempt->has_next_invariant) {
        next.invariant = SNP_TAKE_PTR(attempt->invariant);
    }
    next.was_explained = next.hypothesis != NULL && next.invariant != NULL;
    snp_run_attempt_done(attempt);
    *attempt = next;
}

json_t *snp_run_attempt_json(const struct snp_run_attempt *attempt)
{
    return json_pack("{s:I, s:O?, s:O?, s:b, s:b}", "attempt", (json_int_t)attempt->n + 1,
                     "hypothesis", attempt->hypothesis, "invariant", attempt->invariant,
                     "explained_before_edit", attempt->was_explained, "reproduced_before_edit",
                     attempt->was_run);
}
