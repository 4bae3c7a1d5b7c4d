/* SPDX-License-Identifier: Apache-2.0 */
/* A connection in a loop of libuv. Callbacks come from the loop only. */
#include "client/async.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "client/connection.h"

struct snp_async {
    struct snp_connection connection;
    uv_poll_t poll;
};

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct snp_async *async = poll->data;
    struct snp_err err;

    (void)status;
    (void)events;
    if (snp_connection_step(&async->connection, &err) < 0) {
        snp_connection_lost(&async->connection, &err);
    }
}

int snp_async_new(uv_loop_t *loop, struct snp_async **ret, struct snp_err *err)
{
    struct snp_async *async = calloc(1, sizeof(*async));
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (async == NULL || fd < 0 || uv_poll_init(loop, &async->poll, fd) < 0) {
        (void)snp_fail_sys(err, errno, "no event loop");
        snp_closep(&fd);
        free(async);
        return err->code;
    }
    snp_connection_init(&async->connection, fd);
    async->poll.data = async;
    (void)uv_poll_start(&async->poll, UV_READABLE, on_ready);
    *ret = async;
    return 0;
}

int snp_async_call(struct snp_async *async,
                   const struct snp_async_call *call,
                   uint32_t *ret_id,
                   struct snp_err *err)
{
    if (snp_connection_open(&async->connection, err) < 0) {
        json_decref(call->head);
        return err->code;
    }
    SNP_TRY(snp_calls_begin(&async->connection.calls, call, ret_id, err));
    snp_connection_push(&async->connection);
    return 0;
}

void snp_async_interrupt(struct snp_async *async, uint32_t id)
{
    snp_calls_interrupt(&async->connection.calls, id);
    snp_connection_push(&async->connection);
}

bool snp_async_is_sent(const struct snp_async *async)
{
    return async->connection.calls.out.len == 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void snp_async_free(struct snp_async *async)
{
    if (async != NULL) {
        uv_close((uv_handle_t *)&async->poll, on_closed); /* watches no longer */
        snp_connection_done(&async->connection);
        snp_closep(&async->connection.epoll_fd);
    }
}
