/* SPDX-License-Identifier: Apache-2.0 */

/* Terminals: colours where they are wanted, and nothing hostile ever. */

#include "cli/term.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "base/escape.h"
#include "base/str.h"

enum {
    WIDTH_MIN = 40,
    WIDTH_MAX = 200,
    WIDTH_FALLBACK = 80,
    ESCAPE_MAX_FACTOR =
        6, /* bytes of output per byte of input, at most: "\u202e" of three, "\xNN" of one */
};

static const char *const style_codes[] = {
    [SNP_STYLE_PLAIN] = "",         [SNP_STYLE_BOLD] = "\033[1m",
    [SNP_STYLE_DIM] = "\033[2m",    [SNP_STYLE_RED] = "\033[31m",
    [SNP_STYLE_GREEN] = "\033[32m", [SNP_STYLE_YELLOW] = "\033[33m",
    [SNP_STYLE_CYAN] = "\033[36m",
};

/* The command line tool has one thread and never changes its environment. */
static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

bool snp_term_is(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

bool snp_term_has_color(FILE *stream)
{
    const char *refused = variable("NO_COLOR");
    return snp_term_is(stream) && (refused == NULL || refused[0] == '\0') &&
           !snp_streq(variable("TERM"), "dumb");
}

unsigned snp_term_width(FILE *stream)
{
    struct winsize size = {0};
    uint64_t width = WIDTH_FALLBACK;
    const char *columns = variable("COLUMNS");
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        width = size.ws_col;
    } else if (columns == NULL || snp_parse_u64(columns, &width) < 0) {
        width = WIDTH_FALLBACK;
    }
    if (width < WIDTH_MIN) {
        return WIDTH_MIN;
    }
    return width > WIDTH_MAX ? WIDTH_MAX : (unsigned)width;
}

void snp_term_put(FILE *stream, enum snp_style style, const char *text)
{
    bool is_styled = style != SNP_STYLE_PLAIN && snp_term_has_color(stream);
    (void)fprintf(stream, "%s%s%s", is_styled ? style_codes[style] : "", text,
                  is_styled ? "\033[0m" : "");
}

int snp_term_write(FILE *stream, const char *bytes, size_t n)
{
    if (!snp_term_is(stream)) {
        return fwrite(bytes, 1, n, stream) == n ? 0 : -1;
    }
    snp_autobuf struct snp_buf shown = {0};
    snp_buf_init(&shown, n * ESCAPE_MAX_FACTOR + 1);
    if (snp_escape(&shown, bytes, n) < 0) {
        errno = ENOMEM;
        return -1;
    }
    return fwrite(snp_buf_bytes(&shown), 1, shown.len, stream) == shown.len ? 0 : -1;
}

/* ---- tables ---- */

/* A cell as it is printed (caller frees), its columns in *ret_columns; NULL when out of memory. */
static char *cell_text(const char *text, size_t *ret_columns)
{
    snp_autobuf struct snp_buf shown = {0};
    size_t n = text == NULL ? 0 : strlen(text);
    snp_buf_init(&shown, n * ESCAPE_MAX_FACTOR + 1);
    if (n > 0 && snp_escape(&shown, text, n) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < shown.len; i++) {
        char *byte = snp_buf_bytes(&shown) + i;
        *byte = *byte == '\n' || *byte == '\t' ? ' ' : *byte;
    }
    *ret_columns = shown.len == 0 ? 0 : snp_utf8_count(snp_buf_bytes(&shown), shown.len);
    const char *copied = snp_buf_cstr(&shown);
    return copied == NULL ? NULL : strdup(copied);
}

static void print_cell(
    FILE *stream, const char *text, enum snp_style style, size_t pad, bool is_last)
{
    snp_autofree char *shown = NULL;
    size_t columns = 0;
    shown = cell_text(text, &columns);
    snp_term_put(stream, style, shown == NULL ? "" : shown);
    if (is_last) {
        (void)fputc('\n', stream);
        return;
    }
    (void)fprintf(stream, "%*s", (int)(pad > columns ? pad - columns : 0) + 2, "");
}

static size_t column_width(const struct snp_table *table, size_t column)
{
    size_t width = strlen(table->heads[column]);
    for (size_t row = 0; row < table->n_rows; row++) {
        size_t columns = 0;
        snp_autofree char *shown =
            cell_text(table->cells[row * table->n_cols + column], &columns);
        width = shown != NULL && columns > width ? columns : width;
    }
    return width;
}

void snp_table_print(FILE *stream, const struct snp_table *table)
{
    snp_autofree size_t *widths = calloc(table->n_cols, sizeof(*widths));
    for (size_t i = 0; i < table->n_cols; i++) {
        size_t width = column_width(table, i);
        if (widths != NULL) {
            widths[i] = width;
        }
        print_cell(stream, table->heads[i], SNP_STYLE_BOLD, width, i + 1 == table->n_cols);
    }
    for (size_t i = 0; i < table->n_rows * table->n_cols; i++) {
        enum snp_style style = table->styles == NULL ? SNP_STYLE_PLAIN : table->styles[i];
        size_t column = i % table->n_cols;
        print_cell(stream, table->cells[i], style, widths == NULL ? 0 : widths[column],
                   column + 1 == table->n_cols);
    }
}
