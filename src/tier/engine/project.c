/* SPDX-License-Identifier: Apache-2.0 */
/* Every tier hides the same secrets of a project; the mechanism differs. */
#include "tier/engine/project.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/secrets.h"
#include "tier/engine/supervisor.h"

struct scan_work {
    uv_work_t work;
    struct snp_sandbox *sandbox;
    void (*done)(struct snp_sandbox *);
};

static void scan_run(uv_work_t *work)
{
    struct snp_sandbox *s = ((struct scan_work *)work->data)->sandbox;

    s->scan_result = snp_secrets_scan(s->project_fd, &s->mask, s->masked, &s->scan_err);
}

static void scan_done(uv_work_t *work, int status)
{
    struct scan_work *scan = work->data;
    struct snp_sandbox *s = scan->sandbox;
    void (*done)(struct snp_sandbox *) = scan->done;

    s->scan_result = status < 0 ? status : s->scan_result;
    free(scan);
    done(s);
}

/* Virtual file systems of the kernel: they hold no projects, and overlayfs rejects them. */
static int check_project_fs(int fd, const char *path, struct snp_err *err)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } refused[] = {
        {PROC_SUPER_MAGIC, "proc"},
        {SYSFS_MAGIC, "sysfs"},
        {CGROUP_SUPER_MAGIC, "cgroup"},
        {CGROUP2_SUPER_MAGIC, "cgroup2"},
        {DEBUGFS_MAGIC, "debugfs"},
        {TRACEFS_MAGIC, "tracefs"},
        {SECURITYFS_MAGIC, "securityfs"},
        {DEVPTS_SUPER_MAGIC, "devpts"},
        {BPF_FS_MAGIC, "bpf"},
        {PSTOREFS_MAGIC, "pstore"},
        {EFIVARFS_MAGIC, "efivarfs"},
        {AUTOFS_SUPER_MAGIC, "autofs"},
        {0x19800202, "mqueue"},
        {0x62656570, "configfs"},
    };
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0) {
        return snp_fail_sys(err, errno, "project %.300s", path);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(refused); i++) {
        if ((unsigned long)fs.f_type == refused[i].magic) {
            return snp_fail(err, SNP_E_UNSUPPORTED,
                            "project %.200s: a %s file system cannot be a project; copy the files "
                            "needed to an ordinary folder",
                            path, refused[i].name);
        }
    }
    return 0;
}

int snp_project_open(struct snp_sandbox *s, void (*done)(struct snp_sandbox *), struct snp_err *err)
{
    struct scan_work *scan;
    struct stat st;
    int r;

    s->project_fd = open(s->spec.project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->project_fd < 0 || fstat(s->project_fd, &st) < 0) {
        return snp_fail_sys(err, errno, "project %.300s", s->spec.project);
    }
    r = check_project_fs(s->project_fd, s->spec.project, err);
    if (r < 0) {
        return r;
    }
    s->project_stat = st;
    scan = calloc(1, sizeof(*scan));
    if (scan == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    scan->sandbox = s;
    scan->done = done;
    scan->work.data = scan;
    if (uv_queue_work(s->supervisor->loop, &scan->work, scan_run, scan_done) < 0) {
        free(scan);
        return snp_fail(err, SNP_E_NOMEM, "cannot start a worker");
    }
    return 0;
}
