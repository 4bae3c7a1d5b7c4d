/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor without full root rights (an ordinary user, or a container's root) enters a user
 * namespace, where it is user 0.
 */
#include "tier/native/native.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/registry/python.h"
#include "guest/pid1/wire.h"
#include "os/idmap.h"
#include "tier/engine/inside.h"
#include "tier/host/forked.h"
#include "tier/host/syscalls.h"
#include "tier/native/probe.h"

enum {
    NEARLY_FULL = 64 << 10 /* bytes; below it pid 1 would report a full file system */
};

/* Enter a user namespace in which we are user 0. 0 or errno. */
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
 * Become user 0 with all capabilities over our mounts and ids. Real root already is; a container's
 * root that may not mount, or cannot map ids, is treated as an ordinary user. 0 or errno.
 */
static int become_zero(struct snp_supervisor *supervisor)
{
    struct snp_host *host = snp_host_of(supervisor);

    if (host->is_root && (!snp_idmap_has_ranges() || unshare(CLONE_NEWNS) < 0)) {
        host->is_root = false;
    }
    return host->is_root ? 0 : enter_user_namespace(supervisor->uid, getegid());
}

static int start(struct snp_supervisor *supervisor, struct snp_err *err)
{
    struct snp_host *host = snp_host_of(supervisor);
    int r = snp_host_start(supervisor, err);

    if (r < 0) {
        return r;
    }
    r = snp_filters_compile(
        &snp_syscalls_parts[snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY)
                                ? SNP_FILTER_SESSION
                                : SNP_FILTER_SESSION_UNCOUNTED],
        &snp_syscalls_parts[SNP_FILTER_ZYGOTE], &host->session_filter_fd, &host->zygote_filter_fd,
        err);
    if (r < 0) {
        return r;
    }
    snp_probe_namespaces(supervisor, become_zero(supervisor));
    /* Slave mounts: our mounts do not appear on the host; the host's mounts appear here. */
    if (supervisor->can_run && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
        return snp_fail_sys(err, errno, "make the mounts private");
    }
    return 0;
}

static int make(struct snp_sandbox *s)
{
    return snp_forked_make(s, sizeof(struct snp_forked));
}

static int map_ids(struct snp_pending *pending, struct snp_err *err)
{
    return snp_idmap_write(pending->pid, pending->slot, SNP_INSIDE_ID, err);
}

static void keep_template(struct snp_sandbox *s)
{
    snp_template_keep(s->supervisor, &s->spec.python);
}

/* The kernel kills every process of the namespace with its pid 1. */
static void kill_sandbox(struct snp_sandbox *s)
{
    (void)syscall(SYS_pidfd_send_signal, snp_forked_of(s)->process.pidfd, SIGKILL, NULL, 0);
}

static void on_swept(void *data, int eno, const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    snp_sandbox_swept(data, eno);
}

/* Pid 1 can signal all processes. */
static void sweep(struct snp_sandbox *s)
{
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_SWEEP, NULL, 0, -1), on_swept, s);
}

/* Without a cgroup for memory or for processes, pid 1 samples them while a cell runs. */
static void watch(struct snp_sandbox *s, bool is_running)
{
    bool has_memory = snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY);
    bool has_pids = snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_PIDS);
    const uint64_t *value = s->spec.limits.value;
    const struct snp_init_watch raw = {
        .memory = is_running && !has_memory ? value[SNP_LIMIT_MEMORY] : 0,
        .processes = is_running && !has_pids ? (uint32_t)value[SNP_LIMIT_PROCESSES] : 0};

    if (!has_memory || !has_pids) {
        snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_WATCH, &raw, sizeof(raw), -1), snp_sandbox_ignore,
                             NULL);
    }
}

static bool has_room(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize >= NEARLY_FULL;
}

static bool is_unwritten(struct snp_sandbox *s, uint64_t *ret_bytes)
{
    const struct snp_forked *f = snp_forked_of(s);
    struct statfs fs;

    s->is_unwritten = s->is_unwritten && fstatfs(f->fs_fd[SNP_SETUP_WORKSPACE], &fs) == 0 &&
                      fs.f_ffree == f->empty_files && fs.f_bfree == f->empty_blocks;
    if (!s->is_unwritten) {
        return false;
    }
    *ret_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return has_room(f->fs_fd[SNP_SETUP_TMP]) && has_room(f->fs_fd[SNP_SETUP_SHM]);
}

const struct snp_host_ops snp_native_ops = {
    .tier =
        {
            .name = "native",
            .about = &snp_native_about,
            .output_prefix = "",
            .can_pool = true,
            .shows_project = true,
            .bounds_workspace = true,
            .holds_files_in_memory = true,
            .start = start,
            .probe = snp_probe_json,
            .tick = snp_templates_watch,
            .await = snp_forked_await,
            .stop = snp_templates_close,
            .is_over = snp_pending_sweep,
            .find_python = snp_python_find,
            .limited_by = snp_native_limited_by,
            .degraded = snp_native_degraded,
            .check = snp_host_check,
            .controls = snp_native_controls,
            .make = make,
            .unmake = snp_forked_unmake,
            .open = snp_forked_open,
            .keep_template = keep_template,
            .kill = kill_sandbox,
            .sweep = sweep,
            .watch = watch,
            .is_unwritten = is_unwritten,
            .own_memory = snp_forked_own_memory,
            .copies_usage = snp_forked_copies_usage,
            .limit = snp_forked_limit,
        },
    .zygote_order = SNP_ZYGOTE_FORK,
    .has_images = true,
    .map_ids = map_ids,
    .emulated = snp_native_calls,
};
