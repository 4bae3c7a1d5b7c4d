/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTP_HTTP_H
#define SNP_BASE_HTTP_HTTP_H

/*
 * An HTTP client for event loops: libcurl's multi interface on libuv. Nothing blocks; all
 * callbacks come from the loop. Redirects are not followed, cookies not kept, certificates always
 * checked; proxies are taken from the environment as curl does, but never for this host itself.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct snp_http;
struct snp_http_call;

struct snp_http_spec {
    const char *method;         /* NULL = POST with a body, else GET */
    const char *url;            /* http: or https: */
    const char *const *headers; /* "Name: value", NULL-terminated, copied; NULL = none */
    const void *body;           /* copied */
    size_t body_len;
    const char *unix_socket; /* connect to it instead of the URL's host; NULL = the host */
    const char *ca_file;     /* trusted certificates instead of the system's; NULL = the system's */
    uint64_t connect_ms;     /* 0 = 10 s */
    uint64_t idle_ms;        /* without a byte in either direction: SNP_E_TIMEOUT; 0 = none */
    uint64_t total_ms;       /* 0 = none */
    size_t max_bytes;        /* of the reply's body, else SNP_E_LIMIT; 0 = none; headers: 64 KiB */
    /* Status and headers are complete. May be NULL. False: stop the transfer. */
    bool (*head)(void *ctx, struct snp_http_call *call);
    /* A part of the body, borrowed. May be NULL. False: stop the transfer. */
    bool (*data)(void *ctx, const char *bytes, size_t n);
    /*
     * The end, exactly once, never inside snp_http_start; call is freed after it. err NULL: the
     * reply is complete, whatever its status, or was stopped. SNP_E_TIMEOUT; SNP_E_LIMIT;
     * SNP_E_DENIED: the certificate is not trusted; SNP_E_INVALID: the URL; SNP_E_PEER: all others.
     */
    void (*done)(void *ctx, struct snp_http_call *call, const struct snp_err *err);
    void *ctx;
};

/* *ret is the caller's: snp_http_free(). loop: borrowed, outlives it. Opens nothing yet. */
int snp_http_new(uv_loop_t *loop, struct snp_http **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * Start a request, also from a callback. Everything of spec is copied. SNP_E_INVALID: control
 * characters in a header or method, or an invalid URL. SNP_E_UNSUPPORTED: libcurl is missing. On
 * failure done is not called.
 */
int snp_http_start(struct snp_http *http,
                   const struct snp_http_spec *spec,
                   struct snp_http_call **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* 0 before the head. */
int snp_http_status(const struct snp_http_call *call);
/* The first header of this name, case ignored; NULL = none. Borrowed until done has returned. */
const char *snp_http_header(struct snp_http_call *call, const char *name);

/*
 * End immediately: no callback follows, the connection is closed. From any callback but done of
 * this call.
 */
void snp_http_cancel(struct snp_http_call *call);

/* Cancel everything. Not from a callback. The loop must turn once more to close its handles. */
void snp_http_free(struct snp_http *http);

/* Whether a URL leads to this host: localhost, 127.0.0.0/8, [::1]. */
bool snp_http_is_loopback(const char *url);

/* Parse a date in a header to seconds since 1970; -1 = invalid. */
int64_t snp_http_date(const char *text);

#endif
