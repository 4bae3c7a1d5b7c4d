/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_LOGS_PAGE_EMBEDDED_H
#define SNP_CLI_LOGS_PAGE_EMBEDDED_H

/*
 * Files of this folder that are built into the program (tools/embed): page.html, page.css, page.js.
 */

#include <stddef.h>

extern const char snp_page_html[];
extern const size_t snp_page_html_len;

extern const char snp_page_css[];
extern const size_t snp_page_css_len;

extern const char snp_page_js[];
extern const size_t snp_page_js_len;

#endif
