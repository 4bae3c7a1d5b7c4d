/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages over HTTP. libmicrohttpd serves them in a separate thread; ours waits for the signal to
 * exit.
 *
 * The secret is in the path because that is all a browser sends when it opens a page. It does not
 * leak from there: pages are not cached, send no referrer and load nothing.
 */
#include "base/httpd/pages.h"

#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/httpd/take.h"
#include "base/httpd/token.h"
#include "base/str.h"

enum {
    NAMES_MAX = 32,
    NAME_LEN_MAX = 128,
    POLICY_MAX = 1024,
    CONNECTIONS_MAX = 32,
    HEAD_MAX = 16 << 10, /* bytes of a connection's memory */
    IDLE_S = 30,
};

struct server {
    const struct snp_httpd_pages *pages;
    struct snp_httpd_rules rules;
    const char *names[NAMES_MAX];
    char secret[33];
    char policy[POLICY_MAX];
};

/* Answers ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *value;
} headers[] = {
    {"Cache-Control", "no-store"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};

/* Consumes response. */
static enum MHD_Result answer(struct MHD_Connection *connection,
                              unsigned status,
                              const char *type,
                              const char *policy,
                              struct MHD_Response *response)
{
    const char *const more[][2] = {
        {"Content-Type", type},
        {"Content-Security-Policy", policy},
        {"Allow", status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET" : NULL},
    };
    bool is_good = response != NULL;

    for (size_t i = 0; is_good && i < SNP_ARRAY_LEN(headers); i++) {
        is_good = MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    }
    for (size_t i = 0; is_good && i < SNP_ARRAY_LEN(more); i++) {
        is_good = more[i][1] == NULL ||
                  MHD_add_response_header(response, more[i][0], more[i][1]) == MHD_YES;
    }
    is_good = is_good && MHD_queue_response(connection, status, response) == MHD_YES;
    if (response != NULL) {
        MHD_destroy_response(response);
    }
    return is_good ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *text)
{
    char line[sizeof(((struct snp_err *)NULL)->msg) + 2];

    (void)snprintf(line, sizeof(line), "%s\n", text);
    return answer(connection, status, "text/plain; charset=utf-8",
                  "default-src 'none'; frame-ancestors 'none'",
                  MHD_create_response_from_buffer(strlen(line), line, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result page_send(struct server *server,
                                 struct MHD_Connection *connection,
                                 const char *name)
{
    snp_autobuf struct snp_buf out = {0};
    struct MHD_Response *response;
    struct snp_err err;
    int r;

    snp_buf_init(&out, server->pages->page_max);
    r = server->pages->make(server->pages->ctx, name, &out, &err);
    if (r == 0 && snp_buf_cstr(&out) == NULL) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    }
    if (r < 0) {
        return refuse(connection,
                      r == SNP_E_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_INTERNAL_SERVER_ERROR,
                      err.msg);
    }
    /* Nothing of it was consumed, so its memory begins with the page. */
    response = MHD_create_response_from_buffer(out.len, out.data, MHD_RESPMEM_MUST_FREE);
    if (response != NULL) {
        out.data = NULL;
    }
    return answer(connection, MHD_HTTP_OK, "text/html; charset=utf-8", server->policy, response);
}

/* Requests ---------------------------------------------------------------------------------- */

/* The part after "/SECRET/" in the path, if it can be a name; else NULL. */
static const char *name_in(const struct server *server, const char *path)
{
    const char *end = path[0] == '/' ? strchr(path + 1, '/') : NULL;
    const char *name = end == NULL ? NULL : end + 1;

    if (end == NULL || !snp_httpd_token_equal(server->secret, path + 1, (size_t)(end - path) - 1)) {
        return NULL;
    }
    return strlen(name) <= NAME_LEN_MAX &&
                   strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-_.") == strlen(name)
               ? name
               : NULL;
}

/* The context of a request is the end of the address in its first line. */
static void *on_begin(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls;
    (void)connection;
    return (void *)(uintptr_t)(uri + strlen(uri));
}

/* The secret is checked last: a web page learns nothing from the earlier checks. */
/* NOLINTNEXTLINE(readability-function-size): the library's prototype */
static enum MHD_Result on_request(void *cls,
                                  struct MHD_Connection *connection,
                                  const char *path,
                                  const char *verb,
                                  const char *version,
                                  const char *upload,
                                  size_t *upload_size,
                                  void **context)
{
    const struct snp_httpd_line line = {verb, path, *context, version};
    struct server *server = cls;
    struct snp_httpd_head head = {0};
    const char *name;
    struct snp_err err;
    unsigned status;

    (void)upload;
    (void)upload_size;
    snp_httpd_head_take(connection, &line, &head);
    status = snp_httpd_framing_judge(&head, &err);
    if (status != 0) {
        return refuse(connection, status, err.msg);
    }
    if (!snp_httpd_host_allowed(head.field[SNP_HTTPD_HOST], &server->rules)) {
        return refuse(connection, MHD_HTTP_FORBIDDEN,
                      "this Host is not served here; --allow-host NAME adds one");
    }
    if (strcmp(verb, "GET") != 0) {
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is supported here");
    }
    if (head.field[SNP_HTTPD_ORIGIN].bytes != NULL ||
        head.field[SNP_HTTPD_CONTENT_LENGTH].bytes != NULL ||
        head.field[SNP_HTTPD_TRANSFER_ENCODING].bytes != NULL) {
        return refuse(connection, MHD_HTTP_FORBIDDEN, "requests by other pages are refused");
    }
    name = name_in(server, path);
    if (name == NULL) {
        return refuse(connection, MHD_HTTP_NOT_FOUND,
                      "not found; use the whole address that was printed, with its secret");
    }
    return page_send(server, connection, name);
}

/* From beginning to end --------------------------------------------------------------------- */

static int server_make(struct server *server,
                       const struct snp_httpd_pages *pages,
                       struct snp_err *err)
{
    static const char *const local[] = {"127.0.0.1", "localhost", "[::1]"};
    size_t n = 0;
    int len;

    *server = (struct server){.pages = pages};
    for (size_t i = 0; pages->address.is_loopback && i < SNP_ARRAY_LEN(local); i++) {
        server->names[n++] = local[i];
    }
    server->names[n++] = pages->address.host;
    if (pages->n_names > NAMES_MAX - n) {
        return snp_fail(err, SNP_E_LIMIT, "at most %zu hosts can be named", NAMES_MAX - n);
    }
    for (size_t i = 0; i < pages->n_names; i++) {
        server->names[n++] = pages->names[i];
    }
    server->rules = (struct snp_httpd_rules){.names = server->names, .n_names = n};
    len = snprintf(server->policy, sizeof(server->policy), "%s; frame-ancestors 'none'",
                   pages->policy);
    if (len < 0 || (size_t)len >= sizeof(server->policy)) {
        return snp_fail(err, SNP_E_LIMIT, "the policy of pages is too long");
    }
    return snp_random_id(server->secret) < 0 ? snp_fail(err, SNP_E_SYS, "no random bytes") : 0;
}

static void url_tell(const struct server *server, unsigned port)
{
    const struct snp_httpd_pages *pages = server->pages;
    snp_autofree char *url = snp_format("http://%s:%u/%s/%s", pages->address.host, port,
                                        server->secret, pages->page_arg);

    if (url != NULL) {
        pages->listening(pages->ctx, url);
    }
}

int snp_httpd_pages_run(const struct snp_httpd_pages *pages, struct snp_err *err)
{
    struct server server;
    struct MHD_Daemon *daemon;
    snp_autoclose int fd = -1;
    unsigned port = 0;
    sigset_t ends;
    int number = 0;
    int r = server_make(&server, pages, err);

    r = r < 0 ? r : snp_httpd_listen(&pages->address, &fd, &port, err);
    if (r < 0) {
        return r;
    }
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL); /* the library's thread inherits it */
    daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, &server,
                              MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                              (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                              (size_t)HEAD_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                              MHD_OPTION_URI_LOG_CALLBACK, on_begin, NULL,
                              MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (daemon == NULL) {
        return snp_fail(err, SNP_E_SYS, "libmicrohttpd does not start");
    }
    fd = -1; /* owned by the library now */
    url_tell(&server, port);
    while (sigwait(&ends, &number) != 0) {
    }
    MHD_stop_daemon(daemon);
    return 0;
}
