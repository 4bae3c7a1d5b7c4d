/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store when things break: a disk without room, a folder that is none, a damaged
 * database, files that belong to nobody, databases of other versions; and keeping to a budget.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/db/db.h"
#include "base/str.h"
#include "store/blob.h"
#include "store/checkpoint.h"
#include "store/schema.h"
#include "store/state.h"
#include "store/store.h"
#include "unit/store_rig.h"

static const char sid[] = "0123456789abcdef0123456789abcdef";
static char noise[200000];

static int add_session(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    struct snp_journal_session row = {.id = sid, .name = "work", .state = "idle", .epoch = 1};

    return snp_journal_session_add(tx, &row, err);
}

struct work {
    uint64_t cell;
    size_t bytes; /* of its output */
};

/* A cell with an output that does not shrink and that no other cell has. */
static int add_cell(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct work *work = arg;
    struct snp_journal_cell row = {
        .session = sid, .cell = work->cell, .epoch = 1, .kind = "python", .started_us = work->cell};
    struct snp_journal_outcome outcome = {
        .status = "ok", .state = "kept", .result = {"{}", 2}, .raw = {noise, work->bytes}};
    int r =
        snp_journal_cell_begin(tx, &row, (struct snp_bytes){"pass", 4}, (struct snp_bytes){0}, err);

    memcpy(noise, &work->cell, sizeof(work->cell));
    return r < 0 ? r : snp_journal_cell_end(tx, sid, work->cell, 1, &outcome, err);
}

static void noise_make(void)
{
    uint64_t x = 88172645463325252ULL;

    for (size_t i = 0; i + sizeof(x) <= sizeof(noise); i += sizeof(x)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(noise + i, &x, sizeof(x));
    }
}

static void begin(struct rig *rig)
{
    noise_make();
    rig_begin(rig);
    rig_ok(rig, add_session, NULL);
}

static uint64_t count_cells(struct rig *rig)
{
    struct snp_err err;
    struct snp_tx *tx = rig_enter(rig);
    uint64_t n = 0;

    for (uint64_t cell = 1; cell <= 400; cell++) {
        struct snp_journal_cell row;

        n += snp_journal_cell_get(tx, sid, cell, &row, &err) == 0 ? 1 : 0;
    }
    rig_leave(rig);
    return n;
}

static const char *path_of(const struct rig *rig, const char *name)
{
    static char path[200];

    (void)snprintf(path, sizeof(path), "%s/journal/%s", rig->dir, name);
    return path;
}

/* How many names in a folder of the journal begin so; logs of databases do not count. */
static unsigned names(const struct rig *rig, const char *folder, const char *prefix)
{
    DIR *dir = opendir(path_of(rig, folder));
    const struct dirent *entry;
    unsigned n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        n +=
            snp_has_prefix(entry->d_name, prefix) && !snp_has_suffix(entry->d_name, "-wal") ? 1 : 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n;
}

struct seen {
    char kind[40];
    char text[600];
    unsigned n;
};

static int see(const struct snp_journal_event *row, void *arg, struct snp_err *err SNP_UNUSED)
{
    struct seen *seen = arg;

    if (strcmp(row->kind, seen->kind) == 0) {
        seen->n++;
        (void)snprintf(seen->text, sizeof(seen->text), "%s", row->text);
    }
    return 0;
}

static struct seen events(struct rig *rig, const char *kind)
{
    struct seen seen = {0};
    struct snp_err err;
    struct snp_tx *tx = rig_enter(rig);

    (void)snprintf(seen.kind, sizeof(seen.kind), "%s", kind);
    assert_int_equal(snp_journal_event_each(tx, 100, see, &seen, &err), 0);
    rig_leave(rig);
    return seen;
}

/* Full ---------------------------------------------------------------------------------- */

static void file_limit(uint64_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(without_room_the_job_fails_and_later_ones_work)
{
    struct rig rig;
    struct work small = {1, 100};
    struct work large = {2, sizeof(noise)};
    struct snp_err err;

    (void)signal(SIGXFSZ, SIG_IGN); /* banned-ok: then such a write fails */
    begin(&rig);
    rig_ok(&rig, add_cell, &small);
    file_limit(20000);
    assert_int_equal(rig_job(&rig, add_cell, &large), SNP_E_LIMIT);
    assert_non_null(strstr(rig.last.msg, "journal/"));
    assert_int_equal(rig.last.remedy.kind, SNP_REMEDY_STATE_DIR);
    large.bytes = 300; /* in the database this time */
    assert_int_equal(rig_job(&rig, add_cell, &large), SNP_E_LIMIT);
    assert_non_null(strstr(rig.last.msg, "journal.db"));
    assert_non_null(strstr(rig.last.msg, "free"));
    assert_int_equal(snp_store_health(rig.store, &err), SNP_E_LIMIT);
    file_limit(RLIM_INFINITY);
    rig_ok(&rig, add_cell, &large);
    assert_int_equal(snp_store_health(rig.store, &err), 0);
    assert_int_equal(count_cells(&rig), 2);
    rig_reopen(&rig);
    assert_int_equal(count_cells(&rig), 2);
    rig_end(&rig);
}

/* Fails the first time together with the transaction, as on a full disk; counts its runs. */
static int break_once(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    unsigned *runs = arg;
    struct work work = {50, 10};

    if ((*runs)++ == 0) {
        assert_int_equal(snp_db_exec(tx->db, "ROLLBACK", err), 0);
        return snp_fail(err, SNP_E_LIMIT, "as told");
    }
    return add_cell(tx, &work, err);
}

TEST(when_the_transaction_breaks_each_job_runs_by_itself)
{
    struct rig rig;
    struct work works[2] = {{1, 10}, {60, 10}};
    unsigned runs = 0;

    begin(&rig);
    (void)rig_enter(&rig); /* so that the three wait together */
    rig_submit(&rig, add_cell, &works[0]);
    rig_submit(&rig, break_once, &runs);
    rig_submit(&rig, add_cell, &works[1]);
    (void)sem_post(&rig.left);
    rig_wait(&rig, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rig.codes[i], SNP_OK);
    }
    assert_int_equal(runs, 2);
    assert_int_equal(count_cells(&rig), 3);
    rig_end(&rig);
}

TEST(a_folder_that_cannot_be_used_is_no_end)
{
    struct rig rig = {.durability = SNP_DURABILITY_SYNCED};
    struct snp_err err;
    char path[128];
    int fd;

    (void)snprintf(rig.dir, sizeof(rig.dir), "/tmp/snp-store-XXXXXX");
    assert_non_null(mkdtemp(rig.dir));
    (void)snprintf(path, sizeof(path), "%s/journal", rig.dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(uv_loop_init(&rig.loop), 0);
    rig_open(&rig);
    assert_int_not_equal(rig_job(&rig, add_session, NULL), SNP_OK);
    assert_non_null(strstr(rig.last.msg, "journal"));
    assert_int_not_equal(snp_store_health(rig.store, &err), 0);
    rig_end(&rig);
}

TEST(two_stores_do_not_share_a_folder)
{
    struct rig rig;
    struct rig other = {.durability = SNP_DURABILITY_SYNCED};

    begin(&rig);
    (void)snprintf(other.dir, sizeof(other.dir), "%s", rig.dir);
    assert_int_equal(uv_loop_init(&other.loop), 0);
    rig_open(&other);
    assert_int_equal(rig_job(&other, add_session, NULL), SNP_E_DENIED);
    assert_non_null(strstr(other.last.msg, "another snipara-sandboxd"));
    rig_close(&other);
    assert_int_equal(uv_loop_close(&other.loop), 0);
    rig_end(&rig);
}

/* Damage -------------------------------------------------------------------------------- */

static void fill(struct rig *rig, unsigned n)
{
    static struct work works[400];

    for (unsigned i = 0; i < n; i++) {
        works[i] = (struct work){i + 1, 1500};
        rig_submit(rig, add_cell, &works[i]);
    }
    rig_wait(rig, n);
}

static void scribble(const struct rig *rig, off_t from, size_t n)
{
    int fd = open(path_of(rig, "journal.db"), O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, noise, n, from), n);
    (void)close(fd);
}

TEST(a_damaged_database_is_set_aside_and_what_can_be_read_stays)
{
    struct rig rig;
    struct work more = {401, 10};
    struct stat st;
    struct seen seen;
    uint64_t left;

    begin(&rig);
    fill(&rig, 400);
    rig_close(&rig);
    assert_int_equal(stat(path_of(&rig, "journal.db"), &st), 0);
    scribble(&rig, st.st_size / 4096 / 2 * 4096, (size_t)3 * 4096);
    rig_open(&rig);
    left = count_cells(&rig);
    assert_true(left > 300 && left <= 400);
    assert_int_equal(names(&rig, "", "journal.db.broken-"), 1);
    seen = events(&rig, "salvage");
    assert_int_equal(seen.n, 1);
    assert_non_null(strstr(seen.text, "journal.db.broken-"));
    rig_ok(&rig, add_cell, &more);
    rig_reopen(&rig);
    assert_int_equal(count_cells(&rig), left);
    assert_int_equal(events(&rig, "salvage").n, 1); /* it is whole now */
    rig_end(&rig);
}

/* As after a kill: the last words of a store that ended in order are taken back. */
static void make_unclean(const struct rig *rig)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path_of(rig, "journal.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM meta WHERE key = 'closed_us'", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

TEST(a_large_database_is_checked_after_a_kill_only)
{
    struct rig rig;
    static struct work works[3000];
    struct stat st;

    begin(&rig);
    rig.durability = SNP_DURABILITY_PROCESS;
    for (uint64_t k = 0; k < 3; k++) {
        for (unsigned i = 0; i < 3000; i++) {
            works[i] = (struct work){k * 3000 + i + 1, 4000};
            rig_submit(&rig, add_cell, &works[i]);
        }
        rig_wait(&rig, 3000);
    }
    rig_close(&rig);
    assert_int_equal(stat(path_of(&rig, "journal.db"), &st), 0);
    assert_true(st.st_size > 32 << 20);
    scribble(&rig, st.st_size / 4096 / 2 * 4096, (size_t)8 * 4096);
    rig_open(&rig);
    assert_int_equal(events(&rig, "salvage").n, 0);
    rig_close(&rig);
    make_unclean(&rig);
    rig_open(&rig);
    assert_int_equal(events(&rig, "salvage").n, 1);
    assert_true(count_cells(&rig) > 300);
    rig_end(&rig);
}

TEST(a_database_that_is_none_is_set_aside)
{
    struct rig rig;

    begin(&rig);
    fill(&rig, 10);
    rig_close(&rig);
    scribble(&rig, 0, 4096);
    rig_open(&rig);
    assert_int_equal(events(&rig, "salvage").n, 1);
    rig_ok(&rig, add_session, NULL);
    assert_int_equal(names(&rig, "", "journal.db.broken-"), 1);
    rig_end(&rig);
}

static int read_parts(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    int r = 0;

    for (uint64_t cell = 1; cell <= 400 && (r == 0 || r == SNP_E_NOT_FOUND); cell++) {
        snp_autobuf struct snp_buf buf = {0};

        snp_buf_init(&buf, sizeof(noise));
        r = snp_journal_cell_part(tx, sid, cell, SNP_PART_RAW, &buf, err);
    }
    return r == SNP_E_NOT_FOUND ? 0 : r;
}

TEST(damage_while_it_is_open_costs_only_what_is_damaged)
{
    struct rig rig;
    struct snp_tx *tx;
    struct stat st;
    uint64_t left;

    begin(&rig);
    fill(&rig, 400);
    rig_reopen(&rig);
    assert_int_equal(stat(path_of(&rig, "journal.db"), &st), 0);
    scribble(&rig, st.st_size / 4096 / 2 * 4096, (size_t)8 * 4096);
    tx = rig_enter(&rig);
    (void)sqlite3_db_release_memory(tx->db->sqlite); /* so that it is read from the disk */
    rig_leave(&rig);
    rig_ok(&rig, read_parts, NULL); /* meets it; then runs on what is left */
    left = count_cells(&rig);
    assert_true(left > 300);
    assert_int_equal(events(&rig, "salvage").n, 1);
    rig_ok(&rig, add_cell, &(struct work){402, 10});
    rig_end(&rig);
}

TEST(a_salvage_that_was_cut_short_is_finished_or_undone)
{
    struct rig rig;
    char from[200];
    int fd;

    begin(&rig);
    fill(&rig, 10);
    rig_close(&rig);
    /* Cut short while the new one was made: the old one counts. */
    fd = open(path_of(&rig, "journal.db.salvage"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    rig_open(&rig);
    assert_int_equal(count_cells(&rig), 10);
    assert_int_equal(names(&rig, "", "journal.db.salvage"), 0);
    rig_close(&rig);
    /* After the old one was set aside: the new one counts. */
    (void)snprintf(from, sizeof(from), "%s", path_of(&rig, "journal.db"));
    assert_int_equal(rename(from, path_of(&rig, "journal.db.salvage")), 0);
    fd = open(path_of(&rig, "journal.db-wal"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, noise, 4096), 4096); /* of the old one */
    (void)close(fd);
    rig_open(&rig);
    assert_int_equal(count_cells(&rig), 10);
    rig_end(&rig);
}

/* Versions ------------------------------------------------------------------------------ */

static sqlite3 *plain_open(const struct rig *rig)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path_of(rig, "journal.db"), &db), SQLITE_OK);
    return db;
}

static void plain_run(sqlite3 *db, const char *sql)
{
    char *why = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s: %s", sql, why);
    }
}

/* Rows as the first version has written them. */
static const char rows_v1[] =
    "PRAGMA journal_mode = WAL;"
    "INSERT INTO sessions(row, id, name, spec, state, epoch, cells, created_us, used_us)"
    " VALUES(7, '0123456789abcdef0123456789abcdef', 'old', '{\"tier\":\"native\"}', 'idle', 3, "
    "2,"
    " 100, 200);"
    "INSERT INTO cells(row, session, cell, epoch, kind, status, state, started_us, wall_us,"
    " first_line) VALUES(1, 7, 1, 3, 'python', 'ok', 'kept', 110, 5, 'x = 1'),"
    " (2, 7, 2, 3, 'python', 'running', NULL, 120, 0, 'y = 2');"
    "INSERT INTO parts(cell, part, size, data) VALUES(1, 0, 5, 'x = 1'), (2, 0, 5, 'y = 2');"
    "INSERT INTO effects(row, session, cell, kind, detail, at_us) VALUES"
    " (4, 7, 1, 'put', '{}', 90), (5, 7, 1, 'saved', '{\"save\":9,\"checkpoint\":1}', 91),"
    " (6, 7, 1, 'saved', '{\"save\":0,\"checkpoint\":0}', 92), (7, 7, 1, 'put', '{}', 150);"
    "INSERT INTO checkpoints(row, session, cell, epoch, created_us, complete)"
    " VALUES(1, 7, 1, 3, 140, 1);"
    "INSERT INTO events(at_us, kind, text) VALUES(130, 'salvage', 'of old');"
    "PRAGMA user_version = 1;";

TEST(a_database_of_the_first_version_is_migrated)
{
    struct rig rig;
    struct snp_journal_session session;
    struct snp_journal_cell cell;
    struct snp_journal_checkpoint checkpoint;
    struct snp_tx *tx;
    struct snp_err err;
    uint64_t n = 0;
    sqlite3 *db;

    rig_begin(&rig);
    rig_close(&rig);
    assert_int_equal(unlink(path_of(&rig, "journal.db")), 0);
    db = plain_open(&rig);
    plain_run(db, snp_schema_v1);
    plain_run(db, rows_v1);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    rig_open(&rig);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_session_get(tx, "old", &session, &err), 0);
    assert_int_equal(session.epoch, 3);
    assert_int_equal(session.used_us, 200);
    assert_int_equal(snp_journal_cell_get(tx, sid, 1, &cell, &err), 0);
    assert_string_equal(cell.status, "ok");
    assert_false(cell.is_dropped);
    assert_int_equal(snp_journal_cell_recover(tx, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(snp_journal_cell_get(tx, sid, 2, &cell, &err), 0);
    assert_string_equal(cell.status, "unknown");
    assert_int_equal(snp_journal_checkpoint_get(tx, 1, &checkpoint, &err), 0);
    assert_int_equal(checkpoint.effect, 6); /* what was noted before it */
    rig_leave(&rig);
    assert_string_equal(events(&rig, "salvage").text, "of old");
    rig_close(&rig);
    db = plain_open(&rig);
    plain_run(db, "INSERT INTO meta VALUES('check', (SELECT 1 FROM pragma_user_version"
                  " WHERE user_version = 4)); SELECT dropped FROM cells;"
                  "CREATE TABLE one(value NOT NULL);"
                  "INSERT INTO one SELECT value FROM meta WHERE key = 'check';"
                  "INSERT INTO one SELECT max(row) FROM effects WHERE kind = 'puts_forgiven'"
                  " AND (SELECT COUNT(*) FROM effects) = 3");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    rig_end(&rig);
}

TEST(a_database_of_a_newer_version_is_left_alone)
{
    struct rig rig;
    struct snp_err err;
    char *before = NULL;
    char *after = NULL;
    size_t n[2] = {0, 0};
    sqlite3 *db;

    begin(&rig);
    rig_close(&rig);
    db = plain_open(&rig);
    plain_run(db, "PRAGMA user_version = 99");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(snp_file_read(path_of(&rig, "journal.db"), 1 << 24, &before, &n[0], &err), 0);
    rig_open(&rig);
    assert_int_equal(rig_job(&rig, add_session, NULL), SNP_E_UNSUPPORTED);
    assert_non_null(strstr(rig.last.msg, "newer"));
    rig_close(&rig);
    assert_int_equal(snp_file_read(path_of(&rig, "journal.db"), 1 << 24, &after, &n[1], &err), 0);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(before, after, n[0]);
    free(before);
    free(after);
    rig_end(&rig);
}

/* Clearing up --------------------------------------------------------------------------- */

static void gc_done(void *arg, const struct snp_gc_report *report, const struct snp_err *err)
{
    assert_int_equal(err->code, SNP_OK);
    *(struct snp_gc_report *)arg = *report;
}

static struct snp_gc_report collect(struct rig *rig, uint64_t budget)
{
    struct snp_gc_report report = {.bytes = UINT64_MAX};
    struct snp_err err;

    assert_int_equal(snp_store_gc(rig->store, 0, budget, gc_done, &report, &err), 0);
    while (report.bytes == UINT64_MAX) {
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
    return report;
}

TEST(the_oldest_outputs_go_until_the_budget_is_kept)
{
    struct rig rig;
    struct snp_gc_report all;
    struct snp_gc_report half;
    struct snp_journal_cell row;
    struct snp_journal_session session;
    snp_autobuf struct snp_buf buf = {0};
    struct snp_tx *tx;
    struct snp_err err;

    begin(&rig);
    for (uint64_t i = 1; i <= 20; i++) {
        rig_ok(&rig, add_cell, &(struct work){i, 100000});
    }
    all = collect(&rig, 0);
    assert_int_equal(all.blobs, 0);
    assert_true(all.bytes > 2000000);
    half = collect(&rig, all.bytes / 2);
    assert_true(half.bytes <= all.bytes / 2);
    assert_true(half.blobs >= 10 && half.freed_bytes >= 1000000);
    tx = rig_enter(&rig);
    snp_buf_init(&buf, sizeof(noise));
    assert_int_equal(snp_journal_cell_get(tx, sid, 1, &row, &err), 0);
    assert_true(row.is_dropped);
    assert_false(row.has_result);
    assert_int_equal(snp_journal_cell_part(tx, sid, 1, SNP_PART_RAW, &buf, &err), SNP_E_NOT_FOUND);
    assert_int_equal(snp_journal_cell_part(tx, sid, 1, SNP_PART_CODE, &buf, &err), 0);
    assert_string_equal(snp_buf_cstr(&buf), "pass");
    assert_int_equal(snp_journal_session_get(tx, sid, &session, &err), 0);
    assert_true(session.disk_bytes < 2000000);
    rig_leave(&rig);
    assert_int_equal(events(&rig, "gc").n, 1);
    rig_end(&rig);
}

TEST(files_that_belong_to_nobody_are_removed_at_the_next_start)
{
    static const char *const orphans[] = {
        "blobs/tmp/1-0",
        "blobs/00/00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    };
    struct rig rig;
    snp_autobuf struct snp_buf buf = {0};
    struct snp_tx *tx;
    struct snp_err err;

    begin(&rig);
    rig_ok(&rig, add_cell, &(struct work){1, 100000});
    rig_close(&rig);
    (void)mkdir(path_of(&rig, "blobs/00"), 0700); /* perhaps it is there */
    for (size_t i = 0; i < SNP_ARRAY_LEN(orphans); i++) {
        int fd = open(path_of(&rig, orphans[i]), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        (void)close(fd);
    }
    rig_open(&rig);
    for (int i = 0; i < 12000 && access(path_of(&rig, orphans[1]), F_OK) == 0; i++) {
        (void)collect(&rig, 0);
        (void)poll(NULL, 0, 5);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(orphans); i++) {
        assert_int_equal(access(path_of(&rig, orphans[i]), F_OK), -1);
    }
    tx = rig_enter(&rig); /* and only those */
    snp_buf_init(&buf, sizeof(noise));
    assert_int_equal(snp_journal_cell_part(tx, sid, 1, SNP_PART_RAW, &buf, &err), 0);
    rig_leave(&rig);
    rig_end(&rig);
}

/* Writes a large output, then fails. */
static int fail_late(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    int r = add_cell(tx, arg, err);

    return r < 0 ? r : snp_fail(err, SNP_E_DENIED, "as told");
}

static unsigned blob_files(const struct rig *rig)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 256; i++) {
        char folder[16];

        (void)snprintf(folder, sizeof(folder), "blobs/%02x", i);
        n += names(rig, folder, "");
        n -= names(rig, folder, ".");
    }
    return n;
}

TEST(a_job_that_fails_leaves_no_files)
{
    struct rig rig;

    begin(&rig);
    rig_ok(&rig, add_cell, &(struct work){1, 100000});
    assert_int_equal(rig_job(&rig, fail_late, &(struct work){2, 100000}), SNP_E_DENIED);
    assert_int_equal(blob_files(&rig), 1);
    /* What the failed one had in common with others stays. */
    assert_int_equal(rig_job(&rig, fail_late, &(struct work){1, 100000}), SNP_E_INVALID);
    assert_int_equal(blob_files(&rig), 1);
    rig_ok(&rig, add_cell, &(struct work){2, 100000});
    assert_int_equal(blob_files(&rig), 2);
    assert_int_equal(count_cells(&rig), 2);
    rig_end(&rig);
}

/* Growth -------------------------------------------------------------------------------- */

static uint64_t resident(void)
{
    char *text = NULL;
    struct snp_err err;
    uint64_t pages = 0;

    assert_int_equal(snp_file_read("/proc/self/statm", 4096, &text, NULL, &err), 0);
    for (const char *at = strchr(text, ' ') + 1; *at >= '0' && *at <= '9'; at++) {
        pages = pages * 10 + (uint64_t)(*at - '0');
    }
    free(text);
    return pages * 4096;
}

static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

TEST(ten_thousand_cells_take_no_memory_and_no_descriptors)
{
    static struct work works[500];
    struct rig rig;
    uint64_t bytes = 0;
    unsigned fds = 0;

    begin(&rig);
    rig.durability = SNP_DURABILITY_PROCESS;
    for (uint64_t i = 0; i < 20; i++) {
        for (uint64_t k = 0; k < 500; k++) {
            works[k] = (struct work){i * 500 + k + 1, 500};
            rig_submit(&rig, add_cell, &works[k]);
        }
        rig_wait(&rig, 500);
        if (i == 9) {
            bytes = resident();
            fds = descriptors();
        }
    }
    if (getenv("ASAN_OPTIONS") == NULL) { /* which keeps what is freed */
        assert_true(resident() < bytes + (4 << 20));
    }
    assert_int_equal(descriptors(), fds);
    rig_end(&rig);
}

/* Identity ------------------------------------------------------------------------------ */

/* Contents in a file, of which a sweep would leave none; then the store ends. */
static void begin_with_file(struct rig *rig)
{
    struct work large = {1, sizeof(noise)};

    begin(rig);
    rig_ok(rig, add_cell, &large);
    rig_close(rig);
}

/* One more file of contents is there for each that a cell has. */
static unsigned contents(const struct rig *rig)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 256; i++) {
        char folder[16];

        (void)snprintf(folder, sizeof(folder), "blobs/%02x", i);
        n += names(rig, folder, folder + strlen("blobs/"));
    }
    return n;
}

static void move(const struct rig *rig, const char *from, const char *to)
{
    snp_autofree char *old = strdup(path_of(rig, from));

    assert_int_equal(rename(old, path_of(rig, to)), 0);
}

/* A loss was reported so often, and what remains of contents was kept. */
static void assert_lost(struct rig *rig, unsigned n, const char *why)
{
    struct seen seen = events(rig, "journal_lost");

    assert_int_equal(seen.n, n);
    assert_true(n == 0 || strstr(seen.text, why) != NULL);
    (void)collect(rig, 0);
    rig_reopen(rig);
    (void)collect(rig, 0);
    assert_int_equal(events(rig, "journal_lost").n, n); /* once */
}

TEST(a_database_that_is_gone_is_reported_and_its_contents_are_kept)
{
    struct rig rig;
    struct snp_tx *tx;
    struct snp_err err;
    uint64_t lost_us = 0;

    begin_with_file(&rig);
    assert_int_equal(contents(&rig), 1);
    assert_int_equal(unlink(path_of(&rig, "journal.db")), 0);
    rig_open(&rig);
    assert_lost(&rig, 1, "is new");
    assert_int_equal(contents(&rig), 1);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_sessions_lost(tx, &lost_us, &err), 0);
    rig_leave(&rig);
    assert_true(lost_us > 0);
    rig_close(&rig);
    rig_remove(path_of(&rig, "blobs/store")); /* without the record, too */
    assert_int_equal(unlink(path_of(&rig, "journal.db")), 0);
    rig_open(&rig);
    assert_lost(&rig, 1, "is new");
    assert_int_equal(contents(&rig), 1);
    rig_end(&rig);
}

TEST(small_contents_are_missed_as_well)
{
    struct rig rig;
    struct work small = {1, 10};

    begin(&rig);
    rig_ok(&rig, add_cell, &small);
    rig_close(&rig);
    assert_int_equal(truncate(path_of(&rig, "journal.db"), 0), 0);
    rig_open(&rig);
    assert_lost(&rig, 1, "is new");
    rig_end(&rig);
}

TEST(contents_are_removed_once_the_note_is)
{
    struct rig rig;
    DIR *dir;
    const struct dirent *entry;

    begin_with_file(&rig);
    assert_int_equal(unlink(path_of(&rig, "journal.db")), 0);
    rig_open(&rig);
    assert_lost(&rig, 1, "is removed");
    assert_int_equal(names(&rig, "", "journal.db.broken-"), 1);
    rig_close(&rig);
    dir = opendir(path_of(&rig, ""));
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (snp_has_prefix(entry->d_name, "journal.db.broken-")) {
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
        }
    }
    (void)closedir(dir);
    rig_open(&rig);
    (void)collect(&rig, 0);
    rig_close(&rig); /* the sweep runs before the end */
    rig_open(&rig);
    (void)collect(&rig, 0);
    while (contents(&rig) > 0) {
        (void)poll(NULL, 0, 5);
    }
    rig_end(&rig);
}

TEST(another_database_is_reported_and_the_right_one_may_come_back)
{
    struct rig rig;
    struct rig other;

    begin_with_file(&rig);
    begin(&other);
    rig_close(&other);
    move(&rig, "journal.db", "away");
    {
        snp_autofree char *from = strdup(path_of(&other, "journal.db"));

        assert_int_equal(rename(from, path_of(&rig, "journal.db")), 0);
    }
    rig_open(&rig);
    assert_lost(&rig, 1, "does not belong");
    assert_int_equal(contents(&rig), 1);
    rig_close(&rig);
    move(&rig, "away", "journal.db");
    rig_open(&rig);
    assert_int_equal(count_cells(&rig), 1);
    assert_lost(&rig, 1, "does not belong");
    rig_end(&rig);
    rig_end(&other);
}

/* What is on disk now, as a kill would leave it, in another rig without one file. */
static void copy_without(const struct rig *rig, struct rig *copy, const char *name)
{
    char command[400];
    int status = -1;
    pid_t pid;

    rig_begin(copy);
    rig_close(copy);
    (void)snprintf(command, sizeof(command),
                   "rm -rf %s/journal && cp -a %s/journal %s/journal && rm %s/journal/%s",
                   copy->dir, rig->dir, copy->dir, copy->dir, name);
    pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST(a_log_that_was_removed_is_missed)
{
    struct rig rig;
    struct rig copy;
    struct work large = {2, sizeof(noise)};

    for (unsigned moved = 0; moved < 2; moved++) {
        begin_with_file(&rig);
        rig_open(&rig);
        for (uint64_t i = 10; moved == 1 && i < 610; i++) { /* until it is moved and begins again */
            rig_ok(&rig, add_cell, &(struct work){i, 7500});
            large.cell = i + 1;
        }
        rig_ok(&rig, add_cell, &large);
        rig_ok(&rig, add_cell, &(struct work){large.cell + 1, 10});
        (void)rig_enter(&rig); /* a store that works moves no log into the database */
        copy_without(&rig, &copy, "journal.db-wal");
        rig_leave(&rig);
        rig_open(&copy);
        assert_lost(&copy, 1, "last commits");
        assert_true(contents(&copy) >= 1);
        rig_end(&copy);
        rig_end(&rig);
    }
}

TEST(the_log_of_a_database_that_is_gone_is_set_aside)
{
    struct rig rig;
    struct rig copy;

    begin_with_file(&rig);
    rig_open(&rig);
    rig_ok(&rig, add_cell, &(struct work){2, 10});
    copy_without(&rig, &copy, "journal.db");
    rig_open(&copy);
    assert_lost(&copy, 1, "is new");
    assert_int_equal(names(&copy, "", "journal.db-wal"), 0);
    rig_end(&copy);
    rig_end(&rig);
}

TEST(a_kill_or_an_end_in_order_is_no_loss)
{
    struct rig rig;
    struct rig copy;

    begin_with_file(&rig);
    rig_open(&rig);
    rig_ok(&rig, add_cell, &(struct work){2, 10});
    copy_without(&rig, &copy, "reserve");
    rig_open(&copy);
    assert_lost(&copy, 0, "");
    assert_int_equal(count_cells(&copy), 2);
    rig_end(&copy);
    rig_reopen(&rig);
    assert_lost(&rig, 0, "");
    rig_end(&rig);
}

/* As a power cut leaves it before the first commit after the record. */
TEST(a_first_opening_that_was_cut_off_is_no_loss)
{
    struct rig rig;
    sqlite3 *db;

    begin(&rig);
    rig_close(&rig);
    db = plain_open(&rig);
    plain_run(db, "DELETE FROM meta WHERE key = 'opened_us'");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    rig_open(&rig);
    assert_lost(&rig, 0, "");
    assert_int_equal(names(&rig, "", "journal.db.broken-"), 0);
    rig_end(&rig);
}

RUN(UNIT(without_room_the_job_fails_and_later_ones_work),
    UNIT(when_the_transaction_breaks_each_job_runs_by_itself),
    UNIT(a_folder_that_cannot_be_used_is_no_end),
    UNIT(two_stores_do_not_share_a_folder),
    UNIT(a_damaged_database_is_set_aside_and_what_can_be_read_stays),
    UNIT(a_large_database_is_checked_after_a_kill_only),
    UNIT(a_database_that_is_none_is_set_aside),
    UNIT(damage_while_it_is_open_costs_only_what_is_damaged),
    UNIT(a_salvage_that_was_cut_short_is_finished_or_undone),
    UNIT(a_database_of_the_first_version_is_migrated),
    UNIT(a_database_of_a_newer_version_is_left_alone),
    UNIT(the_oldest_outputs_go_until_the_budget_is_kept),
    UNIT(files_that_belong_to_nobody_are_removed_at_the_next_start),
    UNIT(a_job_that_fails_leaves_no_files),
    UNIT(ten_thousand_cells_take_no_memory_and_no_descriptors),
    UNIT(a_database_that_is_gone_is_reported_and_its_contents_are_kept),
    UNIT(small_contents_are_missed_as_well),
    UNIT(contents_are_removed_once_the_note_is),
    UNIT(another_database_is_reported_and_the_right_one_may_come_back),
    UNIT(a_log_that_was_removed_is_missed),
    UNIT(the_log_of_a_database_that_is_gone_is_set_aside),
    UNIT(a_kill_or_an_end_in_order_is_no_loss),
    UNIT(a_first_opening_that_was_cut_off_is_no_loss))
