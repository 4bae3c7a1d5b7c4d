/* SPDX-License-Identifier: Apache-2.0 */

/* A request to be sent: URL, headers, body. */

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/driver.h"

enum {
    URL_MAX = 4096,
    KEY_MIN = 8, /* shorter texts are not keys, and removing them would also remove words */
};

void snp_model_wire_init(struct snp_model_wire *wire)
{
    *wire = (struct snp_model_wire){0};
    snp_buf_init(&wire->url, URL_MAX);
}

void snp_model_wire_done(struct snp_model_wire *wire)
{
    for (size_t i = 0; i < SNP_MODEL_HEADERS_MAX && wire->headers[i] != NULL; i++) {
        explicit_bzero(wire->headers[i], strlen(wire->headers[i])); /* one has the key */
        free(wire->headers[i]);
    }
    snp_buf_done(&wire->url);
    json_decref(wire->body);
    *wire = (struct snp_model_wire){0};
}

static int add_header(struct snp_model_wire *wire, char *line)
{
    size_t n = 0;

    while (wire->headers[n] != NULL) {
        n++;
    }
    SNP_ASSERT(n < SNP_MODEL_HEADERS_MAX);
    wire->headers[n] = line;
    return line == NULL ? SNP_E_NOMEM : 0;
}

int snp_model_wire_header(struct snp_model_wire *wire, const char *name, const char *value)
{
    return add_header(wire, snp_format("%s: %s", name, value));
}

int snp_model_wire_key(const struct snp_model_job *job, struct snp_model_wire *wire)
{
    return job->key == NULL ? 0 : add_header(wire, snp_format("%s%s", job->key_header, job->key));
}

const char *snp_model_content(const json_t *message)
{
    return snp_json_str(message, "content", "");
}

json_t *snp_model_list_of(const json_t *list, json_t *(*make)(const json_t *item))
{
    snp_autojson json_t *made = json_array();
    size_t i = 0;
    json_t *item = NULL;

    json_array_foreach(list, i, item)
    {
        if (json_array_append_new(made, make(item)) < 0) {
            return NULL;
        }
    }
    return SNP_TAKE_PTR(made);
}

json_t *snp_model_tool(const char *schema, const json_t *tool)
{
    return json_pack("{s:O, s:O, s:O}", "name", json_object_get(tool, "name"), "description",
                     json_object_get(tool, "description"), schema,
                     json_object_get(tool, "parameters"));
}

json_t *snp_model_parts(json_t *turns, const char *role, const char *member)
{
    size_t n = json_array_size(turns);
    const json_t *last = n > 0 ? json_array_get(turns, n - 1) : NULL;

    if (last != NULL && strcmp(snp_json_str(last, "role", ""), role) == 0) {
        return json_object_get(last, member);
    }
    if (json_array_append_new(turns, json_pack("{s:s, s:[]}", "role", role, member)) < 0) {
        return NULL;
    }
    return json_object_get(json_array_get(turns, n), member);
}

void snp_model_scrub(char *text, const char *key)
{
    size_t n = key == NULL ? 0 : strlen(key);

    for (char *at = n < KEY_MIN ? NULL : strstr(text, key); at != NULL; at = strstr(at, key)) {
        memset(at, '*', n);
        at += n;
    }
}
