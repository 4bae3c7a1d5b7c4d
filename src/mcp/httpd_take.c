/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests, taken from the HTTP library; httpd_head.c knows nothing of it. */
#include "mcp/httpd_take.h"

#include <microhttpd.h>

/* NOLINTNEXTLINE(readability-function-size): the library's prototype */
static enum MHD_Result on_header(void *cls,
                                 enum MHD_ValueKind kind,
                                 const char *name,
                                 size_t name_len,
                                 const char *value,
                                 size_t value_len)
{
    (void)kind;
    snp_httpd_head_add(cls, name, name_len, value, value_len);
    return MHD_YES;
}

void snp_httpd_head_take(struct MHD_Connection *connection, struct snp_httpd_head *head)
{
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_header, head);
}
