/* SPDX-License-Identifier: Apache-2.0 */
/* In HTTP/1.0: the answer arrives unencoded, until the engine closes the connection. */
#include "base/policy/engine_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/policy/engine_socket.h"
#include "base/str.h"

enum {
    LINE_MAX_BYTES = 8 << 20,
    CHUNK = 64 << 10,
    STATUS_AT = 9, /* in "HTTP/1.0 200 OK" */
    MINOR = 41,    /* of the API's version: Docker 20.10 */
    MINOR_MAX = 9999,
    VERSION_S = 2,
};

/* If the engine answers before it has read all, its answer has the reason. */
static void send_body(int fd, const struct snp_engine_call *call)
{
    off_t at = 0;

    while (call->body_fd >= 0 && at < (off_t)call->body_len) {
        ssize_t n =
            SNP_RETRY(sendfile(fd, call->body_fd, &at, (size_t)(call->body_len - (uint64_t)at)));
        if (n <= 0) {
            return;
        }
    }
}

static int send_head(int fd,
                     const char *prefix,
                     const struct snp_engine_call *call,
                     struct snp_err *err)
{
    snp_autofree char *head = snp_format(
        "%s %s%s HTTP/1.0\r\nHost: localhost\r\n%sContent-Length: %llu\r\n\r\n", call->method,
        prefix, call->path, call->body_fd < 0 ? "" : "Content-Type: application/x-tar\r\n",
        (unsigned long long)call->body_len);

    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return send(fd, head, strlen(head), MSG_NOSIGNAL) == (ssize_t)strlen(head)
               ? 0
               : snp_fail_sys(err, errno, "ask the container engine");
}

/* Pass on the complete lines of buf; at the end, the rest as one line. */
static void take_lines(const struct snp_engine_call *call, struct snp_buf *buf, bool is_end)
{
    for (;;) {
        const char *text = snp_buf_bytes(buf);
        const char *newline = buf->len == 0 ? NULL : memchr(text, '\n', buf->len);
        size_t n = newline != NULL ? (size_t)(newline - text) : buf->len;
        snp_autojson json_t *said = NULL;
        struct snp_err ignored;

        if (buf->len == 0 || (newline == NULL && !is_end)) {
            return;
        }
        if (snp_json_parse(text, n, &said, &ignored) == 0 && call->line != NULL) {
            call->line(call->data, said);
        }
        snp_buf_consume(buf, newline != NULL ? n + 1 : n);
    }
}

/* Remove the complete head of an answer. */
static bool take_head(struct snp_buf *buf, int *ret_status)
{
    const char *end = buf->len == 0 ? NULL : memmem(snp_buf_bytes(buf), buf->len, "\r\n\r\n", 4);
    const char *text = snp_buf_cstr(buf);

    if (end == NULL || text == NULL) {
        return false;
    }
    *ret_status = snp_has_prefix(text, "HTTP/1.") ? (int)strtol(text + STATUS_AT, NULL, 10) : 0;
    snp_buf_consume(buf, (size_t)(end - snp_buf_bytes(buf)) + 4);
    return true;
}

static int receive(int fd, const struct snp_engine_call *call, int *ret_status, struct snp_err *err)
{
    snp_autobuf struct snp_buf buf = {0};
    snp_autofree char *chunk = malloc(CHUNK);
    bool has_head = false;
    ssize_t n = -1;

    snp_buf_init(&buf, LINE_MAX_BYTES);
    while (chunk != NULL && (n = SNP_RETRY(recv(fd, chunk, CHUNK, 0))) > 0) {
        if (snp_buf_add(&buf, chunk, (size_t)n) < 0) {
            return snp_fail(err, SNP_E_LIMIT, "the container engine's answer is too long");
        }
        has_head = has_head || take_head(&buf, ret_status);
        if (has_head) {
            take_lines(call, &buf, false);
        }
    }
    if (n < 0 || !has_head) {
        return snp_fail(err, SNP_E_PEER, "the container engine broke off");
    }
    take_lines(call, &buf, true);
    return 0;
}

static void keep(void *data, const json_t *said)
{
    json_t **kept = data;

    json_decref(*kept);
    *kept = json_incref((json_t *)(uintptr_t)said);
}

/* The number behind "1."; 0 = unknown. */
static unsigned minor_of(const json_t *said, const char *member)
{
    const char *text = snp_json_str(said, member, "");
    uint64_t n = 0;

    return snp_has_prefix(text, "1.") && snp_parse_u64(text + 2, &n) == 0 && n <= MINOR_MAX
               ? (unsigned)n
               : 0;
}

/* Podman takes requests of any version. */
static bool is_podman(const json_t *said)
{
    const json_t *engine = json_array_get(json_object_get(said, "Components"), 0);

    return snp_has_prefix(snp_json_str(engine, "Name", ""), "Podman");
}

int snp_engine_version(const char *socket, char out[SNP_ENGINE_VERSION_LEN], struct snp_err *err)
{
    const struct timeval patience = {.tv_sec = VERSION_S};
    snp_autojson json_t *said = NULL;
    const struct snp_engine_call call = {.socket = socket,
                                         .method = "GET",
                                         .path = "/version",
                                         .body_fd = -1,
                                         .line = keep,
                                         .data = &said};
    struct snp_err ignored;
    snp_autoclose int fd = -1;
    unsigned newest;
    unsigned oldest;
    int status = 0;

    out[0] = '\0';
    SNP_TRY(snp_engine_connect(socket, &fd, err));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (send_head(fd, "", &call, &ignored) < 0 || receive(fd, &call, &status, &ignored) < 0) {
        return 0;
    }
    newest = minor_of(said, "ApiVersion");
    oldest = minor_of(said, "MinAPIVersion");
    if (newest > 0 && newest < MINOR && !is_podman(said)) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "the container engine at %.107s has API version 1.%u, and 1.%d or later is "
                        "needed (Docker 20.10): update it",
                        socket, newest, MINOR);
    }
    (void)snprintf(out, SNP_ENGINE_VERSION_LEN, "/v1.%u", oldest > MINOR ? oldest : MINOR);
    return 0;
}

const char *snp_engine_prefix(const char *version)
{
    return version[0] == '\0' ? "/v1.41" : version;
}

int snp_engine_call(const struct snp_engine_call *call, int *ret_status, struct snp_err *err)
{
    char version[SNP_ENGINE_VERSION_LEN];
    snp_autoclose int fd = -1;

    *ret_status = 0;
    for (const char *c = call->path; *c != '\0'; c++) {
        if (*c <= ' ' || *c == 0x7f) {
            return snp_fail(err, SNP_E_INVALID, "'%.60s' cannot be asked of an engine", call->path);
        }
    }
    SNP_TRY(snp_engine_version(call->socket, version, err));
    SNP_TRY(snp_engine_connect(call->socket, &fd, err));
    SNP_TRY(send_head(fd, snp_engine_prefix(version), call, err));
    send_body(fd, call);
    return receive(fd, call, ret_status, err);
}

int snp_engine_image(const char *socket, const char *image, json_t **ret, struct snp_err *err)
{
    snp_autofree char *path = snp_format("/images/%s/json", image);
    snp_autojson json_t *said = NULL;
    int status = 0;
    const struct snp_engine_call call = {.socket = socket,
                                         .method = "GET",
                                         .path = path == NULL ? "" : path,
                                         .body_fd = -1,
                                         .line = keep,
                                         .data = &said};

    *ret = NULL;
    SNP_TRY(snp_engine_image_check(image, err));
    SNP_TRY(snp_engine_call(&call, &status, err));
    if (status == 200) {
        *ret = SNP_TAKE_PTR(said);
        return 0;
    }
    return status == 404
               ? 0
               : snp_fail(err, SNP_E_PEER, "the container engine says of image %.200s: %.200s",
                          image, snp_json_str(said, "message", "nothing"));
}

int snp_engine_image_check(const char *image, struct snp_err *err)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
    size_t n = strlen(image);

    return n == 0 || n > 300 || strspn(image, plain) != n || strstr(image, "..") != NULL ||
                   image[0] == '/'
               ? snp_fail(err, SNP_E_INVALID,
                          "'%.60s' is not a valid image name; write it as NAME:TAG", image)
               : 0;
}
