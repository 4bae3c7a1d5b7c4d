/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes move from pipe to pipe inside the kernel. Invariant: a running relay waits for exactly one
 * event: data in the one pipe (with a stall timer), or room in the other.
 */
#include "tier/engine/stream/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "tier/engine/stream/handle.h"

enum {
    PIPE_BYTES = 1 << 20, /* requested */
    CHUNK = 1 << 20,
    CHUNKS_MAX = 8 /* before other handles get a turn */
};

struct snp_relay {
    struct snp_relay_spec spec;
    int in_fd; /* owned; the end to read from */
    uv_poll_t *in_poll;
    uv_poll_t *out_poll;
    uv_timer_t *timer;
    uint64_t bytes;
    bool is_finishing;
    bool has_ended;
};

static void end(struct snp_relay *relay, enum snp_relay_end why)
{
    (void)uv_poll_stop(relay->in_poll);
    (void)uv_poll_stop(relay->out_poll);
    (void)uv_timer_stop(relay->timer);
    relay->has_ended = true;
    relay->spec.cb(relay->spec.data, why);
}

static void pump(struct snp_relay *relay);

static void on_ready(uv_poll_t *poll, int status, int events)
{
    (void)status; /* splice reports any error */
    (void)events;
    pump(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    struct snp_relay *relay = timer->data;

    if (relay->is_finishing) {
        pump(relay);
    } else {
        end(relay, SNP_RELAY_STALLED);
    }
}

/* No progress is possible: wait for the side that blocks. */
static void wait_for_more(struct snp_relay *relay)
{
    struct pollfd out = {.fd = relay->spec.out_fd, .events = POLLOUT};
    bool has_room = poll(&out, 1, 0) == 1;

    if (has_room && (out.revents & POLLERR) != 0) {
        end(relay, SNP_RELAY_GONE);
        return;
    }
    if (has_room && relay->is_finishing) {
        end(relay, SNP_RELAY_EOF);
        return;
    }
    if (has_room) {
        (void)uv_poll_stop(relay->out_poll);
        (void)uv_poll_start(relay->in_poll, UV_READABLE, on_ready);
        (void)uv_timer_start(relay->timer, on_timer, relay->spec.stall_ms, 0);
    } else {
        (void)uv_poll_stop(relay->in_poll);
        (void)uv_poll_start(relay->out_poll, UV_WRITABLE, on_ready);
        (void)uv_timer_stop(relay->timer);
    }
}

static void pump(struct snp_relay *relay)
{
    for (int i = 0; i < CHUNKS_MAX; i++) {
        ssize_t n = SNP_RETRY(splice(relay->in_fd, NULL, relay->spec.out_fd, NULL, CHUNK,
                                     SPLICE_F_NONBLOCK | SPLICE_F_MOVE));

        if (n < 0 && errno == EAGAIN) {
            wait_for_more(relay);
            return;
        }
        if (n <= 0) {
            end(relay, n == 0 ? SNP_RELAY_EOF : SNP_RELAY_GONE);
            return;
        }
        relay->bytes += (uint64_t)n;
        if (relay->bytes > relay->spec.bytes_max) {
            end(relay, SNP_RELAY_TOO_MUCH);
            return;
        }
    }
    /* More data: continue in the next iteration. */
    (void)uv_timer_stop(relay->timer);
    (void)uv_poll_stop(relay->out_poll);
    (void)uv_poll_start(relay->in_poll, UV_READABLE, on_ready);
}

static int handles_new(struct snp_relay *relay)
{
    uv_loop_t *loop = relay->spec.loop;

    relay->in_poll = snp_poll_new(loop, relay->in_fd, relay);
    relay->out_poll = snp_poll_new(loop, relay->spec.out_fd, relay);
    relay->timer = snp_timer_new(loop, relay);
    return relay->in_poll == NULL || relay->out_poll == NULL || relay->timer == NULL ? -1 : 0;
}

int snp_relay_new(const struct snp_relay_spec *spec,
                  int *ret_in_fd,
                  struct snp_relay **ret,
                  struct snp_err *err)
{
    struct snp_relay *relay;
    int ends[2] = {spec->in_fd, -1};

    if (spec->in_fd < 0 && pipe2(ends, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES); /* on failure it is only slower */
    (void)fcntl(spec->out_fd, F_SETPIPE_SZ, PIPE_BYTES);
    relay = calloc(1, sizeof(*relay));
    if (relay == NULL) {
        (void)close(ends[0]);
        snp_closep(&ends[1]);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    relay->spec = *spec;
    relay->in_fd = ends[0];
    if (handles_new(relay) < 0) {
        snp_relay_free(relay);
        snp_closep(&ends[1]);
        return snp_fail(err, SNP_E_UNSUPPORTED, "the destination is not a pipe");
    }
    /* Do not read yet: the callback must not run before the caller has *ret. */
    (void)uv_poll_start(relay->in_poll, UV_READABLE, on_ready);
    (void)uv_timer_start(relay->timer, on_timer, spec->stall_ms, 0);
    *ret_in_fd = ends[1];
    *ret = relay;
    return 0;
}

void snp_relay_finish(struct snp_relay *relay)
{
    if (!relay->has_ended) {
        relay->is_finishing = true;
        (void)uv_timer_start(relay->timer, on_timer, 0, 0);
    }
}

void snp_relay_free(struct snp_relay *relay)
{
    if (relay == NULL) {
        return;
    }
    snp_handle_close(&relay->in_poll);
    snp_handle_close(&relay->out_poll);
    snp_handle_close(&relay->timer);
    snp_closep(&relay->in_fd);
    free(relay);
}
