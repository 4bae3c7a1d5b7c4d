/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SHOW_TERM_H
#define SNP_CLI_SHOW_TERM_H

/*
 * What may be shown on a terminal. Text of a sandboxed program is hostile: on a
 * terminal its control characters are shown, never obeyed; in a pipe it stays as it is.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

enum snp_style {
    SNP_STYLE_PLAIN = 0,
    SNP_STYLE_BOLD,
    SNP_STYLE_DIM,
    SNP_STYLE_RED,
    SNP_STYLE_GREEN,
    SNP_STYLE_YELLOW,
    SNP_STYLE_CYAN,
};

bool snp_term_is(FILE *stream);
/* A terminal, and neither NO_COLOR (not empty) nor TERM=dumb is set. */
bool snp_term_has_color(FILE *stream);
/* Columns: of the terminal, else of COLUMNS, else 80; 40 to 200. */
unsigned snp_term_width(FILE *stream);

/* Print text (trusted) in a style, plain where there is no colour. */
void snp_term_put(FILE *stream, enum snp_style style, const char *text);

/*
 * Write untrusted bytes: escaped on a terminal, unchanged elsewhere. 0, or -1 with errno.
 * A chunk may end inside a UTF-8 character; it is then shown escaped on a terminal.
 */
int snp_term_write(FILE *stream, const char *bytes, size_t n) SNP_NODISCARD;

/* A table with a heading: columns aligned, plain in a pipe, coloured on a terminal. */
struct snp_table {
    const char *const *heads;
    size_t n_cols;
    const char *const *cells; /* n_rows * n_cols, row by row; NULL reads as "" */
    size_t n_rows;
    const enum snp_style *styles; /* one per cell, or NULL */
};

/*
 * Cells are escaped as untrusted text; newlines too. On a terminal that is too narrow the last
 * column is cut, or each row is printed as a few lines.
 */
void snp_table_print(FILE *stream, const struct snp_table *table);

#endif
