/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tier protocol at the supervisor's end: frames as the daemon sends them, to a session
 * that is ready and to names that are none, on a host where nothing can be opened. Each
 * is answered once or waits for pid 1, who goes away at the end.
 */
#include <string.h>

#include "fuzz/target.h"
#include "fuzz/world.h"
#include "tier/engine/inside.h"
#include "tier/engine/serve.h"

enum {
    BODY_MAX = 1 << 20
};

/* It would try out this host. */
static bool is_probe(const struct snp_frame *frame)
{
    return memmem(frame->head, frame->head_len, "probe", 5) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct world *w = world_new();
    snp_autobuf struct snp_buf in = {0};
    struct snp_err err;

    snp_sandbox_enter(&w->sandbox);
    snp_buf_init(&in, BODY_MAX + SNP_FRAME_HEADER_LEN);
    if (snp_buf_add(&in, bytes, n) == 0) {
        struct snp_frame frame;
        size_t size = 0;
        bool has = false;
        while (snp_frame_peek(&in, BODY_MAX, &frame, &size, &has, &err) == 0 && has) {
            if (!is_probe(&frame)) {
                snp_serve_frame(&w->supervisor, &frame);
            }
            snp_buf_consume(&in, size);
        }
    }
    snp_sandbox_fail_calls(&w->sandbox);
    world_free(w);
    return 0;
}
