/* SPDX-License-Identifier: Apache-2.0 */
/* A supervisor of sandboxes without namespaces, and its table. */
#include "tier/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/registry/python.h"
#include "base/str.h"
#include "os/idmap.h"
#include "tier/engine/open.h"
#include "tier/engine/stream/handle.h"
#include "tier/host/procs.h"
#include "tier/local/filter.h"
#include "tier/local/folder.h"

enum {
    FILE_MAX = 8 << 20,
    GUEST_DEPTH = 2 /* levels of folders in the driver's */
};

/* The supervisor ------------------------------------------------------------------------- */

/* Are we real root, able to change users and to kill their processes? */
static bool has_rights(void)
{
    const uint32_t wanted = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER |
                            1U << CAP_KILL | 1U << CAP_SETGID | 1U << CAP_SETUID |
                            1U << CAP_SETPCAP;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    return geteuid() == 0 && snp_idmap_has_ranges() && syscall(SYS_capget, &header, data) == 0 &&
           (data[0].effective & wanted) == wanted;
}

static int copy_file(const char *from, const char *to, struct snp_err *err)
{
    snp_autofree char *bytes = NULL;
    size_t n;
    int r = snp_file_read(from, FILE_MAX, &bytes, &n, err);

    r = r == 0 ? snp_file_write_atomic(to, bytes, n, 0644, err) : r;
    if (r == 0 && chmod(to, 0644) < 0) {
        r = snp_fail_sys(err, errno, "chmod %.200s", to);
    }
    return r;
}

/* Copy a folder of files, and of such folders, to depth levels below it. */
/* NOLINTNEXTLINE(misc-no-recursion): the depth is bounded */
static int copy_folder(const char *from, const char *to, unsigned depth, struct snp_err *err)
{
    DIR *dir = opendir(from);
    struct dirent *entry;
    int r = 0;

    if (dir == NULL || mkdir(to, 0755) < 0 || chmod(to, 0755) < 0) {
        r = snp_fail_sys(err, errno, "copy %.200s", from);
    }
    while (r == 0 && dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): still one thread */
        snp_autofree char *source = NULL;
        snp_autofree char *target = NULL;

        if (entry->d_name[0] == '.' || (entry->d_type == DT_DIR && depth == 0)) {
            continue;
        }
        source = snp_format("%s/%s", from, entry->d_name);
        target = snp_format("%s/%s", to, entry->d_name);
        if (source == NULL || target == NULL) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        } else if (entry->d_type == DT_DIR) {
            r = copy_folder(source, target, depth - 1, err);
        } else {
            r = copy_file(source, target, err);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return r;
}

/* Copy the driver and its files to a folder that a template's user can read. */
static int copy_guest(struct snp_supervisor *supervisor, struct snp_err *err)
{
    char to[SNP_FOLDER_MAX + 16];
    int r;

    (void)snprintf(to, sizeof(to), "%s/guest", snp_host_of(supervisor)->folder);
    r = copy_folder(snp_host_of(supervisor)->guest_dir, to, GUEST_DEPTH, err);
    (void)snprintf(snp_host_of(supervisor)->guest_dir, sizeof(snp_host_of(supervisor)->guest_dir),
                   "%s", to);
    return r;
}

static int start(struct snp_supervisor *supervisor, struct snp_err *err)
{
    struct snp_host *host = snp_host_of(supervisor);
    struct snp_local_filter want = {0};
    int life[2];
    int r = snp_host_start(supervisor, err);

    if (r < 0) {
        return r;
    }
    host->is_root = has_rights();
    supervisor->can_run = host->landlock_abi > 0;
    if (!supervisor->can_run) {
        (void)snprintf(supervisor->why, sizeof(supervisor->why),
                       "the local tier keeps the code from your files by Landlock, which this "
                       "kernel does not offer; use one from 5.13 on with landlock in lsm=");
    }
    if (pipe2(life, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    host->life_fd[0] = life[0];
    host->life_fd[1] = life[1];
    r = snp_folders_open(supervisor->state_dir, host->is_root, host->folder,
                         sizeof(host->folder) - 64, &snp_local_of(supervisor)->folder_lock_fd, err);
    if (r == 0) {
        r = copy_guest(supervisor, err);
    }
    want.counts_memory = snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY);
    want.has_own_ids = host->is_root;
    want.has_truncate = host->landlock_abi >= 3 || host->is_root;
    const struct snp_filter_parts session = snp_local_session_parts(&want);
    const struct snp_filter_parts zygote = snp_local_zygote_parts(&want);
    return r < 0 ? r
                 : snp_filters_compile(&session, &zygote, &host->session_filter_fd,
                                       &host->zygote_filter_fd, err);
}

/* The keepers then kill all processes. */
static void end_all(struct snp_supervisor *supervisor)
{
    snp_closep(&snp_host_of(supervisor)->life_fd[1]);
}

static void done(struct snp_supervisor *supervisor)
{
    snp_folders_close(supervisor->state_dir, snp_host_of(supervisor)->folder,
                      &snp_local_of(supervisor)->folder_lock_fd);
}

/*
 * The local tier cannot show folders under other paths, so it has the built-in templates only;
 * results note that a project's packages were not used.
 */
static int find_python(const struct snp_python_query *query,
                       struct snp_python *ret,
                       struct snp_err *err)
{
    struct snp_python_query base = *query;
    char state[SNP_SUPERVISOR_PATH_MAX + 8];
    int r;

    if (query->rootfs != NULL) {
        return snp_fail_with(err, SNP_E_UNSUPPORTED, SNP_REMEDY_TIER, "native", 0,
                             "a rootfs needs mounts, which the local tier does not have");
    }
    /* Our folder is below the daemon's, which has the records. */
    (void)snprintf(state, sizeof(state), "%s/..", query->state_dir);
    base.state_dir = state;
    r = snp_python_find(&base, ret, err);

    if (r == 0 && query->name == NULL && ret->site != NULL) {
        snp_python_done(ret);
        base.name = "base";
        r = snp_python_find(&base, ret, err);
        if (r == 0) {
            ret->note = strdup("the local tier does not use a project's .venv");
        }
    }
    if (r == 0 && (ret->site != NULL || ret->prefix != NULL)) {
        (void)snp_fail_with(err, SNP_E_UNSUPPORTED, SNP_REMEDY_TIER, "native", 0,
                            "template %.60s is not below /usr; the local tier has only "
                            "templates that are, such as base",
                            ret->name);
        snp_python_done(ret);
        return err->code;
    }
    return r;
}

static int folder(const struct snp_supervisor *supervisor,
                  const char *session_id,
                  char *out,
                  size_t len,
                  struct snp_err *err)
{
    int n = snprintf(out, len, "%s/%.16s", snp_host_of(supervisor)->folder, session_id);

    return n < 0 || (size_t)n >= len
               ? snp_fail(err, SNP_E_LIMIT, "the state folder's path is too long")
               : 0;
}

/* A sandbox ---------------------------------------------------------------------------------- */

static int make(struct snp_sandbox *s)
{
    if (snp_forked_make(s, sizeof(struct snp_local_sandbox)) < 0) {
        return -1;
    }
    snp_local_sandbox_of(s)->watch = snp_timer_new(s->supervisor->loop, s);
    if (snp_local_sandbox_of(s)->watch == NULL) {
        snp_forked_unmake(s);
        return -1;
    }
    return 0;
}

static void unmake(struct snp_sandbox *s)
{
    snp_handle_close(&snp_local_sandbox_of(s)->watch);
    snp_forked_unmake(s);
}

/* The folder is ready: start the processes, unless a reason to stop exists. */
static void on_prepared(struct snp_sandbox *s)
{
    if (s->reason[0] != '\0' || s->open_err.code != SNP_OK) {
        snp_forked_abandon(s);
    } else {
        snp_forked_open(s);
    }
}

/*
 * Make the folder first, because a template is blocked from the fork of a sandbox to the end of its
 * set-up. The folder's owner must be known before.
 */
static void open_sandbox(struct snp_sandbox *s)
{
    struct snp_forked *f = snp_forked_of(s);
    struct snp_err err;

    f->process.slot = snp_host_take_slot(s->supervisor);
    if (f->process.slot == -2) {
        f->process.slot = -1;
        (void)snp_fail(&err, SNP_E_LIMIT, "no user ids are left for another sandbox");
        snp_sandbox_failed(s, &err);
        return;
    }
    snp_local_prepare(s, on_prepared);
}

/*
 * Without a private file system, the kernel bounds single files only. RLIMIT_NPROC counts all
 * processes of a user, on the whole host.
 */
static void fill_spec(struct snp_sandbox *s, struct snp_spec *spec)
{
    uint64_t workspace = s->spec.limits.value[SNP_LIMIT_WORKSPACE];

    spec->is_local = 1;
    spec->file_bytes = workspace < spec->file_bytes ? workspace : spec->file_bytes;
    spec->own_id = snp_host_code_uid(s->supervisor, snp_forked_of(s)->process.slot);
    if (spec->own_id == 0) {
        spec->processes += snp_procs_of_user(s->supervisor->uid);
    }
    (void)snprintf(spec->folder, sizeof(spec->folder), "%s", s->folder);
}

static int ready(struct snp_sandbox *s, struct snp_err *err)
{
    if (s->spec.is_lasting && snp_folder_close(s->folder, err) < 0) {
        return err->code;
    }
    snp_local_watch(s, false);
    return 0;
}

static uint64_t cpu(const struct snp_sandbox *s)
{
    struct snp_family_usage usage;

    snp_family_usage(snp_forked_of(s)->process.pid, 0, &usage);
    return usage.cpu_us;
}

/* Without a private /proc, pid 1 cannot count other processes. */
static uint32_t others(const struct snp_sandbox *s, pid_t copy)
{
    struct snp_procs procs = {0};
    uint32_t n = 0;

    snp_procs_below(snp_forked_of(s)->process.pid, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        const struct snp_proc *p = &procs.at[i];

        n += p->pid != copy && p->state != 'Z' && !snp_spared_has(&s->spared, p->pid) ? 1 : 0;
    }
    snp_procs_done(&procs);
    return n > 1 ? n - 1 : 0; /* one is the interpreter */
}

const struct snp_host_ops snp_local_ops = {
    .tier =
        {
            .name = "local",
            .about = &snp_local_about,
            .output_prefix = "local/",
            .start = start,
            .probe = snp_local_probe,
            .tick = snp_templates_watch,
            .end_all = end_all,
            .await = snp_forked_await,
            .stop = snp_templates_close,
            .is_over = snp_pending_sweep,
            .done = done,
            .find_python = find_python,
            .folder = folder,
            .limited_by = snp_local_limited_by,
            .degraded = snp_local_degraded,
            .check = snp_host_check,
            .controls = snp_local_controls,
            .make = make,
            .unmake = unmake,
            .open = open_sandbox,
            .settled = snp_sandbox_opened,
            .kill = snp_local_kill,
            .sweep = snp_local_sweep,
            .watch = snp_local_watch,
            .cpu = cpu,
            .others = others,
            .own_memory = snp_forked_own_memory,
            .copies_usage = snp_forked_copies_usage,
            .limit = snp_forked_limit,
        },
    .zygote_order = SNP_ZYGOTE_PLAIN,
    .has_keeper = true,
    .has_slot = true,
    .fill_spec = fill_spec,
    .ready = ready,
    .emulated = snp_local_calls,
    .bury = snp_local_bury,
};
