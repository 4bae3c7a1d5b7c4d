/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal text: what a sandboxed program wrote is shown, never obeyed. */
#include "base/cli/term.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/escape.h"
#include "unit/harness.h"

static void shown(const char *bytes, size_t n, const char *expected)
{
    snp_autobuf struct snp_buf out;
    snp_buf_init(&out, 1000);
    assert_int_equal(snp_escape(&out, bytes, n), 0);
    assert_string_equal(snp_buf_cstr(&out), expected);
}

#define SHOWN(text, expected) shown((text), sizeof(text) - 1, (expected))

TEST(plain_text_stays)
{
    SHOWN("a b\n\tc", "a b\n\tc");
    SHOWN("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x8d", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x8d");
    SHOWN("", "");
}

TEST(control_characters_are_shown)
{
    SHOWN("\033[2J", "\\x1b[2J");
    SHOWN("\033]52;c;aGk=\a", "\\x1b]52;c;aGk=\\x07");
    SHOWN("a\rb\bc\0d\x7f", "a\\x0db\\x08c\\x00d\\x7f");
}

TEST(eight_bit_controls_and_direction_overrides_are_shown)
{
    SHOWN("\xc2\x9b"
          "2J",
          "\\u009b2J");
    SHOWN("x\xe2\x80\xae"
          "y",
          "x\\u202ey");
    SHOWN("\xf3\xa0\x80\x81", "\\U000e0001");
}

TEST(invalid_bytes_are_shown_one_by_one)
{
    SHOWN("\x9b"
          "31m",
          "\\x9b31m");
    SHOWN("a\xe2\x82", "a\\xe2\\x82");
    SHOWN("\xed\xa0\x80", "\\xed\\xa0\\x80");
}

TEST(every_byte_fits_the_room_that_is_promised)
{
    for (int byte = 0; byte < 256; byte++) {
        char one = (char)byte;
        snp_autobuf struct snp_buf out;
        snp_buf_init(&out, 6);
        assert_int_equal(snp_escape(&out, &one, 1), 0);
    }
}

TEST(elsewhere_than_on_a_terminal_bytes_stay)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_false(snp_term_has_color(out));
    assert_int_equal(snp_term_write(out, "\033[2J", 4), 0);
    snp_term_put(out, SNP_STYLE_RED, "x");
    rewind(out);
    assert_int_equal(getline(&text, &n, out), 5);
    assert_string_equal(text, "\033[2Jx");
    free(text);
    assert_int_equal(fclose(out), 0);
}

TEST(tables_are_aligned_and_cells_escaped)
{
    static const char *const heads[] = {"A", "B"};
    static const char *const cells[] = {"caf\xc3\xa9", "x", "1", "\033\n", NULL, "y"};
    struct snp_table table = SNP_TABLE(heads);
    char text[200] = "";
    FILE *out = tmpfile();
    assert_non_null(out);
    for (size_t i = 0; i < SNP_ARRAY_LEN(cells); i++) {
        snp_table_add(&table, cells[i]);
    }
    snp_table_print(out, &table, "nothing");
    rewind(out);
    text[fread(text, 1, sizeof(text) - 1, out)] = '\0';
    assert_string_equal(text, "A     B\ncaf\xc3\xa9  x\n1     \\x1b \n      y\n");
    assert_int_equal(fclose(out), 0);
}

RUN(UNIT(plain_text_stays),
    UNIT(control_characters_are_shown),
    UNIT(eight_bit_controls_and_direction_overrides_are_shown),
    UNIT(invalid_bytes_are_shown_one_by_one),
    UNIT(every_byte_fits_the_room_that_is_promised),
    UNIT(elsewhere_than_on_a_terminal_bytes_stay),
    UNIT(tables_are_aligned_and_cells_escaped))
