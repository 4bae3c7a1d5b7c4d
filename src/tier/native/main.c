/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier-native: the program that runs sandboxes of namespaces, seccomp and Landlock.
 *
 *   tier-native --state DIR      serve the tier protocol on descriptor 3
 *   tier-native --zygote ...     launcher of a template, see launch.h
 *   tier-native --syscalls       print the table of allowed system calls
 *
 * Under the name tier-local the same program runs sandboxes without namespaces.
 *
 * When descriptor 3 ends, everything it started ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/landlock.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/str.h"
#include "os/idmap.h"
#include "tier/engine/about.h"
#include "tier/engine/pool.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/serve.h"
#include "tier/engine/supervisor.h"
#include "tier/host/syscalls.h"
#include "tier/host/template.h"
#include "tier/local/launch.h"
#include "tier/local/local.h"
#include "tier/native/launch.h"
#include "tier/native/probe.h"

enum {
    DAEMON_FD = 3,
    INIT_SIZE_MAX = 8 << 20,
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

/* Folder of our own program, and our path. */
static int find_self(struct snp_supervisor *supervisor, char *ret_dir, struct snp_err *err)
{
    ssize_t n = readlink("/proc/self/exe", supervisor->self, sizeof(supervisor->self) - 1);
    char *slash;

    if (n <= 0) {
        return snp_fail_sys(err, errno, "read /proc/self/exe");
    }
    supervisor->self[n] = '\0';
    (void)snprintf(ret_dir, SNP_SUPERVISOR_PATH_MAX, "%s", supervisor->self);
    slash = strrchr(ret_dir, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    if (snprintf(supervisor->guest_dir, sizeof(supervisor->guest_dir), "%s/guest", ret_dir) >=
        (int)sizeof(supervisor->guest_dir)) {
        return snp_fail(err, SNP_E_LIMIT, "our own path is too long");
    }
    return 0;
}

/*
 * A program of pid 1's as a sealed memfd of mode 0111: the code may run it and nothing more,
 * and the kernel makes a process not dumpable whose program it may not read.
 */
static int load_program(const char *dir, const char *name, int *ret_fd, struct snp_err *err)
{
    char path[SNP_SUPERVISOR_PATH_MAX + 16];
    snp_autofree char *program = NULL;
    snp_autoclose int fd = -1;
    size_t n;
    int r;

    (void)snprintf(path, sizeof(path), "%s/snp-%s", dir, name);
    r = snp_file_read(path, INIT_SIZE_MAX, &program, &n, err);
    if (r < 0) {
        return r;
    }
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || snp_write_all(fd, program, n) < 0 || fchmod(fd, 0111) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        return snp_fail_sys(err, errno, "prepare the program snp-%s", name);
    }
    /* Executing wants no writer: keep a path descriptor only. */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *ret_fd = open(path, O_PATH | O_CLOEXEC);
    return *ret_fd < 0 ? snp_fail_sys(err, errno, "open the program snp-%s", name) : 0;
}

/* A namespace of our own in which we are user 0. 0 or errno. */
static int enter_user_namespace(uid_t uid, gid_t gid)
{
    char map[48];

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        return errno;
    }
    (void)!snp_file_poke("/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
    if (snp_file_poke("/proc/self/uid_map", map) < 0) {
        return errno;
    }
    (void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
    return snp_file_poke("/proc/self/gid_map", map) < 0 ? errno : 0;
}

/*
 * User 0 with every right over what we make: as real root we are; user 0 of a container
 * that may not mount, or has no ids to give, is treated as anybody else. 0 or errno.
 */
static int become_zero(struct snp_supervisor *supervisor)
{
    if (supervisor->is_root && (!snp_idmap_has_ranges() || unshare(CLONE_NEWNS) < 0)) {
        supervisor->is_root = false;
    }
    return supervisor->is_root ? 0 : enter_user_namespace(supervisor->uid, getegid());
}

/* The kernel's ABI, or the older one we are told to use; 0 = none. */
static int landlock_abi(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *none = getenv("SNIPARA_SANDBOX_NO_LANDLOCK");
    const char *older = getenv("SNIPARA_SANDBOX_LANDLOCK_ABI");
    /* NOLINTEND(concurrency-mt-unsafe) */
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t most = INT_MAX;

    if (none != NULL || abi <= 0 || (older != NULL && snp_parse_u64(older, &most) < 0)) {
        return 0;
    }
    return (uint64_t)abi < most ? (int)abi : (int)most;
}

static int supervisor_init(struct snp_supervisor *supervisor,
                           const char *state_dir,
                           struct snp_err *err)
{
    char dir[SNP_SUPERVISOR_PATH_MAX];
    const char *python = getenv("SNIPARA_SANDBOX_PYTHON"); /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME");                     /* NOLINT(concurrency-mt-unsafe) */
    const char *forks =
        getenv("SNIPARA_SANDBOX_TEMPLATE_FORKS"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t forks_max = 0;
    const char *no_cgroup =
        getenv("SNIPARA_SANDBOX_NO_CGROUP");           /* NOLINT(concurrency-mt-unsafe) */
    const char *pool = getenv("SNIPARA_SANDBOX_POOL"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t pool_max = SNP_POOL_MAX;
    int r = find_self(supervisor, dir, err);

    if (r < 0) {
        return r;
    }
    if (pool != NULL && (snp_parse_u64(pool, &pool_max) < 0 || pool_max > SNP_POOL_MAX)) {
        return snp_fail(err, SNP_E_INVALID, "SNIPARA_SANDBOX_POOL is 0 to %d, not '%.20s'",
                        SNP_POOL_MAX, pool);
    }
    supervisor->pool_max = (unsigned)pool_max;
    supervisor->uid = geteuid();
    supervisor->is_root = supervisor->uid == 0;
    (void)snprintf(supervisor->state_dir, sizeof(supervisor->state_dir), "%s", state_dir);
    (void)snprintf(supervisor->python, sizeof(supervisor->python), "%s",
                   python == NULL || *python == '\0' ? "/usr/bin/python3" : python);
    supervisor->home = home == NULL ? NULL : realpath(home, NULL);
    supervisor->forks_max = SNP_TEMPLATE_FORKS_MAX;
    if (forks != NULL && snp_parse_u64(forks, &forks_max) == 0 && forks_max >= 1 &&
        forks_max <= SNP_TEMPLATE_FORKS_MAX) {
        supervisor->forks_max = (unsigned)forks_max;
    }
    supervisor->slots = calloc(SNP_IDMAP_SLOTS, 1);
    supervisor->next_slot =
        (unsigned)getpid() * 31U % (SNP_IDMAP_SLOTS - 1); /* two supervisors start far apart */
    if (supervisor->slots == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    supervisor->landlock_abi = landlock_abi();
    if (mkdir(state_dir, 0700) < 0 && errno != EEXIST) {
        return snp_fail_sys(err, errno, "mkdir %.300s", state_dir);
    }
    r = load_program(dir, "init", &supervisor->init_fd, err);
    r = r < 0 ? r : load_program(dir, "files", &supervisor->files_fd, err);
    if (r == 0) {
        r = snp_spools_open(&supervisor->spools, state_dir, err);
    }
    if (r < 0) {
        return r;
    }
    (void)snprintf(dir, sizeof(dir), "%.4000s/cgroups", state_dir);
    snp_cgroups_open(&supervisor->cgroups, supervisor->uid, dir, no_cgroup != NULL);
    supervisor->uncounted = snp_cgroups_uncounted(&supervisor->cgroups, "/proc/cmdline");
    if (supervisor->is_local) {
        return snp_local_init(supervisor, err);
    }
    r = snp_syscalls_compile(snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY),
                             &supervisor->session_filter_fd, &supervisor->zygote_filter_fd,
                             err);
    if (r < 0) {
        return r;
    }
    snp_probe_namespaces(supervisor, become_zero(supervisor));
    if (supervisor->is_root && supervisor->can_namespace &&
        snp_idmap_open_locks(&supervisor->locks_fd, err) < 0) {
        supervisor->can_namespace =
            false; /* ids that another supervisor uses are not its own */
        (void)snprintf(supervisor->why, sizeof(supervisor->why),
                       "%.200s; make one of them writable for root, or run as an ordinary user",
                       err->msg);
    }
    /* Ours only: nothing mounted here shows on the host; what the host mounts shows here. */
    if (supervisor->can_namespace && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
        return snp_fail_sys(err, errno, "make the mounts private");
    }
    return 0;
}

/*
 * A sandbox takes about a dozen descriptors of ours. What the host lets us have, and as root
 * enough for all; the code has a limit of its own.
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
    snp_sandboxes_watch(timer->data);
    snp_templates_watch(timer->data);
}

static int serve(const char *state_dir, uint64_t outputs, bool is_local)
{
    static uv_timer_t watch;
    static struct snp_supervisor supervisor = {
        .session_filter_fd = -1,
        .zygote_filter_fd = -1,
        .init_fd = -1,
        .files_fd = -1,
        .locks_fd = -1,
        .folder_lock_fd = -1,
        .life_fd = {-1, -1}
    };
    uv_loop_t *loop = uv_default_loop();
    struct snp_err err;

    if (loop == NULL) {
        return 1;
    }
    supervisor.loop = loop;
    supervisor.is_local = is_local;
    if (supervisor_init(&supervisor, state_dir, &err) < 0 ||
        snp_link_open(&supervisor.daemon, loop, DAEMON_FD, &daemon_ops, &supervisor, &err) <
            0) {
        snp_log(SNP_LOG_ERROR, "tier_start", "error=%s", err.msg);
        return 1;
    }
    snp_spools_bound(&supervisor.spools, outputs);
    (void)uv_timer_init(loop, &watch);
    watch.data = &supervisor;
    (void)uv_timer_start(&watch, on_watch, WATCH_MS, WATCH_MS);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    /* Every pid 1 and template ends when its stream does; their cgroups take a moment to empty. */
    snp_pool_close(&supervisor);
    snp_sandbox_end_all(&supervisor);
    snp_templates_close(&supervisor);
    for (int i = 0; i < END_ROUNDS; i++) {
        (void)uv_run(loop,
                     UV_RUN_NOWAIT); /* workers that were still preparing hand over here */
        if (snp_pending_sweep(&supervisor) && i > 1) {
            break;
        }
        (void)poll(NULL, 0, END_PAUSE_MS);
    }
    snp_cgroups_close(&supervisor.cgroups);
    snp_spools_close(&supervisor.spools);
    snp_local_done(&supervisor);
    return 0;
}

int main(int argc, char **argv)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const char *slash = argc == 0 ? NULL : strrchr(argv[0], '/');
    bool is_local = argc > 0 && snp_streq(slash == NULL ? argv[0] : slash + 1, "tier-local");
    uint64_t outputs = UINT64_MAX;

    if (argc >= 2 && snp_streq(argv[1], "--zygote")) {
        return is_local ? snp_local_launch_main(argc - 2, argv + 2)
                        : snp_launch_main(argc - 2, argv + 2);
    }
    if (argc == 2 && snp_streq(argv[1], "--describe")) {
        snp_autojson json_t *about = snp_about_json(
            is_local ? &snp_local_about : &snp_native_about, snp_serve_methods());

        return json_dumpf(about, stdout, JSON_COMPACT) < 0 ? 1 : 0;
    }
    if (argc == 2 && snp_streq(argv[1], "--syscalls")) {
        snp_syscalls_print(stdout);
        return 0;
    }
    if ((argc != 3 && argc != 5) || !snp_streq(argv[1], "--state") ||
        (argc == 5 &&
         (!snp_streq(argv[3], "--outputs") || snp_parse_u64(argv[4], &outputs) < 0))) {
        (void)fprintf(stderr,
                      "usage: tier-native --state DIR [--outputs BYTES] (or tier-local)\n"
                      "Started by snipara-sandboxd, with the tier protocol on descriptor 3.\n");
        return 2;
    }
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    raise_open_files();
    snp_slice_short();
    snp_log_setup(is_local ? "tier-local" : "tier-native", SNP_LOG_INFO);
    return serve(argv[2], outputs, is_local);
}
