/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTPD_TAKE_H
#define SNP_MCP_HTTPD_TAKE_H

/* The head of a request, from the HTTP library. */

#include "mcp/httpd_head.h"

struct MHD_Connection;

/* Add all headers of a request to head; what it borrows lives as long as the request. */
void snp_httpd_head_take(struct MHD_Connection *connection, struct snp_httpd_head *head);

#endif
