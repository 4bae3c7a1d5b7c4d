/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the set-up of a sandbox reports, which a hostile preload of its template could say: the
 * input is the reply, the first byte how many descriptors come with it. The session ends, or is
 * opened and says in its manifest what was reported; nothing else happens.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "fuzz/target.h"
#include "fuzz/world.h"

/* NOLINTNEXTLINE(bugprone-suspicious-include): without the readers of the result */
#include "tier/host/forked.c"

static void send_reply(int fd, const uint8_t *bytes, size_t n)
{
    int dir_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fds[SNP_FDS_MAX];
    size_t n_fds = bytes[0] % (SNP_SETUP_FS_N + 1);

    SNP_ASSERT(dir_fd >= 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(fds); i++) {
        fds[i] = dir_fd;
    }
    if (n_fds == 0) {
        SNP_ASSERT(snp_write_all(fd, bytes + 1, n - 1) == 0);
    } else {
        SNP_ASSERT(snp_send_fds(fd, bytes + 1, n - 1, fds, n_fds) == 0);
    }
    (void)close(dir_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct world *w;
    struct snp_sandbox *s;
    int control[2];
    int outputs[2][2];

    if (n < 2 || n > 2 * sizeof(struct snp_setup_reply)) {
        return 0;
    }
    w = world_new();
    s = &w->sandbox;
    SNP_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) == 0);
    for (int i = 0; i < 2; i++) {
        SNP_ASSERT(pipe2(outputs[i], O_CLOEXEC | O_NONBLOCK) == 0);
        s->out_fd[i] = outputs[i][0];
    }
    s->state = SNP_SANDBOX_OPENING;
    s->open_id = 1;
    w->forked.process.control_fd = control[0];
    send_reply(control[1], bytes, n);
    w->forked.timer = calloc(1, sizeof(*w->forked.timer));
    SNP_ASSERT(w->forked.timer != NULL && uv_timer_init(&w->loop, w->forked.timer) == 0);
    w->forked.setup_poll = watch(s, control[0], on_setup);
    SNP_ASSERT(w->forked.setup_poll != NULL);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    SNP_ASSERT(s->state == SNP_SANDBOX_READY || s->reason[0] != '\0');
    snp_handle_close(&w->forked.timer);
    close_streams(&w->forked);
    snp_sandbox_disconnect(s);
    snp_closep(&w->forked.process.control_fd);
    (void)close(control[1]);
    (void)close(outputs[0][1]);
    (void)close(outputs[1][1]);
    world_free(w);
    return 0;
}
