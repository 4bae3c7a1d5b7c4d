/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of requests from the HTTP library; base/httpd/head.c does not depend on it.
 *
 * Before 1.0 the library accepts a lone LF or CR as the end of a line, joins lines that begin with
 * a blank to the previous one, and cuts at a NUL, all silently; a proxy in front may read such a
 * head differently. But it works in its buffer: it replaces each byte of a line end with NUL and
 * returns pointers to the parts. So a valid head lies there without a gap, and an invalid one shows
 * a gap.
 */
#include "base/httpd/take.h"

#include <microhttpd.h>
#include <string.h>

enum {
    LINE_END = 2, /* CR LF */
};

struct taken {
    struct snp_httpd_head *head;
    const char *next; /* where the next name must be */
    bool has_gap;
};

/* Whether a value follows its name, the colon (a NUL by now) and blanks. */
static bool follows(const char *colon, const char *value)
{
    const char *at = colon + 1;

    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return at == value;
}

/* NOLINTNEXTLINE(readability-function-size): the library's prototype */
static enum MHD_Result on_header(void *cls,
                                 enum MHD_ValueKind kind,
                                 const char *name,
                                 size_t name_len,
                                 const char *value,
                                 size_t value_len)
{
    struct taken *taken = cls;

    (void)kind;
    snp_httpd_head_add(taken->head, name, name_len, value, value_len);
    taken->has_gap =
        taken->has_gap || name != taken->next || value == NULL || !follows(name + name_len, value);
    taken->next = value == NULL ? NULL : value + value_len + LINE_END;
    return MHD_YES;
}

/* 1.0 and later refuse such heads themselves in strict mode. */
static bool is_lenient(void)
{
    return MHD_get_version()[0] == '0';
}

void snp_httpd_head_take(struct MHD_Connection *connection,
                         const struct snp_httpd_line *line,
                         struct snp_httpd_head *head)
{
    struct taken taken = {
        .head = head,
        .next = line->version + strlen(line->version) + LINE_END,
        .has_gap =
            line->path != line->verb + strlen(line->verb) + 1 || line->version != line->uri_end + 1,
    };
    const union MHD_ConnectionInfo *info;

    head->is_old = strcmp(line->version, MHD_HTTP_VERSION_1_1) != 0;
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_header, &taken);
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (is_lenient() && (taken.has_gap || info == NULL ||
                         line->verb + info->header_size != taken.next + LINE_END)) {
        head->is_malformed = true;
    }
}
