/* SPDX-License-Identifier: Apache-2.0 */
/* Framed streams of the tier: descriptors belong to the frame they came with, and none leaks. */
#include "tier/engine/stream/link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "unit/harness.h"

enum {
    SEEN_MAX = 8
};

struct world {
    uv_loop_t loop;
    struct snp_link link;
    int peer;
    int pipe_fd[2];
    uint32_t seen[SEEN_MAX];
    bool had_fd[SEEN_MAX];
    size_t n_seen;
    bool takes;
    bool has_ended;
};

static bool is_same(int a, int b)
{
    struct stat x;
    struct stat y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static unsigned count_fds(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return n;
}

static void on_frame(struct snp_link *link, const struct snp_frame *frame)
{
    struct world *w = link->owner;

    assert_true(w->n_seen < SEEN_MAX);
    w->seen[w->n_seen] = frame->id;
    if (w->takes) {
        int fd = snp_link_take_fd(link);
        w->had_fd[w->n_seen] = fd >= 0;
        if (fd >= 0) {
            assert_true(is_same(fd, w->pipe_fd[0]));
            assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
            (void)close(fd);
        }
        assert_int_equal(snp_link_take_fd(link), -1);
    }
    w->n_seen++;
}

static void on_end(struct snp_link *link, const struct snp_err *err)
{
    struct world *w = link->owner;

    assert_int_equal(err->code, SNP_E_PEER);
    w->has_ended = true;
}

static const struct snp_link_ops taking = {.body_max = 1 << 20,
                                           .takes_fds = true,
                                           .queue_max = 1 << 20,
                                           .on_frame = on_frame,
                                           .on_end = on_end};
static const struct snp_link_ops refusing = {
    .body_max = 1 << 20, .queue_max = 1 << 20, .on_frame = on_frame, .on_end = on_end};

static void world_open(struct world *w, const struct snp_link_ops *ops)
{
    struct snp_err err;
    int pair[2];

    memset(w, 0, sizeof(*w));
    w->takes = true;
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe2(w->pipe_fd, O_CLOEXEC), 0);
    w->peer = pair[1];
    assert_int_equal(snp_link_open(&w->link, &w->loop, pair[0], ops, w, &err), 0);
}

static void run(struct world *w)
{
    for (int i = 0; i < 4; i++) {
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
}

static void world_close(struct world *w)
{
    snp_link_close(&w->link);
    run(w);
    snp_buf_done(&w->link.in);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    snp_closep(&w->peer);
    snp_closep(&w->pipe_fd[0]);
    snp_closep(&w->pipe_fd[1]);
}

/* Frames number first and on, of which the one at position with_fd (none: n) carries n_fds. */
static void send_frames(struct world *w, uint32_t first, unsigned n, unsigned with_fd, size_t n_fds)
{
    static char body[100000];
    const int fds[2] = {w->pipe_fd[0], w->pipe_fd[0]};

    for (unsigned i = 0; i < n; i++) {
        snp_autobuf struct snp_buf bytes = {0};
        const struct snp_frame frame = {
            .type = 1, .id = first + i, .head = "{}", .head_len = 2, .raw = body, .raw_len = i};
        snp_buf_init(&bytes, 1 << 20);
        assert_int_equal(snp_frame_write(&bytes, &frame), 0);
        if (i == with_fd) {
            assert_int_equal(snp_send_fds(w->peer, snp_buf_bytes(&bytes), bytes.len, fds, n_fds),
                             0);
        } else {
            assert_int_equal(snp_write_all(w->peer, snp_buf_bytes(&bytes), bytes.len), 0);
        }
    }
}

/* The first loop of a process opens what all others use. */
static void warm_up(void)
{
    struct world w;

    world_open(&w, &taking);
    world_close(&w);
}

TEST(a_descriptor_belongs_to_its_frame)
{
    unsigned before;
    struct world w;

    warm_up();
    before = count_fds();
    world_open(&w, &taking);
    send_frames(&w, 1, 5, 2, 1);
    run(&w);
    assert_int_equal(w.n_seen, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(w.seen[i], i + 1);
        assert_int_equal(w.had_fd[i], i == 2);
    }
    world_close(&w);
    assert_int_equal(count_fds(), before);
}

TEST(it_waits_for_a_frame_that_comes_in_pieces)
{
    unsigned before = count_fds();
    snp_autobuf struct snp_buf bytes = {0};
    const struct snp_frame frame = {.type = 1, .id = 9, .raw = "abcdefgh", .raw_len = 8};
    struct world w;

    world_open(&w, &taking);
    snp_buf_init(&bytes, 1 << 20);
    assert_int_equal(snp_frame_write(&bytes, &frame), 0);
    for (size_t i = 0; i < bytes.len; i++) {
        const char *byte = snp_buf_bytes(&bytes) + i;
        if (i == 0) {
            assert_int_equal(snp_send_fds(w.peer, byte, 1, &w.pipe_fd[0], 1), 0);
        } else {
            assert_int_equal(snp_write_all(w.peer, byte, 1), 0);
        }
        run(&w);
        assert_int_equal(w.n_seen, i == bytes.len - 1 ? 1 : 0);
    }
    assert_true(w.had_fd[0]);
    world_close(&w);
    assert_int_equal(count_fds(), before);
}

TEST(one_that_nobody_takes_is_closed)
{
    struct world w;
    unsigned before;

    world_open(&w, &taking);
    before = count_fds();
    w.takes = false;
    send_frames(&w, 1, 3, 0, 1);
    run(&w);
    assert_int_equal(w.n_seen, 3);
    assert_int_equal(count_fds(), before);
    world_close(&w);
}

TEST(two_end_the_stream)
{
    unsigned before = count_fds();
    struct world w;

    world_open(&w, &taking);
    send_frames(&w, 1, 1, 0, 2);
    run(&w);
    assert_true(w.has_ended);
    assert_int_equal(w.n_seen, 0);
    world_close(&w);
    assert_int_equal(count_fds(), before);
}

TEST(streams_that_take_none_see_none)
{
    unsigned before = count_fds();
    struct world w;

    world_open(&w, &refusing);
    send_frames(&w, 1, 3, 1, 1);
    run(&w);
    assert_int_equal(w.n_seen, 3);
    assert_false(w.had_fd[0] || w.had_fd[1] || w.had_fd[2]);
    world_close(&w);
    assert_int_equal(count_fds(), before);
}

TEST(one_that_came_before_the_end_is_closed)
{
    unsigned before = count_fds();
    struct world w;

    world_open(&w, &taking);
    assert_int_equal(snp_send_fds(w.peer, "abc", 3, &w.pipe_fd[0], 1), 0);
    run(&w);
    snp_closep(&w.peer);
    run(&w);
    assert_true(w.has_ended);
    world_close(&w);
    assert_int_equal(count_fds(), before);
}

RUN(UNIT(a_descriptor_belongs_to_its_frame),
    UNIT(it_waits_for_a_frame_that_comes_in_pieces),
    UNIT(one_that_nobody_takes_is_closed),
    UNIT(two_end_the_stream),
    UNIT(streams_that_take_none_see_none),
    UNIT(one_that_came_before_the_end_is_closed))
