/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up of a sandbox without namespaces, as a table of steps.
 *
 * Runs in a child that was forked from a template of the local tier, among the host's processes and
 * mounts. It is isolated by Landlock, the filter, limits, and as root by a private user id. Its
 * processes stay below it, because it adopts orphans.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "guest/module/landlock.h"
#include "guest/module/setup.h"

/* Only fatal signals interrupt the wait: another signal must not repeat the call (5.19). */
#define WAIT_KILLABLE (1UL << 5)

static const struct snp_landlock_rule host_rules[] = {
    {"/usr", SNP_LANDLOCK_RUN},
    {"/lib", SNP_LANDLOCK_RUN},
    {"/lib32", SNP_LANDLOCK_RUN},
    {"/lib64", SNP_LANDLOCK_RUN},
    {"/bin", SNP_LANDLOCK_RUN},
    {"/sbin", SNP_LANDLOCK_RUN},
    {"/etc/alternatives", SNP_LANDLOCK_READ},
    {"/etc/ld.so.cache", SNP_LANDLOCK_READ},
    {"/etc/ld.so.conf", SNP_LANDLOCK_READ},
    {"/etc/ld.so.conf.d", SNP_LANDLOCK_READ},
    {"/etc/fonts", SNP_LANDLOCK_READ},
    {"/etc/matplotlibrc", SNP_LANDLOCK_READ},
    {"/etc/mime.types", SNP_LANDLOCK_READ},
    {"/etc/localtime", SNP_LANDLOCK_READ},
    {"/etc/timezone", SNP_LANDLOCK_READ},
    {"/etc/magic", SNP_LANDLOCK_READ},
    {"/etc/inputrc", SNP_LANDLOCK_READ},
    {"/etc/terminfo", SNP_LANDLOCK_READ},
    {"/etc/ssl/openssl.cnf", SNP_LANDLOCK_READ},
    {"/proc/cpuinfo", SNP_LANDLOCK_READ},
    {"/proc/meminfo", SNP_LANDLOCK_READ},
    {"/dev/null", SNP_LANDLOCK_EDIT},
    {"/dev/zero", SNP_LANDLOCK_READ}, /* could be mapped as shared memory */
    {"/dev/full", SNP_LANDLOCK_EDIT},
    {"/dev/random", SNP_LANDLOCK_READ},
    {"/dev/urandom", SNP_LANDLOCK_READ},
};

enum {
    PATH_LEN = SNP_FOLDER_MAX + 24,
    HOST_RULES = SNP_ARRAY_LEN(host_rules)
};

/* A new session, so that no process group is shared; and orphans become our children. */
static int step_family(struct snp_setup *s, struct snp_err *err)
{
    (void)s;
    if (setsid() < 0 && errno != EPERM) {
        return snp_fail_sys(err, errno, "setsid");
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "adopt orphans");
    }
    return 0;
}

static int step_ids(struct snp_setup *s, struct snp_err *err)
{
    gid_t gid = (gid_t)s->spec.own_id;
    uid_t uid = (uid_t)s->spec.own_id;

    (void)umask(0022);
    if (uid == 0) {
        return 0;
    }
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0) {
        return snp_fail_sys(err, errno, "change to user %u", (unsigned)uid);
    }
    return 0;
}

static int step_folder(struct snp_setup *s, struct snp_err *err)
{
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), "%s/workspace", s->spec.folder);
    if (chdir(path) < 0) {
        return snp_fail_sys(err, errno, "chdir %s", path);
    }
    s->fs_fd[SNP_SETUP_WORKSPACE] = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->fs_fd[SNP_SETUP_TMP] = open("../tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->fs_fd[SNP_SETUP_SHM] = open("../tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < SNP_SETUP_FS_N; i++) {
        if (s->fs_fd[i] < 0) {
            return snp_fail_sys(err, errno, "open the folders of %s", s->spec.folder);
        }
    }
    return mkdir("../tmp/.home", 0755) < 0 && errno != EEXIST
               ? snp_fail_sys(err, errno, "make a home folder in %s", s->spec.folder)
               : 0;
}

/* The supervisor made it, and closes its parent folder before any code runs (snp_folder_close). */
static int step_copies(struct snp_setup *s, struct snp_err *err)
{
    if (s->spec.copies_bytes == 0) {
        return 0;
    }
    s->copies_fd = open("../closed/shadow", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->copies_fd < 0
               ? snp_fail_sys(err, errno, "open the folder for copies of the workspace")
               : 0;
}

static int step_landlock(struct snp_setup *s, struct snp_err *err)
{
    struct snp_landlock_rule rules[HOST_RULES + 3];
    char workspace[PATH_LEN];
    char tmp[PATH_LEN];
    char copies[PATH_LEN];
    size_t n = HOST_RULES;

    memcpy(rules, host_rules, sizeof(host_rules));
    (void)snprintf(workspace, sizeof(workspace), "%s/workspace", s->spec.folder);
    (void)snprintf(tmp, sizeof(tmp), "%s/tmp", s->spec.folder);
    (void)snprintf(copies, sizeof(copies), "%s/closed/shadow", s->spec.folder);
    rules[n++] = (struct snp_landlock_rule){workspace, SNP_LANDLOCK_OWN};
    rules[n++] = (struct snp_landlock_rule){tmp, SNP_LANDLOCK_SCRATCH};
    if (s->copies_fd >= 0) {
        rules[n++] = (struct snp_landlock_rule){copies, SNP_LANDLOCK_STORE};
    }
    return snp_landlock_fence(rules, n, (int)s->spec.landlock_abi, true, &s->landlock_abi, err);
}

static int step_seccomp(struct snp_setup *s, struct snp_err *err)
{
    long r = snp_setup_filter(s, SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE);

    if (r < 0 && errno == EINVAL) {
        r = snp_setup_filter(s, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    if (r < 0) {
        return snp_fail_sys(err, errno, "seccomp");
    }
    s->listener_fd = (int)r;
    return 0;
}

/*
 * Order: ids before files are opened as that user; limits while /proc is readable; Landlock before
 * seccomp, whose filter refuses its calls; seccomp last.
 */
const struct snp_step snp_local_steps[] = {
    {"cgroups", snp_step_cgroups},
    {"family", step_family},
    {"ids", step_ids},
    {"folder", step_folder},
    {"copies", step_copies},
    {"affinity", snp_step_affinity},
    {"rlimits", snp_step_rlimits},
    {"capabilities", snp_step_capabilities},
    {"landlock", step_landlock},
    {"seccomp", step_seccomp},
};
const size_t snp_local_steps_n = SNP_ARRAY_LEN(snp_local_steps);
