/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTPD_HEAD_H
#define SNP_BASE_HTTPD_HEAD_H

/*
 * The head of an HTTP request, and whether it is allowed: hosts, origins, the token, types, and the
 * headers that must repeat the members of a modern message. No input or output here.
 */

#include "base/buf.h"
#include "base/mcp/jsonrpc.h"

/* Headers that are used; each may occur once. */
enum snp_httpd_field {
    SNP_HTTPD_HOST = 0,
    SNP_HTTPD_ORIGIN,
    SNP_HTTPD_AUTHORIZATION,
    SNP_HTTPD_CONTENT_TYPE,
    SNP_HTTPD_CONTENT_LENGTH,
    SNP_HTTPD_TRANSFER_ENCODING,
    SNP_HTTPD_SESSION,
    SNP_HTTPD_LAST_EVENT,
    SNP_HTTPD_VERSION,
    SNP_HTTPD_METHOD,
    SNP_HTTPD_NAME,
    SNP_HTTPD_FIELDS
};

/* Types of answers that a client accepts. */
enum {
    SNP_HTTPD_TAKES_JSON = 1,
    SNP_HTTPD_TAKES_EVENTS = 2,
    SNP_HTTPD_TAKES_BOTH = SNP_HTTPD_TAKES_JSON | SNP_HTTPD_TAKES_EVENTS,
};

struct snp_httpd_text {
    const char *bytes; /* borrowed; NULL = there is none */
    size_t n;
};

struct snp_httpd_head {
    struct snp_httpd_text field[SNP_HTTPD_FIELDS];
    unsigned takes;      /* SNP_HTTPD_TAKES_... */
    const char *doubled; /* a repeated name; static; NULL = none */
    bool is_malformed;   /* has lines that servers read differently */
    bool is_old;         /* before HTTP/1.1: without chunks */
};

/* Who may send requests. */
struct snp_httpd_rules {
    const char *const *names; /* hosts, lower case, IPv6 in brackets; borrowed */
    size_t n_names;
    const char *token; /* borrowed; NULL = not required */
};

/*
 * Add a header. Unknown names are ignored; invalid names (a blank before the colon) and values with
 * control characters make the head malformed. All borrowed by head.
 */
void snp_httpd_head_add(struct snp_httpd_head *head,
                        const char *name,
                        size_t name_len,
                        const char *value,
                        size_t value_len);

/*
 * Check for parts that two servers in a row could read differently: 0, or the status to refuse
 * with; *err has the reason.
 */
unsigned snp_httpd_framing_judge(const struct snp_httpd_head *head, struct snp_err *err);

/*
 * Whether a request is allowed: 0, or the status to refuse with; *err has the reason. Called before
 * any byte of the body is read.
 */
unsigned snp_httpd_judge(const struct snp_httpd_head *head,
                         const struct snp_httpd_rules *rules,
                         const char *verb,
                         const char *path,
                         struct snp_err *err);

/* The same for a host in `Host` or `Origin` form, with or without a port. */
bool snp_httpd_host_allowed(struct snp_httpd_text host, const struct snp_httpd_rules *rules);

bool snp_httpd_text_is(struct snp_httpd_text text, const char *other);

/* Whether the rules of 2026-07-28 apply to a message with this head. */
bool snp_httpd_is_modern(const struct snp_httpd_head *head, const struct snp_jsonrpc *message);

/*
 * Check the headers against the message: 0, or the code of the error answer (-32020, -32600,
 * -32602); *err names the mismatch.
 */
int snp_httpd_match(const struct snp_httpd_head *head,
                    const struct snp_jsonrpc *message,
                    struct snp_err *err);

/*
 * Decode the value of Mcp-Name: "=?base64?...?=". SNP_E_INVALID: bytes not allowed in a header, or
 * bad encoding.
 */
int snp_httpd_name_decode(struct snp_httpd_text value, struct snp_buf *out) SNP_NODISCARD;

#endif
