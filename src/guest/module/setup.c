/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up of a sandbox, as a table of steps.
 *
 * Runs in a child that was forked from a template into fresh namespaces. The template's launcher
 * built the inherited root: a read-only tmpfs with the host's /usr, a small /etc and /dev. Its
 * mounts are locked to a parent namespace, so no later step or code can undo them. The session's
 * private parts are added here, then every privilege is dropped. No step reads data that the code
 * inside can influence.
 */
#include "guest/module/setup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "guest/module/landlock.h"

enum {
    LAYER_INODES = 64, /* for the folders of an overlay */
    PATH_LEN = 4096,
    CAPS_N = 64
};

#define SCRATCH "/run/scratch"

/*
 * Entries of /proc that programs need, besides processes. The others reveal the host and its users,
 * some are writable, and kernels add more.
 */
static const char *const proc_shown[] = {
    "self", "thread-self", "mounts", "net",     "sys",     "cpuinfo",
    "stat", "meminfo",     "uptime", "loadavg", "version", "filesystems",
};

/* The supervisor verifies the result. */
int snp_step_cgroups(struct snp_setup *s, struct snp_err *err)
{
    for (uint32_t i = 0; i < s->spec.n_groups; i++) {
        if (write(s->group_fd[i], "0", 1) != 1) {
            return snp_fail_sys(err, errno, "enter a control group");
        }
        snp_closep(&s->group_fd[i]);
    }
    return 0;
}

static int step_ids(struct snp_setup *s, struct snp_err *err)
{
    /* Group first: changing the user removes the capability to do so. */
    if (s->spec.can_setgroups != 0 && setgroups(0, NULL) < 0) {
        return snp_fail_sys(err, errno, "setgroups");
    }
    if (setresgid(SNP_INSIDE_ID, SNP_INSIDE_ID, SNP_INSIDE_ID) < 0 ||
        setresuid(SNP_INSIDE_ID, SNP_INSIDE_ID, SNP_INSIDE_ID) < 0) {
        return snp_fail_sys(err, errno, "change to user %d", SNP_INSIDE_ID);
    }
    return 0;
}

static int step_hostname(struct snp_setup *s, struct snp_err *err)
{
    if (sethostname(s->spec.hostname, strnlen(s->spec.hostname, sizeof(s->spec.hostname))) < 0) {
        return snp_fail_sys(err, errno, "sethostname");
    }
    return 0;
}

/*
 * The network namespace has only a loopback interface. Pid 1, whose filter allows no netlink
 * sockets, gets one that lists the sockets of the namespace, if the kernel supports that.
 */
static int step_loopback(struct snp_setup *s, struct snp_err *err)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    snp_autoclose int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    s->diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    return sock < 0 || ioctl(sock, SIOCSIFFLAGS, &req) < 0 ? snp_fail_sys(err, errno, "bring up lo")
                                                           : 0;
}

/* After the supervisor has moved us: /proc/self/cgroup then reads "/". */
static int step_cgroup_namespace(struct snp_setup *s, struct snp_err *err)
{
    (void)s;
    if (unshare(CLONE_NEWCGROUP) < 0) {
        return snp_fail_sys(err, errno, "unshare");
    }
    return 0;
}

static bool is_shown(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(proc_shown); i++) {
        if (strcmp(proc_shown[i], name) == 0) {
            return true;
        }
    }
    return name[0] == '.' || (name[0] >= '0' && name[0] <= '9');
}

static int mask_proc(const struct dirent64 *entry, struct snp_err *err)
{
    char path[sizeof("/proc/") + sizeof(entry->d_name)];
    const char *source = entry->d_type == DT_DIR ? "/run/empty" : "/dev/null";

    (void)snprintf(path, sizeof(path), "/proc/%s", entry->d_name);
    if (is_shown(entry->d_name) || entry->d_type == DT_LNK || /* its target is checked separately */
        mount(source, path, NULL, MS_BIND, NULL) == 0 || errno == ENOENT) {
        return 0;
    }
    return snp_fail_sys(err, errno, "mask %s", path);
}

/* By the system call: opendir would allocate memory, which is the template's. */
static int mask_unlisted(struct snp_err *err)
{
    _Alignas(struct dirent64) char list[8192];
    snp_autoclose int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;

    while ((n = syscall(SYS_getdents64, fd, list, sizeof(list))) > 0) {
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(list + at);

            if (mask_proc(entry, err) < 0) {
                return err->code;
            }
            at += entry->d_reclen;
        }
    }
    return n < 0 ? snp_fail_sys(err, errno, "list /proc") : 0;
}

/*
 * Buffer sizes of a socket, in the network namespace's sysctls: minimum, default, maximum. The
 * minimum is granted even above a total limit. Other sysctls, and those of older kernels, belong to
 * the host.
 */
static void bound_sockets(void)
{
    static const struct {
        const char *path;
        const char *value;
    } settings[] = {
        {"/proc/sys/net/ipv4/tcp_rmem", SNP_TCP_BUFFERS},
        {"/proc/sys/net/ipv4/tcp_wmem", SNP_TCP_BUFFERS},
        {"/proc/sys/net/ipv4/udp_rmem_min", SNP_UDP_BUFFERS},
        {"/proc/sys/net/ipv4/udp_wmem_min", SNP_UDP_BUFFERS},
        {"/proc/sys/net/ipv4/tcp_max_tw_buckets", "1024"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(settings); i++) {
        (void)!snp_file_poke(settings[i].path, settings[i].value);
    }
}

static int step_proc(struct snp_setup *s, struct snp_err *err)
{
    (void)s;
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        return snp_fail_sys(err, errno, "mount proc");
    }
    if (mask_unlisted(err) < 0) {
        return err->code;
    }
    bound_sockets();
    if (mount("/proc/sys", "/proc/sys", NULL, MS_BIND | MS_REC, NULL) < 0 ||
        mount(NULL, "/proc/sys", NULL,
              MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        return snp_fail_sys(err, errno, "make /proc/sys read-only");
    }
    return 0;
}

static int mount_tmpfs(
    const char *path, uint64_t bytes, uint64_t inodes, unsigned long flags, struct snp_err *err)
{
    char data[128];

    (void)snprintf(data, sizeof(data), "size=%llu,nr_inodes=%llu,mode=1777",
                   (unsigned long long)bytes, (unsigned long long)inodes);
    if (mount("tmpfs", path, "tmpfs", flags, data) < 0) {
        return snp_fail_sys(err, errno, "mount tmpfs on %s", path);
    }
    return 0;
}

static int step_tmp(struct snp_setup *s, struct snp_err *err)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    uint64_t inodes = s->spec.tmp_bytes / 4096 + 64;

    if (mount_tmpfs("/tmp", s->spec.tmp_bytes, inodes, flags, err) < 0 ||
        mount_tmpfs("/dev/shm", s->spec.tmp_bytes, inodes, flags, err) < 0) {
        return err->code;
    }
    s->fs_fd[SNP_SETUP_TMP] = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    s->fs_fd[SNP_SETUP_SHM] = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->fs_fd[SNP_SETUP_TMP] < 0 || s->fs_fd[SNP_SETUP_SHM] < 0) {
        return snp_fail_sys(err, errno, "open /tmp or /dev/shm");
    }
    /* HOME: caches and settings of programs are not part of the workspace. */
    return mkdir("/tmp/.home", 0755) < 0 ? snp_fail_sys(err, errno, "make /tmp/.home") : 0;
}

/*
 * A file system without a path: only pid 1, which has its descriptor, can reach it. It uses the
 * sandbox's memory.
 */
static int step_copies(struct snp_setup *s, struct snp_err *err)
{
    if (s->spec.copies_bytes == 0) {
        return 0;
    }
    if (mount_tmpfs(SCRATCH, s->spec.copies_bytes, SNP_COPIES_FILES_MAX + 1,
                    MS_NOSUID | MS_NODEV | MS_NOEXEC, err) < 0) {
        return err->code;
    }
    s->copies_fd = open(SCRATCH, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->copies_fd < 0 || fchmod(s->copies_fd, 0700) < 0) {
        return snp_fail_sys(err, errno, "open the file system for copies of the workspace");
    }
    if (umount2(SCRATCH, MNT_DETACH) < 0) {
        return snp_fail_sys(err, errno, "detach the file system for copies of the workspace");
    }
    return 0;
}

/* Create the parent folders of path, below the folder dir. */
static int make_parents(
    const char *dir, const char *path, char *out, size_t out_len, struct snp_err *err)
{
    int n = snprintf(out, out_len, "%s/%s", dir, path);
    size_t base = strlen(dir) + 1;

    if (n < 0 || (size_t)n >= out_len) {
        return snp_fail(err, SNP_E_LIMIT, "masked path is too long");
    }
    for (char *slash = strchr(out + base, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(out, 0755) < 0 && errno != EEXIST) {
            return snp_fail_sys(err, errno, "mkdir %s", out);
        }
        *slash = '/';
    }
    return 0;
}

static int mask_file(const char *path, const char *bytes, uint32_t len, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    return fd < 0 || snp_write_all(fd, bytes, len) < 0 ? snp_fail_sys(err, errno, "write %s", path)
                                                       : 0;
}

/*
 * The mask is an overlay layer above the project: a whiteout hides a secret as if it did not exist,
 * a regular file replaces a cleaned one. Parent folders of the layer merge with the project's, so
 * nothing else changes.
 */
static int make_mask_layer(struct snp_setup *s, const char *layer, struct snp_err *err)
{
    const char *at = s->mask;
    const char *end = s->mask == NULL ? NULL : s->mask + s->spec.mask_len;
    char path[PATH_LEN];

    while (at < end) {
        char kind = *at++;
        size_t name_len = strnlen(at, (size_t)(end - at));
        uint32_t len;
        int r;

        if (name_len + 1 + sizeof(len) > (size_t)(end - at)) {
            return snp_fail(err, SNP_E_PEER, "mask record is cut short");
        }
        r = make_parents(layer, at, path, sizeof(path), err);
        if (r < 0) {
            return r;
        }
        at += name_len + 1;
        memcpy(&len, at, sizeof(len));
        at += sizeof(len);
        if (len > (size_t)(end - at)) {
            return snp_fail(err, SNP_E_PEER, "mask record is cut short");
        }
        if (kind == 'f') {
            r = mask_file(path, at, len, err);
        } else if (mknod(path, S_IFCHR | 0600, makedev(0, 0)) < 0) {
            r = snp_fail_sys(err, errno, "hide %s", path);
        }
        if (r < 0) {
            return r;
        }
        at += len;
    }
    return 0;
}

/*
 * Rollback reads files of the project from an uncovered view: the same layers without the upper
 * one, reached by descriptor. Hidden files stay hidden.
 */
static void open_base(struct snp_setup *s)
{
    if (s->spec.copies_bytes != 0 &&
        mount("overlay", SCRATCH "/base", "overlay",
              MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY | MS_NOATIME,
              "lowerdir=" SCRATCH "/mask:" SCRATCH "/lower,userxattr") == 0) {
        s->base_fd = open(SCRATCH "/base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
}

static int mount_overlay(struct snp_setup *s, struct snp_err *err)
{
    static const char *const dirs[] = {SCRATCH "/lower", SCRATCH "/upper", SCRATCH "/work",
                                       SCRATCH "/mask", SCRATCH "/base"};
    struct stat st;

    for (size_t i = 0; i < SNP_ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0755) < 0) {
            return snp_fail_sys(err, errno, "mkdir %s", dirs[i]);
        }
    }
    if (syscall(SYS_move_mount, s->fd[SNP_SPEC_FD_PROJECT], "", AT_FDCWD, SCRATCH "/lower",
                4 /* MOVE_MOUNT_F_EMPTY_PATH */) < 0) {
        return snp_fail_sys(err, errno, "attach the project");
    }
    /* The merged root has the mode of its uppermost layer. */
    if (stat(SCRATCH "/lower", &st) == 0) {
        (void)chmod(SCRATCH "/upper", st.st_mode & 03777);
        (void)chmod(SCRATCH "/mask", st.st_mode & 03777);
    }
    if (make_mask_layer(s, SCRATCH "/mask", err) < 0) {
        return err->code;
    }
    if (mount("overlay", "/workspace", "overlay", MS_NOSUID | MS_NODEV | MS_STRICTATIME,
              "lowerdir=" SCRATCH "/mask:" SCRATCH "/lower,upperdir=" SCRATCH
              "/upper,workdir=" SCRATCH "/work,userxattr") < 0) {
        return errno == EINVAL ? snp_fail(err, SNP_E_UNSUPPORTED,
                                          "the project's file system cannot be the lower layer "
                                          "of an overlay; copy the project to another one")
                               : snp_fail_sys(err, errno, "mount overlay on /workspace");
    }
    open_base(s);
    return 0;
}

/* Leave the promised number of inodes, besides those of the layers. */
static int limit_inodes(struct snp_setup *s, struct snp_err *err)
{
    char data[128];
    struct statfs fs;
    unsigned long long inodes;

    if (statfs(SCRATCH, &fs) < 0) {
        return snp_fail_sys(err, errno, "statfs " SCRATCH);
    }
    inodes = fs.f_files - fs.f_ffree + s->spec.workspace_inodes;
    (void)snprintf(data, sizeof(data), "size=%llu,nr_inodes=%llu",
                   (unsigned long long)s->spec.workspace_bytes, inodes);
    if (mount(NULL, SCRATCH, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, data) < 0) {
        return snp_fail_sys(err, errno, "limit the inodes of " SCRATCH);
    }
    return 0;
}

static int step_workspace(struct snp_setup *s, struct snp_err *err)
{
    const char *where = s->spec.has_project != 0 ? SCRATCH : "/workspace";
    const char *upper = s->spec.has_project != 0 ? SCRATCH "/upper" : "/workspace";
    /* One for the root; the layers and the mask use at most one per byte of the mask. */
    uint64_t own = s->spec.has_project != 0 ? LAYER_INODES + s->spec.mask_len : 1;
    /* A write through a mapping changes no modification time, but mapping sets the access time. */
    int r = mount_tmpfs(where, s->spec.workspace_bytes, s->spec.workspace_inodes + own,
                        MS_NOSUID | MS_NODEV | MS_STRICTATIME, err);

    if (r < 0) {
        return r;
    }
    if (s->spec.has_project == 0) {
        (void)chmod("/workspace", 0755);
    } else {
        r = mount_overlay(s, err);
        r = r < 0 ? r : limit_inodes(s, err);
        if (r < 0) {
            return r;
        }
    }
    s->fs_fd[SNP_SETUP_WORKSPACE] = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->fs_fd[SNP_SETUP_WORKSPACE] < 0) {
        return snp_fail_sys(err, errno, "open %s", upper);
    }
    /* The overlay keeps the layers; without their paths, nothing can bypass it. */
    if (s->spec.has_project != 0 && umount2(SCRATCH, MNT_DETACH) < 0) {
        return snp_fail_sys(err, errno, "detach the layers");
    }
    if (chdir("/workspace") < 0) {
        return snp_fail_sys(err, errno, "chdir /workspace");
    }
    return 0;
}

static int limit_one(int resource, uint64_t value, struct snp_err *err)
{
    struct rlimit now;
    struct rlimit want = {.rlim_cur = value, .rlim_max = value};

    if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max != RLIM_INFINITY &&
        value > now.rlim_max) {
        want.rlim_cur = want.rlim_max = now.rlim_max; /* the host's limit is lower */
    }
    if (setrlimit((__rlimit_resource_t)resource, &want) < 0) {
        return snp_fail_sys(err, errno, "setrlimit %d", resource);
    }
    return 0;
}

/* Bytes of private data in the template; the limit is added to them. */
static uint64_t data_size(void)
{
    char text[256];
    uint64_t field = 0;
    int fields = 0;
    snp_autoclose int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    for (ssize_t i = 0; i < n && fields < 6; i++) { /* "data" is the sixth */
        if (text[i] >= '0' && text[i] <= '9') {
            field = field * 10 + (uint64_t)(text[i] - '0');
        } else if (++fields < 6) {
            field = 0;
        }
    }
    return field * (uint64_t)sysconf(_SC_PAGESIZE);
}

int snp_step_rlimits(struct snp_setup *s, struct snp_err *err)
{
    const struct {
        int resource;
        uint64_t value;
        bool wanted;
    } rows[] = {
        {RLIMIT_CORE, 1, true},        /* also disables a core_pattern program */
        {RLIMIT_STACK, 8 << 20, true}, /* the template's was for threads */
        {RLIMIT_FSIZE, s->spec.file_bytes, true},
        {RLIMIT_NPROC, (uint64_t)s->spec.processes + SNP_OWN_PROCESSES, true},
        {RLIMIT_MEMLOCK, 64 << 10, true},
        {RLIMIT_MSGQUEUE, 0, true},
        {RLIMIT_SIGPENDING, 1024, true},
        {RLIMIT_AS, s->spec.space_bytes, s->spec.space_bytes != 0},
        {RLIMIT_DATA, s->spec.data_bytes + data_size(), s->spec.data_bytes != 0},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        int r = rows[i].wanted ? limit_one(rows[i].resource, rows[i].value, err) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int snp_step_affinity(struct snp_setup *s, struct snp_err *err)
{
    cpu_set_t allowed;
    cpu_set_t set;
    unsigned n = 0;
    unsigned skipped = 0;

    if (s->spec.cpu_count == 0) {
        return 0;
    }
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0) {
        return snp_fail_sys(err, errno, "sched_getaffinity");
    }
    unsigned total = (unsigned)CPU_COUNT(&allowed);
    unsigned first = s->spec.cpu_first % total;
    /* cpu_count of the allowed CPUs, from the first-th on, wrapping around. */
    for (unsigned turn = 0; turn < 2 * CPU_SETSIZE && n < s->spec.cpu_count && n < total; turn++) {
        unsigned cpu = turn % CPU_SETSIZE;
        if (CPU_ISSET(cpu, &allowed) && !CPU_ISSET(cpu, &set) && skipped++ >= first) {
            CPU_SET(cpu, &set);
            n++;
        }
    }
    if (sched_setaffinity(0, sizeof(set), &set) < 0) {
        return snp_fail_sys(err, errno, "sched_setaffinity");
    }
    return 0;
}

int snp_step_capabilities(struct snp_setup *s, struct snp_err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};

    for (int cap = 0; s->spec.is_local == 0 && cap < CAPS_N; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL) {
                break; /* beyond the last capability of this kernel */
            }
            return snp_fail_sys(err, errno, "drop capability %d from the bounding set", cap);
        }
    }
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) < 0) {
        return snp_fail_sys(err, errno, "capset");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "no_new_privs");
    }
    return 0;
}

static int step_landlock(struct snp_setup *s, struct snp_err *err)
{
    const struct snp_landlock_own own = {
        .upper_fd = s->fs_fd[SNP_SETUP_WORKSPACE],
        .base_fd = s->base_fd,
        .copies_fd = s->copies_fd,
    };

    return snp_landlock_apply(&own, (int)s->spec.landlock_abi, &s->landlock_abi, err);
}

/* Copy the program with this sandbox's mark to steps, which is large enough. */
static void put_mark(const struct snp_setup *s, struct sock_filter *steps)
{
    memcpy(steps, s->filter->filter, s->filter->len * sizeof(*steps));
    for (unsigned i = 0; i < s->filter->len; i++) {
        if (steps[i].code == (BPF_JMP | BPF_JEQ | BPF_K) && steps[i].k == SNP_MARK_PLACE_HIGH) {
            steps[i].k = (uint32_t)(s->spec.mark >> 32U);
        } else if (steps[i].code == (BPF_JMP | BPF_JEQ | BPF_K) &&
                   steps[i].k == SNP_MARK_PLACE_LOW) {
            steps[i].k = (uint32_t)s->spec.mark;
        }
    }
}

long snp_setup_filter(const struct snp_setup *s, unsigned flags)
{
    struct sock_filter steps[BPF_MAXINSNS];
    const struct sock_fprog marked = {.len = s->filter->len, .filter = steps};
    long r = -1;

    errno = EINVAL; /* without a mark the code would know the placeholder */
    if (marked.len <= SNP_ARRAY_LEN(steps) && s->spec.mark != 0) {
        put_mark(s, steps);
        r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &marked);
        explicit_bzero(steps, sizeof(steps)); /* the interpreter gets a copy of this stack */
    }
    return r;
}

static int step_seccomp(struct snp_setup *s, struct snp_err *err)
{
    unsigned flags = s->spec.want_notify != 0 ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    long r = snp_setup_filter(s, flags);

    if (r < 0) {
        return snp_fail_sys(err, errno, "seccomp");
    }
    if (flags != 0) {
        s->listener_fd = (int)r;
    }
    return 0;
}

/*
 * Order: cgroups before any allocation for the session, and before their namespace; ids before any
 * file is created; mounts while they are allowed; Landlock before seccomp, whose filter refuses its
 * calls; seccomp last.
 */
static const struct snp_step steps[] = {
    {"cgroups", snp_step_cgroups},
    {"ids", step_ids},
    {"hostname", step_hostname},
    {"loopback", step_loopback},
    {"cgroup namespace", step_cgroup_namespace},
    {"proc", step_proc},
    {"tmp", step_tmp},
    {"copies", step_copies},
    {"workspace", step_workspace},
    {"affinity", snp_step_affinity},
    {"rlimits", snp_step_rlimits},
    {"capabilities", snp_step_capabilities},
    {"landlock", step_landlock},
    {"seccomp", step_seccomp},
};

int snp_setup_run(struct snp_setup *setup, struct snp_err *err)
{
    bool is_local = setup->spec.is_local != 0;
    const struct snp_step *table = is_local ? snp_local_steps : steps;
    size_t n = is_local ? snp_local_steps_n : SNP_ARRAY_LEN(steps);

    for (size_t i = 0; i < n; i++) {
        int r = table[i].run(setup, err);

        if (r < 0) {
            return snp_err_wrap(err, "step %s", table[i].name);
        }
    }
    return 0;
}
