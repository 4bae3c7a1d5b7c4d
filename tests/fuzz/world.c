/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of the fuzz targets that need a session. What leaves for the daemon must be whole
 * frames whose heads are bounded JSON.
 */
#include "fuzz/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/wire/rpc.h"
#include "tier/engine/cell/cell.h"
#include "tier/engine/cell/result.h"
#include "tier/engine/program.h"

enum {
    CELL_NUMBER = 7,
    REQUEST_ID = 9,
    BODY_MAX = 1 << 20,
    SENT_MAX = 256 << 20
};

static void daemon_frame(struct snp_link *link, const struct snp_frame *frame)
{
    (void)link;
    (void)frame;
}

static void daemon_end(struct snp_link *link, const struct snp_err *err)
{
    (void)link;
    (void)err;
}

static const struct snp_link_ops daemon_ops = {
    .body_max = BODY_MAX, .queue_max = SENT_MAX, .on_frame = daemon_frame, .on_end = daemon_end};

struct world *world_new(void)
{
    struct world *w = calloc(1, sizeof(*w));
    struct snp_sandbox *s = w == NULL ? NULL : &w->sandbox;
    struct snp_err err;
    int pair[2];

    SNP_ASSERT(w != NULL);
    SNP_ASSERT(uv_loop_init(&w->loop) == 0);
    SNP_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    w->daemon_fd = pair[1];
    w->native = (struct snp_native){.host = SNP_HOST_INIT};
    w->supervisor.ops = &snp_native_ops.tier;
    w->supervisor.events = &snp_tier_events;
    w->supervisor.own = &w->native;
    w->supervisor.loop = &w->loop;
    for (int i = 0; i < SNP_CGROUP_N; i++) {
        w->supervisor.cgroups.slot[i].base_fd = -1;
    }
    (void)snprintf(w->supervisor.state_dir, sizeof(w->supervisor.state_dir), "/nonexistent");
    (void)snprintf(w->supervisor.python, sizeof(w->supervisor.python), "/usr/bin/python3");
    SNP_ASSERT(snp_link_open(&w->supervisor.daemon, &w->loop, pair[0], &daemon_ops, NULL, &err) ==
               0);

    s->supervisor = &w->supervisor;
    s->state = SNP_SANDBOX_READY;
    (void)snprintf(s->spec.id, sizeof(s->spec.id), "0123456789abcdef0123456789abcdef");
    s->spec.python.name = strdup("base");
    s->spec.python.exe = strdup("/usr/bin/python3");
    snp_limits_default(&s->spec.limits);
    s->out_fd[0] = s->out_fd[1] = s->project_fd = -1;
    s->own = &w->forked;
    w->forked.out_wr_fd[0] = w->forked.out_wr_fd[1] = -1;
    for (int i = 0; i < SNP_SETUP_FS_N; i++) {
        w->forked.fs_fd[i] = -1;
    }
    w->forked.process.pidfd = w->forked.process.control_fd = w->forked.process.slot = -1;
    snp_meter_init(&s->meter);
    s->masked = json_array();
    s->degraded = json_array();
    s->has_interpreter = true;
    return w;
}

void world_start_cell(struct world *w, bool is_command)
{
    snp_autojson json_t *argv = json_pack("[s]", "true");
    const struct snp_cell_request rq = {.id = REQUEST_ID,
                                        .number = CELL_NUMBER,
                                        .kind = is_command ? SNP_EXEC_COMMAND : SNP_EXEC_PYTHON,
                                        .has_calls = !is_command,
                                        .argv = argv,
                                        .wall_ms = 600000,
                                        .code = "",
                                        .input = ""};
    struct snp_err err;

    SNP_ASSERT(snp_cell_start(&w->sandbox, &rq, &err) == 0);
}

/* What the daemon was sent: whole frames, each head an object within the cap. */
static void check_sent(struct world *w)
{
    snp_autobuf struct snp_buf sent = {0};
    char *space;
    ssize_t n;

    snp_buf_init(&sent, SENT_MAX);
    do {
        SNP_ASSERT(snp_buf_reserve(&sent, 1 << 16, &space) == 0);
        n = recv(w->daemon_fd, space, 1 << 16, MSG_DONTWAIT);
        snp_buf_commit(&sent, n > 0 ? (size_t)n : 0);
    } while (n > 0);
    SNP_ASSERT(snp_buf_add(&sent, snp_buf_bytes(&w->supervisor.daemon.out),
                           w->supervisor.daemon.out.len) == 0);
    while (sent.len > 0) {
        struct snp_frame frame;
        struct snp_err err;
        snp_autojson json_t *head = NULL;
        size_t size = 0;
        bool has = false;
        SNP_ASSERT(snp_frame_peek(&sent, SNP_FRAME_BODY_MAX, &frame, &size, &has, &err) == 0);
        SNP_ASSERT(has && frame.type >= SNP_RPC_RESPONSE && frame.type <= SNP_RPC_EVENT);
        SNP_ASSERT(snp_json_parse(frame.head, frame.head_len, &head, &err) == 0);
        snp_buf_consume(&sent, size);
    }
}

static void free_nothing(uv_handle_t *handle, void *data)
{
    (void)data;
    SNP_ASSERT(uv_is_closing(handle));
}

void world_free(struct world *w)
{
    struct snp_sandbox *s = &w->sandbox;

    if (s->cell != NULL) {
        snp_cell_sandbox_ended(s->cell); /* sends the result of what was claimed */
    }
    check_sent(w);
    snp_link_close(&s->guest);
    snp_link_close(&s->init);
    snp_link_close(&w->supervisor.daemon);
    snp_buf_done(&s->guest.in);
    snp_buf_done(&s->init.in);
    snp_buf_done(&w->supervisor.daemon.in);
    snp_python_done(&s->spec.python);
    json_decref(s->masked);
    json_decref(s->degraded);
    uv_walk(&w->loop, free_nothing, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    SNP_ASSERT(uv_loop_close(&w->loop) == 0);
    (void)close(w->daemon_fd);
    free(w);
}
