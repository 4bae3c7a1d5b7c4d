/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/docker/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/http/http.h"
#include "base/str.h"

enum {
    BODY_MAX = 8 << 20, /* enough for all containers of a large host */
    IDLE_MS = 120000,   /* under load an engine takes seconds to start a container */
};

struct docker_call {
    struct snp_docker_api *api; /* borrowed */
    snp_docker_cb cb;
    void *data;
    struct snp_buf body;
};

static bool on_data(void *ctx, const char *bytes, size_t n)
{
    struct docker_call *call = ctx;

    return snp_buf_add(&call->body, bytes, n) == 0;
}

static void on_done(void *ctx, struct snp_http_call *http, const struct snp_err *err)
{
    struct docker_call *call = ctx;
    snp_autojson json_t *body = NULL;
    struct snp_err ignored;

    if (err == NULL && call->body.len > 0) {
        (void)!snp_json_parse_any(snp_buf_bytes(&call->body), call->body.len, &body, &ignored);
    }
    if (err != NULL || snp_http_status(http) == SNP_DOCKER_BAD) {
        call->api->version[0] = '\0'; /* perhaps another engine answers now */
    }
    call->cb(call->data, err == NULL ? snp_http_status(http) : 0, body, err);
    snp_buf_done(&call->body);
    free(call);
}

/* The reason for a failed request: connecting to the socket gives the best one. */
static int explain(struct snp_docker_api *api, struct snp_err *err)
{
    int fd;

    if (api->version[0] == '\0') {
        return snp_engine_version(api->socket, api->version, err);
    }
    SNP_TRY(snp_engine_connect(api->socket, &fd, err));
    (void)close(fd);
    return 0;
}

int snp_docker_ask(struct snp_docker_api *api,
                   const struct snp_docker_request *request,
                   struct snp_err *err)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    snp_autojson json_t *owned = request->body;
    snp_autofree char *text = owned == NULL ? NULL : snp_json_text(owned);
    int r = explain(api, err);
    snp_autofree char *url = snp_format("http://%s%s%s", snp_engine_host(api->socket),
                                        snp_engine_prefix(api->version), request->path);
    struct docker_call *call = calloc(1, sizeof(*call));
    const bool is_post = owned != NULL || snp_streq(request->method, "POST");
    const struct snp_http_spec spec = {
        .method = request->method,
        .url = url,
        .unix_socket = api->socket[0] == '/' ? api->socket : NULL,
        .headers = headers,
        .body = text != NULL ? text
                : is_post    ? ""
                             : NULL,
        .body_len = text == NULL ? 0 : strlen(text),
        .idle_ms = IDLE_MS,
        .max_bytes = BODY_MAX,
        .data = on_data,
        .done = on_done,
        .ctx = call,
    };
    struct snp_http_call *http;

    if (r == 0 && (call == NULL || url == NULL || (owned != NULL && text == NULL))) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (r == 0 && api->http == NULL) {
        r = snp_http_new(api->loop, &api->http, err);
    }
    if (r == 0 && call != NULL) {
        *call = (struct docker_call){.api = api, .cb = request->cb, .data = request->data};
        snp_buf_init(&call->body, BODY_MAX);
        r = snp_http_start(api->http, &spec, &http, err);
    }
    if (r < 0) {
        free(call);
    }
    return r;
}

struct now {
    bool is_done;
    int status;
    json_t *body; /* owned */
    struct snp_err err;
};

static void on_now(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct now *now = data;

    now->is_done = true;
    now->status = status;
    now->body = json_incref(body);
    if (err != NULL) {
        now->err = *err;
    }
}

int snp_docker_ask_now(const char *socket,
                       const char *method,
                       const char *path,
                       int *ret_status,
                       json_t **ret_body,
                       struct snp_err *err)
{
    struct snp_docker_api api = {.http = NULL};
    struct now now = {.err = {.code = SNP_OK}};
    const struct snp_docker_request request = {
        .method = method, .path = path, .cb = on_now, .data = &now};
    uv_loop_t loop;
    int r;

    if (uv_loop_init(&loop) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    api.loop = &loop;
    (void)snprintf(api.socket, sizeof(api.socket), "%s", socket);
    r = snp_docker_ask(&api, &request, err);
    while (r == 0 && !now.is_done) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    snp_docker_api_done(&api);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    if (r == 0 && now.err.code != SNP_OK) {
        *err = now.err;
        r = err->code;
    }
    *ret_status = now.status;
    *ret_body = now.body;
    return r;
}

const char *snp_docker_message(const json_t *body)
{
    return snp_json_str(body, "message", "the engine gives no reason");
}

void snp_docker_api_done(struct snp_docker_api *api)
{
    snp_http_free(SNP_TAKE_PTR(api->http));
}
