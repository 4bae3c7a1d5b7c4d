/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of a tier that was killed together with its engine, or before it could remove them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "tier/docker/docker.h"

static void on_reaped(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_docker *docker = data;

    (void)body;
    docker->n_left--;
    snp_log(SNP_LOG_INFO, "reaped", "status=%d error=%s", status, err == NULL ? "" : err->msg);
}

static void reap_one(struct snp_docker *docker, const json_t *container)
{
    const json_t *labels = json_object_get(container, "Labels");
    char path[160];
    struct snp_err err;

    if (snp_streq(snp_json_str(labels, "snipara-sandbox.mark", ""), docker->mark)) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/containers/%.64s?force=1&v=1",
                   snp_json_str(container, "Id", ""));
    if (snp_docker_ask(&docker->api,
                       &(const struct snp_docker_request){
                           .method = "DELETE", .path = path, .cb = on_reaped, .data = docker},
                       &err) == 0) {
        docker->n_left++;
    }
}

static void on_listed(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_docker *docker = data;
    json_t *container;
    size_t i;

    docker->n_left--;
    if (err != NULL || status != SNP_DOCKER_OK) {
        docker->has_reaped = false; /* retry with the next sandbox */
        return;
    }
    json_array_foreach(body, i, container)
    {
        reap_one(docker, container);
    }
}

/* Encode a text for a query. */
static char *escape(const char *text)
{
    static const char digits[] = "0123456789abcdef";
    char *out = calloc(3, strlen(text) + 1);

    for (size_t n = 0; out != NULL && *text != '\0'; text++, n += 3) {
        out[n] = '%';
        out[n + 1] = digits[(unsigned char)*text >> 4U];
        out[n + 2] = digits[(unsigned char)*text & 15U];
    }
    return out;
}

void snp_docker_reap(struct snp_docker *docker, const char *state_dir)
{
    snp_autojson json_t *filters =
        json_pack("{s:[o]}", "label", json_sprintf("snipara-sandbox.state=%s", state_dir));
    snp_autofree char *text = snp_json_text(filters);
    snp_autofree char *escaped = text == NULL ? NULL : escape(text);
    snp_autofree char *path =
        escaped == NULL ? NULL : snp_format("/containers/json?all=1&filters=%s", escaped);
    struct snp_err err;

    if (!docker->has_reaped && path != NULL &&
        snp_docker_ask(
            &docker->api,
            &(const struct snp_docker_request){.path = path, .cb = on_listed, .data = docker},
            &err) == 0) {
        docker->has_reaped = true;
        docker->n_left++;
    }
}
