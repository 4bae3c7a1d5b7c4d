/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/engine/stream/handle.h"

#include <stdlib.h>

#include "base/macro.h"

uv_timer_t *snp_timer_new(uv_loop_t *loop, void *data)
{
    uv_timer_t *timer = calloc(1, sizeof(*timer));

    if (timer != NULL) {
        (void)uv_timer_init(loop, timer);
        timer->data = data;
    }
    return timer;
}

uv_poll_t *snp_poll_new(uv_loop_t *loop, int fd, void *data)
{
    uv_poll_t *poll = calloc(1, sizeof(*poll));

    if (poll == NULL || uv_poll_init(loop, poll, fd) < 0) {
        free(poll);
        return NULL;
    }
    poll->data = data;
    return poll;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void snp_handle_close(void *handle)
{
    uv_handle_t **at = handle;

    if (*at != NULL) {
        uv_close(SNP_TAKE_PTR(*at), on_closed);
    }
}
