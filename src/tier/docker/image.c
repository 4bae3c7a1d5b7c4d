/* SPDX-License-Identifier: Apache-2.0 */
/*
 * {"socket", "base", "tag" (null: base suffices), "path", "dockerfile", "label", "network", "args"}
 * -> {"error" (null: success), "log"}
 */
#include "tier/docker/image.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/policy/engine_call.h"
#include "base/str.h"
#include "base/text/escape.h"
#include "tier/docker/context.h"

enum {
    SPEC_MAX = 1 << 20,
    LOG_LINES = 30,
    LINE_LEN = 2000, /* bytes shown of a line, */
    TOLD_LEN = 90,   /* and of a progress line */
    TELL_US = 2000000,
};

struct work {
    const char *socket;
    const char *name; /* of the image */
    json_t *layers;   /* owned; of a pull: {id: [bytes, total]} */
    json_t *log;      /* owned; the last lines */
    char error[400];  /* "" = none yet */
    uint64_t told_us;
};

/* A line made safe for a terminal: colours are removed, other codes escaped. The caller frees. */
static char *shown(const char *text, size_t n)
{
    snp_autobuf struct snp_buf plain = {0};
    snp_autobuf struct snp_buf out = {0};

    snp_buf_init(&plain, LINE_LEN);
    snp_buf_init(&out, 8UL * LINE_LEN);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\x1b' && i + 1 < n && text[i + 1] == '[') {
            i += 1 + strcspn(text + i + 2, "ABCDEFGHJKSTfmnsu\r\n") + 1;
        } else if (snp_buf_add(&plain, text[i] == '\n' || text[i] == '\t' ? " " : text + i, 1) <
                   0) {
            break;
        }
    }
    return plain.len == 0 || snp_escape(&out, snp_buf_bytes(&plain), plain.len) < 0 ||
                   snp_buf_cstr(&out) == NULL
               ? strdup("")
               : strdup(snp_buf_cstr(&out));
}

static void tell(struct work *w, const char *what)
{
    snp_autofree char *line = shown(what, strnlen(what, TOLD_LEN));

    (void)fprintf(stderr, "preparing image %s: %s\n", w->name, line == NULL ? "" : line);
    w->told_us = snp_now_us();
}

static void add_log(struct work *w, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, "\r\n");
        snp_autofree char *line = shown(text, n);

        if (line != NULL && line[strspn(line, " ")] != '\0') {
            (void)json_array_append_new(w->log, json_string(line));
        }
        text += n + strspn(text + n, "\r\n");
    }
    while (json_array_size(w->log) > LOG_LINES) {
        (void)json_array_remove(w->log, 0);
    }
}

static void take_error(struct work *w, const json_t *said)
{
    const char *const texts[] = {
        snp_json_str(said, "error", NULL), snp_json_str(said, "message", NULL),
        snp_json_str(json_object_get(said, "errorDetail"), "message", NULL)};

    for (size_t i = 0; i < SNP_ARRAY_LEN(texts); i++) {
        bool is_new = i == 0 || !snp_streq(texts[i], texts[0]);

        if (texts[i] != NULL && is_new) {
            snp_autofree char *line = shown(texts[i], strlen(texts[i]));

            add_log(w, texts[i]);
            (void)snprintf(w->error, sizeof(w->error), "%s", line == NULL ? "" : line);
        }
    }
}

/* Pulling ------------------------------------------------------------------------------------- */

static void on_pulled(void *data, const json_t *said)
{
    struct work *w = data;
    const char *id = snp_json_str(said, "id", "");
    const char *status = snp_json_str(said, "status", "");
    const json_t *detail = json_object_get(said, "progressDetail");
    int64_t done = 0;
    int64_t all = 0;
    const char *key;
    json_t *layer;
    char texts[2][32];
    char line[100];

    take_error(w, said);
    if (snp_has_prefix(status, "Pulling from ")) { /* else the image is local */
        tell(w, "pulling it, once");
    }
    if (snp_streq(status, "Downloading")) {
        (void)json_object_set_new(w->layers, id,
                                  json_pack("[I,I]", snp_json_int(detail, "current", 0),
                                            snp_json_int(detail, "total", 0)));
    }
    if (w->error[0] != '\0' || json_object_size(w->layers) == 0 ||
        snp_now_us() - w->told_us < TELL_US) {
        return;
    }
    json_object_foreach(w->layers, key, layer)
    {
        done += json_integer_value(json_array_get(layer, 0));
        all += json_integer_value(json_array_get(layer, 1));
    }
    (void)snprintf(line, sizeof(line), "pulled %s of %s",
                   snp_format_bytes((uint64_t)done, texts[0], sizeof(texts[0])),
                   snp_format_bytes((uint64_t)all, texts[1], sizeof(texts[1])));
    tell(w, line);
}

static int pull(struct work *w, const char *image, struct snp_err *err)
{
    const char *last = strrchr(image, '/');
    const bool has_tag = strchr(last == NULL ? image : last, ':') != NULL;
    snp_autofree char *path =
        snp_format("/images/create?fromImage=%s%s", image, has_tag ? "" : "&tag=latest");
    const struct snp_engine_call call = {.socket = w->socket,
                                         .method = "POST",
                                         .path = path == NULL ? "" : path,
                                         .body_fd = -1,
                                         .line = on_pulled,
                                         .data = w};
    int status = 0;

    SNP_TRY(snp_engine_call(&call, &status, err));
    if (status == 200 && w->error[0] == '\0') {
        tell(w, "pulled");
        return 0;
    }
    return snp_fail(err, SNP_E_NOT_FOUND,
                    "image %.100s is not here and cannot be pulled (%.250s); without a network, "
                    "load it with docker load -i FILE",
                    image, w->error[0] == '\0' ? "the engine gives no reason" : w->error);
}

/* Building ------------------------------------------------------------------------------------ */

static void on_built(void *data, const json_t *said)
{
    struct work *w = data;
    const char *text = snp_json_str(said, "stream", NULL);

    add_log(w, text);
    take_error(w, said);
    if (text != NULL && snp_has_prefix(text, "Step ")) {
        tell(w, text);
    }
}

/* Encode a value for a query. */
static char *escape(const json_t *value)
{
    snp_autofree char *text = snp_json_text(value);
    char *out = text == NULL ? NULL : calloc(3, strlen(text) + 1);

    for (size_t i = 0; out != NULL && text[i] != '\0'; i++) {
        out[3 * i] = '%';
        snp_hex(text + i, 1, out + 3 * i + 1);
    }
    return out;
}

static int build(struct work *w, const json_t *spec, struct snp_err *err)
{
    const char *network = snp_json_str(spec, "network", "default");
    snp_autojson json_t *labels = json_object();
    snp_autofree char *args = escape(json_object_get(spec, "args"));
    snp_autofree char *label =
        json_object_set(labels, "snipara-sandbox.workspace", json_object_get(spec, "label")) < 0
            ? NULL
            : escape(labels);
    snp_autoclose int fd = -1;
    uint64_t bytes = 0;
    int status = 0;
    int r = snp_docker_context(snp_json_str(spec, "path", ""), snp_json_str(spec, "dockerfile", ""),
                               &fd, &bytes, err);
    snp_autofree char *path =
        snp_format("/build?t=%s&dockerfile=" SNP_DOCKERFILE
                   "&rm=1&forcerm=1&pull=0&version=1&networkmode=%s&buildargs=%s&labels=%s",
                   snp_json_str(spec, "tag", ""), network, args == NULL ? "" : args,
                   label == NULL ? "" : label);
    const struct snp_engine_call call = {.socket = w->socket,
                                         .method = "POST",
                                         .path = path == NULL ? "" : path,
                                         .body_fd = fd,
                                         .body_len = bytes,
                                         .line = on_built,
                                         .data = w};

    SNP_TRY(r);
    SNP_TRY(snp_engine_call(&call, &status, err));
    return status == 200 && w->error[0] == '\0'
               ? 0
               : snp_fail(err, SNP_E_PEER, "%.400s",
                          w->error[0] == '\0' ? "the engine gives no reason" : w->error);
}

static int prepare(struct work *w, const json_t *spec, struct snp_err *err)
{
    const char *base = snp_json_str(spec, "base", "");
    snp_autojson json_t *found = NULL;

    w->socket = snp_json_str(spec, "socket", "");
    w->name = base;
    SNP_TRY(snp_engine_image(w->socket, base, &found, err));
    SNP_TRY(found != NULL ? 0 : pull(w, base, err));
    w->name = snp_json_str(spec, "tag", NULL);
    return w->name == NULL ? 0 : build(w, spec, err);
}

int snp_docker_image_main(const char *file)
{
    struct work w = {.layers = json_object(), .log = json_array()};
    snp_autofree char *text = NULL;
    snp_autojson json_t *spec = NULL;
    snp_autojson json_t *answer = NULL;
    size_t n = 0;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_err err = {.code = SNP_OK};
    int r;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    r = snp_file_read(file, SPEC_MAX, &text, &n, &err);
    r = r < 0 ? r : snp_json_parse(text, n, &spec, &err);
    r = r < 0 ? r : prepare(&w, spec, &err);
    answer = json_pack("{s:s?,s:O}", "error", r < 0 ? err.msg : NULL, "log", w.log);
    (void)json_dumpf(answer, stdout, JSON_COMPACT);
    json_decref(w.layers);
    json_decref(w.log);
    return 0;
}
