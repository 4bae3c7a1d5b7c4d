/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTPD_TAKE_H
#define SNP_BASE_HTTPD_TAKE_H

/* The head of a request, from the HTTP library. */

#include "base/httpd/head.h"

struct MHD_Connection;

/*
 * The first line, as the library passes it to its callback, when the head is complete and nothing
 * of the body was read.
 */
struct snp_httpd_line {
    const char *verb;
    const char *path;
    const char *uri_end; /* end of the text that MHD_OPTION_URI_LOG_CALLBACK was called with */
    const char *version;
};

/* Add all headers of a request to head; borrowed texts live as long as the request. */
void snp_httpd_head_take(struct MHD_Connection *connection,
                         const struct snp_httpd_line *line,
                         struct snp_httpd_head *head);

#endif
