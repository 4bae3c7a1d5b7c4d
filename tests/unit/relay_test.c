/* SPDX-License-Identifier: Apache-2.0 */
/* From one pipe into another: all of it, and an end of it whatever the writer does. */
#include "tier/engine/stream/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "unit/harness.h"

enum {
    NOT_YET = -1,
    TOTAL = 5 << 20
};

struct world {
    uv_loop_t loop;
    struct snp_relay *relay;
    int in_fd;
    int out_fd[2];
    int end;
    size_t n_read;
    size_t n_written;
    unsigned char *bytes;
};

static void on_end(void *data, enum snp_relay_end end)
{
    struct world *w = data;

    assert_int_equal(w->end, NOT_YET);
    w->end = (int)end;
}

static void world_open(struct world *w, uint64_t stall_ms, uint64_t bytes_max)
{
    struct snp_err err;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_relay_spec spec = {
        .in_fd = -1, .stall_ms = stall_ms, .bytes_max = bytes_max, .cb = on_end, .data = w};

    memset(w, 0, sizeof(*w));
    assert_int_equal(sigaction(SIGPIPE, &ignore, NULL), 0);
    w->end = NOT_YET;
    w->bytes = calloc(2, TOTAL);
    assert_non_null(w->bytes);
    for (size_t i = 0; i < TOTAL; i++) {
        w->bytes[i] = (unsigned char)(i * 2654435761U >> 13);
    }
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(pipe2(w->out_fd, O_CLOEXEC), 0);
    spec.loop = &w->loop;
    spec.out_fd = w->out_fd[1];
    assert_int_equal(snp_relay_new(&spec, &w->in_fd, &w->relay, &err), 0);
    assert_int_equal(snp_set_nonblock(w->in_fd, true), 0);
    assert_int_equal(snp_set_nonblock(w->out_fd[0], true), 0);
}

static void world_close(struct world *w)
{
    snp_relay_free(w->relay);
    for (int i = 0; i < 4; i++) {
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(uv_loop_close(&w->loop), 0);
    snp_closep(&w->in_fd);
    snp_closep(&w->out_fd[0]);
    snp_closep(&w->out_fd[1]);
    free(w->bytes);
}

static void write_some(struct world *w)
{
    if (w->n_written < TOTAL) {
        ssize_t n = write(w->in_fd, w->bytes + w->n_written, TOTAL - w->n_written);
        w->n_written += n > 0 ? (size_t)n : 0;
    }
}

static void read_some(struct world *w, size_t most)
{
    ssize_t n = read(w->out_fd[0], w->bytes + TOTAL + w->n_read, most);

    w->n_read += n > 0 ? (size_t)n : 0;
}

static void assert_all_came(struct world *w)
{
    while (w->n_read < TOTAL) {
        size_t before = w->n_read;
        read_some(w, TOTAL - w->n_read);
        assert_true(w->n_read > before);
    }
    assert_memory_equal(w->bytes, w->bytes + TOTAL, TOTAL);
}

TEST(all_bytes_pass_and_the_end_too)
{
    struct world w;

    world_open(&w, 10000, UINT64_MAX);
    while (w.end == NOT_YET) {
        write_some(&w);
        if (w.n_written == TOTAL) {
            snp_closep(&w.in_fd);
        }
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        read_some(&w, TOTAL - w.n_read < 100000 ? TOTAL - w.n_read : 100000);
    }
    assert_int_equal(w.end, SNP_RELAY_EOF);
    assert_all_came(&w);
    world_close(&w);
}

TEST(it_ends_when_told_although_the_writer_stays)
{
    struct world w;

    world_open(&w, 10000, UINT64_MAX);
    while (w.n_written < TOTAL) {
        write_some(&w);
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        read_some(&w, TOTAL - w.n_read);
    }
    snp_relay_finish(w.relay);
    while (w.end == NOT_YET) {
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        read_some(&w, TOTAL - w.n_read);
    }
    assert_int_equal(w.end, SNP_RELAY_EOF);
    assert_all_came(&w);
    world_close(&w);
}

TEST(a_writer_that_stalls_is_given_up)
{
    struct world w;

    world_open(&w, 30, UINT64_MAX);
    assert_int_equal(write(w.in_fd, "abc", 3), 3);
    while (w.end == NOT_YET) {
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    }
    assert_int_equal(w.end, SNP_RELAY_STALLED);
    read_some(&w, 10);
    assert_int_equal(w.n_read, 3);
    world_close(&w);
}

/* Kept from the processor for longer than the writer may stall, we were the writer that stalls. */
static bool was_away(uint64_t *last)
{
    const uint64_t before = *last;

    *last = uv_hrtime();
    return *last - before > UINT64_C(15000000);
}

TEST(a_reader_that_is_slow_is_waited_for)
{
    for (int attempts = 100;; attempts--) {
        struct world w;
        bool is_late = false;
        uint64_t last = uv_hrtime();
        const uint64_t until = last + 200000000U;

        assert_true(attempts > 0);
        world_open(&w, 30, UINT64_MAX);
        while (last < until) {
            write_some(&w);
            (void)uv_run(&w.loop, UV_RUN_NOWAIT);
            is_late = was_away(&last) || is_late;
        }
        assert_true(w.n_written < TOTAL);
        if (w.end == NOT_YET || !is_late) {
            assert_int_equal(w.end, NOT_YET);
            world_close(&w);
            return;
        }
        world_close(&w);
    }
}

TEST(a_reader_that_goes_ends_it)
{
    struct world w;

    world_open(&w, 10000, UINT64_MAX);
    snp_closep(&w.out_fd[0]);
    write_some(&w);
    while (w.end == NOT_YET) {
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    }
    assert_int_equal(w.end, SNP_RELAY_GONE);
    world_close(&w);
}

TEST(an_endless_writer_is_stopped)
{
    struct world w;

    world_open(&w, 10000, 3 << 20);
    while (w.end == NOT_YET) {
        write_some(&w);
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        read_some(&w, TOTAL - w.n_read);
    }
    assert_int_equal(w.end, SNP_RELAY_TOO_MUCH);
    world_close(&w);
}

TEST(it_can_be_freed_at_any_time)
{
    struct world w;

    world_open(&w, 10000, UINT64_MAX);
    write_some(&w);
    world_close(&w);
}

/* Written before anybody reads, by one who has gone; and after another relay to the same reader. */
TEST(a_pipe_that_is_there_is_taken_over)
{
    struct world w;
    struct snp_relay_spec spec = {.stall_ms = 60000, .bytes_max = TOTAL, .cb = on_end, .data = &w};
    struct snp_err err;
    char got[8] = {0};
    int none = 7;
    int ends[2];

    world_open(&w, 60000, TOTAL);
    snp_relay_free(w.relay);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "before", 6), 6);
    assert_int_equal(close(ends[1]), 0);
    spec.loop = &w.loop;
    spec.in_fd = ends[0];
    spec.out_fd = w.out_fd[1];
    assert_int_equal(snp_relay_new(&spec, &none, &w.relay, &err), 0);
    assert_int_equal(none, -1);
    while (w.end == NOT_YET) {
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    }
    assert_int_equal(w.end, SNP_RELAY_EOF);
    assert_int_equal(read(w.out_fd[0], got, sizeof(got)), 6);
    assert_string_equal(got, "before");
    world_close(&w);
}

RUN(UNIT(all_bytes_pass_and_the_end_too),
    UNIT(it_ends_when_told_although_the_writer_stays),
    UNIT(a_writer_that_stalls_is_given_up),
    UNIT(a_reader_that_is_slow_is_waited_for),
    UNIT(a_reader_that_goes_ends_it),
    UNIT(an_endless_writer_is_stopped),
    UNIT(it_can_be_freed_at_any_time),
    UNIT(a_pipe_that_is_there_is_taken_over))
