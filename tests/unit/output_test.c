/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a cell: head and tail to the character, the rest counted, all of it in the spool. */
#include "tier/engine/stream/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit/harness.h"

#define OWNER "0123456789abcdef0123456789abcdef"

enum {
    LIMIT = 10,
    SHOWN_MAX = 4 << 20
};

/* What a sink was given. */
struct shown {
    struct snp_buf text;
    uint64_t gap;
    size_t gap_at;
};

struct place {
    char dir[32];
    char spool[96];
    struct snp_spools spools;
    struct shown shown;
    struct snp_output out;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    struct snp_err err;

    if (p == NULL) {
        return -1;
    }
    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/snp-output-XXXXXX");
    if (mkdtemp(p->dir) == NULL) {
        free(p);
        return -1;
    }
    (void)snprintf(p->spool, sizeof(p->spool), "%s/out/" OWNER "-1.stdout", p->dir);
    snp_buf_init(&p->shown.text, SHOWN_MAX);
    if (snp_spools_open(&p->spools, p->dir, &err) < 0) {
        free(p);
        return -1;
    }
    snp_output_init(&p->out, LIMIT, &(struct snp_output_keeper){&p->spools, OWNER, 1, "stdout"});
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;

    snp_output_done(&p->out);
    snp_buf_done(&p->shown.text);
    snp_spools_close(&p->spools);
    (void)rmdir(p->spools.folder);
    (void)rmdir(p->dir);
    free(p);
    return 0;
}

static void sink(void *data, const char *bytes, size_t n)
{
    struct shown *shown = data;

    assert_int_equal(snp_buf_add(&shown->text, bytes, n), 0);
}

static void gap(void *data, uint64_t chars)
{
    struct shown *shown = data;

    shown->gap = chars;
    shown->gap_at = shown->text.len;
}

/* Feed text in pieces of `piece` bytes and finish. */
static void run(struct place *p, const char *text, size_t n, size_t piece)
{
    for (size_t at = 0; at < n; at += piece) {
        snp_output_feed(&p->out, text + at, n - at < piece ? n - at : piece, sink, &p->shown);
    }
    (void)snp_output_finish(&p->out, sink, &p->shown, gap);
}

static void assert_shown(struct place *p, const char *text)
{
    assert_string_equal(snp_buf_cstr(&p->shown.text), text);
}

static void assert_spooled(struct place *p, const char *bytes, size_t n)
{
    snp_autofree char *have = NULL;
    size_t have_len = 0;
    struct snp_err err;

    assert_int_equal(snp_file_read(p->spool, SHOWN_MAX, &have, &have_len, &err), 0);
    assert_int_equal(have_len, n);
    assert_memory_equal(have, bytes, n);
}

TEST(what_fits_is_shown_whole_and_not_spooled)
{
    struct place *p = *state;

    run(p, "0123456789", 10, 3);
    assert_shown(p, "0123456789");
    assert_int_equal(p->shown.gap, 0);
    assert_false(snp_output_is_cut(&p->out));
    assert_int_equal(access(p->spool, F_OK), -1);
}

TEST(one_character_more_is_cut)
{
    struct place *p = *state;

    run(p, "0123456789x", 11, 11);
    assert_shown(p, "01234"
                    "6789x");
    assert_int_equal(p->shown.gap, 1);
    assert_int_equal(p->shown.gap_at, 5);
    assert_true(snp_output_is_cut(&p->out));
    assert_int_equal(p->out.chars, 11);
    assert_spooled(p, "0123456789x", 11);
}

TEST(the_hash_of_cut_output_is_of_all_bytes)
{
    struct place *p = *state;
    const struct snp_output_keeper keeper = {&p->spools, OWNER, 1, "stdout"};
    uint64_t first;

    run(p, "0123456789xyz", 13, 3);
    first = snp_output_hash(&p->out);
    snp_output_done(&p->out);
    snp_output_init(&p->out, LIMIT, &keeper);
    run(p, "0123456789xyz", 13, 13);
    assert_true(snp_output_hash(&p->out) == first);
    snp_output_done(&p->out);
    snp_output_init(&p->out, LIMIT, &keeper);
    run(p, "012345_789xyz", 13, 13);
    assert_true(snp_output_hash(&p->out) != first);
}

TEST(nothing_written_shows_nothing)
{
    struct place *p = *state;

    run(p, "", 0, 1);
    assert_int_equal(p->shown.text.len, 0);
    assert_int_equal(p->out.bytes, 0);
}

/* Whatever the pieces, the result is the same, and no character is torn at either end. */
static void same_for_every_piece(const char *text, const char *expected, uint64_t chars)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        void *state = NULL;
        assert_int_equal(setup(&state), 0);
        struct place *p = state;
        SNP_ASSERT(p != NULL);
        run(p, text, strlen(text), piece);
        assert_shown(p, expected);
        assert_int_equal(p->out.chars, chars);
        assert_int_equal(p->out.bytes, strlen(text));
        assert_spooled(p, text, strlen(text));
        assert_int_equal(teardown(&state), 0);
    }
}

TEST(characters_of_two_to_four_bytes_stay_whole)
{
    same_for_every_piece("äöüßéèçñåøäöü",
                         "äöüßé"
                         "åøäöü",
                         13);
    same_for_every_piece("€日本語テスト漢字仮€日本",
                         "€日本語テ"
                         "字仮€日本",
                         13);
    same_for_every_piece("𝄞😀𝕏🎉🐍🚀🌍🔥💡🎲𝄞😀𝕏",
                         "𝄞😀𝕏🎉🐍"
                         "💡🎲𝄞😀𝕏",
                         13);
    same_for_every_piece("aä€😀bä€😀cä€😀d",
                         "aä€😀b"
                         "cä€😀d",
                         13);
}

TEST(what_is_no_text_counts_too)
{
    struct place *p = *state;
    char bytes[1000];

    memset(bytes, 0x80, sizeof(bytes));
    run(p, bytes, sizeof(bytes), 100);
    assert_int_equal(p->out.chars, sizeof(bytes));
    assert_int_equal(p->shown.text.len, LIMIT);
    assert_int_equal(p->shown.gap, sizeof(bytes) - LIMIT);
    assert_spooled(p, bytes, sizeof(bytes));
}

TEST(truncated_sequences_are_characters_of_their_own)
{
    struct place *p = *state;
    static const char text[] = "\xe2\x82"
                               "a\xf0\x9f"
                               "b\xc3"
                               "c";

    run(p, text, sizeof(text) - 1, 1);
    assert_int_equal(p->out.chars, 6);
    assert_int_equal(p->shown.text.len, sizeof(text) - 1);
}

TEST(a_flood_keeps_its_first_and_last_characters)
{
    struct place *p = *state;
    static char text[2 << 20];

    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (char)('a' + i % 26);
    }
    run(p, text, sizeof(text), 65536);
    assert_int_equal(p->shown.text.len, LIMIT);
    assert_memory_equal(snp_buf_bytes(&p->shown.text), text, LIMIT / 2);
    assert_memory_equal(snp_buf_bytes(&p->shown.text) + LIMIT / 2, text + sizeof(text) - LIMIT / 2,
                        LIMIT / 2);
    assert_int_equal(p->shown.gap, sizeof(text) - LIMIT);
    assert_spooled(p, text, sizeof(text));
}

TEST(a_spool_that_cannot_be_made_costs_only_the_full_text)
{
    struct place *p = *state;

    snp_output_done(&p->out);
    (void)snprintf(p->spools.folder, sizeof(p->spools.folder), "/nonexistent");
    snp_output_init(&p->out, LIMIT, &(struct snp_output_keeper){&p->spools, OWNER, 1, "stdout"});
    run(p, "0123456789abcdef", 16, 4);
    assert_shown(p, "01234"
                    "bcdef");
    assert_int_equal(p->shown.gap, 6);
}

#define PLACE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

RUN(PLACE(what_fits_is_shown_whole_and_not_spooled),
    PLACE(one_character_more_is_cut),
    PLACE(the_hash_of_cut_output_is_of_all_bytes),
    PLACE(nothing_written_shows_nothing),
    UNIT(characters_of_two_to_four_bytes_stay_whole),
    PLACE(what_is_no_text_counts_too),
    PLACE(truncated_sequences_are_characters_of_their_own),
    PLACE(a_flood_keeps_its_first_and_last_characters),
    PLACE(a_spool_that_cannot_be_made_costs_only_the_full_text))
