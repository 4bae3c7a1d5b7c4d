/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_TERM_H
#define SNP_BASE_CLI_TERM_H

/*
 * Output for terminals. Text of a sandboxed program is hostile: on a terminal its control
 * characters are displayed, never interpreted; in a pipe it is unchanged.
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

/* The codes that begin and end a style on this stream; "" without colour. */
const char *snp_term_code(FILE *stream, enum snp_style style);
#define SNP_TERM_PLAIN "\033[0m"

/* Print text (trusted) in a style, plain without colour. */
void snp_term_put(FILE *stream, enum snp_style style, const char *text);

/*
 * Write untrusted bytes: escaped on a terminal, unchanged elsewhere. 0, or -1 with errno.
 * A chunk may end inside a UTF-8 character; it is then shown escaped on a terminal.
 */
int snp_term_write(FILE *stream, const char *bytes, size_t n) SNP_NODISCARD;

/*
 * Print a text without line ends. On a terminal it wraps at blanks: it begins at column `at`,
 * further lines at `indent`. Words, and our commands (for pasting), are not broken.
 */
void snp_term_fill(FILE *stream, const char *text, size_t at, size_t indent);
/* The same with an explicit width. */
void snp_term_fill_to(
    FILE *stream, const char *text, size_t n, size_t at, size_t indent, size_t width);
/* Print "label: text"; text is safe (snp_term_line) or our own. */
void snp_term_note(FILE *stream, enum snp_style style, const char *label, const char *text);
/* Print untrusted text with each line starting at column `at`; in a pipe it is unchanged. */
void snp_term_text(FILE *stream, const char *bytes, size_t n, size_t at);
/* Print our own lines wrapped; further lines are indented by 2 more than the first. */
void snp_term_printf(FILE *stream, const char *fmt, ...) SNP_PRINTF(2, 3);

/* Untrusted bytes as one line, escaped; the caller frees. */
char *snp_term_line(const char *bytes, size_t n) __attribute__((returns_nonnull));

/* A table with a heading, filled cell by cell, row by row; cells are escaped as untrusted text. */
struct snp_table {
    const char *const *heads;
    size_t n_cols;
    struct snp_cell {
        char *text;
        size_t columns;
        enum snp_style style;
    } * cells; /* owned */
    size_t n_cells;
    bool wraps; /* on a terminal the last column is broken into lines, not cut */
};
#define SNP_TABLE(heads_)                                  \
    {                                                      \
        .heads = (heads_), .n_cols = SNP_ARRAY_LEN(heads_) \
    }

void snp_table_add(struct snp_table *table, const char *text); /* NULL reads as "" */
void snp_table_addf(struct snp_table *table, const char *fmt, ...) SNP_PRINTF(2, 3);
/* Style the cell that was added last. */
void snp_table_style(struct snp_table *table, enum snp_style style);
/*
 * Print it: columns aligned, plain in a pipe, coloured on a terminal; `nothing` if it has no rows;
 * then empty it. On a terminal that is too narrow the last column is cut, or each row is printed as
 * a few lines.
 */
void snp_table_print(FILE *stream, struct snp_table *table, const char *nothing);

#endif
