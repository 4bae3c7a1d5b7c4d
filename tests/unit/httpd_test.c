/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP transport's parts without a network: the token, sessions, streams and what bounds them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/httpd/head.h"
#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/http/stream.h"
#include "unit/harness.h"

static const char key[] = "0123456789abcdef0123456789abcdef";

/* The token ------------------------------------------------------------------------------------ */

TEST(token_is_made_once_and_only_for_us)
{
    char folder[] = "/tmp/httpd_test.XXXXXX";
    char path[64];
    snp_autofree char *first = NULL;
    snp_autofree char *again = NULL;
    char *none = NULL;
    struct snp_err err;
    struct stat st;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/token", folder);
    assert_int_equal(snp_httpd_token_load(path, &first, &err), 0);
    assert_int_equal(strlen(first), 64);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(snp_httpd_token_load(path, &again, &err), 0);
    assert_string_equal(first, again);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(snp_httpd_token_load(path, &none, &err), SNP_E_DENIED);
    assert_null(strstr(err.msg, first));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_equal(snp_httpd_token_load(path, &none, &err), SNP_E_SYS);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
}

TEST(token_without_entropy_is_refused)
{
    static const char *const bad[] = {"", "short\n", "two words and more than thirty-two chars\n"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        char path[] = "/tmp/httpd_test.XXXXXX";
        snp_autoclose int fd = mkostemp(path, O_CLOEXEC);
        char *none = NULL;
        struct snp_err err;

        assert_true(fd >= 0);
        assert_int_equal(snp_write_all(fd, bad[i], strlen(bad[i])), 0);
        assert_int_equal(snp_httpd_token_load(path, &none, &err), SNP_E_INVALID);
        assert_int_equal(unlink(path), 0);
    }
}

TEST(token_is_compared_whole)
{
    assert_true(snp_httpd_token_equal(key, key, strlen(key)));
    assert_false(snp_httpd_token_equal(key, key, strlen(key) - 1));
    assert_false(snp_httpd_token_equal(key, "x123456789abcdef0123456789abcdef", strlen(key)));
    assert_false(snp_httpd_token_equal(key, "0123456789abcdef0123456789abcdex", strlen(key)));
}

/* Heads ---------------------------------------------------------------------------------------- */

TEST(framing_that_is_read_differently_is_refused)
{
    static const struct {
        const char *length;
        const char *coding;
        bool is_old;
        unsigned status;
    } rows[] = {
        {"40", NULL, false, 0},       {"40", NULL, true, 0},          {NULL, "chunked", false, 0},
        {NULL, "chunked", true, 400}, {NULL, "identity", false, 400}, {"40", "chunked", false, 400},
        {"+4", NULL, false, 400},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_httpd_head head = {.is_old = rows[i].is_old};
        struct snp_err err;

        if (rows[i].length != NULL) {
            snp_httpd_head_add(&head, "content-length", 14, rows[i].length, 2);
        }
        if (rows[i].coding != NULL) {
            snp_httpd_head_add(&head, "Transfer-Encoding", 17, rows[i].coding,
                               strlen(rows[i].coding));
        }
        assert_int_equal(snp_httpd_framing_judge(&head, &err), rows[i].status);
    }
}

/* Sessions ------------------------------------------------------------------------------------- */

TEST(sessions_are_bounded_and_known_again)
{
    struct snp_httpd_sessions sessions;
    struct snp_httpd_sessions others;
    struct snp_httpd_session *used;
    char first[SNP_HTTPD_SESSION_LEN + 1];

    snp_httpd_sessions_init(&sessions, key);
    snp_httpd_sessions_init(&others, "another key that is just as long");
    (void)snprintf(first, sizeof(first), "%s", snp_httpd_session_new(&sessions)->id);
    used = snp_httpd_session_new(&sessions);
    used->n_users = 1;
    for (int i = 0; i < 3 * SNP_MCP_HTTP_SESSIONS_MAX; i++) {
        assert_non_null(snp_httpd_session_new(&sessions));
    }
    assert_true(sessions.n <= SNP_MCP_HTTP_SESSIONS_MAX);
    /* forgotten, and known again; what is used was never forgotten */
    assert_non_null(snp_httpd_session_find(&sessions, first, SNP_HTTPD_SESSION_LEN));
    assert_ptr_equal(snp_httpd_session_find(&sessions, used->id, SNP_HTTPD_SESSION_LEN), used);
    assert_null(snp_httpd_session_find(&others, first, SNP_HTTPD_SESSION_LEN));
    used->is_ended = true;
    assert_null(snp_httpd_session_find(&sessions, used->id, SNP_HTTPD_SESSION_LEN));
    snp_httpd_sessions_done(&sessions);
    snp_httpd_sessions_done(&others);
}

/* Streams -------------------------------------------------------------------------------------- */

struct world {
    uv_loop_t loop;
    struct snp_mcp_hub hub;
    struct snp_mcp_service service;
    struct snp_httpd_sessions sessions;
    struct snp_httpd_streams streams;
    struct snp_httpd_session *session;
};

static size_t n_woken;

static void on_wake(struct snp_httpd_stream *stream)
{
    (void)stream;
    n_woken++;
}

static struct snp_mcp_call *waiting;

static void on_cancel(struct snp_mcp_call *call)
{
    waiting = NULL;
    snp_mcp_answer(call, NULL);
}

static void run_wait(struct snp_mcp_call *call)
{
    waiting = call;
    call->cancel = on_cancel;
}

static const struct snp_mcp_method methods[] = {{"wait", SNP_IN_BOTH, false, run_wait}};

static void world_open(struct world *world)
{
    *world = (struct world){.service = {.methods = methods, .n_methods = 1},
                            .streams = {.wake = on_wake}};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    snp_mcp_hub_init(&world->hub, &world->loop, &world->service);
    snp_httpd_sessions_init(&world->sessions, key);
    snp_httpd_streams_init(&world->streams, &world->hub);
    world->session = snp_httpd_session_new(&world->sessions);
    waiting = NULL;
}

static void world_close(struct world *world)
{
    snp_httpd_streams_done(&world->streams);
    snp_httpd_sessions_done(&world->sessions);
    snp_mcp_hub_done(&world->hub);
    (void)uv_run(&world->loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

static struct snp_httpd_stream *begin(struct world *world, bool has_session, bool is_modern)
{
    static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"wait\",\"params\":{"
                                  "\"_meta\":{\"progressToken\":1}}}";
    const struct snp_httpd_stream_spec spec = {.session = has_session ? world->session : NULL,
                                               .is_modern = is_modern,
                                               .takes = SNP_HTTPD_TAKES_BOTH,
                                               .reader = world};
    struct snp_httpd_stream *stream = snp_httpd_stream_new(&world->streams, &spec);
    static int ident;
    char text[sizeof(request) + 16];

    assert_non_null(stream);
    (void)snprintf(text, sizeof(text), request, ++ident);
    snp_mcp_receive(&stream->peer, text, strlen(text));
    assert_non_null(waiting);
    return stream;
}

TEST(progress_is_left_out_for_who_does_not_read)
{
    struct world world;
    struct snp_httpd_stream *stream;

    for (int has_session = 0; has_session < 2; has_session++) {
        world_open(&world);
        stream = begin(&world, has_session, false);
        for (int i = 1; i < 100000; i++) {
            snp_mcp_progress(waiting, i, 0, "a line of some length that says how it goes", NULL);
        }
        assert_true(stream->log.len < SNP_MCP_HTTP_PENDING_MAX + 1024);
        snp_mcp_answer(waiting, json_object()); /* which it is told all the same */
        assert_true(stream->is_final && stream->log.len < SNP_MCP_HTTP_PENDING_MAX + 2048);
        assert_non_null(memmem(snp_buf_bytes(&stream->log), stream->log.len, "\"result\"", 8));
        world_close(&world);
    }
}

TEST(what_was_read_is_not_held_unless_it_can_be_resumed)
{
    struct world world;
    struct snp_httpd_stream *stream;
    char bytes[4096];

    for (int has_session = 0; has_session < 2; has_session++) {
        world_open(&world);
        stream = begin(&world, has_session, false);
        for (int i = 1; i < 50; i++) {
            snp_mcp_progress(waiting, i, 0, "it goes", NULL);
            while (snp_httpd_stream_read(stream, bytes, sizeof(bytes)) > 0) {
            }
        }
        assert_int_equal(stream->log.len == 0, !has_session);
        assert_int_equal(snp_httpd_stream_read(stream, bytes, sizeof(bytes)), 0);
        snp_mcp_answer(waiting, json_object());
        assert_true(snp_httpd_stream_read(stream, bytes, sizeof(bytes)) > 0);
        assert_int_equal(snp_httpd_stream_read(stream, bytes, sizeof(bytes)), -1);
        world_close(&world);
    }
}

TEST(a_reader_that_leaves_cancels_in_the_modern_era_only)
{
    struct world world;
    struct snp_httpd_stream *stream;

    world_open(&world);
    stream = begin(&world, false, true);
    snp_httpd_stream_leave(stream, false);
    assert_null(waiting);
    snp_httpd_streams_collect(&world.streams);
    assert_int_equal(world.streams.n, 0);

    stream = begin(&world, true, false);
    snp_httpd_stream_open(stream);
    snp_httpd_stream_leave(stream, false);
    assert_non_null(waiting);
    snp_httpd_streams_collect(&world.streams);
    assert_int_equal(world.streams.n, 1);
    snp_mcp_answer(waiting, json_object());
    snp_httpd_streams_collect(&world.streams);
    assert_int_equal(world.streams.n, 1); /* somebody may ask for the rest */
    snp_httpd_streams_tick(&world.streams,
                           snp_now_us() + (uint64_t)SNP_MCP_HTTP_KEEP_MS * 1000 + 1000000);
    snp_httpd_streams_collect(&world.streams);
    assert_int_equal(world.streams.n, 0); /* not for ever */
    assert_int_equal(world.session->n_users, 0);
    world_close(&world);
}

TEST(streams_are_bounded)
{
    struct world world;
    const struct snp_httpd_stream_spec more = {.reader = &world};
    struct snp_httpd_stream *stream = NULL;

    world_open(&world);
    for (size_t i = 0; i < SNP_MCP_HTTP_STREAMS_MAX; i++) {
        stream = snp_httpd_stream_new(&world.streams, &more);
        assert_non_null(stream);
    }
    assert_null(snp_httpd_stream_new(&world.streams, &more));
    snp_httpd_stream_leave(stream, true); /* one that ended makes room */
    assert_non_null(snp_httpd_stream_new(&world.streams, &more));
    assert_int_equal(world.streams.n, SNP_MCP_HTTP_STREAMS_MAX);
    world_close(&world);
}

TEST(time_opens_streams_and_says_that_they_live)
{
    struct world world;
    struct snp_httpd_stream *stream;
    char bytes[256];
    uint64_t now_us = snp_now_us();

    world_open(&world);
    stream = begin(&world, false, false);
    snp_httpd_streams_tick(&world.streams, now_us);
    assert_false(stream->is_open);
    snp_httpd_streams_tick(&world.streams, now_us + 2000000);
    assert_true(stream->is_open);
    assert_int_equal(snp_httpd_stream_read(stream, bytes, sizeof(bytes)), 0);
    n_woken = 0;
    snp_httpd_streams_tick(&world.streams, now_us + 20000000);
    assert_int_equal(n_woken, 1);
    assert_int_equal(snp_httpd_stream_read(stream, bytes, sizeof(bytes)), 3);
    assert_memory_equal(bytes, ":\n\n", 3);
    world_close(&world);
}

RUN(UNIT(token_is_made_once_and_only_for_us),
    UNIT(token_without_entropy_is_refused),
    UNIT(token_is_compared_whole),
    UNIT(framing_that_is_read_differently_is_refused),
    UNIT(sessions_are_bounded_and_known_again),
    UNIT(progress_is_left_out_for_who_does_not_read),
    UNIT(what_was_read_is_not_held_unless_it_can_be_resumed),
    UNIT(a_reader_that_leaves_cancels_in_the_modern_era_only),
    UNIT(streams_are_bounded),
    UNIT(time_opens_streams_and_says_that_they_live))
