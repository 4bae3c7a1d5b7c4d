/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_API_H
#define SNP_TIER_DOCKER_API_H

/* Requests to a container engine: the Docker Engine API over a unix socket. */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/engine_call.h"
#include "base/policy/engine_socket.h"

struct snp_http;

enum {
    SNP_DOCKER_OK = 200,
    SNP_DOCKER_CREATED = 201,
    SNP_DOCKER_NO_CONTENT = 204,
    SNP_DOCKER_BAD = 400,
    SNP_DOCKER_NOT_FOUND = 404,
    SNP_DOCKER_CONFLICT = 409,
};

/* Shared by all requests. */
struct snp_docker_api {
    uv_loop_t *loop;       /* borrowed */
    struct snp_http *http; /* owned; NULL until the first request */
    char socket[SNP_ENGINE_PATH_MAX + 1];
    char version[SNP_ENGINE_VERSION_LEN]; /* snp_engine_version; asked again after a failure */
};

/* status and body (NULL = none, or invalid JSON; borrowed), or err: no answer. */
typedef void (*snp_docker_cb)(void *data, int status, json_t *body, const struct snp_err *err);

struct snp_docker_request {
    const char *method; /* NULL = GET, or POST with a body */
    const char *path;   /* below the version, with its query */
    json_t *body;       /* taken; NULL = none */
    snp_docker_cb cb;
    void *data;
};

/* cb runs once, later; never after a failure. */
int snp_docker_ask(struct snp_docker_api *api,
                   const struct snp_docker_request *request,
                   struct snp_err *err) SNP_NODISCARD;

/* Send a request and wait: *ret_status, and *ret_body (new reference, NULL = none). */
int snp_docker_ask_now(const char *socket,
                       const char *method,
                       const char *path,
                       int *ret_status,
                       json_t **ret_body,
                       struct snp_err *err) SNP_NODISCARD;

/* The engine's error message; borrowed from body or static. */
const char *snp_docker_message(const json_t *body);

void snp_docker_api_done(struct snp_docker_api *api);

#endif
