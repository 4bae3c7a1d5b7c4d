/* SPDX-License-Identifier: Apache-2.0 */
/* Full outputs: room is bounded at each write, and who has most gives way. */
#include "tier/engine/stream/spool.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/str.h"
#include "unit/harness.h"

#define QUIET "00000000000000000000000000000001"
#define NOISY "00000000000000000000000000000002"
#define OTHER "00000000000000000000000000000003"

enum {
    STREAM = 100,
    SESSION = 200,
    ALL = 400,
    CHUNK = 60
};

struct place {
    char dir[32];
    struct snp_spools spools;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    struct snp_err err;

    if (p == NULL) {
        return -1;
    }
    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/snp-spool-XXXXXX");
    if (mkdtemp(p->dir) == NULL || snp_spools_open(&p->spools, p->dir, &err) < 0) {
        free(p);
        return -1;
    }
    p->spools.stream_max = STREAM;
    p->spools.session_max = SESSION;
    p->spools.all_max = ALL;
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    int left;

    snp_spools_close(&p->spools);
    left = rmdir(p->spools.folder); /* it is empty */
    (void)rmdir(p->dir);
    free(p);
    return left;
}

/* n bytes of one output, as chunks. */
static void write_some(struct place *p, struct snp_spool *spool, size_t n)
{
    static const char bytes[CHUNK] = "x";

    while (n > 0) {
        size_t now = n < CHUNK ? n : CHUNK;
        snp_spool_add(&p->spools, spool, bytes, now);
        assert_true(p->spools.bytes <= p->spools.all_max);
        n -= now;
    }
}

static void keep(struct place *p, const char *owner, uint64_t cell, size_t n)
{
    struct snp_spool *spool = snp_spool_new(&p->spools, owner, cell, "stdout");

    assert_non_null(spool);
    write_some(p, spool, n);
    snp_spool_done(spool);
}

/* Bytes that are kept of it, also on the disk; -1 = nothing. */
static int kept(struct place *p, const char *owner, uint64_t cell)
{
    char handle[64];
    char bytes[STREAM + 1];
    struct snp_spool_part part = {.bytes = bytes, .room = sizeof(bytes)};
    struct snp_err err;

    (void)snprintf(handle, sizeof(handle), "%s/%llu", owner, (unsigned long long)cell);
    if (snp_spool_read(&p->spools, handle, "stdout", 0, &part, &err) < 0) {
        return -1;
    }
    return (int)part.size;
}

static bool is_cut(struct place *p, const char *handle)
{
    char bytes[STREAM + 1];
    struct snp_spool_part part = {.bytes = bytes, .room = sizeof(bytes)};
    struct snp_err err;

    assert_int_equal(snp_spool_read(&p->spools, handle, "stdout", 0, &part, &err), 0);
    return part.is_cut;
}

TEST(a_stream_is_cut_at_its_bound_and_says_so)
{
    struct place *p = *state;

    keep(p, QUIET, 1, STREAM + 50);
    keep(p, NOISY, 2, STREAM);
    assert_int_equal(kept(p, QUIET, 1), STREAM);
    assert_true(is_cut(p, QUIET "/1"));
    assert_false(is_cut(p, NOISY "/2"));
}

TEST(a_session_replaces_its_own_older_outputs)
{
    struct place *p = *state;

    keep(p, QUIET, 1, STREAM);
    keep(p, NOISY, 1, STREAM);
    keep(p, NOISY, 2, STREAM);
    keep(p, NOISY, 3, STREAM);
    assert_int_equal(kept(p, QUIET, 1), STREAM);
    assert_int_equal(kept(p, NOISY, 1), -1);
    assert_int_equal(kept(p, NOISY, 2), STREAM);
    assert_int_equal(kept(p, NOISY, 3), STREAM);
}

TEST(outputs_being_written_are_bounded_too)
{
    struct place *p = *state;
    struct snp_spool *first = snp_spool_new(&p->spools, NOISY, 1, "stdout");
    struct snp_spool *second = snp_spool_new(&p->spools, NOISY, 1, "stderr");
    struct snp_spool *third = snp_spool_new(&p->spools, NOISY, 2, "stdout");

    write_some(p, first, STREAM);
    write_some(p, second, STREAM);
    write_some(p, third, STREAM); /* nothing of the session can go: they are all open */
    assert_int_equal(p->spools.bytes, SESSION);
    assert_int_equal(kept(p, NOISY, 2), 0);
    assert_true(snp_spool_is_empty(third) && !snp_spool_is_empty(first));
    snp_spool_done(first);
    write_some(p, third, STREAM);
    assert_int_equal(kept(p, NOISY, 1), -1);
    assert_int_equal(kept(p, NOISY, 2), STREAM);
    snp_spool_done(second);
    snp_spool_done(third);
}

TEST(whoever_has_most_gives_way)
{
    struct place *p = *state;

    keep(p, QUIET, 1, 50);
    keep(p, NOISY, 1, STREAM);
    keep(p, NOISY, 2, STREAM);
    keep(p, OTHER, 1, STREAM);
    keep(p, OTHER, 2, 50); /* full */
    assert_int_equal(p->spools.bytes, ALL);
    keep(p, QUIET, 2, STREAM);
    assert_int_equal(kept(p, NOISY, 1), -1);
    assert_int_equal(kept(p, QUIET, 1), 50);
    assert_int_equal(kept(p, QUIET, 2), STREAM);
    assert_int_equal(kept(p, OTHER, 1), STREAM);
}

TEST(who_has_most_takes_nothing_from_others)
{
    struct place *p = *state;
    struct snp_spool *a;
    struct snp_spool *b;

    p->spools.all_max = 250;
    keep(p, QUIET, 1, 60);
    a = snp_spool_new(&p->spools, NOISY, 1, "stdout");
    b = snp_spool_new(&p->spools, NOISY, 1, "stderr");
    write_some(p, a, STREAM);
    write_some(p, b, STREAM);
    assert_int_equal(kept(p, QUIET, 1), 60);
    assert_int_equal(p->spools.bytes, 250);
    snp_spool_done(a);
    snp_spool_done(b);
}

TEST(files_are_bounded_too)
{
    struct place *p = *state;
    char owner[SNP_SPOOL_OWNER_LEN + 1];
    unsigned n = 0;

    for (unsigned i = 0; i < SNP_SPOOL_SESSION_FILES + 5; i++) {
        keep(p, NOISY, i, 1);
    }
    assert_int_equal(kept(p, NOISY, 4), -1);
    assert_int_equal(kept(p, NOISY, 5), 1);
    for (unsigned i = 0; i < SNP_SPOOL_ALL_FILES; i++) {
        (void)snprintf(owner, sizeof(owner), "%032x", i + 16);
        keep(p, owner, 1, 1);
    }
    DIR *dir = opendir(p->spools.folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) { /* one thread */
        n += e->d_name[0] == '.' ? 0 : 1;
    }
    (void)closedir(dir);
    assert_int_equal(n, SNP_SPOOL_ALL_FILES);
}

TEST(outputs_of_a_session_that_has_ended_are_removed)
{
    struct place *p = *state;

    keep(p, QUIET, 1, 10);
    keep(p, NOISY, 1, 20);
    keep(p, NOISY, 2, 20);
    snp_spools_forget(&p->spools, NOISY);
    assert_int_equal(kept(p, NOISY, 1), -1);
    assert_int_equal(kept(p, NOISY, 2), -1);
    assert_int_equal(kept(p, QUIET, 1), 10);
    assert_int_equal(p->spools.bytes, 10);
    keep(p, NOISY, 1, 5); /* the same handle again */
    assert_int_equal(kept(p, NOISY, 1), 5);
}

TEST(a_lower_total_is_reached_at_once_and_honoured_later)
{
    struct place *p = *state;
    struct snp_spool *busy;

    keep(p, NOISY, 1, 60);
    keep(p, NOISY, 2, 60);
    keep(p, QUIET, 1, 60);
    busy = snp_spool_new(&p->spools, OTHER, 1, "stdout");
    write_some(p, busy, 60);
    snp_spools_bound(&p->spools, 130);
    assert_int_equal(kept(p, NOISY, 1), -1);
    assert_int_equal(p->spools.bytes, 120);
    snp_spools_bound(&p->spools, 50); /* less than the one that is being written */
    assert_int_equal(p->spools.bytes, 60);
    snp_spool_add(&p->spools, busy, "x", 1);
    snp_spool_done(busy);
    assert_int_equal(kept(p, OTHER, 1), 60);
    assert_true(is_cut(p, OTHER "/1"));
    snp_spools_bound(&p->spools, 400);
    keep(p, NOISY, 3, 300);
    assert_int_equal(kept(p, NOISY, 3), 300);
}

TEST(what_lies_there_at_the_start_is_removed)
{
    struct place *p = *state;
    struct snp_spools next = {0};
    struct snp_err err;

    keep(p, QUIET, 1, 10);
    assert_int_equal(snp_spools_open(&next, p->dir, &err), 0);
    assert_int_equal(kept(p, QUIET, 1), -1);
}

#define PLACE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

RUN(PLACE(a_stream_is_cut_at_its_bound_and_says_so),
    PLACE(a_session_replaces_its_own_older_outputs),
    PLACE(outputs_being_written_are_bounded_too),
    PLACE(whoever_has_most_gives_way),
    PLACE(who_has_most_takes_nothing_from_others),
    PLACE(files_are_bounded_too),
    PLACE(outputs_of_a_session_that_has_ended_are_removed),
    PLACE(a_lower_total_is_reached_at_once_and_honoured_later),
    PLACE(what_lies_there_at_the_start_is_removed))
