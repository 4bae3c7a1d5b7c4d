/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TESTS_UNIT_STORE_BUNDLE_H
#define SNP_TESTS_UNIT_STORE_BUNDLE_H

/* Streams of checkpoints for tests: made in memory, sent and received through pipes by a thread. */

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "store/checkpoint.h"
#include "store/stream.h"
#include "unit/store_rig.h"

enum {
    BUNDLE_MAX = 256 << 20
};

struct bundle {
    struct snp_buf bytes;
    uint64_t items; /* of the part at hand */
};

static SNP_UNUSED void bundle_begin(struct bundle *b)
{
    *b = (struct bundle){0};
    snp_buf_init(&b->bytes, BUNDLE_MAX);
}

static SNP_UNUSED void bundle_put(struct bundle *b,
                                  const struct snp_journal_item *item,
                                  const char *data)
{
    struct snp_err err;
    size_t n = item->size < SNP_STREAM_RAW_MAX ? item->size : SNP_STREAM_RAW_MAX;

    assert_int_equal(snp_stream_put_item(&b->bytes, item, n, &err), 0);
    assert_int_equal(snp_buf_add(&b->bytes, data, n), 0);
    for (size_t at = n; at < item->size; at += n) {
        n = item->size - at < SNP_STREAM_RAW_MAX ? item->size - at : SNP_STREAM_RAW_MAX;
        assert_int_equal(snp_stream_put_data(&b->bytes, n, &err), 0);
        assert_int_equal(snp_buf_add(&b->bytes, data + at, n), 0);
    }
    b->items++;
}

static SNP_UNUSED void bundle_add(struct bundle *b,
                                  enum snp_item_kind kind,
                                  const char *name,
                                  const char *key,
                                  const void *data,
                                  size_t n)
{
    struct snp_journal_item item = {.kind = kind,
                                    .name = {name, strlen(name)},
                                    .key = key,
                                    .size = n,
                                    .meta = "{\"mode\":420}"};

    bundle_put(b, &item, data);
}

/* A head as it is given, for what no writer of ours would write. */
static SNP_UNUSED void bundle_raw(
    struct bundle *b, uint8_t type, const char *head, const char *data, size_t n)
{
    uint32_t head_len = (uint32_t)strlen(head);
    uint32_t body_len = head_len + (uint32_t)n;
    char h[SNP_STREAM_HEADER_LEN] = {0};

    memcpy(h, &body_len, 4);
    memcpy(h + 8, &head_len, 4);
    h[12] = (char)type;
    assert_int_equal(snp_buf_add(&b->bytes, h, sizeof(h)), 0);
    assert_int_equal(snp_buf_adds(&b->bytes, head), 0);
    assert_int_equal(snp_buf_add(&b->bytes, data, n), 0);
    b->items++;
}

static SNP_UNUSED void bundle_end_part(struct bundle *b, enum snp_stream_part part)
{
    struct snp_err err;

    assert_int_equal(snp_stream_put_end(&b->bytes, part, b->items, &err), 0);
    b->items = 0;
}

/* Pumps: a thread that writes bytes into a pipe, or reads all there is. */
struct pump {
    pthread_t thread;
    int fd;
    const char *bytes;
    size_t n;
    struct snp_buf got;
};

static SNP_UNUSED void *pump_write(void *arg)
{
    struct pump *pump = arg;

    (void)!snp_write_all(pump->fd, pump->bytes, pump->n);
    (void)close(pump->fd);
    return NULL;
}

static SNP_UNUSED void *pump_read(void *arg)
{
    struct pump *pump = arg;
    static char bytes[1 << 16];
    ssize_t n;

    while ((n = read(pump->fd, bytes, sizeof(bytes))) > 0) {
        if (snp_buf_add(&pump->got, bytes, (size_t)n) < 0) {
            break;
        }
    }
    (void)close(pump->fd);
    return NULL;
}

struct transfer {
    struct rig *rig;
    struct snp_checkpoint_report report;
    char lost[400];
    struct snp_err err;
    bool done;
};

static SNP_UNUSED void transfer_done(void *arg,
                                     const struct snp_checkpoint_report *report,
                                     const struct snp_err *err)
{
    struct transfer *t = arg;

    t->report = *report;
    (void)snprintf(t->lost, sizeof(t->lost), "%s", report->lost == NULL ? "" : report->lost);
    t->err = *err;
    t->done = true;
}

static SNP_UNUSED void transfer_wait(struct transfer *t)
{
    while (!t->done) {
        (void)uv_run(&t->rig->loop, UV_RUN_ONCE);
    }
}

/* Save n bytes of a stream; the result is in *t. */
static SNP_UNUSED void bundle_save(struct rig *rig,
                                   const char *bytes,
                                   size_t n,
                                   struct snp_checkpoint_save *spec,
                                   struct transfer *t)
{
    struct pump pump = {.bytes = bytes, .n = n};
    struct snp_err err;
    int fds[2];

    *t = (struct transfer){.rig = rig};
    spec->done = transfer_done;
    spec->arg = t;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pump.fd = fds[1];
    assert_int_equal(pthread_create(&pump.thread, NULL, pump_write, &pump), 0);
    assert_int_equal(snp_checkpoint_save(rig->store, fds[0], spec, &err), 0);
    transfer_wait(t);
    assert_int_equal(pthread_join(pump.thread, NULL), 0);
}

/* Load a checkpoint into *got (initialised here, freed by the caller). */
static SNP_UNUSED void bundle_load_as(struct rig *rig,
                                      struct snp_checkpoint_load spec,
                                      struct snp_buf *got,
                                      struct transfer *t)
{
    struct pump pump = {0};
    struct snp_err err;
    int fds[2];

    *t = (struct transfer){.rig = rig};
    snp_buf_init(&pump.got, BUNDLE_MAX);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pump.fd = fds[0];
    assert_int_equal(pthread_create(&pump.thread, NULL, pump_read, &pump), 0);
    spec.done = transfer_done;
    spec.arg = t;
    assert_int_equal(snp_checkpoint_load(rig->store, fds[1], &spec, &err), 0);
    transfer_wait(t);
    assert_int_equal(pthread_join(pump.thread, NULL), 0);
    *got = pump.got;
}

static SNP_UNUSED void bundle_load(struct rig *rig,
                                   uint64_t checkpoint,
                                   struct snp_buf *got,
                                   struct transfer *t)
{
    bundle_load_as(rig, (struct snp_checkpoint_load){.checkpoint = checkpoint}, got, t);
}

#endif
