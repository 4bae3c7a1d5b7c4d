/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_HTTP_HTTP_H
#define SNP_HTTP_HTTP_H

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
    const char *ca_file;     /* certificates to trust instead of the system's; NULL = those */
    uint64_t connect_ms;     /* 0 = 10 s */
    uint64_t idle_ms;  /* not a byte either way for so long: SNP_E_TIMEOUT; 0 = wait for ever */
    uint64_t total_ms; /* 0 = none */
    size_t max_bytes;  /* of the reply's body, else SNP_E_LIMIT; 0 = none; headers: 64 KiB */
    /* Status and headers are there. May be NULL. False: the rest is not wanted. */
    bool (*head)(void *ctx, struct snp_http_call *call);
    /* A part of the body, borrowed. May be NULL. False: the rest is not wanted. */
    bool (*data)(void *ctx, const char *bytes, size_t n);
    /*
     * The end, exactly once, never inside snp_http_start; call is gone after it. err NULL: the
     * reply is whole, whatever its status, or the rest was not wanted. SNP_E_TIMEOUT; SNP_E_LIMIT;
     * SNP_E_DENIED: the certificate is not trusted; SNP_E_INVALID: the URL; SNP_E_PEER: all else.
     */
    void (*done)(void *ctx, struct snp_http_call *call, const struct snp_err *err);
    void *ctx;
};

/* *ret is the caller's: snp_http_free(). loop: borrowed, outlives it. Opens nothing yet. */
int snp_http_new(uv_loop_t *loop, struct snp_http **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * Ask; from any callback too. Everything of spec is copied. SNP_E_INVALID: control characters in a
 * header or method, or no such URL. SNP_E_UNSUPPORTED: libcurl is missing. On failure done is
 * not called.
 */
int snp_http_start(struct snp_http *http,
                   const struct snp_http_spec *spec,
                   struct snp_http_call **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* 0 before the head. */
int snp_http_status(const struct snp_http_call *call);
/*
 * The first header of this name, case ignored; NULL = there is none. Borrowed until done
 * has returned.
 */
const char *snp_http_header(struct snp_http_call *call, const char *name);

/*
 * End at once: no callback follows, the connection is closed. From any callback but done of
 * this call.
 */
void snp_http_cancel(struct snp_http_call *call);

/* Cancel everything. Not from a callback. The loop must turn once more to close its handles. */
void snp_http_free(struct snp_http *http);

/* Whether a URL leads to this host itself: localhost, 127.0.0.0/8, [::1]. */
bool snp_http_is_loopback(const char *url);

/* Seconds since 1970 of a date in a header; -1 = it is none. */
int64_t snp_http_date(const char *text);

#endif
