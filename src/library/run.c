/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs and commands: each is a process (base/cli/serve) that speaks the client protocol with
 * the methods of base/wire/run.h.
 */
#include "base/wire/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "client/start.h"
#include "library/library.h"

/* Answers -------------------------------------------------------------------------------------- */

/* A part of a record or of the result. */
static void on_part(struct snipara_call *call, const json_t *head, const char *raw, size_t n)
{
    bool is_last = snp_json_bool(head, "last", false);
    void (*record)(void *ctx, const char *json, size_t len) =
        strcmp(snp_json_str(head, "event", ""), "record") == 0 ? call->prompt.record : NULL;
    snp_autobuf struct snp_buf whole = {0};

    if (snp_buf_add(&call->data, raw, n) < 0) {
        return; /* out of memory: the JSON is then invalid */
    }
    if (is_last && record != NULL) {
        whole = call->data;
        snp_buf_init(&call->data, SIZE_MAX / 2);
        record(call->prompt.ctx, snp_buf_cstr(&whole), whole.len);
    }
}

/* A warning; without a callback it is added to the answer. */
static void on_note(struct snipara_call *call, const char *raw, size_t raw_len)
{
    if (call->prompt.noted != NULL) {
        call->prompt.noted(call->prompt.ctx, raw, raw_len);
        return;
    }
    call->notes = call->notes == NULL ? json_array() : call->notes;
    (void)json_array_append_new(call->notes, snp_json_bytes(raw, raw_len));
}

static void on_event(struct snipara_call *call, const json_t *head, const char *raw, size_t raw_len)
{
    const struct snipara_prompt *prompt = &call->prompt;
    const char *event = snp_json_str(head, "event", "");

    if (strcmp(event, "record") == 0 || strcmp(event, "result") == 0) {
        on_part(call, head, raw, raw_len);
    } else if (strcmp(event, "text") == 0 && prompt->streamed != NULL) {
        prompt->streamed(prompt->ctx, raw, raw_len);
    } else if (strcmp(event, "note") == 0) {
        on_note(call, raw, raw_len);
    } else if (strcmp(event, "tool") == 0 && prompt->called != NULL) {
        prompt->called(prompt->ctx, call, (uint32_t)snp_json_int(head, "call", 0),
                       snp_json_str(head, "tool", ""), raw, raw_len);
    } else if (strcmp(event, "begun") == 0) {
        (void)snprintf(call->box->run_id, sizeof(call->box->run_id), "%s",
                       snp_json_str(head, "trajectory_id", ""));
    }
}

/* The end: all parts of the result are there. */
static bool on_end(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len)
{
    struct snp_err err;

    (void)answer;
    (void)raw;
    (void)raw_len;
    if (snp_json_parse(snp_buf_cstr(&call->data), call->data.len, &call->answer, &err) < 0) {
        (void)snp_err_wrap(&err, "the result of the run");
        (void)snp_call_fail(call, &err);
        return true;
    }
    snp_buf_clear(&call->data);
    if (call->notes != NULL) {
        (void)json_object_set(call->answer, "warnings", call->notes);
    }
    return false;
}

/* Requests ------------------------------------------------------------------------------------- */

/* The caller's texts as an array; *ret: NULL = none. */
static int list_make(const char *const *list, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *all = list == NULL ? NULL : json_array();

    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        if (json_array_append_new(all, json_string(list[i])) < 0) {
            return snp_fail(err, SNP_E_INVALID, "text %zu of the list is not UTF-8", i);
        }
    }
    *ret = SNP_TAKE_PTR(all);
    return 0;
}

static int tool_make(const struct snipara_tool *given, json_t **ret, struct snp_err *err)
{
    struct snipara_tool tool;
    snp_autojson json_t *parameters = NULL;
    int r = 0;

    snp_library_take(&tool, sizeof(tool), given);
    if (tool.name == NULL || tool.timeout_ms < 0) {
        return snp_fail(err, SNP_E_INVALID, "a tool needs a name, and a timeout of 0 or more");
    }
    if (tool.parameters != NULL) {
        r = snp_json_parse(tool.parameters, strlen(tool.parameters), &parameters, err);
    }
    if (r < 0) {
        (void)snp_err_wrap(err, "%.64s: the parameters", tool.name);
        snp_err_about(err, tool.name);
        return r;
    }
    *ret = SNP_WRITE(snp_run_tool, .name = tool.name, .description = tool.description,
                     .parameters = parameters, .timeout_ms = (uint64_t)tool.timeout_ms);
    return *ret == NULL ? snp_fail(err, SNP_E_INVALID, "%.64s is not UTF-8", tool.name) : 0;
}

static int tools_make(const struct snipara_tool *const *given, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *all = given == NULL ? NULL : json_array();
    int r = 0;

    for (size_t i = 0; given != NULL && given[i] != NULL && r == 0; i++) {
        json_t *tool = NULL;

        r = tool_make(given[i], &tool, err);
        if (r == 0 && json_array_append_new(all, tool) < 0) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    *ret = SNP_TAKE_PTR(all);
    return r;
}

/* Begin ------------------------------------------------------------------------------------- */

/* Start a process, which becomes the call's connection. */
static int process_start(struct snipara_call *call, struct snp_err *err)
{
    const struct snp_async_call hello = {
        .head = SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION)};
    struct snipara *root = call->box;
    struct snipara *run;
    struct snipara **last = &root->runs;
    uint32_t ignored = 0;
    int fd = -1;
    int r;

    if (root->pid != getpid()) {
        json_decref(hello.head);
        return snp_library_connect(root, err); /* reports it */
    }
    if (root->connection.socket != NULL) {
        json_decref(hello.head);
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "runs use the daemon of this user; connect without a socket for them");
    }
    r = snp_run_process_start(&fd, err);
    run = r < 0 ? NULL : snp_library_box_new(root->connection.epoll_fd);
    if (run == NULL) {
        json_decref(hello.head);
        if (fd >= 0) {
            snp_closep(&fd);
        }
        return r < 0 ? r : snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    run->root = root;
    r = snp_calls_begin(&run->connection.calls, &hello, &ignored, err);
    r = r < 0 ? r : snp_connection_take(&run->connection, fd, err);
    if (r < 0) {
        snipara_close(run);
        return r;
    }
    while (*last != NULL) {
        last = &(*last)->next_run;
    }
    *last = run;
    snp_call_move(call, run);
    return 0;
}

/* Send a request to a new process. head: consumed; NULL = it could not be written. */
static struct snipara_call *ask(struct snipara_call *call, json_t *head, const char *raw)
{
    struct snp_err err;
    int r = head == NULL ? snp_fail(&err, SNP_E_INVALID, "a text is not UTF-8")
                         : process_start(call, &err);

    if (r < 0) {
        json_decref(head);
        return snp_call_fail(call, &err);
    }
    call->event = on_event;
    call->more = on_end;
    return snp_call_ask(call, head, raw, raw == NULL ? 0 : strlen(raw));
}

struct snipara_call *snipara_ask(struct snipara *box, const struct snipara_prompt *prompt)
{
    struct snipara_call *call = snp_call_new(box);
    struct snipara_prompt *own = call == NULL ? NULL : &call->prompt;
    snp_autojson json_t *settings = NULL;
    snp_autojson json_t *tools = NULL;
    struct snp_err err;
    int r;

    if (call == NULL) {
        return NULL;
    }
    snp_library_take(own, sizeof(*own), prompt);
    r = list_make(own->settings, &settings, &err);
    r = r < 0 ? r : tools_make(own->tools, &tools, &err);
    if (r < 0) {
        return snp_call_fail(call, &err);
    }
    return ask(call,
               SNP_WRITE(snp_run_request, .system = own->system, .resume = own->resume,
                         .agent = own->agent, .folder = own->folder, .settings = settings,
                         .tools = tools, .records = own->record != NULL,
                         .text = own->streamed != NULL),
               own->text);
}

struct snipara_call *snipara_command(struct snipara *box, const char *const *words)
{
    struct snipara_call *call = snp_call_new(box);
    snp_autojson json_t *list = NULL;
    struct snp_err err;
    int r = words == NULL ? snp_fail(&err, SNP_E_INVALID, "give a command")
                          : list_make(words, &list, &err);

    if (call != NULL && r < 0) {
        return snp_call_fail(call, &err);
    }
    return call == NULL ? NULL : ask(call, SNP_WRITE(snp_command_request, .words = list), NULL);
}

struct snipara_call *snipara_settings(struct snipara *box,
                                      const char *folder,
                                      const char *const *settings)
{
    struct snipara_call *call = snp_call_new(box);
    snp_autojson json_t *list = NULL;
    struct snp_err err;

    if (call != NULL && list_make(settings, &list, &err) < 0) {
        return snp_call_fail(call, &err);
    }
    return call == NULL
               ? NULL
               : ask(call, SNP_WRITE(snp_settings_request, .folder = folder, .settings = list),
                     NULL);
}
