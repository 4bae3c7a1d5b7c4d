/* SPDX-License-Identifier: Apache-2.0 */

/* Terminals: colours if wanted, and never hostile sequences. */

#include "base/cli/term.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "base/cli/need.h"
#include "base/str.h"
#include "base/text/escape.h"

enum {
    WIDTH_MIN = 40,
    WIDTH_MAX = 200,
    WIDTH_FALLBACK = 80,
    /* bytes of output per byte of input, at most: "\u202e" of three, "\xNN" of one */
    ESCAPE_MAX_FACTOR = 6,
    GAP = 2,
    LAST_MIN = 12, /* minimum columns of a table's last column */
    CUT_LEN = 3,
};

#define CUT "..."

static const char *const style_codes[] = {
    [SNP_STYLE_PLAIN] = "",        [SNP_STYLE_BOLD] = "\033[1m",   [SNP_STYLE_DIM] = "\033[2m",
    [SNP_STYLE_RED] = "\033[31m",  [SNP_STYLE_GREEN] = "\033[32m", [SNP_STYLE_YELLOW] = "\033[33m",
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

const char *snp_term_code(FILE *stream, enum snp_style style)
{
    return snp_term_has_color(stream) ? style_codes[style] : "";
}

void snp_term_put(FILE *stream, enum snp_style style, const char *text)
{
    const char *code = snp_term_code(stream, style);

    (void)fprintf(stream, "%s%s%s", code, text, code[0] == '\0' ? "" : SNP_TERM_PLAIN);
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

char *snp_term_line(const char *bytes, size_t n)
{
    snp_autofree char *line = snp_need(malloc(n + 1));
    snp_autobuf struct snp_buf shown = {0};

    for (size_t i = 0; i < n; i++) {
        line[i] = (char)(bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t' ? ' ' : bytes[i]);
    }
    snp_buf_init(&shown, n * ESCAPE_MAX_FACTOR + 1);
    (void)snp_need(snp_escape(&shown, line, n) < 0 ? NULL : snp_buf_cstr(&shown));
    return SNP_TAKE_PTR(shown.data); /* nothing was consumed, so it starts at data */
}

/* ---- lines ---- */

/* Bytes of a word: up to a blank, or to the end of a command. */
static size_t word_len(const char *text, size_t n)
{
    static const char command[] = "snipara-sandbox ";
    static const char *const ends[] = {"; ", ". ", ", ", "`", " (", ") "};
    size_t from = text[0] == '`' || text[0] == '(' ? 1 : 0;
    size_t len = n;

    if (n < from + strlen(command) || memcmp(text + from, command, strlen(command)) != 0) {
        const char *blank = memchr(text, ' ', n);

        return blank == NULL ? n : (size_t)(blank - text);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(ends); i++) {
        const char *end = memmem(text + from, len - from, ends[i], strlen(ends[i]));

        len = end == NULL ? len : (size_t)(end - text) + (ends[i][0] == ' ' ? 0 : 1);
    }
    return len;
}

void snp_term_fill_to(
    FILE *stream, const char *text, size_t n, size_t at, size_t indent, size_t width)
{
    for (const char *end = text + n; text < end;) {
        size_t gap = strspn(text, " ");
        size_t len;
        size_t columns;

        gap = gap < (size_t)(end - text) ? gap : (size_t)(end - text);
        text += gap;
        len = text == end ? 0 : word_len(text, (size_t)(end - text));
        columns = snp_utf8_count(text, len);
        if (at > indent && at + gap + columns > width) {
            (void)fprintf(stream, "\n%*s", (int)indent, "");
            at = indent;
            gap = 0;
        }
        (void)fprintf(stream, "%*s%.*s", (int)gap, "", (int)len, text);
        at += gap + columns;
        text += len;
    }
}

void snp_term_fill(FILE *stream, const char *text, size_t at, size_t indent)
{
    snp_term_fill_to(stream, text, strlen(text), at, indent,
                     snp_term_is(stream) ? snp_term_width(stream) : SIZE_MAX);
}

void snp_term_note(FILE *stream, enum snp_style style, const char *label, const char *text)
{
    snp_term_put(stream, style, label);
    (void)fputs(": ", stream);
    snp_term_fill(stream, text, strlen(label) + 2, 2);
    (void)fputc('\n', stream);
}

void snp_term_text(FILE *stream, const char *bytes, size_t n, size_t at)
{
    snp_autobuf struct snp_buf shown = {0};
    const char *line;

    if (!snp_term_is(stream)) {
        (void)!fwrite(bytes, 1, n, stream);
        return;
    }
    snp_buf_init(&shown, n * ESCAPE_MAX_FACTOR + 1);
    line = snp_need(snp_escape(&shown, bytes, n) < 0 ? NULL : snp_buf_cstr(&shown));
    for (;;) {
        size_t len = strcspn(line, "\n");

        snp_term_fill_to(stream, line, len, at, at, snp_term_width(stream));
        if (line[len] == '\0' || line[len + 1] == '\0') {
            return;
        }
        (void)fprintf(stream, "\n%*s", (int)at, "");
        line += len + 1;
    }
}

void snp_term_printf(FILE *stream, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    size_t width = snp_term_is(stream) ? snp_term_width(stream) : SIZE_MAX;
    va_list args;

    va_start(args, fmt);
    (void)snp_need(vasprintf(&text, fmt, args) < 0 ? NULL : stream);
    va_end(args);
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");

        snp_term_fill_to(stream, line, n, 0, strspn(line, " ") + GAP, width);
        line += n;
        if (*line == '\n') {
            (void)fputc('\n', stream);
            line++;
        }
    }
}

/* ---- tables ---- */

void snp_table_add(struct snp_table *table, const char *text)
{
    struct snp_cell *cells = snp_need(realloc(table->cells, (table->n_cells + 1) * sizeof(*cells)));
    struct snp_cell *cell = &cells[table->n_cells++];

    text = text == NULL ? "" : text;
    *cell = (struct snp_cell){.text = snp_term_line(text, strlen(text))};
    cell->columns = snp_utf8_count(cell->text, strlen(cell->text));
    table->cells = cells;
}

void snp_table_addf(struct snp_table *table, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    (void)snp_need(vasprintf(&text, fmt, args) < 0 ? NULL : table);
    va_end(args);
    snp_table_add(table, text);
}

void snp_table_style(struct snp_table *table, enum snp_style style)
{
    table->cells[table->n_cells - 1].style = style;
}

/* Bytes of the first `most` characters of valid UTF-8. */
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

/* Print at most `most` columns of a cell; returns the columns used. */
static size_t print_cut(FILE *stream, struct snp_cell *cell, enum snp_style style, size_t most)
{
    if (cell->columns > most && most > CUT_LEN) {
        /* The text was cut. */
        memcpy(cell->text + bytes_of(cell->text, most - CUT_LEN), CUT, CUT_LEN + 1);
        cell->columns = most;
    }
    snp_term_put(stream, style, cell->text);
    return cell->columns;
}

/*
 * Fit the columns to a terminal by cutting the last one, so that lines do not wrap. False: too
 * little of it would be left.
 */
static bool widths_fit(FILE *stream, const struct snp_table *table, size_t *widths)
{
    size_t most = snp_term_is(stream) ? snp_term_width(stream) : SIZE_MAX;
    size_t before = 0;
    size_t *last = &widths[table->n_cols - 1];

    for (size_t i = 0; i < table->n_cols; i++) {
        widths[i] = strlen(table->heads[i]);
        for (size_t at = i; at < table->n_cells; at += table->n_cols) {
            size_t columns = table->cells[at].columns;

            widths[i] = columns > widths[i] ? columns : widths[i];
        }
        before += i + 1 == table->n_cols ? 0 : widths[i] + GAP;
    }
    if (before + *last <= most) {
        return true;
    }
    *last = most > before ? most - before : 0;
    return *last >= LAST_MIN;
}

/*
 * Print rows one below another, each as its first cell and then "Head value, Head value" in lines
 * that fit.
 */
static void print_records(FILE *stream, const struct snp_table *table)
{
    size_t most = snp_term_width(stream);
    size_t used = 0;

    for (size_t at = 0; at < table->n_cells; at++) {
        struct snp_cell *cell = &table->cells[at];
        size_t column = at % table->n_cols;
        size_t head = strlen(table->heads[column]);

        if (column == 0) {
            (void)fputs(used > 0 ? "\n" : "", stream);
            (void)print_cut(stream, cell, SNP_STYLE_BOLD, most);
            (void)fputc('\n', stream);
            used = 0;
            continue;
        }
        if (cell->columns == 0) {
            continue;
        }
        if (used > 0 && used + (size_t)2 * GAP + head + cell->columns > most) {
            (void)fputc('\n', stream);
            used = 0;
        }
        (void)fprintf(stream, "%*s", GAP, "");
        snp_term_put(stream, SNP_STYLE_DIM, table->heads[column]);
        (void)fputc(' ', stream);
        used += GAP + head + 1;
        used += print_cut(stream, cell, cell->style, most > used ? most - used : 0);
    }
    (void)fputs(used > 0 ? "\n" : "", stream);
}

static void print_row(FILE *stream, const struct snp_table *table, const size_t *widths, size_t row)
{
    size_t indent = 0;

    for (size_t i = 0; i < table->n_cols; i++) {
        struct snp_cell *cell = &table->cells[row * table->n_cols + i];
        size_t columns;
        size_t fill;

        if (table->wraps && i + 1 == table->n_cols) {
            (void)fputs(snp_term_code(stream, cell->style), stream);
            snp_term_fill(stream, cell->text, indent, indent);
            (void)fputs(snp_term_code(stream, cell->style)[0] == '\0' ? "" : SNP_TERM_PLAIN,
                        stream);
            break;
        }
        indent += widths[i] + GAP;
        columns = print_cut(stream, cell, cell->style, widths[i]);
        fill = widths[i] > columns ? widths[i] - columns : 0;
        (void)fprintf(stream, "%*s", i + 1 == table->n_cols ? 0 : (int)fill + GAP, "");
    }
    (void)fputc('\n', stream);
}

static void print_table(FILE *stream, const struct snp_table *table)
{
    snp_autofree size_t *widths = snp_need(calloc(table->n_cols, sizeof(*widths)));

    if (!widths_fit(stream, table, widths)) {
        print_records(stream, table);
        return;
    }
    for (size_t i = 0; i < table->n_cols; i++) {
        bool is_last = i + 1 == table->n_cols;
        int fill = is_last ? 0 : (int)(widths[i] - strlen(table->heads[i])) + GAP;

        snp_term_put(stream, SNP_STYLE_BOLD, table->heads[i]);
        (void)fprintf(stream, "%*s%s", fill, "", is_last ? "\n" : "");
    }
    for (size_t row = 0; row < table->n_cells / table->n_cols; row++) {
        print_row(stream, table, widths, row);
    }
}

void snp_table_print(FILE *stream, struct snp_table *table, const char *nothing)
{
    if (table->n_cells == 0) {
        (void)fprintf(stream, "%s\n", nothing);
    } else {
        print_table(stream, table);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        free(table->cells[i].text);
    }
    free(table->cells);
    *table = (struct snp_table){.heads = table->heads, .n_cols = table->n_cols};
}
