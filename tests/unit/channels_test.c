/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of one stream: bytes, descriptors and their ends go through it as if it were not there.
 */
#include "guest/channels.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "unit/harness.h"

enum {
    ROUNDS = 400,
    BIG = 3 << 20,
};

struct world {
    struct snp_channels *outer;
    struct snp_channels *inner;
    int init[2]; /* our ends: of the supervisor, of pid 1 */
    int out[2];  /* read end outside, write end inside */
};

static void complain(void *data, const char *bytes, size_t n)
{
    (void)data;
    (void)bytes;
    (void)n;
}

static void add_socket(struct snp_channels *cs, int *ret_fd)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(
        snp_channels_add(cs, SNP_CHANNEL_INIT, pair[0], SNP_CHANNEL_READ | SNP_CHANNEL_WRITE), 0);
    *ret_fd = pair[1];
}

static void world_open(struct world *w)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_channels_spec spec = {.complain = complain};
    int trunk[2];
    int out[2];

    assert_int_equal(sigaction(SIGPIPE, &ignore, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, trunk), 0);
    spec.in_fd = spec.out_fd = trunk[0];
    w->outer = snp_channels_new(&spec);
    spec.in_fd = spec.out_fd = trunk[1];
    spec.is_inner = true;
    w->inner = snp_channels_new(&spec);
    assert_non_null(w->outer);
    assert_non_null(w->inner);
    add_socket(w->outer, &w->init[0]);
    add_socket(w->inner, &w->init[1]);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(snp_channels_add(w->outer, SNP_CHANNEL_STDOUT, out[1], SNP_CHANNEL_WRITE), 0);
    w->out[0] = out[0];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(snp_channels_add(w->inner, SNP_CHANNEL_STDOUT, out[0], SNP_CHANNEL_READ), 0);
    w->out[1] = out[1];
    assert_int_equal(snp_set_nonblock(w->out[0], true), 0);
    assert_int_equal(snp_set_nonblock(w->out[1], true), 0);
}

static void world_close(struct world *w)
{
    snp_channels_free(w->outer);
    snp_channels_free(w->inner);
    for (int i = 0; i < 2; i++) {
        (void)close(w->init[i]);
        (void)close(w->out[i]);
    }
}

static void turn(struct world *w)
{
    for (int i = 0; i < 8; i++) {
        assert_int_equal(snp_channels_step(w->outer, 0), 0);
        assert_int_equal(snp_channels_step(w->inner, 0), 0);
    }
}

/* What comes out of fd, n bytes of it. */
static void expect(struct world *w, int fd, const char *text)
{
    char got[64] = "";
    size_t n = 0;

    for (int i = 0; i < ROUNDS && n < strlen(text); i++) {
        ssize_t r;

        turn(w);
        r = recv(fd, got + n, strlen(text) - n, MSG_DONTWAIT);
        r = r < 0 ? read(fd, got + n, 0) : r;
        n += r > 0 ? (size_t)r : 0;
    }
    assert_string_equal(got, text);
}

/*
 * Pass fd with a byte over a stream (its ends outside and inside), and receive what is there of
 * it inside.
 */
static int passed_over(struct world *w, const int stream[2], int fd)
{
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    char byte = 0;

    assert_int_equal(snp_send_fds(stream[0], "p", 1, &fd, 1), 0);
    assert_int_equal(snp_set_nonblock(stream[1], true), 0);
    for (int i = 0; i < ROUNDS; i++) {
        turn(w);
        if (snp_recv_fds(stream[1], &byte, 1, fds, &n_fds) == 1) {
            break;
        }
    }
    assert_int_equal(byte, 'p');
    assert_int_equal(n_fds, 1);
    return fds[0];
}

static int passed(struct world *w, int fd)
{
    return passed_over(w, w->init, fd);
}

static void test_bytes_go_both_ways(void **state)
{
    struct world w;

    (void)state;
    world_open(&w);
    assert_int_equal(write(w.init[0], "ask", 3), 3);
    expect(&w, w.init[1], "ask");
    assert_int_equal(write(w.init[1], "answer", 6), 6);
    expect(&w, w.init[0], "answer");
    world_close(&w);
}

static void test_a_socket_that_is_passed_leads_to_its_other_end(void **state)
{
    struct world w;
    char byte;
    int pair[2];
    int inside;

    (void)state;
    world_open(&w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    inside = passed(&w, pair[1]);
    (void)close(pair[1]);
    assert_int_equal(write(inside, "up", 2), 2);
    expect(&w, pair[0], "up");
    assert_int_equal(write(pair[0], "down", 4), 4);
    expect(&w, inside, "down");
    (void)close(inside);
    for (int i = 0; i < ROUNDS && recv(pair[0], &byte, 1, MSG_DONTWAIT) != 0; i++) {
        turn(&w);
    }
    assert_int_equal(recv(pair[0], &byte, 1, MSG_DONTWAIT), 0); /* its end is told */
    (void)close(pair[0]);
    world_close(&w);
}

static void test_two_readers_share_a_pipe(void **state)
{
    struct world w;
    char got[8] = "";
    int pipe_fd[2];
    int first;
    int second;

    (void)state;
    world_open(&w);
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    first = passed(&w, pipe_fd[0]);
    assert_int_equal(write(pipe_fd[1], "oneTWO", 6), 6);
    (void)close(pipe_fd[1]);
    turn(&w);
    assert_int_equal(read(first, got, 3), 3);
    assert_string_equal(got, "one");
    (void)close(first);
    turn(&w);
    second = passed(&w, pipe_fd[0]); /* what the first has left */
    (void)close(pipe_fd[0]);
    assert_int_equal(read(second, got, 8), 3);
    assert_memory_equal(got, "TWO", 3);
    assert_int_equal(read(second, got, 8), 0);
    (void)close(second);
    world_close(&w);
}

static void test_a_pair_stays_inside(void **state)
{
    struct world w;
    int pair[2];
    int inside[2];
    char byte = 0;

    (void)state;
    world_open(&w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    snp_channels_pair(w.outer, pair);
    inside[0] = passed(&w, pair[0]);
    inside[1] = passed(&w, pair[1]);
    assert_int_equal(write(inside[0], "x", 1), 1); /* nobody has to carry it */
    assert_int_equal(recv(inside[1], &byte, 1, MSG_DONTWAIT), 1);
    assert_int_equal(byte, 'x');
    for (int i = 0; i < 2; i++) {
        (void)close(pair[i]);
        (void)close(inside[i]);
    }
    world_close(&w);
}

static void test_what_nobody_reads_holds_up_nothing_else(void **state)
{
    static char bytes[BIG];
    struct world w;
    size_t n = 0;
    int pair[2];
    int inside;

    (void)state;
    world_open(&w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    inside = passed(&w, pair[1]);
    (void)close(pair[1]);
    for (int i = 0; i < ROUNDS; i++) {
        ssize_t r = send(pair[0], bytes, sizeof(bytes), MSG_DONTWAIT);
        n += r > 0 ? (size_t)r : 0;
        turn(&w);
    }
    assert_true(n < BIG); /* it is bounded */
    assert_int_equal(write(w.init[0], "ask", 3), 3);
    expect(&w, w.init[1], "ask");
    (void)close(pair[0]);
    (void)close(inside);
    world_close(&w);
}

/*
 * What is written inside to a pipe (its ends outside and inside) goes before what comes over the
 * stream then.
 */
static void goes_before(struct world *w, const int pipe_fd[2], const int stream[2])
{
    static char bytes[BIG];
    size_t n = 0;
    char byte;

    for (int i = 0; i < ROUNDS; i++) { /* until no pipe takes any more */
        ssize_t r = write(pipe_fd[1], bytes, sizeof(bytes));
        n += r > 0 ? (size_t)r : 0;
        turn(w);
    }
    assert_true(n > 0);
    assert_int_equal(write(stream[1], "done", 4), 4);
    turn(w);
    assert_int_equal(recv(stream[0], &byte, 1, MSG_DONTWAIT), -1);
    for (int i = 0; i < ROUNDS && n > 0; i++) {
        ssize_t r = read(pipe_fd[0], bytes, sizeof(bytes));
        n -= r > 0 ? (size_t)r : 0;
        turn(w);
    }
    assert_int_equal(n, 0);
    expect(w, stream[0], "done");
}

static void test_output_comes_before_what_was_said_after_it(void **state)
{
    struct world w;

    (void)state;
    world_open(&w);
    goes_before(&w, w.out, w.init);
    world_close(&w);
}

/*
 * As a copy of the interpreter saves: its answer follows what it wrote, and holds up nobody else's.
 */
static void test_a_pipe_comes_before_what_who_passed_it_hears(void **state)
{
    struct world w;
    int stream[2];
    int pipe_fd[2];
    int ours;

    (void)state;
    world_open(&w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
    ours = stream[1];
    stream[1] = passed(&w, ours);
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK), 0);
    (void)close(ours);
    ours = pipe_fd[1];
    pipe_fd[1] = passed_over(&w, stream, ours);
    (void)close(ours);
    assert_int_equal(snp_set_nonblock(pipe_fd[1], true), 0);
    goes_before(&w, pipe_fd, stream);
    while (write(pipe_fd[1], "full", 4) > 0) {
        turn(&w);
    }
    assert_int_equal(write(w.init[1], "other", 5), 5);
    expect(&w, w.init[0], "other");
    for (int i = 0; i < 2; i++) {
        (void)close(stream[i]);
        (void)close(pipe_fd[i]);
    }
    world_close(&w);
}

static void test_what_is_no_frame_ends_the_stream(void **state)
{
    const uint32_t frames[][3] = {
        {1U << 20, 0, 0},            /* too long */
        {0, SNP_CHANNEL_STDOUT, 99}, /* of no type */
        {0, SNP_CHANNEL_INIT, 1},    /* nobody inside passes descriptors */
        {0, SNP_CHANNEL_INIT, 2},    /* taken, of no length */
    };

    (void)state;
    for (size_t i = 0; i < SNP_ARRAY_LEN(frames); i++) {
        struct snp_channels_spec spec = {.complain = complain};
        struct snp_channels *cs;
        int trunk[2];
        int fd;
        int r = 0;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, trunk), 0);
        spec.in_fd = spec.out_fd = trunk[0];
        cs = snp_channels_new(&spec);
        assert_non_null(cs);
        add_socket(cs, &fd);
        int out[2];
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_int_equal(snp_channels_add(cs, SNP_CHANNEL_STDOUT, out[1], SNP_CHANNEL_WRITE), 0);
        assert_int_equal(write(trunk[1], frames[i], sizeof(frames[i])), (ssize_t)sizeof(frames[i]));
        for (int k = 0; k < 4 && r == 0; k++) {
            r = snp_channels_step(cs, 0);
        }
        assert_int_equal(r, -1);
        snp_channels_free(cs);
        (void)close(trunk[1]);
        (void)close(out[0]);
        (void)close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_go_both_ways),
        cmocka_unit_test(test_a_socket_that_is_passed_leads_to_its_other_end),
        cmocka_unit_test(test_two_readers_share_a_pipe),
        cmocka_unit_test(test_a_pair_stays_inside),
        cmocka_unit_test(test_what_nobody_reads_holds_up_nothing_else),
        cmocka_unit_test(test_output_comes_before_what_was_said_after_it),
        cmocka_unit_test(test_a_pipe_comes_before_what_who_passed_it_hears),
        cmocka_unit_test(test_what_is_no_frame_ends_the_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
