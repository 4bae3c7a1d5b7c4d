/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tier as a program: it serves the tier protocol on descriptor 3. When that closes, all its
 * processes end.
 */
#include "tier/engine/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/slice.h"
#include "base/str.h"
#include "base/wire/rpc.h"
#include "tier/engine/about.h"
#include "tier/engine/cell/cell.h"
#include "tier/engine/inside.h"
#include "tier/engine/open.h"
#include "tier/engine/pool.h"
#include "tier/engine/process.h"
#include "tier/engine/serve.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/supervisor.h"

enum {
    DAEMON_FD = 3,
    FILES_WANTED = 16 * SNP_SUPERVISOR_SANDBOXES_MAX,
    WATCH_MS = 5000,
    END_ROUNDS = 400,
    END_PAUSE_MS = 5
};

static void on_daemon_frame(struct snp_link *link, const struct snp_frame *frame)
{
    snp_serve_frame(link->owner, frame);
}

static void on_daemon_end(struct snp_link *link, const struct snp_err *err)
{
    struct snp_supervisor *supervisor = link->owner;

    (void)err;
    uv_stop(supervisor->loop);
}

static const struct snp_link_ops daemon_ops = {.body_max = SNP_FRAME_BODY_MAX,
                                               .takes_fds = true,
                                               .queue_max = 1U << 30,
                                               .on_frame = on_daemon_frame,
                                               .on_end = on_daemon_end};

const struct snp_sandbox_events snp_tier_events = {
    .guest_frame = snp_cell_on_guest,
    .guest_end = snp_cell_on_guest_end,
    .output = snp_cell_on_output,
    .exited = snp_cell_on_exit,
    .process_exited = snp_detached_exited,
    .memory = snp_cell_on_memory,
    .disk = snp_cell_on_disk,
    .denial = snp_cell_on_denial,
    .copy_came = snp_snapshot_on_came,
    .copy_gone = snp_snapshot_on_gone,
    .abandon = snp_cell_abandon,
};

static int supervisor_init(struct snp_supervisor *supervisor,
                           const char *state_dir,
                           struct snp_err *err)
{
    char dir[SNP_SUPERVISOR_PATH_MAX];
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *python = getenv("SNIPARA_SANDBOX_PYTHON");
    const char *home = getenv("HOME");
    const char *no_cgroup = getenv("SNIPARA_SANDBOX_NO_CGROUP");
    const char *pool = getenv("SNIPARA_SANDBOX_POOL");
    /* NOLINTEND(concurrency-mt-unsafe) */
    uint64_t pool_max = SNP_POOL_MAX;

    if (pool != NULL && (snp_parse_u64(pool, &pool_max) < 0 || pool_max > SNP_POOL_MAX)) {
        return snp_fail(err, SNP_E_INVALID, "SNIPARA_SANDBOX_POOL is 0 to %d, not '%.20s'",
                        SNP_POOL_MAX, pool);
    }
    supervisor->pool_max = (unsigned)pool_max;
    supervisor->uid = geteuid();
    (void)snprintf(supervisor->state_dir, sizeof(supervisor->state_dir), "%s", state_dir);
    (void)snprintf(supervisor->python, sizeof(supervisor->python), "%s",
                   python == NULL || *python == '\0' ? "/usr/bin/python3" : python);
    supervisor->home = home == NULL ? NULL : realpath(home, NULL);
    if (mkdir(state_dir, 0700) < 0 && errno != EEXIST) {
        return snp_fail_sys(err, errno, "mkdir %.300s", state_dir);
    }
    if (snp_spools_open(&supervisor->spools, state_dir, err) < 0) {
        return err->code;
    }
    (void)snprintf(dir, sizeof(dir), "%.4000s/cgroups", state_dir);
    snp_cgroups_open(&supervisor->cgroups, supervisor->uid, dir, no_cgroup != NULL);
    supervisor->uncounted = snp_cgroups_uncounted(&supervisor->cgroups, "/proc/cmdline");
    return supervisor->ops->start(supervisor, err);
}

/*
 * A sandbox takes about a dozen of our descriptors. Raise the limit to the hard limit, or as root
 * to enough for all; the code has a separate limit.
 */
static void raise_open_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return;
    }
    if (files.rlim_max < FILES_WANTED) {
        const struct rlimit more = {FILES_WANTED, FILES_WANTED};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0) {
            return;
        }
    }
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

static void on_watch(uv_timer_t *timer)
{
    struct snp_supervisor *supervisor = timer->data;

    snp_sandboxes_watch(supervisor);
    if (supervisor->ops->tick != NULL) {
        supervisor->ops->tick(supervisor);
    }
}

/* Every pid 1 ends with its stream; its cgroups may empty a moment later. */
static void end(struct snp_supervisor *supervisor)
{
    snp_pool_close(supervisor);
    snp_sandbox_end_all(supervisor);
    supervisor->ops->stop(supervisor);
    for (int i = 0; i < END_ROUNDS; i++) {
        (void)uv_run(supervisor->loop, UV_RUN_NOWAIT); /* pending workers finish here */
        if (supervisor->ops->is_over(supervisor) && i > 1) {
            break;
        }
        (void)poll(NULL, 0, END_PAUSE_MS);
    }
    snp_cgroups_close(&supervisor->cgroups);
    snp_spools_close(&supervisor->spools);
    if (supervisor->ops->done != NULL) {
        supervisor->ops->done(supervisor);
    }
}

static int serve(struct snp_supervisor *supervisor, const char *state_dir, uint64_t outputs)
{
    static uv_timer_t watch;
    uv_loop_t *loop = uv_default_loop();
    struct snp_err err;

    if (loop == NULL) {
        return 1;
    }
    supervisor->loop = loop;
    if (supervisor_init(supervisor, state_dir, &err) < 0 ||
        snp_link_open(&supervisor->daemon, loop, DAEMON_FD, &daemon_ops, supervisor, &err) < 0) {
        snp_log(SNP_LOG_ERROR, "tier_start", "error=%s", err.msg);
        return 1;
    }
    snp_spools_bound(&supervisor->spools, outputs);
    (void)uv_timer_init(loop, &watch);
    watch.data = supervisor;
    (void)uv_timer_start(&watch, on_watch, WATCH_MS, WATCH_MS);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    end(supervisor);
    return 0;
}

int snp_tier_main(int argc, char **argv, const struct snp_tier_ops *ops, void *own)
{
    static struct snp_supervisor supervisor;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    uint64_t outputs = UINT64_MAX;
    char name[64];

    if (argc == 2 && snp_streq(argv[1], "--describe")) {
        snp_autojson json_t *about = snp_about_json(ops->about, snp_serve_methods());

        return json_dumpf(about, stdout, JSON_COMPACT) < 0 ? 1 : 0;
    }
    if ((argc != 3 && argc != 5) || !snp_streq(argv[1], "--state") ||
        (argc == 5 && (!snp_streq(argv[3], "--outputs") || snp_parse_u64(argv[4], &outputs) < 0))) {
        (void)fprintf(stderr,
                      "usage: tier-%s --state DIR [--outputs BYTES]\n"
                      "Started by snipara-sandboxd, with the tier protocol on descriptor 3.\n",
                      ops->name);
        return 2;
    }
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    raise_open_files();
    snp_slice_short();
    (void)snprintf(name, sizeof(name), "tier-%s", ops->name);
    snp_log_setup(name, SNP_LOG_INFO);
    supervisor.ops = ops;
    supervisor.own = own;
    supervisor.events = &snp_tier_events;
    return serve(&supervisor, argv[2], outputs);
}
