/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container sends on its attached stream: hostile bytes. The supervisor's end never reads or
 * writes beyond a frame.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "fuzz/target.h"
#include "guest/channels.h"

enum {
    STEPS = 64
};

static void complain(void *data, const char *bytes, size_t n)
{
    (void)data;
    SNP_ASSERT(n == 0 || bytes[n - 1] == bytes[n - 1]); /* it can be read */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct snp_channels_spec spec = {.is_attached = n > 0 && (bytes[0] & 1U) != 0,
                                     .complain = complain};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_channels *cs;
    int trunk[2];
    int pair[2];

    (void)sigaction(SIGPIPE, &ignore, NULL);
    if (n < 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, trunk) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return 0;
    }
    spec.in_fd = spec.out_fd = trunk[0];
    cs = snp_channels_new(&spec);
    SNP_ASSERT(cs != NULL);
    SNP_ASSERT(
        snp_channels_add(cs, SNP_CHANNEL_INIT, pair[0], SNP_CHANNEL_READ | SNP_CHANNEL_WRITE) == 0);
    (void)!send(trunk[1], bytes + 1, n - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(trunk[1], SHUT_WR);
    for (int i = 0; i < STEPS && snp_channels_step(cs, 0) == 0; i++) {
    }
    snp_channels_free(cs);
    (void)close(trunk[1]);
    (void)close(pair[1]);
    return 0;
}
