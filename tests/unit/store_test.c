/* SPDX-License-Identifier: Apache-2.0 */
/* The store's thread: group commit, savepoints, durability, and the journal's rows through it. */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "store/blob.h"
#include "store/journal.h"
#include "unit/harness.h"
#include "unit/store_rig.h"

static const char sid[] = "0123456789abcdef0123456789abcdef";

static int add_session(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    struct snp_journal_session row = {.id = sid,
                                      .name = "work",
                                      .spec = "{\"tier\":\"native\"}",
                                      .state = "idle",
                                      .epoch = 1,
                                      .created_us = 5,
                                      .used_us = 6};

    return snp_journal_session_add(tx, &row, err);
}

struct cell {
    uint64_t n;
    const char *code;
    bool fail;
};

static int run_cell(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct cell *cell = arg;
    struct snp_journal_cell row = {
        .session = sid, .cell = cell->n, .epoch = 1, .kind = "python", .started_us = 10};
    struct snp_bytes code = {cell->code, strlen(cell->code)};
    struct snp_journal_outcome outcome = {
        .status = "ok", .state = "kept", .wall_us = 7, .result = {"{}", 2}, .raw = {"abc", 3}};
    int r = snp_journal_cell_begin(tx, &row, code, (struct snp_bytes){0}, err);

    if (r == 0) {
        r = snp_journal_cell_end(tx, sid, cell->n, 1, &outcome, err);
    }
    if (r == 0 && cell->fail) {
        return snp_fail(err, SNP_E_DENIED, "as told");
    }
    return r;
}

TEST(a_session_and_its_cells_survive_a_restart)
{
    struct rig rig;
    struct cell cell = {1, "\n  x = 1\ny = 2\n", false};
    struct snp_journal_session session;
    struct snp_journal_cell row;
    snp_autobuf struct snp_buf buf = {0};
    struct snp_tx *tx;
    struct snp_err err;

    snp_buf_init(&buf, 100);

    rig_begin(&rig);
    rig_ok(&rig, add_session, NULL);
    rig_ok(&rig, run_cell, &cell);
    rig_reopen(&rig);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_session_get(tx, "work", &session, &err), 0);
    assert_string_equal(session.id, sid);
    assert_string_equal(session.spec, "{\"tier\":\"native\"}");
    assert_int_equal(session.cells, 1);
    assert_int_equal(session.used_us, 10);
    assert_int_equal(snp_journal_cell_get(tx, sid, 1, &row, &err), 0);
    assert_string_equal(row.first_line, "x = 1");
    assert_string_equal(row.status, "ok");
    assert_true(row.has_result);
    assert_int_equal(snp_journal_cell_part(tx, sid, 1, SNP_PART_CODE, &buf, &err), 0);
    assert_string_equal(snp_buf_cstr(&buf), "\n  x = 1\ny = 2\n");
    assert_int_equal(snp_journal_cell_part(tx, sid, 1, SNP_PART_STDIN, &buf, &err),
                     SNP_E_NOT_FOUND);
    rig_leave(&rig);
    rig_end(&rig);
}

TEST(cells_after_a_rollback_read_undone_and_keep_their_numbers)
{
    struct rig rig;
    struct cell cells[] = {{1, "x = 1", false}, {2, "x = 2", false}, {3, "x = 3", false}};
    struct cell again = {3, "x = 4", false};
    struct snp_journal_cell row;
    struct snp_tx *tx;
    struct snp_err err;

    rig_begin(&rig);
    rig_ok(&rig, add_session, NULL);
    for (size_t i = 0; i < 3; i++) {
        rig_ok(&rig, run_cell, &cells[i]);
    }
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_cell_undo(tx, sid, 1, &err), 0);
    for (uint64_t cell = 1; cell <= 3; cell++) {
        assert_int_equal(snp_journal_cell_get(tx, sid, cell, &row, &err), 0);
        assert_string_equal(row.state, cell == 1 ? "kept" : "undone");
        assert_string_equal(row.status, "ok");
    }
    rig_leave(&rig);
    assert_int_equal(rig_job(&rig, run_cell, &again), SNP_E_INVALID);
    rig_end(&rig);
}

TEST(a_job_that_fails_undoes_only_itself)
{
    struct rig rig;
    struct cell cells[3] = {{1, "a", false}, {2, "b", true}, {3, "c", false}};
    struct snp_journal_cell row;
    struct snp_tx *tx;
    struct snp_err err;

    rig_begin(&rig);
    rig_ok(&rig, add_session, NULL);
    rig_submit(&rig, run_cell, &cells[0]);
    rig_submit(&rig, run_cell, &cells[1]);
    rig_submit(&rig, run_cell, &cells[2]);
    rig_wait(&rig, 3);
    assert_int_equal(rig.codes[0], SNP_OK);
    assert_int_equal(rig.codes[1], SNP_E_DENIED);
    assert_int_equal(rig.codes[2], SNP_OK);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_cell_get(tx, sid, 1, &row, &err), 0);
    assert_int_equal(snp_journal_cell_get(tx, sid, 2, &row, &err), SNP_E_NOT_FOUND);
    assert_int_equal(snp_journal_cell_get(tx, sid, 3, &row, &err), 0);
    rig_leave(&rig);
    rig_end(&rig);
}

TEST(jobs_that_wait_share_a_commit)
{
    struct rig rig;
    static struct cell cells[500];
    struct snp_store_stats before;
    struct snp_store_stats after;

    rig_begin(&rig);
    rig_ok(&rig, add_session, NULL);
    before = rig_stats(&rig);
    for (uint64_t i = 0; i < 500; i++) {
        cells[i] = (struct cell){i + 1, "x", false};
        rig_submit(&rig, run_cell, &cells[i]);
    }
    rig_wait(&rig, 500);
    after = rig_stats(&rig);
    assert_int_equal(after.jobs - before.jobs, 500);
    assert_true(after.commits - before.commits < 250);
    assert_true(after.commits > before.commits);
    rig_end(&rig);
}

TEST(only_what_is_to_be_synced_waits_for_the_disk)
{
    struct rig rig;
    struct cell cells[2] = {{1, "a", false}, {2, "b", false}};
    struct snp_store_stats stats[3];

    rig_begin(&rig);
    rig_ok(&rig, add_session, NULL);
    stats[0] = rig_stats(&rig);
    rig.durability = SNP_DURABILITY_PROCESS;
    rig_ok(&rig, run_cell, &cells[0]);
    stats[1] = rig_stats(&rig);
    rig.durability = SNP_DURABILITY_SYNCED;
    rig_ok(&rig, run_cell, &cells[1]);
    stats[2] = rig_stats(&rig);
    assert_int_equal(stats[1].commits, stats[0].commits + 1);
    assert_int_equal(stats[1].synced, stats[0].synced);
    assert_int_equal(stats[2].commits, stats[1].commits + 1);
    assert_int_equal(stats[2].synced, stats[1].synced + 1);
    rig_end(&rig);
}

RUN(UNIT(only_what_is_to_be_synced_waits_for_the_disk),
    UNIT(a_session_and_its_cells_survive_a_restart),
    UNIT(cells_after_a_rollback_read_undone_and_keep_their_numbers),
    UNIT(a_job_that_fails_undoes_only_itself),
    UNIT(jobs_that_wait_share_a_commit))
