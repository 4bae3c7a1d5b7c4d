/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor reads from a hostile interpreter: a running cell, and the input as
 * the guest stream delivers it. Whatever comes, the supervisor lives, the interpreter is
 * dropped at the first broken rule, and what leaves for the daemon are whole frames whose
 * heads are bounded JSON.
 */
#include "fuzz/target.h"
#include "fuzz/world.h"
#include "tier/engine/cell/cell.h"

enum {
    BODY_MAX = 1 << 20
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct world *w = world_new();
    snp_autobuf struct snp_buf in = {0};
    struct snp_err err;

    world_start_cell(w, false);
    snp_buf_init(&in, BODY_MAX + SNP_FRAME_HEADER_LEN);
    if (snp_buf_add(&in, bytes, n) == 0) {
        for (;;) {
            struct snp_frame frame;
            size_t size = 0;
            bool has = false;
            if (snp_frame_peek(&in, BODY_MAX, &frame, &size, &has, &err) < 0) {
                snp_cell_on_guest_end(&w->sandbox, &err);
                break;
            }
            if (!has) {
                break;
            }
            snp_cell_on_guest(&w->sandbox, &frame);
            snp_buf_consume(&in, size);
        }
    }
    world_free(w);
    return 0;
}
