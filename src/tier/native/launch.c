/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines a template before it imports anything.
 *
 * Three processes: this one enters new namespaces and waits. A keeper is pid 1 of the template's
 * pid namespace: it builds the root and stays until every sandbox forked from the template has
 * ended (its death would kill them all). The template itself executes the interpreter. The root is
 * a read-only tmpfs with the host's /usr, the few files of /etc that programs need, five devices
 * and no home folders.
 */
#include "tier/native/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/policy/prefix.h"
#include "base/registry/treehash.h"
#include "base/str.h"
#include "tier/host/launch.h"
#include "tier/native/overlay.h"

enum {
    PATH_LEN = 4096,
    COPY_MAX = 1 << 20
};

#define ROOT "/tmp" /* the new root is built here, in our mount namespace */

/* Places of folders inside that are shown besides the host's /usr. */
static const char *const tree_places[SNP_TREE_N] = {
    [SNP_TREE_GUEST] = "run/guest",
    [SNP_TREE_PREFIX] = "run/python",
    [SNP_TREE_VENV] = "run/venv",
};

static const char *const root_dirs[] = {
    "usr", "etc",       "proc",      "dev",         "dev/shm",    "tmp",      "workspace",
    "run", "run/guest", "run/empty", "run/scratch", "run/python", "run/venv", "home"};

/* Links on a host with a merged /usr; else folders. */
static const char *const root_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};

static const char *const dev_links[][2] = {{"/proc/self/fd", "dev/fd"},
                                           {"/proc/self/fd/0", "dev/stdin"},
                                           {"/proc/self/fd/1", "dev/stdout"},
                                           {"/proc/self/fd/2", "dev/stderr"}};

/* Shown entries of the host's /etc: for the dynamic linker, fonts, time zones and alternatives. */
static const char *const etc_shared[] = {
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "fonts",           "matplotlibrc",
    "mime.types",   "localtime",   "timezone",   "magic",        "services",        "protocols",
    "python3",      "python3.11",  "inputrc",    "terminfo",     "ssl/openssl.cnf", "gai.conf",
};

static const struct {
    const char *name;
    const char *text;
} etc_made[] = {
    {"passwd", "root:x:0:0::/nonexistent:/usr/sbin/nologin\nsandbox:x:1000:1000::/workspace:/"
               "bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"},
    {"group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"hosts", "127.0.0.1 localhost\n::1 localhost\n"},
    {"nsswitch.conf",
     "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"},
    {"hostname", "sandbox\n"},
};

/*
 * Look up a path in the shown file system, the host's or another: its links and '..' never lead out
 * of its root.
 */
static int open_in(const struct snp_launch *l, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, l->root_fd, path, &how, sizeof(how));
}

/*
 * System folders, where only administrators make sockets, are bind-mounted if the kernel cannot
 * overlay them; the manifest reports it.
 */
static int show_folder(int fd, const char *place, bool is_system, struct snp_err *err)
{
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), ROOT "/%.4000s", place);
    if (snp_overlay_show(fd, path, ROOT "/run/empty") == 0) {
        return 0;
    }
    if (is_system) {
        return snp_overlay_bind(fd, path) < 0 ? snp_fail_sys(err, errno, "bind /%s", place) : 0;
    }
    return snp_fail(
        err, SNP_E_UNSUPPORTED,
        "the file system of /%s cannot be an overlay layer (%s), and without an overlay its "
        "sockets could be reached; copy the folder to another file system",
        place, strerrordesc_np(errno));
}

/* The same for a path in the shown file system. */
static int show_path(const struct snp_launch *l, const char *path, struct snp_err *err)
{
    snp_autoclose int fd = open_in(l, path, O_PATH | O_DIRECTORY);

    return fd < 0 ? snp_fail_sys(err, errno, "open /%s", path)
                  : show_folder(fd, path, l->rootfs == NULL, err);
}

static int step_namespaces(struct snp_launch *l, struct snp_err *err)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
        return snp_fail_sys(err, errno, "unshare");
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return snp_fail_sys(err, errno, "make the mounts private");
    }
    l->root_fd = open(l->rootfs == NULL ? "/" : l->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l->root_fd < 0) {
        return snp_fail_sys(err, errno, "open %s", l->rootfs == NULL ? "/" : l->rootfs);
    }
    for (int i = 0; i < SNP_TREE_N; i++) {
        if (l->source[i] == NULL) {
            continue;
        }
        l->tree[i] = open(l->source[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (l->tree[i] < 0) {
            return snp_fail_sys(err, errno, "open %s", l->source[i]);
        }
    }
    return 0;
}

/* Before the folder is attached, so a change between the two goes unseen. */
static int step_hash(struct snp_launch *l, struct snp_err *err)
{
    struct snp_tree_digest tree = {.skip_bytecode = l->ours == NULL};
    const char *path = l->source[SNP_TREE_VENV];
    int r;

    if (l->hash == NULL || path == NULL) {
        return 0;
    }
    r = snp_tree_hash(path, &tree, err);
    if (r == 0 && snp_streq(tree.hash, l->hash)) {
        return 0;
    }
    return snp_fail(err, SNP_E_DENIED,
                    "its packages changed since it was added (%.19s, was %.19s%s%.150s): "
                    "snipara-sandbox template add %s --replace rebuilds it",
                    r < 0 ? "unreadable" : tree.hash, l->hash, r < 0 ? ", " : "",
                    r < 0 ? err->msg : "", l->template_name);
}

/* Make a link at a path of the host, in the new root. An existing entry stays. */
static int link_path(const char *path, const char *target, struct snp_err *err)
{
    char link[PATH_LEN];
    int n = snprintf(link, sizeof(link), ROOT "%s", path);

    if (n >= (int)sizeof(link)) {
        return snp_fail(err, SNP_E_LIMIT, "a path is too long");
    }
    for (char *slash = strchr(link + sizeof(ROOT), '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(link, 0755) < 0 && errno != EEXIST) {
            return snp_fail_sys(err, errno, "mkdir %s", link);
        }
        *slash = '/';
    }
    return symlink(target, link) < 0 && errno != EEXIST ? snp_fail_sys(err, errno, "link %s", path)
                                                        : 0;
}

/* Show the parts of the interpreter outside /usr. */
static int step_python(struct snp_launch *l, struct snp_err *err)
{
    int r = 0;

    for (int i = 0; r == 0 && i < SNP_TREE_N; i++) {
        r = l->tree[i] < 0 ? 0 : show_folder(l->tree[i], tree_places[i], i == SNP_TREE_GUEST, err);
    }
    if (r == 0 && l->source[SNP_TREE_PREFIX] != NULL) {
        r = link_path(l->source[SNP_TREE_PREFIX], "/run/python", err);
    }
    if (r == 0 && l->alias != NULL && !snp_prefix_is_covered(l->alias) &&
        !snp_prefix_is_system(l->alias)) {
        r = link_path(l->alias, l->site, err);
    }
    return r;
}

static int step_root(struct snp_launch *l, struct snp_err *err)
{
    char path[PATH_LEN];

    if (mount("tmpfs", ROOT, "tmpfs", MS_NOSUID, "size=8m,mode=755") < 0) {
        return snp_fail_sys(err, errno, "mount the root");
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(root_dirs); i++) {
        (void)snprintf(path, sizeof(path), ROOT "/%s", root_dirs[i]);
        if (mkdir(path, 0755) < 0) {
            return snp_fail_sys(err, errno, "mkdir %s", root_dirs[i]);
        }
    }
    return show_path(l, "usr", err);
}

/* Is this a link of a merged /usr? Another file system could contain any link. */
static bool leads_to_usr(const char *target)
{
    target += *target == '/' ? 1 : 0;
    return snp_has_prefix(target, "usr/") && strstr(target, "..") == NULL;
}

static int step_links(struct snp_launch *l, struct snp_err *err)
{
    char target[PATH_LEN];
    char link[PATH_LEN];

    for (size_t i = 0; i < SNP_ARRAY_LEN(root_links); i++) {
        const char *name = root_links[i];
        struct stat st;
        (void)snprintf(target, sizeof(target), ROOT "/%s", name);
        if (fstatat(l->root_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (S_ISLNK(st.st_mode)) {
            ssize_t n = readlinkat(l->root_fd, name, link, sizeof(link) - 1);
            link[n < 0 ? 0 : n] = '\0';
            if (n > 0 && l->rootfs != NULL && !leads_to_usr(link)) {
                return snp_fail(err, SNP_E_DENIED,
                                "/%s of the file system is a link to %.100s, not into /usr", name,
                                link);
            }
            if (n <= 0 || symlink(link, target) < 0) {
                return snp_fail_sys(err, errno, "link /%s", name);
            }
        } else if (mkdir(target, 0755) < 0) {
            return snp_fail_sys(err, errno, "mkdir %s", target);
        } else if (show_path(l, name, err) < 0) {
            return err->code;
        }
    }
    return 0;
}

static int step_dev(struct snp_launch *l, struct snp_err *err)
{
    char host[PATH_LEN];
    char target[PATH_LEN];

    (void)l;
    for (size_t i = 0; i < SNP_ARRAY_LEN(devices); i++) {
        int fd;
        (void)snprintf(host, sizeof(host), "/dev/%s", devices[i]);
        (void)snprintf(target, sizeof(target), ROOT "/dev/%s", devices[i]);
        fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        snp_closep(&fd);
        if (mount(host, target, NULL, MS_BIND, NULL) < 0) {
            return snp_fail_sys(err, errno, "bind %s", host);
        }
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(dev_links); i++) {
        (void)snprintf(target, sizeof(target), ROOT "/%s", dev_links[i][1]);
        if (symlink(dev_links[i][0], target) < 0) {
            return snp_fail_sys(err, errno, "link %s", target);
        }
    }
    return 0;
}

static int write_new(const char *path, const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int r = fd < 0 ? -1 : snp_write_all(fd, bytes, n);

    snp_closep(&fd);
    return r;
}

/* Copy a small file of /etc; skip anything but regular files. */
static int copy_etc(const struct snp_launch *l, const char *path, struct snp_err *err)
{
    snp_autoclose int fd = open_in(l, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    snp_autofree char *text = NULL;
    char target[PATH_LEN];
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > COPY_MAX) {
        return 0;
    }
    text = malloc((size_t)st.st_size + 1);
    n = text == NULL ? -1 : snp_read_all(fd, text, (size_t)st.st_size);
    (void)snprintf(target, sizeof(target), ROOT "/%.4000s", path);
    if (n >= 0 && write_new(target, text, (size_t)n) < 0) {
        return snp_fail_sys(err, errno, "copy /%s", path);
    }
    return 0;
}

/* Share an entry of /etc: folders are shown, files copied, missing entries skipped. */
static int share_etc(const struct snp_launch *l, const char *name, struct snp_err *err)
{
    char path[PATH_LEN];
    char target[PATH_LEN];
    struct stat st;
    snp_autoclose int fd = -1;

    (void)snprintf(path, sizeof(path), "etc/%s", name);
    (void)snprintf(target, sizeof(target), ROOT "/%.4000s", path);
    fd = open_in(l, path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return 0;
    }
    if (!S_ISDIR(st.st_mode)) {
        return copy_etc(l, path, err);
    }
    if (mkdir(target, 0755) < 0) {
        return snp_fail_sys(err, errno, "mkdir %s", target);
    }
    return show_path(l, path, err);
}

static int step_etc(struct snp_launch *l, struct snp_err *err)
{
    char path[PATH_LEN];

    (void)mkdir(ROOT "/etc/ssl", 0755);
    for (size_t i = 0; i < SNP_ARRAY_LEN(etc_shared); i++) {
        int r = share_etc(l, etc_shared[i], err);
        if (r < 0) {
            return r;
        }
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(etc_made); i++) {
        (void)snprintf(path, sizeof(path), ROOT "/etc/%s", etc_made[i].name);
        if (write_new(path, etc_made[i].text, strlen(etc_made[i].text)) < 0) {
            return snp_fail_sys(err, errno, "write %s", path);
        }
    }
    return 0;
}

static int step_proc(struct snp_launch *l, struct snp_err *err)
{
    (void)l;
    if (mount("proc", ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        int eno = errno;
        (void)snp_fail_sys(err, eno, "mount proc");
        if (eno == EPERM) { /* a new mount would reveal covered parts */
            (void)snp_fail(
                err, SNP_E_UNSUPPORTED,
                "the kernel refuses a new /proc, because parts of this one are covered (a "
                "container?): docker: --security-opt systempaths=unconfined, podman: "
                "--security-opt unmask=ALL, Kubernetes: procMount: Unmasked");
        }
        return err->code;
    }
    return 0;
}

/* Writable for preloads (font caches); every sandbox mounts a private one over it. */
static int step_tmp(struct snp_launch *l, struct snp_err *err)
{
    (void)l;
    if (mount("tmpfs", ROOT "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=64m,mode=1777") < 0) {
        return snp_fail_sys(err, errno, "mount tmp");
    }
    return 0;
}

static int step_pivot(struct snp_launch *l, struct snp_err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    (void)l;
    if (chdir(ROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0) {
        return snp_fail_sys(err, errno, "pivot");
    }
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0) {
        return snp_fail_sys(err, errno, "make the root read-only");
    }
    return 0;
}

static int step_ids(struct snp_launch *l, struct snp_err *err)
{
    gid_t gid = (gid_t)l->host_id;
    uid_t uid = (uid_t)l->host_id;

    /* Executing a program must not return capabilities to user 0. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "securebits");
    }
    snp_launch_bound_caps();
    if (l->host_id != 0 &&
        (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)) {
        return snp_fail_sys(err, errno, "change user");
    }
    return 0;
}

static int step_capabilities(struct snp_launch *l, struct snp_err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};

    (void)l;
    if (syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "drop capabilities");
    }
    return 0;
}

/* In the keeper, with all capabilities of the supervisor's namespace. */
static const struct snp_launch_step root_steps[] = {
    {"root", step_root}, {"links", step_links}, {"dev", step_dev},       {"etc", step_etc},
    {"proc", step_proc}, {"tmp", step_tmp},     {"python", step_python}, {"pivot", step_pivot},
};

/* In the template. Ids before capabilities, seccomp last. */
static const struct snp_launch_step drop_steps[] = {
    {"rlimits", snp_launch_rlimits},
    {"ids", step_ids},
    {"capabilities", step_capabilities},
    {"seccomp", snp_launch_seccomp},
};

static SNP_NORETURN void exec_template(struct snp_launch *l)
{
    const char *core = getenv("OPENBLAS_CORETYPE"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char core_type[64];

    (void)snprintf(core_type, sizeof(core_type), "OPENBLAS_CORETYPE=%.40s",
                   core == NULL ? "" : core);
    snp_launch_steps(l, drop_steps, SNP_ARRAY_LEN(drop_steps));
    snp_launch_exec(l, "/run/guest/driver.py", "HOME=/tmp/.home", core == NULL ? NULL : core_type);
}

/* Pid 1 of the template's namespace: builds the root, and outlives every sandbox. */
static SNP_NORETURN void keeper(struct snp_launch *l)
{
    int status;
    pid_t pid;

    snp_launch_steps(l, root_steps, SNP_ARRAY_LEN(root_steps));
    pid = fork();
    if (pid == 0) {
        exec_template(l);
    }
    (void)syscall(SYS_close_range, 3, ~0U, 0); /* the control socket must close with the template */
    (void)prctl(PR_SET_NAME, "snp-keeper", 0, 0, 0);
    while (pid > 0 && (SNP_RETRY(waitpid(-1, &status, 0))) > 0) {
    }
    _exit(0);
}

static int step_pid_namespace(struct snp_launch *l, struct snp_err *err)
{
    (void)l;
    return unshare(CLONE_NEWPID) < 0 ? snp_fail_sys(err, errno, "unshare") : 0;
}

/* Before the keeper is forked. */
static const struct snp_launch_step first_steps[] = {
    {"packages", step_hash},
    {"namespaces", step_namespaces},
    {"pid namespace", step_pid_namespace},
};

int snp_native_launch_main(int argc, char **argv)
{
    struct snp_launch l;
    int status = 0;
    pid_t pid;

    if (snp_launch_read(&l, argc, argv) < 0) {
        return SNP_LAUNCH_FAILED;
    }
    (void)umask(0022); /* the daemon's is stricter; the code inside expects the usual one */
    snp_launch_steps(&l, first_steps, SNP_ARRAY_LEN(first_steps));
    pid = fork();
    if (pid == 0) {
        keeper(&l);
    }
    (void)syscall(SYS_close_range, 3, ~0U, 0);
    (void)prctl(PR_SET_NAME, "snp-launch", 0, 0, 0);
    (void)SNP_RETRY(waitpid(pid, &status, 0));
    /*
     * Not exit(): our children's pid namespace has ended with the keeper, so we cannot create
     * processes or threads, which a sanitizer does at exit.
     */
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : SNP_LAUNCH_FAILED);
}
