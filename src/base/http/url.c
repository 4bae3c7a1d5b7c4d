/* SPDX-License-Identifier: Apache-2.0 */
/* URLs are parsed by curl, which also follows them. */
#include "base/http/url.h"

#include <string.h>

#include "base/http/curl.h"
#include "base/http/http.h"

/* Copy a part of the URL into out; false: it has none. */
static bool part_get(const struct snp_curl *curl, CURLU *parsed, CURLUPart which, char *out)
{
    char *text = NULL;
    bool has =
        curl->url_get(parsed, which, &text, 0) == CURLUE_OK && strlen(text) < SNP_HTTP_URL_MAX;

    if (has) {
        memcpy(out, text, strlen(text) + 1);
    }
    curl->free(text);
    return has;
}

static int check(const struct snp_curl *curl, CURLU *parsed, bool may_be_read, struct snp_err *err)
{
    char scheme[SNP_HTTP_URL_MAX];
    char host[SNP_HTTP_URL_MAX];
    char other[SNP_HTTP_URL_MAX];

    if (!part_get(curl, parsed, CURLUPART_SCHEME, scheme) ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
        !part_get(curl, parsed, CURLUPART_HOST, host) || host[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID, "a URL begins with https:// and a host, or http://");
    }
    if (part_get(curl, parsed, CURLUPART_USER, other) ||
        part_get(curl, parsed, CURLUPART_PASSWORD, other)) {
        return snp_fail(err, SNP_E_INVALID, "a URL must not have a user or password in it");
    }
    if (part_get(curl, parsed, CURLUPART_FRAGMENT, other)) {
        return snp_fail(err, SNP_E_INVALID, "a URL must not have a fragment (#...)");
    }
    if (strcmp(scheme, "http") == 0 && !may_be_read) {
        return snp_fail(err, SNP_E_INVALID,
                        "http is for this machine only (localhost, 127.0.0.1, [::1]): requests to "
                        "%.100s could be read on the way; use https",
                        host);
    }
    return 0;
}

int snp_http_url_check(const char *url, unsigned flags, struct snp_err *err)
{
    const struct snp_curl *curl = snp_curl_load(err);
    CURLU *parsed;
    int r;

    if (curl == NULL) {
        return (int)err->code;
    }
    for (const char *c = url; *c != '\0'; c++) {
        if (*c <= 0x20 || *c == 0x7f) {
            return snp_fail(
                err, SNP_E_INVALID,
                "a URL must not contain blanks, control characters or letters beyond ASCII");
        }
    }
    if (strlen(url) >= SNP_HTTP_URL_MAX) {
        return snp_fail(err, SNP_E_INVALID, "a URL must have fewer than %d bytes",
                        SNP_HTTP_URL_MAX);
    }
    parsed = curl->url();
    if (parsed == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = curl->url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK
            ? check(curl, parsed, (flags & SNP_HTTP_URL_PLAIN) != 0 || snp_http_is_loopback(url),
                    err)
            : snp_fail(err, SNP_E_INVALID, "not a valid URL");
    curl->url_cleanup(parsed);
    return r;
}
