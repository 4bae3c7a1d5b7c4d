/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 in pieces, here and by a thread: the same as of the whole. */
#include "store/hasher.h"

#include <stdlib.h>
#include <string.h>

#include "store/blob.h"
#include "unit/harness.h"

enum {
    TOTAL = 3 << 20,
    SMALL = 1000,
    LARGE = 200 << 10,
};

static void hashed_in(struct snp_hasher *hasher, const char *bytes, const size_t steps[3])
{
    uint8_t hash[SNP_HASHER_BYTES];
    struct snp_err err;
    size_t at = 0;

    assert_int_equal(snp_hasher_begin(hasher, &err), 0);
    for (unsigned i = 0; at < TOTAL; i++) {
        size_t step = steps[i % 3] < TOTAL - at ? steps[i % 3] : TOTAL - at;

        assert_int_equal(snp_hasher_add(hasher, bytes + at, step, &err), 0);
        at += step;
    }
    assert_int_equal(snp_hasher_end(hasher, hash, &err), 0);
    assert_true(snp_blob_is(NULL, bytes, TOTAL, hash));
}

static void in_all_ways(struct snp_hasher *hasher)
{
    static const size_t ways[][3] = {
        {SMALL, SMALL, SMALL}, {LARGE, LARGE, LARGE}, {LARGE, SMALL, LARGE},
        {SMALL, LARGE, 1},     {TOTAL, TOTAL, TOTAL},
    };
    char *bytes = malloc(TOTAL);

    assert_non_null(bytes);
    for (size_t i = 0; i < TOTAL; i++) {
        bytes[i] = (char)(i * 2654435761U >> 13);
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        hashed_in(hasher, bytes, ways[i]);
    }
    free(bytes);
}

TEST(pieces_are_hashed_in_their_order)
{
    struct snp_hasher *hasher = NULL;
    struct snp_err err;

    assert_int_equal(snp_hasher_new(&hasher, &err), 0);
    in_all_ways(hasher);
    assert_int_equal(snp_hasher_mark(hasher), 0); /* no thread has had any of them */
    snp_hasher_use_thread(hasher);
    in_all_ways(hasher);
    assert_true(snp_hasher_mark(hasher) > 0);
    snp_hasher_free(hasher);
}

/* Bytes are the caller's again after the wait for their mark, and only then. */
TEST(what_was_waited_for_may_change)
{
    struct snp_hasher *hasher = NULL;
    char *bytes = calloc(1, LARGE);
    char *all = malloc((size_t)LARGE * 2);
    uint8_t hash[SNP_HASHER_BYTES];
    struct snp_err err;

    assert_non_null(bytes);
    assert_non_null(all);
    memset(all, 0, LARGE);
    memset(all + LARGE, 1, LARGE);
    assert_int_equal(snp_hasher_new(&hasher, &err), 0);
    snp_hasher_use_thread(hasher);
    assert_int_equal(snp_hasher_begin(hasher, &err), 0);
    assert_int_equal(snp_hasher_add(hasher, bytes, LARGE, &err), 0);
    snp_hasher_wait(hasher, snp_hasher_mark(hasher));
    memset(bytes, 1, LARGE);
    assert_int_equal(snp_hasher_add(hasher, bytes, LARGE, &err), 0);
    assert_int_equal(snp_hasher_end(hasher, hash, &err), 0);
    assert_true(snp_blob_is(NULL, all, (size_t)LARGE * 2, hash));
    snp_hasher_free(hasher);
    free(all);
    free(bytes);
}

/* Given up with pieces under way: they are hashed before their bytes may go. */
TEST(it_can_be_freed_with_work_left)
{
    struct snp_hasher *hasher = NULL;
    char *bytes = calloc(1, TOTAL);
    struct snp_err err;

    assert_non_null(bytes);
    assert_int_equal(snp_hasher_new(&hasher, &err), 0);
    snp_hasher_use_thread(hasher);
    assert_int_equal(snp_hasher_begin(hasher, &err), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(snp_hasher_add(hasher, bytes, TOTAL, &err), 0);
    }
    snp_hasher_free(hasher);
    free(bytes);
}

RUN(UNIT(pieces_are_hashed_in_their_order),
    UNIT(what_was_waited_for_may_change),
    UNIT(it_can_be_freed_with_work_left))
