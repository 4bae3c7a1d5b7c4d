/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each feature is tested in a child process, or read from the kernel. A row names the cost of its
 * absence and the fix.
 */
#include "tier/native/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "guest/spec.h"
#include "os/idmap.h"
#include "tier/engine/about.h"
#include "tier/host/features.h"
#include "tier/host/syscalls.h"
#include "tier/native/native.h"
#include "tier/native/overlay.h"

/* Settings known to block user namespaces, and the fix for each. */
static const struct {
    const char *path;
    const char *blocking;
    const char *lift;
} userns_settings[] = {
    {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
     "the AppArmor profile that 'sudo make install' sets up (docs/security/controls.md), or "
     "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
    {"/proc/sys/kernel/unprivileged_userns_clone", "0",
     "sudo sysctl kernel.unprivileged_userns_clone=1"},
    {"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000"},
};

static bool setting_is(const char *path, const char *value)
{
    snp_autofree char *text = NULL;
    struct snp_err err;

    if (snp_file_read(path, 64, &text, NULL, &err) < 0) {
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    return snp_streq(text, value);
}

/* Try as a template does: without capabilities, then with those of a new namespace. */
static int try_as_template(void)
{
    const uid_t id = SNP_IDMAP_BASE + SNP_INSIDE_ID;

    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ||
        unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        return -1;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0
               ? -1
               : mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k");
}

void snp_probe_namespaces(struct snp_supervisor *supervisor, int unshare_errno)
{
    const char *blocked = "a container's or security module's policy";
    const char *lift = "start the container with --security-opt seccomp=unconfined "
                       "--security-opt apparmor=unconfined";
    const char *otherwise = supervisor->uid == 0
                                ? "or use a machine or container where that setting is off"
                                : "or run snipara-sandbox as root";

    if (syscall(SYS_clone3, NULL, 0) < 0 && errno == EPERM) {
        supervisor->can_run = false; /* the C library falls back to clone on ENOSYS only */
        (void)snprintf(supervisor->why, sizeof(supervisor->why),
                       "clone3 is refused here with EPERM, as old container runtimes do, so no "
                       "thread can be started; update the runtime, or start the container with "
                       "--security-opt seccomp=unconfined");
        return;
    }
    if (unshare_errno == 0) { /* mounts are slow to remove */
        const bool is_root = snp_host_of(supervisor)->is_root;
        const pid_t overlay = snp_probe_begin(snp_overlay_try);

        unshare_errno = is_root && !snp_probe_works(try_as_template) ? EPERM : 0;
        snp_native_of(supervisor)->overlays_system = snp_probe_end(overlay);
    }
    supervisor->can_run = unshare_errno == 0;
    if (supervisor->can_run) {
        return;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(userns_settings); i++) {
        if (setting_is(userns_settings[i].path, userns_settings[i].blocking)) {
            blocked = userns_settings[i].path;
            lift = userns_settings[i].lift;
            break;
        }
    }
    /* strerrordesc_np: no locale, no static buffer */
    (void)snprintf(supervisor->why, sizeof(supervisor->why),
                   "user namespaces are refused here (%s) by %s; lift it with: %s; %s",
                   strerrordesc_np(unshare_errno), blocked, lift, otherwise);
}

static int try_namespaces(void)
{
    return unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                   CLONE_NEWUTS | CLONE_NEWCGROUP);
}

/* Mount a /proc for a new pid namespace; refused where parts of ours are covered. */
static int try_proc(void)
{
    int status = 1;
    pid_t pid;

    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        _exit(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0 ? 0 : 1);
    }
    return pid > 0 && SNP_RETRY(waitpid(pid, &status, 0)) == pid && status == 0 ? 0 : -1;
}

static int try_overlay(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m") < 0) {
        return -1;
    }
    (void)mkdir("/tmp/l", 0755);
    (void)mkdir("/tmp/u", 0755);
    (void)mkdir("/tmp/w", 0755);
    (void)mkdir("/tmp/m", 0755);
    return mount("overlay", "/tmp/m", "overlay", 0,
                 "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr");
}

static int try_idmap(void)
{
    struct snp_err err;
    int dir = -1;
    int fd = -1;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return -1;
    }
    dir = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return snp_idmap_mount(dir, 1, 1000, &fd, &err);
}

static int try_openat2(void)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};

    return syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how)) < 0 ? -1 : 0;
}

static int try_clone3(void)
{
    return syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS ? -1 : 0;
}

struct probe_row {
    const char *name;
    int (*run)(void);
    bool in_namespace; /* tested in a user namespace */
    bool root_only;
    bool is_needed;
    const char *cost;
    const char *fix;
};

static const struct probe_row rows[] = {
    {"user namespaces", try_namespaces, true, false, true, "the native tier cannot run",
     "see the settings named by 'exec', or run as root"},
    {"own /proc", try_proc, true, false, true, "the native tier cannot run",
     "in a container: docker --security-opt systempaths=unconfined, podman --security-opt "
     "unmask=ALL, Kubernetes procMount: Unmasked"},
    {"clone3", try_clone3, false, false, false, "none: clone is used",
     "a kernel from 5.3 on; in a container allow the call"},
    {"openat2", try_openat2, false, false, true, "files of a session cannot be read or written",
     "a kernel from 5.6 on"},
    {"overlay", try_overlay, true, false, false, "projects cannot be shown",
     "a kernel from 5.11 on with overlayfs"},
    {"overlay of /usr", snp_overlay_try, true, false, false,
     "sockets of the host in its system folders can be reached",
     "a kernel from 5.13 on with overlayfs; as an ordinary user no mounts below /usr"},
    {"id-mapped mounts", try_idmap, true, true, false, "projects cannot be shown as root",
     "a kernel from 5.19 on and a file system that has them"},
    {"seccomp notify", snp_probe_seccomp_notify, false, false, true,
     "refused calls cannot be recorded", "a kernel from 5.5 on"},
};

static void add_cgroups(const struct snp_supervisor *supervisor, json_t *features)
{
    static const struct {
        enum snp_cgroup_controller controller;
        const char *name;
        const char *cost;
    } cgroup_rows[] = {
        {SNP_CGROUP_MEMORY, "cgroup memory",
         "the memory limit is approximate (RLIMIT_DATA and sampling)"},
        {SNP_CGROUP_PIDS, "cgroup pids", "none: RLIMIT_NPROC limits processes"},
        {SNP_CGROUP_CPU, "cgroup cpu", "CPUs are limited to whole ones"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(cgroup_rows); i++) {
        const struct snp_cgroup_slot *slot = &supervisor->cgroups.slot[cgroup_rows[i].controller];
        char detail[SNP_CGROUP_WHY_MAX];
        if (slot->version == 0) {
            (void)snprintf(detail, sizeof(detail), "%s", slot->why);
        } else {
            (void)snprintf(detail, sizeof(detail), "version %d", slot->version);
        }
        (void)json_array_append_new(
            features,
            snp_probe_row(cgroup_rows[i].name, slot->version != 0, detail, cgroup_rows[i].cost,
                          "run as root, or have systemd delegate the controller to your user"));
    }
}

/* Find a module of the interpreter without running it. */
static bool has_module(const char *name)
{
    static const char *const folders[] = {"/usr/lib/python3/dist-packages",
                                          "/usr/local/lib/python3.11/dist-packages"};
    char path[256];

    for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folders[i], name);
        if (access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void add_templates(const struct snp_supervisor *supervisor, json_t *features)
{
    bool has_python = access(supervisor->python, X_OK) == 0;

    (void)json_array_append_new(
        features, snp_probe_row("template base", has_python, supervisor->python,
                                "the native tier cannot run", "apt-get install -y python3"));
    (void)json_array_append_new(
        features, snp_probe_row("template data", has_module("numpy") && has_module("pandas"),
                                "numpy, pandas", "template data does not work",
                                "apt-get install -y python3-numpy python3-pandas"));
    (void)json_array_append_new(
        features, snp_probe_row("template plot", has_module("matplotlib") && has_module("pandas"),
                                "matplotlib", "template plot does not work",
                                "apt-get install -y python3-matplotlib python3-pandas"));
}

/* Decided at the daemon's start, or by a later failure. */
static void add_images(const struct snp_supervisor *supervisor, json_t *features)
{
    const struct snp_host *host = snp_host_of(supervisor);
    bool is_on = host->image_idle_ms > 0;
    bool ok = is_on && host->image_trouble[0] == '\0';
    const char *why = is_on ? host->image_trouble : "turned off";
    char detail[sizeof(host->image_trouble) + 64];

#ifndef __x86_64__
    why = "for x86-64 only";
#endif
    (void)json_array_append_new(
        features,
        snp_probe_row("template images", ok,
                      ok ? "templates start from images of their memory" : why,
                      "the first command of a daemon waits for imports",
                      is_on ? "see the daemon's log"
                            : "unset SNIPARA_SANDBOX_TEMPLATE_IMAGES and restart the daemon"));
    (void)snprintf(detail, sizeof(detail), "only until the daemon or the template ends: %s", why);
    (void)json_array_append_new(
        features,
        snp_probe_row("session images", ok,
                      ok ? "forks, steps of runs and woken sessions continue from a memory image"
                         : detail,
                      "variables are restored instead, without generators, locks and similar "
                      "objects",
                      "see template images"));
}

static const char *const guarantees[] = {"network",    "filesystem", "syscalls", "resources",
                                         "disposable", "namespaces", NULL};
static const char *const verbs[] = {"rootfs", "images", NULL};
const struct snp_about snp_native_about = {.rank = 200, .guarantees = guarantees, .verbs = verbs};

json_t *snp_probe_json(struct snp_supervisor *supervisor)
{
    json_t *features = json_array();
    bool usable = supervisor->can_run && access(supervisor->python, X_OK) == 0;
    struct utsname host = {0};
    char detail[128];

    (void)uname(&host);
    (void)snprintf(detail, sizeof(detail), "%.60s %.20s, %s", host.release, host.machine,
                   snp_host_of(supervisor)->is_root ? "as root" : "as an ordinary user");
    (void)json_array_append_new(features, snp_probe_row("kernel", true, detail, "", ""));
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        bool ok = (supervisor->can_run || !rows[i].in_namespace) && snp_probe_works(rows[i].run);
        /* Without namespaces, the tests that need one would only repeat that failure. */
        if ((rows[i].root_only && !snp_host_of(supervisor)->is_root) ||
            (rows[i].in_namespace && !rows[i].is_needed && !supervisor->can_run)) {
            continue;
        }
        usable = usable && (ok || !rows[i].is_needed);
        (void)json_array_append_new(
            features,
            snp_probe_row(rows[i].name, ok, rows[i].run == try_namespaces ? supervisor->why : "",
                          rows[i].cost, rows[i].fix));
    }
    (void)snprintf(detail, sizeof(detail), "ABI %d", snp_host_of(supervisor)->landlock_abi);
    (void)json_array_append_new(features,
                                snp_probe_row("landlock", snp_host_of(supervisor)->landlock_abi > 0,
                                              detail, "files are confined by mounts alone",
                                              "a kernel from 5.13 on with landlock in lsm="));
    (void)snprintf(detail, sizeof(detail), "%u calls allowed",
                   snp_syscalls_count(snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY)));
    (void)json_array_append_new(features, snp_probe_row("seccomp", true, detail, "", ""));
    add_cgroups(supervisor, features);
    add_templates(supervisor, features);
    add_images(supervisor, features);
    return json_pack("{s:o,s:b}", "features", features, "usable", usable);
}
