/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_HEAD_H
#define SNP_MCP_HTTP_HEAD_H

/*
 * What the head of an HTTP request says, and whether it may go on: hosts, origins, the token,
 * types, and the headers that must repeat what a modern message says. No input or output of
 * its own.
 */

#include "base/buf.h"
#include "mcp/jsonrpc.h"

/* Headers that are looked at; each may come once. */
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

/* Types of answers a client takes. */
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
    const char *doubled; /* a name that came twice; static; NULL = none */
    bool is_malformed;   /* of lines that servers read differently */
    bool is_old;         /* before HTTP/1.1: without chunks */
};

/* Who may ask. */
struct snp_httpd_rules {
    const char *const *names; /* hosts, lower case, IPv6 in brackets; borrowed */
    size_t n_names;
    const char *token; /* borrowed; NULL = none is wanted */
};

/*
 * One header. Names we do not know are passed over, those that cannot be one (a blank before the
 * colon) and values with control characters make the head malformed. All borrowed by head.
 */
void snp_httpd_head_add(struct snp_httpd_head *head,
                        const char *name,
                        size_t name_len,
                        const char *value,
                        size_t value_len);

/*
 * What of it could be read differently by two servers in a row: 0, or the status to refuse it with;
 * *err says why.
 */
unsigned snp_httpd_framing_judge(const struct snp_httpd_head *head, struct snp_err *err);

/*
 * Whether a request may go on: 0, or the status to refuse it with; *err says why. Before any byte
 * of the body is read.
 */
unsigned snp_httpd_judge(const struct snp_httpd_head *head,
                         const struct snp_httpd_rules *rules,
                         const char *verb,
                         const char *path,
                         struct snp_err *err);

/* The same for a host as `Host` and `Origin` name it, with or without a port. */
bool snp_httpd_host_allowed(struct snp_httpd_text host, const struct snp_httpd_rules *rules);

bool snp_httpd_text_is(struct snp_httpd_text text, const char *other);

/* Whether a message with this head is held to the rules of 2026-07-28. */
bool snp_httpd_is_modern(const struct snp_httpd_head *head, const struct snp_jsonrpc *message);

/*
 * Whether the headers fit the message: 0, or the code of the error that answers it (-32020, -32600,
 * -32602); *err says what does not.
 */
int snp_httpd_match(const struct snp_httpd_head *head,
                    const struct snp_jsonrpc *message,
                    struct snp_err *err);

/*
 * The value of Mcp-Name as it was meant: "=?base64?...?=" is decoded. SNP_E_INVALID: it has bytes
 * that no header has, or is encoded badly.
 */
int snp_httpd_name_decode(struct snp_httpd_text value, struct snp_buf *out) SNP_NODISCARD;

#endif
