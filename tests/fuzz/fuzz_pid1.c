/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor reads from pid 1, which code that broke it could say: its stream while a
 * cell runs. The first byte chooses the cell (odd: a command) and how much arrives at once,
 * the rest is the stream. Answers to questions nobody asked, twice given, out of order or cut
 * short: the supervisor lives, and the daemon gets one answer.
 */
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "fuzz/target.h"
#include "fuzz/world.h"

/* NOLINTNEXTLINE(bugprone-suspicious-include): without the readers of the result */
#include "tier/engine/inside.c"

enum {
    PIECE_MAX = 32 << 10, /* less than a socket holds */
    PIECE_UNIT = 128
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct world *w;
    struct snp_err err;
    size_t piece;
    int pair[2];

    if (n == 0) {
        return 0;
    }
    w = world_new();
    piece = (size_t)(bytes[0] >> 1U) * PIECE_UNIT + 1;
    SNP_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    SNP_ASSERT(snp_link_open(&w->sandbox.init, &w->loop, pair[0], &init_ops, &w->sandbox, &err) ==
               0);
    world_start_cell(w, (bytes[0] & 1U) != 0);
    for (size_t at = 1; at < n && snp_link_is_open(&w->sandbox.init); at += piece) {
        SNP_ASSERT(piece <= PIECE_MAX);
        if (send(pair[1], bytes + at, n - at < piece ? n - at : piece,
                 MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            break;
        }
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    (void)close(pair[1]);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    world_free(w);
    return 0;
}
