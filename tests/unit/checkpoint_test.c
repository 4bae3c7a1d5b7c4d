/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints through pipes: round trips, contents stored once, streams that are torn or hostile. */
#include "store/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "store/blob.h"
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

    (void)snprintf(command, sizeof(command), "find %s/journal/blobs -type f | wc -l", rig->dir);
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
    assert_true(t.report.written_bytes < sizeof(big) &&
                t.report.written_bytes > sizeof(big) / 2);
    rig_reopen(&rig);
    tx = rig_enter(&rig);
    assert_int_equal(snp_journal_checkpoint_latest(tx, sid, UINT64_MAX, &row, &err), 0);
    assert_int_equal(row.id, t.report.checkpoint);
    assert_int_equal(row.bytes, 6 + sizeof(big) + 5 + 5000);
    assert_int_equal(snp_journal_checkpoint_latest(tx, sid, 6, &row, &err), SNP_E_NOT_FOUND);
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

RUN(UNIT(what_is_saved_is_loaded_again))
