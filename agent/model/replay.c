/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay provider.
 *
 * A request uses the first unused turn that matches it, in the order of the file. So the same
 * requests in the same order get the same answers, independent of time and chance.
 */
#include "model/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "model/driver.h"

enum {
    FILE_MAX = 64 << 20,
    TURNS_MAX = 100000,
    DELAY_MAX_MS = 3600000,
    SHOWN = 80,
    FILE_MODE = 0600,
};

static const char header_type[] = "model_replay";

struct turn {
    json_t *value; /* owned */
    size_t line;
    bool is_used;
};

struct snp_replay {
    char *path;
    struct turn *turns;
    size_t n_turns;
    size_t n_asked;
    struct snp_replay *next;
};

/* Reading a script ------------------------------------------------------------------------ */

/* The members a turn may have, and their types. */
static const struct {
    const char *name;
    json_type type;
    json_type or_type;
} members[] = {
    {"_type", JSON_STRING, JSON_STRING},    {"label", JSON_STRING, JSON_STRING},
    {"contains", JSON_STRING, JSON_STRING}, {"repeat", JSON_TRUE, JSON_FALSE},
    {"content", JSON_STRING, JSON_NULL},    {"tool_calls", JSON_ARRAY, JSON_ARRAY},
    {"opaque", JSON_OBJECT, JSON_OBJECT},   {"stop", JSON_STRING, JSON_STRING},
    {"usage", JSON_OBJECT, JSON_OBJECT},    {"model", JSON_STRING, JSON_STRING},
    {"reply_id", JSON_STRING, JSON_STRING}, {"delay_ms", JSON_INTEGER, JSON_INTEGER},
    {"error", JSON_OBJECT, JSON_OBJECT},    {"note", JSON_STRING, JSON_STRING},
};

static int check_member(const char *name, const json_t *value, struct snp_err *err)
{
    const char *known[SNP_ARRAY_LEN(members)];

    for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
        known[i] = members[i].name;
        if (strcmp(name, members[i].name) == 0) {
            json_type type = json_typeof(value);
            return type == members[i].type || type == members[i].or_type
                       ? 0
                       : snp_fail(err, SNP_E_INVALID, "'%s' is of the wrong type", name);
        }
    }
    const char *nearest = snp_suggest(name, known, SNP_ARRAY_LEN(known));
    return snp_fail(err, SNP_E_INVALID, "a turn has no member '%.*s'%s%s", SHOWN, name,
                    nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest);
}

static int check_calls(const json_t *calls, struct snp_err *err)
{
    size_t i = 0;
    json_t *call = NULL;

    json_array_foreach(calls, i, call)
    {
        const json_t *arguments = json_object_get(call, "arguments");
        if (snp_json_str(call, "name", NULL) == NULL ||
            (arguments != NULL && !json_is_object(arguments) && !json_is_string(arguments))) {
            return snp_fail(err, SNP_E_INVALID,
                            "a tool call is {\"name\", \"arguments\": {...} or a string}");
        }
    }
    return 0;
}

/* The index of a word among n names. */
static int word_check(
    const char *word, const char *const *names, int n, const char *what, struct snp_err *err)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], word) == 0) {
            return i;
        }
    }
    return snp_fail(err, SNP_E_INVALID, "'%.*s' is not a valid %s", SHOWN, word, what);
}

static int stop_of(const json_t *turn, struct snp_err *err)
{
    return word_check(snp_json_str(turn, "stop", snp_model_stop_names[SNP_MODEL_STOP_END]),
                      snp_model_stop_names, SNP_MODEL_STOP_N, "stop", err);
}

static int failure_of(const json_t *error, struct snp_err *err)
{
    return word_check(snp_json_str(error, "failure", ""), snp_model_failure_names,
                      SNP_MODEL_FAILED_N, "failure", err);
}

static int check_turn(const json_t *turn, struct snp_err *err)
{
    const json_t *error = json_object_get(turn, "error");
    const char *name = NULL;
    json_t *value = NULL;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)turn, name, value)
    {
        r = check_member(name, value, err);
        if (r < 0) {
            return r;
        }
    }
    r = stop_of(turn, err);
    r = r < 0 || error == NULL ? r : failure_of(error, err);
    return r < 0 ? r : check_calls(json_object_get(turn, "tool_calls"), err);
}

static int add_turn(struct snp_replay *replay, json_t *value, size_t line, struct snp_err *err)
{
    if (replay->n_turns == TURNS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "more than %d turns", TURNS_MAX);
    }
    struct turn *grown = reallocarray(replay->turns, replay->n_turns + 1, sizeof(*grown));
    if (grown == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    replay->turns = grown;
    grown[replay->n_turns++] = (struct turn){.value = json_incref(value), .line = line};
    return 0;
}

static int read_line(
    struct snp_replay *replay, const char *text, size_t n, size_t line, struct snp_err *err)
{
    snp_autojson json_t *value = NULL;

    while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL) {
        n--;
    }
    if (n == 0) {
        return 0;
    }
    int r = snp_json_parse(text, n, &value, err);
    if (r == 0 && snp_streq(snp_json_str(value, "_type", NULL), header_type)) {
        return 0;
    }
    r = r < 0 ? r : check_turn(value, err);
    return r < 0 ? r : add_turn(replay, value, line, err);
}

int snp_replay_load(const char *path, struct snp_replay **ret, struct snp_err *err)
{
    struct snp_replay *replay = calloc(1, sizeof(*replay));
    snp_autofree char *text = NULL;
    size_t n = 0;
    size_t line = 0;

    if (replay == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    replay->path = strdup(path);
    int r = replay->path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                 : snp_file_read(path, FILE_MAX, &text, &n, err);
    for (size_t at = 0; r == 0 && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end == NULL ? n - at : (size_t)(end - (text + at));
        r = read_line(replay, text + at, len, ++line, err);
        r = r < 0 ? snp_err_wrap(err, "%s:%zu", path, line) : 0;
        at += len + 1;
    }
    if (r < 0) {
        snp_replay_free(replay);
        return r;
    }
    *ret = replay;
    return 0;
}

void snp_replay_free(struct snp_replay *replay)
{
    while (replay != NULL) {
        struct snp_replay *next = replay->next;

        for (size_t i = 0; i < replay->n_turns; i++) {
            json_decref(replay->turns[i].value);
        }
        free(replay->turns);
        free(replay->path);
        free(replay);
        replay = next;
    }
}

int snp_replay_open(struct snp_replay **list,
                    const char *path,
                    struct snp_replay **ret,
                    struct snp_err *err)
{
    struct snp_replay *replay = *list;

    while (replay != NULL && strcmp(replay->path, path) != 0) {
        replay = replay->next;
    }
    if (replay == NULL) {
        int r = snp_replay_load(path, &replay, err);
        if (r < 0) {
            return r;
        }
        replay->next = *list;
        *list = replay;
    }
    *ret = replay;
    return 0;
}

/* Answering ------------------------------------------------------------------------------- */

static bool fits(const json_t *turn, const struct snp_model_request *request)
{
    const char *label = snp_json_str(turn, "label", NULL);
    const char *contains = snp_json_str(turn, "contains", NULL);
    const json_t *last = json_array_get(request->messages, json_array_size(request->messages) - 1);

    if (label != NULL && strcmp(label, request->label == NULL ? "main" : request->label) != 0) {
        return false;
    }
    return contains == NULL || strstr(snp_model_content(last), contains) != NULL;
}

int snp_replay_take(struct snp_replay *replay,
                    const struct snp_model_request *request,
                    const json_t **ret,
                    struct snp_err *err)
{
    size_t n_left = 0;

    replay->n_asked++;
    for (size_t i = 0; i < replay->n_turns; i++) {
        struct turn *turn = &replay->turns[i];
        if (turn->is_used) {
            continue;
        }
        n_left++;
        if (fits(turn->value, request)) {
            turn->is_used = !snp_json_bool(turn->value, "repeat", false);
            *ret = turn->value;
            return 0;
        }
    }
    return snp_fail(err, SNP_E_NOT_FOUND,
                    "%s has no answer for request %zu (%s): of its %zu turns %zu are unused, "
                    "and none of those fits",
                    replay->path, replay->n_asked, request->label == NULL ? "main" : request->label,
                    replay->n_turns, n_left);
}

static void read_usage(const json_t *usage, struct snp_model_reply *reply)
{
    if (usage == NULL) {
        return;
    }
    reply->has_usage = true;
    reply->usage = (struct snp_model_usage){
        .input = snp_model_count(usage, "input"),
        .output = snp_model_count(usage, "output"),
        .cache_read = snp_model_count(usage, "cache_read"),
        .cache_write = snp_model_count(usage, "cache_write"),
        .reasoning = snp_model_count(usage, "reasoning"),
        .is_estimated = snp_json_bool(usage, "is_estimated", false),
    };
}

int snp_replay_read(const json_t *turn, struct snp_model_reply *reply, struct snp_err *err)
{
    const json_t *opaque = json_object_get(turn, "opaque");
    size_t i = 0;
    json_t *call = NULL;
    int r = snp_model_reply_text(reply, json_object_get(turn, "content"), err);

    json_array_foreach(json_object_get(turn, "tool_calls"), i, call)
    {
        struct snp_model_tool_call *made = NULL;
        json_t *signature = json_object_get(call, "signature");

        r = r < 0 ? r
                  : snp_model_reply_call(reply, (int64_t)i, snp_json_str(call, "id", NULL),
                                         snp_json_str(call, "name", ""), &made, err);
        r = r < 0 ? r : snp_model_reply_arguments(made, json_object_get(call, "arguments"), err);
        if (r == 0 && signature != NULL) {
            made->signature = json_incref(signature);
        }
    }
    if (r < 0) {
        return r;
    }
    read_usage(json_object_get(turn, "usage"), reply);
    snp_model_reply_name(reply->model, json_object_get(turn, "model"));
    snp_model_reply_name(reply->id, json_object_get(turn, "reply_id"));
    reply->opaque = opaque == NULL ? NULL : json_deep_copy(opaque);
    reply->has_stop = true;
    reply->is_ended = true;
    reply->stop = (enum snp_model_stop)stop_of(turn, err); /* valid: checked at loading */
    return 0;
}

bool snp_replay_failure(const json_t *turn,
                        enum snp_model_failure *ret,
                        int *ret_status,
                        bool *ret_is_final,
                        struct snp_err *ret_err)
{
    const json_t *error = json_object_get(turn, "error");

    if (error == NULL) {
        return false;
    }
    *ret = (enum snp_model_failure)failure_of(error, ret_err);
    *ret_status = (int)snp_json_int(error, "http_status", 0);
    *ret_is_final = snp_json_bool(error, "final", false);
    (void)snp_fail(ret_err, SNP_E_PEER, "%s",
                   snp_json_str(error, "message", "a failure of the script"));
    return true;
}

uint64_t snp_replay_delay_ms(const json_t *turn)
{
    uint64_t ms = snp_model_count(turn, "delay_ms");

    return ms < DELAY_MAX_MS ? ms : DELAY_MAX_MS;
}

/* Recording ------------------------------------------------------------------------------- */

static json_t *turn_of(const struct snp_model_request *request,
                       const struct snp_model_answer *answer)
{
    const char *label = request->label == NULL ? "main" : request->label;

    if (!answer->is_ok) {
        return json_pack("{s:s, s:{s:s, s:o, s:i, s:b}}", "label", label, "error", "failure",
                         snp_model_failure_names[answer->failure], "message",
                         snp_json_bytes(answer->err.msg, strlen(answer->err.msg)), "http_status",
                         answer->http_status, "final", 1);
    }
    return json_pack("{s:s, s:O?, s:O*, s:O*, s:s, s:o, s:s, s:s}", "label", label, "content",
                     json_object_get(answer->message, "content"), "tool_calls",
                     json_object_get(answer->message, "tool_calls"), "opaque",
                     json_object_get(answer->message, "opaque"), "stop",
                     snp_model_stop_names[answer->stop], "usage",
                     snp_model_usage_to_json(&answer->usage, "is_estimated"), "model",
                     answer->model, "reply_id", answer->reply_id);
}

static int append(const char *path, const char *text, struct snp_err *err)
{
    snp_autoclose int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);

    if (fd < 0 || snp_write_all(fd, text, strlen(text)) < 0) {
        return snp_fail_sys(err, errno, "write %s", path);
    }
    return 0;
}

int snp_replay_record_begin(const char *path, struct snp_err *err)
{
    struct snp_replay *had = NULL;
    int r = snp_replay_load(path, &had, err);
    bool is_new = had == NULL ? r == SNP_E_NOT_FOUND : had->n_turns == 0;

    snp_replay_free(had);
    if (!is_new) {
        return r;
    }
    snp_autofree char *line = snp_format("{\"_type\": \"%s\"}\n", header_type);
    return line == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : append(path, line, err);
}

int snp_replay_record(const char *path,
                      const struct snp_model_request *request,
                      const struct snp_model_answer *answer,
                      struct snp_err *err)
{
    snp_autojson json_t *turn = turn_of(request, answer);
    snp_autofree char *text = turn == NULL ? NULL : snp_json_text(turn);
    snp_autofree char *line = text == NULL ? NULL : snp_format("%s\n", text);

    return line == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : append(path, line, err);
}
