/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints through pipes: round trips, contents stored once, streams that are torn or hostile.
 */
#include "store/checkpoint.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "store/blob.h"
#include "store/state.h"
#include "unit/store_bundle.h"

static const char sid[] = "0123456789abcdef0123456789abcdef";
static char big[3 << 20];

static int add_session(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    struct snp_journal_session row = {.id = sid, .name = "work", .state = "idle", .epoch = 4};

    return snp_journal_session_add(tx, &row, err);
}

static void begin(struct rig *rig)
{
    uint64_t x = 88172645463325252ULL;

    for (size_t i = 0; i < sizeof(big); i += sizeof(x)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(big + i, &x, sizeof(x));
    }
    memset(big, 'z', sizeof(big) / 3); /* a part that shrinks */
    (void)signal(SIGPIPE, SIG_IGN);    /* banned-ok: as the daemon does it */
    rig_begin(rig);
    rig_ok(rig, add_session, NULL);
}

/* Three variables, a folder, a small and a large file, a link. */
static void make(struct bundle *b, const char *small)
{
    bundle_begin(b);
    bundle_add(b, SNP_ITEM_VARS, "g0", "v1", "pickle", 6);
    bundle_add(b, SNP_ITEM_VARS, "g1", "v2", big, sizeof(big));
    bundle_add(b, SNP_ITEM_VARS, "empty", "v3", "", 0);
    bundle_raw(b, SNP_STREAM_ITEM,
               "{\"kind\":\"lost\",\"name\":\"sock\",\"key\":\"\",\"size\":0,\"same\":false,"
               "\"meta\":{\"type\":\"socket\",\"reason\":\"an open connection\"}}",
               "", 0);
    bundle_end_part(b, SNP_STREAM_VARS);
    bundle_add(b, SNP_ITEM_DIR, "d", "", "", 0);
    bundle_add(b, SNP_ITEM_FILE, "d/small", small, small, strlen(small));
    bundle_add(b, SNP_ITEM_FILE, "d/\"g\n\xc3\xa9", "k2", big + 5000, 5000);
    bundle_add(b, SNP_ITEM_LINK, "l", "", "", 0);
    bundle_end_part(b, SNP_STREAM_FILES);
}

static struct snp_checkpoint_save spec_of(uint64_t cell, uint64_t base)
{
    return (struct snp_checkpoint_save){.session = sid, .cell = cell, .epoch = 4, .base = base};
}

static unsigned count_files(const struct rig *rig)
{
    char command[128];
    char answer[16] = "";
    int fds[2];

    (void)snprintf(command, sizeof(command), "find %s/journal/blobs -mindepth 2 -type f | wc -l",
                   rig->dir);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(fds[1], 1);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    (void)close(fds[1]);
    assert_true(snp_read_all(fds[0], answer, sizeof(answer) - 1) > 0);
    (void)close(fds[0]);
    (void)waitpid(pid, NULL, 0);
    return (unsigned)(answer[0] - '0') * (answer[1] == '\n' ? 1 : 10) +
           (answer[1] == '\n' ? 0 : (unsigned)(answer[1] - '0'));
}

/* The one its session would come back from; 0 = none. */
static uint64_t newest(struct snp_tx *tx)
{
    struct snp_journal_session row;
    struct snp_err err;

    assert_int_equal(snp_journal_session_get(tx, sid, &row, &err), 0);
    return row.checkpoint;
}

/* Does the last byte of what precede another one in the bytes? */
static bool is_before(const struct snp_buf *bytes, const char *what, const char *other)
{
    const char *at = memmem(snp_buf_bytes(bytes), bytes->len, what, strlen(what));
    const char *end = memmem(snp_buf_bytes(bytes), bytes->len, other, strlen(other));

    return at != NULL && end != NULL && at < end;
}

TEST(files_precede_variables_for_a_sandbox)
{
    static const char vars_end[] = "\"part\":\"vars\"";
    static const char files_end[] = "\"part\":\"files\"";
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(7, 0);
    struct snp_checkpoint_load load;

    begin(&rig);
    make(&b, "hello");
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    load = (struct snp_checkpoint_load){.checkpoint = t.report.checkpoint};
    bundle_load_as(&rig, load, &got, &t);
    assert_true(is_before(&got, vars_end, files_end) && is_before(&got, "pickle", "hello"));
    snp_buf_done(&got);
    load.files_first = true;
    bundle_load_as(&rig, load, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    assert_true(is_before(&got, files_end, vars_end) && is_before(&got, files_end, "pickle"));
    snp_buf_done(&got);
    load = (struct snp_checkpoint_load){.checkpoint = load.checkpoint, .wants_image = true};
    bundle_load_as(&rig, load, &got, &t);
    assert_int_equal(t.err.code, SNP_E_UNSUPPORTED);
    assert_non_null(strstr(t.err.msg, "the sandbox ended before an image was saved"));
    snp_buf_done(&got);
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

TEST(what_is_saved_is_loaded_again)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(7, 0);
    struct snp_journal_checkpoint row;
    struct snp_tx *tx;
    struct snp_err err;

    begin(&rig);
    make(&b, "hello");
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    assert_int_equal(t.report.items, 8);
    assert_int_equal(t.report.cell, 7);
    assert_string_equal(
        t.lost, "[{\"name\":\"sock\",\"type\":\"socket\",\"reason\":\"an open connection\"}]");
    assert_true(t.report.written_bytes < sizeof(big) && t.report.written_bytes > sizeof(big) / 2);
    rig_reopen(&rig);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_checkpoint_get(tx, newest(tx), &row, &err), 0);
    assert_int_equal(row.id, t.report.checkpoint);
    assert_int_equal(row.bytes, 6 + sizeof(big) + 5 + 5000);
    rig_leave(&rig);
    bundle_load(&rig, t.report.checkpoint, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    assert_true(got.len > sizeof(big));
    /* Saved again, it is the same: nothing new is on the disk. */
    bundle_save(&rig, snp_buf_bytes(&got), got.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    assert_int_equal(t.report.items, 8);
    assert_int_equal(t.report.written_bytes, 0);
    assert_int_equal(count_files(&rig), 2 + 0);
    snp_buf_done(&got);
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

/* Damage ------------------------------------------------------------------------------- */

/* The path of the largest file of the blobs, by size. */
static void largest(const struct rig *rig, char path[256])
{
    char command[200];
    int fds[2];
    ssize_t n;

    (void)snprintf(command, sizeof(command),
                   "find %s/journal/blobs -type f -printf '%%s %%p\\n' | sort -n | tail -n 1 |"
                   " cut -d' ' -f2 | tr -d '\\n'",
                   rig->dir);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(fds[1], 1);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    (void)close(fds[1]);
    n = snp_read_all(fds[0], path, 255);
    assert_true(n > 0);
    path[n] = '\0';
    (void)close(fds[0]);
    (void)waitpid(pid, NULL, 0);
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte = 0;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (char)(byte ^ 4);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

struct events {
    unsigned damaged;
    unsigned unusable;
};

static int count_event(const struct snp_journal_event *row,
                       void *arg,
                       struct snp_err *err SNP_UNUSED)
{
    struct events *events = arg;

    events->damaged += strcmp(row->kind, "damaged_blob") == 0 ? 1 : 0;
    events->unusable += strcmp(row->kind, "unusable_checkpoint") == 0 ? 1 : 0;
    return 0;
}

enum damage {
    FLIP_CONTENT,
    FLIP_HEADER,
    CUT,
    REMOVE,
};

static void damage_do(const char *path, enum damage damage)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    switch (damage) {
    case FLIP_CONTENT:
        flip(path, st.st_size - 1000);
        break;
    case FLIP_HEADER:
        flip(path, 9);
        break;
    case CUT:
        assert_int_equal(truncate(path, st.st_size - 1), 0);
        break;
    case REMOVE:
    default:
        assert_int_equal(unlink(path), 0);
    }
}

static void check_damage(enum damage damage)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(1, 0);
    struct events events = {0};
    struct snp_tx *tx;
    struct snp_err err;
    uint64_t first;
    uint64_t second;
    char path[256];

    begin(&rig);
    bundle_begin(&b);
    bundle_add(&b, SNP_ITEM_VARS, "x", "a1", "one", 3);
    bundle_end_part(&b, SNP_STREAM_VARS);
    bundle_end_part(&b, SNP_STREAM_FILES);
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    first = t.report.checkpoint;
    snp_buf_done(&b.bytes);
    make(&b, "two");
    spec.cell = 2;
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    second = t.report.checkpoint;

    largest(&rig, path);
    damage_do(path, damage);
    bundle_load(&rig, second, &got, &t);
    assert_int_equal(t.err.code, SNP_E_NOT_FOUND);
    snp_buf_done(&got);
    assert_int_equal(access(path, F_OK), -1); /* set aside */
    tx = rig_enter(&rig);
    assert_int_equal(newest(tx), first);
    assert_int_equal(snp_journal_event_each(tx, 100, count_event, &events, &err), 0);
    rig_leave(&rig);
    assert_int_equal(events.damaged, 1);
    assert_int_equal(events.unusable, 1);
    bundle_load(&rig, first, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&got);

    /* The content comes back: what needed it is usable again. */
    spec.cell = 3;
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    bundle_load(&rig, second, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&got);
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

TEST(a_turned_bit_is_seen_and_the_checkpoint_before_is_used)
{
    check_damage(FLIP_CONTENT);
}

TEST(a_damaged_header_is_seen)
{
    check_damage(FLIP_HEADER);
}

TEST(a_file_that_was_cut_is_seen)
{
    check_damage(CUT);
}

TEST(a_missing_file_is_seen)
{
    check_damage(REMOVE);
}

/* Small contents have no file: what is garbled in the database is no longer what its name says. */
TEST(content_in_the_database_is_checked_too)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(1, 0);
    struct snp_tx *tx;
    struct snp_err err;
    uint64_t id;

    begin(&rig);
    bundle_begin(&b);
    bundle_add(&b, SNP_ITEM_VARS, "x", "a1", "one", 3);
    bundle_end_part(&b, SNP_STREAM_VARS);
    bundle_end_part(&b, SNP_STREAM_FILES);
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    id = t.report.checkpoint;
    tx = rig_enter(&rig);
    assert_int_equal(snp_db_run(tx->db, NULL, &err, "UPDATE blobs SET data = ? WHERE data = ?",
                                "bb", "eno", (size_t)3, "one", (size_t)3),
                     0);
    rig_leave(&rig);
    bundle_load(&rig, id, &got, &t);
    assert_int_equal(t.err.code, SNP_E_NOT_FOUND);
    snp_buf_done(&got);

    spec.cell = 2;
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    bundle_load(&rig, id, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&got);
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

/* Incremental -------------------------------------------------------------------------- */

#define SAME_HEAD(key, size)                                                \
    "{\"kind\":\"vars\",\"name\":\"g1\",\"key\":\"" key "\",\"size\":" size \
    ",\"same\":true,\"meta\":{}}"

TEST(what_is_the_same_is_not_written_again)
{
    struct rig rig;
    struct bundle b;
    struct bundle c;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(1, 0);
    snp_autobuf struct snp_buf known = {0};
    struct snp_tx *tx;
    struct snp_err err;

    begin(&rig);
    make(&b, "hello");
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_init(&known, SNP_JOURNAL_KNOWN_MAX);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_known_keys(tx, t.report.checkpoint, &known, &err), 0);
    rig_leave(&rig);
    assert_string_equal(snp_buf_cstr(&known), "v2\nk2\nv1\nhello\nv3\n");

    bundle_begin(&c);
    bundle_raw(&c, SNP_STREAM_ITEM, SAME_HEAD("v2", "3145728"), "", 0);
    bundle_end_part(&c, SNP_STREAM_VARS);
    bundle_end_part(&c, SNP_STREAM_FILES);
    spec = spec_of(2, t.report.checkpoint);
    bundle_save(&rig, snp_buf_bytes(&c.bytes), c.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    assert_int_equal(t.report.same_items, 1);
    assert_int_equal(t.report.written_bytes, 0);
    bundle_load(&rig, t.report.checkpoint, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    assert_true(got.len > sizeof(big));
    snp_buf_done(&got);
    snp_buf_done(&c.bytes);

    /* Of another size, or not known: refused. */
    static const char *const bad[] = {SAME_HEAD("v2", "5"), SAME_HEAD("v9", "3145728")};
    spec = spec_of(3, t.report.checkpoint);
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        bundle_begin(&c);
        bundle_raw(&c, SNP_STREAM_ITEM, bad[i], "", 0);
        bundle_end_part(&c, SNP_STREAM_VARS);
        bundle_end_part(&c, SNP_STREAM_FILES);
        bundle_save(&rig, snp_buf_bytes(&c.bytes), c.bytes.len, &spec, &t);
        assert_int_equal(t.err.code, SNP_E_PEER);
        snp_buf_done(&c.bytes);
    }
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

/* Epochs and removal ------------------------------------------------------------------- */

static int raise_epoch(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    return snp_journal_session_epoch(tx, sid, 5, err);
}

static int remove_session(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    return snp_journal_session_remove(tx, sid, err);
}

static unsigned checkpoints(struct rig *rig)
{
    snp_autorows struct snp_rows rows = {0};
    unsigned n = 0;
    struct snp_err err;
    struct snp_tx *tx = rig_enter(rig);

    assert_int_equal(snp_db_ask(tx->db, &rows, &err,
                                "SELECT COUNT(*) FROM checkpoints c JOIN sessions s"
                                " ON c.session = s.row WHERE s.id = ? AND c.complete",
                                "t", sid),
                     0);
    assert_true(snp_db_step(&rows, &err) > 0);
    n = (unsigned)snp_col_u64(&rows, 0);
    rig_leave(rig);
    return n;
}

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

TEST(a_checkpoint_of_an_older_epoch_is_refused)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_checkpoint_save spec = spec_of(1, 0);

    begin(&rig);
    make(&b, "x");
    rig_ok(&rig, raise_epoch, NULL);
    assert_int_equal(rig_job(&rig, raise_epoch, NULL), SNP_E_DENIED);
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_E_DENIED);
    spec.epoch = 5;
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

static const char snapshot_id[] = "fedcba9876543210fedcba9876543210";

static int add_snapshot(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    struct snp_journal_snapshot row = {
        .id = snapshot_id, .name = "before", .session = sid, .cell = 0, .epoch = 4};

    return snp_journal_snapshot_add(tx, &row, err);
}

/* A checkpoint with one variable of 100,000 bytes that no other has. */
static uint64_t save_one(struct rig *rig, struct snp_checkpoint_save *spec)
{
    struct bundle b;
    struct transfer t;

    bundle_begin(&b);
    big[100] = (char)spec->cell;
    bundle_add(&b, SNP_ITEM_VARS, "x", "k", big, 100000);
    bundle_end_part(&b, SNP_STREAM_VARS);
    bundle_end_part(&b, SNP_STREAM_FILES);
    bundle_save(rig, snp_buf_bytes(&b.bytes), b.bytes.len, spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&b.bytes);
    return t.report.checkpoint;
}

static uint64_t latest(struct rig *rig)
{
    struct snp_tx *tx = rig_enter(rig);
    uint64_t id = newest(tx);

    rig_leave(rig);
    return id;
}

TEST(what_is_written_late_belongs_to_its_moment)
{
    struct rig rig;
    struct snp_checkpoint_save spec = spec_of(1, 0);
    uint64_t newest;

    begin(&rig);
    rig_ok(&rig, add_snapshot, NULL);
    spec.effect = 7;
    newest = save_one(&rig, &spec);
    spec.effect = 6; /* a snapshot of before a file was put */
    spec.snapshot = snapshot_id;
    (void)save_one(&rig, &spec);
    assert_int_equal(latest(&rig), newest);
    rig_ok(&rig, raise_epoch, NULL);
    spec.snapshot = NULL;
    spec.epoch = 5;
    spec.cell = 0;
    newest = save_one(&rig, &spec);
    spec.epoch = 4; /* and one of a line of history that was left */
    spec.cell = 9;
    spec.snapshot = snapshot_id;
    (void)save_one(&rig, &spec);
    assert_int_equal(latest(&rig), newest);
    rig_end(&rig);
}

TEST(the_two_latest_stay_and_the_rest_is_cleared_up)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_checkpoint_save spec = spec_of(0, 0);
    char small[3] = "a";

    begin(&rig);
    for (unsigned i = 0; i < 5; i++) {
        bundle_begin(&b);
        small[0] = (char)('a' + i);
        memset(big + 100, small[0], 10);
        bundle_add(&b, SNP_ITEM_VARS, "x", small, big, 100000);
        bundle_end_part(&b, SNP_STREAM_VARS);
        bundle_end_part(&b, SNP_STREAM_FILES);
        spec.cell = i;
        bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
        assert_int_equal(t.err.code, SNP_OK);
        snp_buf_done(&b.bytes);
    }
    assert_int_equal(checkpoints(&rig), 2);
    (void)collect(&rig, 0);
    assert_int_equal(count_files(&rig), 2);
    rig_ok(&rig, remove_session, NULL);
    (void)collect(&rig, 0);
    assert_int_equal(count_files(&rig), 0);
    rig_end(&rig);
}

static int remove_snapshot(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    return snp_journal_snapshot_remove(tx, snapshot_id, err);
}

TEST(what_a_snapshot_needs_stays_whatever_the_budget)
{
    struct rig rig;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(0, 0);
    struct snp_journal_snapshot row;
    struct snp_tx *tx;
    struct snp_err err;
    uint64_t pinned;
    uint64_t head;

    begin(&rig);
    rig_ok(&rig, add_snapshot, NULL);
    spec.snapshot = snapshot_id;
    pinned = save_one(&rig, &spec);
    spec.snapshot = NULL;
    for (spec.cell = 1; spec.cell < 5; spec.cell++) {
        head = save_one(&rig, &spec);
    }
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_snapshot_get(tx, "work@before", &row, &err), 0);
    assert_int_equal(row.checkpoint, pinned);
    assert_true(row.is_usable);
    rig_leave(&rig);
    assert_int_equal(checkpoints(&rig), 3);
    (void)collect(&rig, 1); /* nothing fits into that */
    assert_int_equal(checkpoints(&rig), 2);
    bundle_load(&rig, pinned, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&got);
    bundle_load(&rig, head, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&got);
    rig_ok(&rig, remove_snapshot, NULL);
    (void)collect(&rig, 1);
    assert_int_equal(checkpoints(&rig), 1);
    assert_int_equal(count_files(&rig), 1);
    rig_end(&rig);
}

TEST(the_one_before_a_damaged_one_stays_whatever_the_budget)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_buf got;
    struct snp_checkpoint_save spec = spec_of(1, 0);
    char path[256];
    uint64_t usable;
    uint64_t damaged;

    begin(&rig);
    bundle_begin(&b);
    bundle_add(&b, SNP_ITEM_VARS, "x", "a1", "one", 3);
    bundle_end_part(&b, SNP_STREAM_VARS);
    bundle_end_part(&b, SNP_STREAM_FILES);
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    snp_buf_done(&b.bytes);
    usable = t.report.checkpoint;
    spec.cell = 2;
    damaged = save_one(&rig, &spec);
    largest(&rig, path);
    damage_do(path, REMOVE);
    bundle_load(&rig, damaged, &got, &t);
    assert_int_equal(t.err.code, SNP_E_NOT_FOUND);
    snp_buf_done(&got);
    (void)collect(&rig, 1);
    bundle_load(&rig, usable, &got, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&got);
    rig_end(&rig);
}

TEST(more_transfers_than_run_at_once_take_turns)
{
    enum {
        MANY = SNP_TRANSFERS_MAX + 10
    };
    static struct transfer t[MANY];
    struct rig rig;
    struct bundle b;
    struct snp_checkpoint_save spec = spec_of(1, 0);
    unsigned transfers = 0;
    struct snp_err err;
    int ends[MANY];

    begin(&rig);
    bundle_begin(&b);
    bundle_add(&b, SNP_ITEM_VARS, "x", "k", big, 9000);
    bundle_end_part(&b, SNP_STREAM_VARS);
    bundle_end_part(&b, SNP_STREAM_FILES);
    for (int i = 0; i < MANY; i++) {
        int fds[2];

        t[i] = (struct transfer){.rig = &rig};
        spec.done = transfer_done;
        spec.arg = &t[i];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        ends[i] = fds[1];
        assert_int_equal(snp_checkpoint_save(rig.store, fds[0], &spec, &err), 0);
    }
    for (int tries = 0; tries < 60000; tries++) { /* until the store's thread has begun them */
        (void)pthread_mutex_lock(&rig.store->mutex);
        transfers = rig.store->transfers;
        (void)pthread_mutex_unlock(&rig.store->mutex);
        if (transfers == SNP_TRANSFERS_MAX) {
            break;
        }
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(transfers, SNP_TRANSFERS_MAX);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(snp_write_all(ends[i], snp_buf_bytes(&b.bytes), b.bytes.len), 0);
        (void)close(ends[i]);
    }
    for (int i = 0; i < MANY; i++) {
        transfer_wait(&t[i]);
        assert_int_equal(t[i].err.code, SNP_OK);
    }
    assert_int_equal(count_files(&rig), 1); /* the same content each time */
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

/* Broken streams ----------------------------------------------------------------------- */

TEST(a_stream_that_is_torn_leaves_nothing)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_checkpoint_save spec = spec_of(1, 0);

    begin(&rig);
    bundle_begin(&b);
    bundle_add(&b, SNP_ITEM_VARS, "x", "a", "one", 3);
    bundle_add(&b, SNP_ITEM_VARS, "y", "b", big, 9000);
    bundle_end_part(&b, SNP_STREAM_VARS);
    bundle_add(&b, SNP_ITEM_FILE, "f", "c", big + 1, 300);
    bundle_end_part(&b, SNP_STREAM_FILES);
    for (size_t cut = 0; cut < b.bytes.len; cut += cut < 300 || cut > 9300 ? 7 : 1000) {
        bundle_save(&rig, snp_buf_bytes(&b.bytes), cut, &spec, &t);
        assert_int_equal(t.err.code, SNP_E_PEER);
        assert_int_equal(t.report.checkpoint, 0);
    }
    assert_int_equal(checkpoints(&rig), 0);
    (void)collect(&rig, 0);
    assert_int_equal(count_files(&rig), 0);
    bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
    assert_int_equal(t.err.code, SNP_OK);
    snp_buf_done(&b.bytes);
    rig_end(&rig);
}

#define HEAD(kind, name, key, size)                                                   \
    "{\"kind\":\"" kind "\",\"name\":\"" name "\",\"key\":\"" key "\",\"size\":" size \
    ",\"same\":false,\"meta\":{}}"

/* Items of the part "files", each of which ends the stream. */
static const struct {
    const char *head;
    const char *data;
    enum snp_code code;
} hostile[] = {
    {HEAD("file", "a", "k", "3"), "abcd", SNP_E_PEER}, /* longer than it says */
    {HEAD("file", "a", "k", "5"), "abcd", SNP_E_PEER}, /* shorter */
    {HEAD("file", "a", "k", "-1"), "", SNP_E_PEER},
    {HEAD("file", "a", "k", "1.5"), "a", SNP_E_PEER},
    {HEAD("file", "a", "k", "20000000"), "", SNP_E_LIMIT},
    {HEAD("file", "a", "k", "9223372036854775807"), "", SNP_E_LIMIT},
    {HEAD("vars", "a", "k", "0"), "", SNP_E_PEER}, /* in the other part */
    {HEAD("device", "a", "k", "0"), "", SNP_E_PEER},
    {HEAD("dir", "a", "", "3"), "abc", SNP_E_PEER},
    {HEAD("file", "", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "/etc/passwd", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "..", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a/../../b", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a//b", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a/", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "./a", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a\\u0000b", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a\\udc80", "k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a", "", "0"), "", SNP_E_PEER},
    {HEAD("file", "a", "k k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a", "../k", "0"), "", SNP_E_PEER},
    {HEAD("file", "a", "01234567890123456789012345678901234567890123456789012345678901234", "0"),
     "", SNP_E_PEER},
    {HEAD("file", "first", "k", "0"), "", SNP_E_PEER}, /* a second one of that name */
    {"{\"kind\":\"file\",\"name\":\"a\",\"key\":\"k\",\"size\":0,\"same\":false}", "", SNP_E_PEER},
    {"{\"kind\":\"file\",\"name\":\"a\",\"key\":\"k\",\"size\":0,\"same\":false,\"meta\":[]}", "",
     SNP_E_PEER},
    {"{\"kind\":\"file\",\"name\":\"a\",\"name\":\"b\",\"key\":\"k\",\"size\":0,\"meta\":{}}", "",
     SNP_E_PEER},
    {"[]", "", SNP_E_PEER},
    {"{", "", SNP_E_PEER},
    {"", "", SNP_E_PEER},
};

TEST(what_breaks_a_rule_ends_the_stream)
{
    struct rig rig;
    struct transfer t;
    struct snp_checkpoint_save spec = spec_of(1, 0);

    begin(&rig);
    spec.bytes_max = 10 << 20;
    for (size_t i = 0; i < SNP_ARRAY_LEN(hostile); i++) {
        struct bundle b;

        bundle_begin(&b);
        bundle_add(&b, SNP_ITEM_VARS, "/", "k", "xyz", 3);
        bundle_end_part(&b, SNP_STREAM_VARS);
        bundle_add(&b, SNP_ITEM_FILE, "first", "k", "xyz", 3);
        bundle_raw(&b, SNP_STREAM_ITEM, hostile[i].head, hostile[i].data, strlen(hostile[i].data));
        bundle_end_part(&b, SNP_STREAM_FILES);
        bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
        if (t.err.code != hostile[i].code) {
            fail_msg("%s: %d %s", hostile[i].head, t.err.code, t.err.msg);
        }
        snp_buf_done(&b.bytes);
    }
    assert_int_equal(checkpoints(&rig), 0);
    rig_end(&rig);
}

TEST(frames_out_of_order_end_the_stream)
{
    struct rig rig;
    struct bundle b;
    struct transfer t;
    struct snp_checkpoint_save spec = spec_of(1, 0);

    begin(&rig);
    for (int which = 0; which < 6; which++) {
        bundle_begin(&b);
        switch (which) {
        case 0: /* data without an item */
            bundle_raw(&b, SNP_STREAM_DATA, "", "abc", 3);
            break;
        case 1: /* the parts the other way round */
            bundle_end_part(&b, SNP_STREAM_FILES);
            break;
        case 2: /* a wrong count */
            b.items = 1;
            bundle_end_part(&b, SNP_STREAM_VARS);
            break;
        case 3: /* an end inside of an item */
            bundle_raw(&b, SNP_STREAM_ITEM, HEAD("vars", "a", "k", "9"), "abc", 3);
            bundle_end_part(&b, SNP_STREAM_VARS);
            break;
        case 4: /* more behind the end */
            bundle_end_part(&b, SNP_STREAM_VARS);
            bundle_end_part(&b, SNP_STREAM_FILES);
            bundle_raw(&b, SNP_STREAM_DATA, "", "abc", 3);
            break;
        default: /* another type */
            bundle_raw(&b, 83, "{}", "", 0);
        }
        bundle_save(&rig, snp_buf_bytes(&b.bytes), b.bytes.len, &spec, &t);
        assert_int_equal(t.err.code, SNP_E_PEER);
        snp_buf_done(&b.bytes);
    }
    assert_int_equal(checkpoints(&rig), 0);
    rig_end(&rig);
}

TEST(a_stalled_pipe_holds_up_nobody_and_ends_with_the_store)
{
    struct rig rig;
    struct transfer t = {.rig = &rig};
    struct snp_checkpoint_save spec = spec_of(1, 0);
    struct snp_err err;
    int fds[2];

    begin(&rig);
    spec.done = transfer_done;
    spec.arg = &t;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(snp_checkpoint_save(rig.store, fds[0], &spec, &err), 0);
    assert_int_equal(checkpoints(&rig), 0); /* jobs go on */
    assert_false(t.done);
    rig_close(&rig);
    assert_true(t.done);
    assert_int_equal(t.err.code, SNP_E_DENIED);
    (void)close(fds[1]);
    rig_end(&rig);
}

RUN(UNIT(files_precede_variables_for_a_sandbox),
    UNIT(what_is_saved_is_loaded_again),
    UNIT(a_turned_bit_is_seen_and_the_checkpoint_before_is_used),
    UNIT(a_damaged_header_is_seen),
    UNIT(content_in_the_database_is_checked_too),
    UNIT(a_file_that_was_cut_is_seen),
    UNIT(a_missing_file_is_seen),
    UNIT(what_is_the_same_is_not_written_again),
    UNIT(a_checkpoint_of_an_older_epoch_is_refused),
    UNIT(what_is_written_late_belongs_to_its_moment),
    UNIT(the_two_latest_stay_and_the_rest_is_cleared_up),
    UNIT(what_a_snapshot_needs_stays_whatever_the_budget),
    UNIT(the_one_before_a_damaged_one_stays_whatever_the_budget),
    UNIT(more_transfers_than_run_at_once_take_turns),
    UNIT(a_stream_that_is_torn_leaves_nothing),
    UNIT(what_breaks_a_rule_ends_the_stream),
    UNIT(frames_out_of_order_end_the_stream),
    UNIT(a_stalled_pipe_holds_up_nobody_and_ends_with_the_store))
