/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTP_CURL_H
#define SNP_BASE_HTTP_CURL_H

/*
 * libcurl, loaded for the first request. With its thirty dependencies it would more than double the
 * start of every command, and most commands make no requests.
 */

#define CURL_DISABLE_TYPECHECK /* its macros would hide the functions' names */
#include <curl/curl.h>

#include "base/err.h"

/* The functions that are used. */
#define SNP_CURL_FUNCTIONS(X) \
    X(easy_cleanup)           \
    X(easy_getinfo)           \
    X(easy_header)            \
    X(easy_init)              \
    X(easy_setopt)            \
    X(easy_strerror)          \
    X(free)                   \
    X(getdate)                \
    X(global_cleanup)         \
    X(global_init)            \
    X(multi_add_handle)       \
    X(multi_assign)           \
    X(multi_cleanup)          \
    X(multi_info_read)        \
    X(multi_init)             \
    X(multi_remove_handle)    \
    X(multi_setopt)           \
    X(multi_socket_action)    \
    X(slist_append)           \
    X(slist_free_all)         \
    X(url)                    \
    X(url_cleanup)            \
    X(url_get)                \
    X(url_set)

#define SNP_CURL_MEMBER(name) \
    __typeof__(curl_##name) *name; /* NOLINT(bugprone-macro-parentheses) */
struct snp_curl {
    SNP_CURL_FUNCTIONS(SNP_CURL_MEMBER)
};

/* The library; the same at every call. NULL: missing, and *err says what to install. */
const struct snp_curl *snp_curl_load(struct snp_err *err);

#endif
