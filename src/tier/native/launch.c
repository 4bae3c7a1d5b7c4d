/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confining a template before it imports anything.
 *
 * Three processes: this one enters new namespaces and waits; a keeper is pid 1 of the
 * template's pid namespace, builds the root and stays until every sandbox born from the
 * template is gone (its death would kill them all); the template itself executes
 * the interpreter. The root is a read-only tmpfs with the host's /usr, the few files of
 * /etc that programs need, five devices and nothing of anybody's home.
 */
#include "tier/native/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/prefix.h"
#include "registry/treehash.h"
#include "tier/host/template.h"
#include "tier/native/overlay.h"

enum {
    PATH_LEN = 4096,
    COPY_MAX = 1 << 20,
    FILTER_MAX = 64 << 10,
    CAPS_N = 64,
    THREAD_STACK = 2 << 20
};

#define ROOT "/tmp" /* where the new root is assembled, in our own mount namespace */

/* Folders that are shown besides the host's /usr, where they are inside, and what they are. */
enum tree {
    TREE_GUEST, /* driver.py */
    TREE_PREFIX,
    TREE_VENV,
    TREE_N
};

static const char *const tree_places[TREE_N] = {
    [TREE_GUEST] = "run/guest", [TREE_PREFIX] = "run/python", [TREE_VENV] = "run/venv"};

struct launch {
    const char *template_name;
    const char *python;
    const char *source[TREE_N]; /* on the host; NULL = none */
    const char *site;
    const char *alias;
    const char *hash;
    const char *ours;
    const char *preload;
    const char *rootfs; /* NULL = the host's own */
    const char *id;     /* only told apart by */
    const char *host_id_text;
    uint64_t host_id;
    int root_fd;      /* where what is shown is looked up */
    int tree[TREE_N]; /* taken before ROOT covers anything; -1 = none */
};

/* How an argument is called, and where it goes. */
static const struct {
    const char *name;
    size_t offset;
} arguments[] = {
    {"template", offsetof(struct launch, template_name)      },
    {"python",   offsetof(struct launch, python)             },
    {"guest",    offsetof(struct launch, source[TREE_GUEST]) },
    {"prefix",   offsetof(struct launch, source[TREE_PREFIX])},
    {"venv",     offsetof(struct launch, source[TREE_VENV])  },
    {"site",     offsetof(struct launch, site)               },
    {"alias",    offsetof(struct launch, alias)              },
    {"hash",     offsetof(struct launch, hash)               },
    {"ours",     offsetof(struct launch, ours)               },
    {"preload",  offsetof(struct launch, preload)            },
    {"rootfs",   offsetof(struct launch, rootfs)             },
    {"id",       offsetof(struct launch, id)                 },
    {"host-id",  offsetof(struct launch, host_id_text)       },
};

static const char *const root_dirs[] = {
    "usr", "etc",       "proc",      "dev",         "dev/shm",    "tmp",      "workspace",
    "run", "run/guest", "run/empty", "run/scratch", "run/python", "run/venv", "home"};

/* Links of a merged /usr; real folders on a host that is not merged. */
static const char *const root_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};

static const char *const dev_links[][2] = {
    {"/proc/self/fd",   "dev/fd"    },
    {"/proc/self/fd/0", "dev/stdin" },
    {"/proc/self/fd/1", "dev/stdout"},
    {"/proc/self/fd/2", "dev/stderr"}
};

/* Of the host's /etc: what the dynamic linker, fonts, time zones and alternatives need. */
static const char *const etc_shared[] = {
    "alternatives", "ld.so.cache",     "ld.so.conf", "ld.so.conf.d", "fonts",
    "matplotlibrc", "mime.types",      "localtime",  "timezone",     "magic",
    "services",     "protocols",       "python3",    "python3.11",   "inputrc",
    "terminfo",     "ssl/openssl.cnf", "gai.conf",
};

static const struct {
    const char *name;
    const char *text;
} etc_made[] = {
    {"passwd",        "root:x:0:0::/nonexistent:/usr/sbin/nologin\nsandbox:x:1000:1000::/workspace:/"
               "bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"},
    {"group",         "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"                       },
    {"hosts",         "127.0.0.1 localhost\n::1 localhost\n"                                 },
    {"nsswitch.conf",
     "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"        },
    {"hostname",      "sandbox\n"                                                            },
};

/*
 * Look something up in the file system that is to be seen, the host's or another: links and
 * '..' in it never lead out of its root.
 */
static int open_in(const struct launch *l, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, l->root_fd, path, &how, sizeof(how));
}

/*
 * Folders of the system, where only administrators make sockets, are bound where the kernel has
 * no overlay for them; the manifest then says so.
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
        "the file system of /%s cannot be the layer of an overlay (%s), and without "
        "one sockets in it could be reached; copy it to another one",
        place, strerrordesc_np(errno));
}

/* The same of a path in the file system that is to be seen. */
static int show_path(const struct launch *l, const char *path, struct snp_err *err)
{
    snp_autoclose int fd = open_in(l, path, O_PATH | O_DIRECTORY);

    return fd < 0 ? snp_fail_sys(err, errno, "open /%s", path)
                  : show_folder(fd, path, l->rootfs == NULL, err);
}

static int step_namespaces(struct launch *l, struct snp_err *err)
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
    for (int i = 0; i < TREE_N; i++) {
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

/* Before the folder is attached: what is attached is what was there a moment ago. */
static int step_hash(struct launch *l, struct snp_err *err)
{
    struct snp_tree tree = {.skip_bytecode = l->ours == NULL};
    const char *path = l->source[TREE_VENV];
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
                    "snipara-sandbox template add %s --replace builds it anew",
                    r < 0 ? "unreadable" : tree.hash, l->hash, r < 0 ? ", " : "",
                    r < 0 ? err->msg : "", l->template_name);
}

/* A link at a path of the host, in the new root. Where the root has something, that stays. */
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
    return symlink(target, link) < 0 && errno != EEXIST
               ? snp_fail_sys(err, errno, "link %s", path)
               : 0;
}

/* What the interpreter needs besides /usr. */
static int step_python(struct launch *l, struct snp_err *err)
{
    int r = 0;

    for (int i = 0; r == 0 && i < TREE_N; i++) {
        r = l->tree[i] < 0 ? 0 : show_folder(l->tree[i], tree_places[i], i == TREE_GUEST, err);
    }
    if (r == 0 && l->source[TREE_PREFIX] != NULL) {
        r = link_path(l->source[TREE_PREFIX], "/run/python", err);
    }
    if (r == 0 && l->alias != NULL && !snp_prefix_is_covered(l->alias) &&
        !snp_prefix_is_system(l->alias)) {
        r = link_path(l->alias, l->site, err);
    }
    return r;
}

static int step_root(struct launch *l, struct snp_err *err)
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

/* Where the links of a merged /usr lead; another file system could name anything. */
static bool leads_to_usr(const char *target)
{
    target += *target == '/' ? 1 : 0;
    return snp_has_prefix(target, "usr/") && strstr(target, "..") == NULL;
}

static int step_links(struct launch *l, struct snp_err *err)
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
                                "/%s of the file system is a link to %.100s, not into /usr",
                                name, link);
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

static int step_dev(struct launch *l, struct snp_err *err)
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

/* One file of /etc, copied if it is small; what is no regular file is passed over. */
static int copy_etc(const struct launch *l, const char *path, struct snp_err *err)
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

/* One entry of /etc: folders are shown, files copied; what is missing is passed over. */
static int share_etc(const struct launch *l, const char *name, struct snp_err *err)
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

static int step_etc(struct launch *l, struct snp_err *err)
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

static int step_proc(struct launch *l, struct snp_err *err)
{
    (void)l;
    if (mount("proc", ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        int eno = errno;
        (void)snp_fail_sys(err, eno, "mount proc");
        if (eno == EPERM) { /* mounted anew it would show what is covered where we are */
            (void)snp_fail(
                err, SNP_E_UNSUPPORTED,
                "an own /proc is refused, because parts of this one are covered (a "
                "container?): docker: --security-opt systempaths=unconfined, podman: "
                "--security-opt unmask=ALL, Kubernetes: procMount: Unmasked");
        }
        return err->code;
    }
    return 0;
}

/* Writable while the preloads run (font caches); every sandbox covers it with its own. */
static int step_tmp(struct launch *l, struct snp_err *err)
{
    (void)l;
    if (mount("tmpfs", ROOT "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=64m,mode=1777") < 0) {
        return snp_fail_sys(err, errno, "mount tmp");
    }
    return 0;
}

static int step_pivot(struct launch *l, struct snp_err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    (void)l;
    if (chdir(ROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
        return snp_fail_sys(err, errno, "pivot");
    }
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0) {
        return snp_fail_sys(err, errno, "make the root read-only");
    }
    return 0;
}

/*
 * The stack limit at the start of a program is what each of its threads gets for a stack,
 * which counts against the memory of a sandbox although hardly any of it is used. A
 * sandbox sets the usual limit again for its first thread.
 */
static int step_rlimits(struct launch *l, struct snp_err *err)
{
    const struct rlimit none = {0};
    struct rlimit stack;

    (void)l;
    if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_STACK, &stack) < 0) {
        return snp_fail_sys(err, errno, "setrlimit");
    }
    stack.rlim_cur = THREAD_STACK;
    return setrlimit(RLIMIT_STACK, &stack) < 0 ? snp_fail_sys(err, errno, "setrlimit") : 0;
}

static int step_ids(struct launch *l, struct snp_err *err)
{
    gid_t gid = (gid_t)l->host_id;
    uid_t uid = (uid_t)l->host_id;

    /* User 0 must get nothing back by executing a program. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "securebits");
    }
    for (int cap = 0; cap < CAPS_N && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
    }
    if (l->host_id != 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
                            setresuid(uid, uid, uid) < 0)) {
        return snp_fail_sys(err, errno, "change user");
    }
    return 0;
}

static int step_capabilities(struct launch *l, struct snp_err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};

    (void)l;
    if (syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "drop capabilities");
    }
    return 0;
}

static int step_seccomp(struct launch *l, struct snp_err *err)
{
    static char code[FILTER_MAX];
    ssize_t n = pread(SNP_LAUNCH_ZYGOTE_FILTER_FD, code, sizeof(code), 0);
    struct sock_fprog program = {.filter = (struct sock_filter *)(void *)code};

    (void)l;
    if (n <= 0 || (size_t)n % sizeof(struct sock_filter) != 0) {
        return snp_fail(err, SNP_E_INTERNAL, "the filter cannot be read");
    }
    program.len = (unsigned short)((size_t)n / sizeof(struct sock_filter));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return snp_fail_sys(err, errno, "seccomp");
    }
    return 0;
}

struct step {
    const char *name;
    int (*run)(struct launch *, struct snp_err *);
};

/* In the keeper, with all rights of the supervisor's namespace. */
static const struct step root_steps[] = {
    {"root",   step_root  },
    {"links",  step_links },
    {"dev",    step_dev   },
    {"etc",    step_etc   },
    {"proc",   step_proc  },
    {"tmp",    step_tmp   },
    {"python", step_python},
    {"pivot",  step_pivot },
};

/* In the template. Ids before capabilities, seccomp last. */
static const struct step drop_steps[] = {
    {"rlimits",      step_rlimits     },
    {"ids",          step_ids         },
    {"capabilities", step_capabilities},
    {"seccomp",      step_seccomp     },
};

static void run_steps(struct launch *l, const struct step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct snp_err err;
        if (steps[i].run(l, &err) < 0) {
            (void)dprintf(2, "template %s: step %s: %s\n", l->template_name, steps[i].name,
                          err.msg);
            _exit(3);
        }
    }
}

/*
 * Packages are not for the start of the interpreter (-S): driver.py takes them up when the
 * process is in its sandbox, or here if there are modules to preload.
 */
static void interpreter_argv(struct launch *l, const char **argv)
{
    size_t n = 0;

    argv[n++] = l->python;
    argv[n++] = "-I";
    if (l->site != NULL) {
        argv[n++] = "-S";
    }
    argv[n++] = "/run/guest/driver.py";
    argv[n++] = "--template";
    argv[n++] = l->template_name;
    if (l->site != NULL) {
        argv[n++] = "--site";
        argv[n++] = l->site;
    }
    if (l->preload != NULL) {
        argv[n++] = "--preload";
        argv[n++] = l->preload;
    }
    argv[n++] = "--zygote";
    argv[n++] = "3";
    argv[n] = NULL;
}

static SNP_NORETURN void exec_template(struct launch *l)
{
    const char *argv[16];
    const char *core =
        getenv("OPENBLAS_CORETYPE"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char core_type[64];
    char *envp[] = {(char *)(uintptr_t) "PATH=/usr/local/bin:/usr/bin:/bin",
                    (char *)(uintptr_t) "HOME=/tmp/.home",
                    (char *)(uintptr_t) "LANG=C.UTF-8",
                    (char *)(uintptr_t) "PYTHONDONTWRITEBYTECODE=1",
                    NULL,
                    NULL};

    if (core != NULL && snprintf(core_type, sizeof(core_type), "OPENBLAS_CORETYPE=%s", core) <
                            (int)sizeof(core_type)) {
        envp[4] = core_type;
    }
    run_steps(l, drop_steps, SNP_ARRAY_LEN(drop_steps));
    for (int fd = SNP_LAUNCH_CONTROL_FD; fd <= SNP_LAUNCH_SESSION_FILTER_FD; fd++) {
        (void)fcntl(fd, F_SETFD, 0);
    }
    interpreter_argv(l, argv);
    (void)execve(l->python, (char *const *)(uintptr_t)argv, envp);
    (void)dprintf(2, "template %s: cannot run %s: errno %d\n", l->template_name, l->python,
                  errno);
    _exit(3);
}

/* Pid 1 of the template's namespace: builds the root, then outlives every sandbox. */
static SNP_NORETURN void keeper(struct launch *l)
{
    int status;
    pid_t pid;

    run_steps(l, root_steps, SNP_ARRAY_LEN(root_steps));
    pid = fork();
    if (pid == 0) {
        exec_template(l);
    }
    (void)syscall(SYS_close_range, 3, ~0U,
                  0); /* the control socket must end with the template */
    (void)prctl(PR_SET_NAME, "snp-keeper", 0, 0, 0);
    while (pid > 0 && (SNP_RETRY(waitpid(-1, &status, 0))) > 0) {
    }
    _exit(0);
}

/* Take NAME=VALUE words; false if one is not understood. */
static bool read_arguments(struct launch *l, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        bool known = false;

        for (size_t k = 0; argv[i][n] == '=' && k < SNP_ARRAY_LEN(arguments); k++) {
            if (strlen(arguments[k].name) == n && strncmp(arguments[k].name, argv[i], n) == 0) {
                const char *value = argv[i] + n + 1;
                memcpy((char *)l + arguments[k].offset, &value, sizeof(value));
                known = true;
            }
        }
        if (!known) {
            return false;
        }
    }
    return l->template_name != NULL && l->python != NULL && l->source[TREE_GUEST] != NULL &&
           l->host_id_text != NULL && snp_parse_u64(l->host_id_text, &l->host_id) == 0;
}

int snp_launch_main(int argc, char **argv)
{
    struct launch l = {
        .tree = {-1, -1, -1}
    };
    struct snp_err err = {.code = SNP_OK};
    const char *step = "packages";
    int status = 0;
    pid_t pid;
    int r;

    if (!read_arguments(&l, argc, argv)) {
        (void)dprintf(2, "usage: tier-native --zygote NAME=VALUE..., see launch.h\n");
        return 3;
    }
    (void)umask(0022); /* the daemon's is tighter; the code inside expects the usual one */
    r = step_hash(&l, &err);
    if (r == 0) {
        step = "namespaces";
        r = step_namespaces(&l, &err);
    }
    if (r == 0 && unshare(CLONE_NEWPID) < 0) {
        r = snp_fail_sys(&err, errno, "unshare");
    }
    if (r < 0) {
        (void)dprintf(2, "template %s: step %s: %s\n", l.template_name, step, err.msg);
        return 3;
    }
    pid = fork();
    if (pid == 0) {
        keeper(&l);
    }
    (void)syscall(SYS_close_range, 3, ~0U, 0);
    (void)prctl(PR_SET_NAME, "snp-launch", 0, 0, 0);
    (void)SNP_RETRY(waitpid(pid, &status, 0));
    /*
     * Not by exit: our children's pid namespace has ended with the keeper, so we cannot make
     * processes or threads any more, and what a sanitizer does at exit needs one.
     */
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}
