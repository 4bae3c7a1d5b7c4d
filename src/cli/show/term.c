/* SPDX-License-Identifier: Apache-2.0 */

/* Terminals: colours where they are wanted, and nothing hostile ever. */

#include "cli/show/term.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "base/str.h"
#include "text/escape.h"

enum {
    WIDTH_MIN = 40,
    WIDTH_MAX = 200,
    WIDTH_FALLBACK = 80,
    ESCAPE_MAX_FACTOR =
        6, /* bytes of output per byte of input, at most: "\u202e" of three, "\xNN" of one */
    GAP = 2,
    LAST_MIN = 12, /* columns that the last one of a table needs */
    CUT_LEN = 3,
};

#define CUT "..."

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

/* The bytes of at most `most` characters of valid UTF-8. */
static size_t bytes_of(const char *text, size_t most)
{
    size_t at = 0;

    for (size_t n = 0; text[at] != '\0'; at++) {
        bool begins = ((unsigned char)text[at] & 0xc0U) != 0x80U;

        if (begins && n == most) {
            break;
        }
        n += begins ? 1 : 0;
    }
    return at;
}

/* Printed in so many columns, filled up unless it is the last one of its line. */
static void print_cell(
    FILE *stream, const char *text, enum snp_style style, size_t width, bool is_last)
{
    size_t columns = 0;
    snp_autofree char *shown = cell_text(text, &columns);

    if (shown != NULL && columns > width && width > CUT_LEN) {
        size_t n = bytes_of(shown, width - CUT_LEN);

        memcpy(shown + n, CUT, CUT_LEN + 1); /* there were more bytes than these */
        columns = width;
    }
    snp_term_put(stream, style, shown == NULL ? "" : shown);
    if (is_last) {
        (void)fputc('\n', stream);
    } else {
        (void)fprintf(stream, "%*s", (int)(width > columns ? width - columns : 0) + GAP, "");
    }
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

static enum snp_style style_of(const struct snp_table *table, size_t at)
{
    return table->styles == NULL ? SNP_STYLE_PLAIN : table->styles[at];
}

/*
 * On a terminal lines are not broken by it: the last column is cut. False: that would leave too
 * little of it.
 */
static bool widths_fit(FILE *stream, const struct snp_table *table, size_t *widths)
{
    size_t most = snp_term_is(stream) ? snp_term_width(stream) : SIZE_MAX;
    size_t before = 0;
    size_t *last = &widths[table->n_cols - 1];

    for (size_t i = 0; i < table->n_cols; i++) {
        widths[i] = column_width(table, i);
        before += i + 1 == table->n_cols ? 0 : widths[i] + GAP;
    }
    if (before + *last <= most) {
        return true;
    }
    *last = most > before ? most - before : 0;
    return *last >= LAST_MIN;
}

/* A row below the other, each as its first cell and then "Head value, Head value" in lines that fit. */
static void print_records(FILE *stream, const struct snp_table *table)
{
    size_t most = snp_term_width(stream);

    for (size_t row = 0; row < table->n_rows; row++) {
        size_t at = row * table->n_cols;
        size_t used = 0;

        print_cell(stream, table->cells[at], SNP_STYLE_BOLD, most, true);
        for (size_t i = 1; i < table->n_cols; i++) {
            size_t head = strlen(table->heads[i]);
            size_t columns = 0;
            snp_autofree char *shown = cell_text(table->cells[at + i], &columns);
            bool goes_on = used > 0 && used + (size_t)2 * GAP + head + columns <= most;

            if (shown == NULL || columns == 0) {
                continue;
            }
            if (!goes_on && used > 0) {
                (void)fputc('\n', stream);
                used = 0;
            }
            (void)fprintf(stream, "%*s", GAP, "");
            snp_term_put(stream, SNP_STYLE_DIM, table->heads[i]);
            (void)fputc(' ', stream);
            used += GAP + head + 1;
            if (used + columns > most && most > used + CUT_LEN) {
                memcpy(shown + bytes_of(shown, most - used - CUT_LEN), CUT, CUT_LEN + 1);
                columns = most - used;
            }
            snp_term_put(stream, style_of(table, at + i), shown);
            used += columns;
        }
        (void)fputs(used > 0 ? "\n" : "", stream);
    }
}

void snp_table_print(FILE *stream, const struct snp_table *table)
{
    snp_autofree size_t *widths = calloc(table->n_cols, sizeof(*widths));

    if (widths == NULL) {
        return; /* nothing can be shown without memory */
    }
    if (!widths_fit(stream, table, widths)) {
        print_records(stream, table);
        return;
    }
    for (size_t i = 0; i < table->n_cols; i++) {
        print_cell(stream, table->heads[i], SNP_STYLE_BOLD, widths[i], i + 1 == table->n_cols);
    }
    for (size_t i = 0; i < table->n_rows * table->n_cols; i++) {
        size_t column = i % table->n_cols;

        print_cell(stream, table->cells[i], style_of(table, i), widths[column],
                   column + 1 == table->n_cols);
    }
}
