/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An id-mapped mount takes its map from a user namespace. A forked child that only waits provides
 * it; a descriptor keeps the namespace, and the child ends.
 */
#include "os/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"

enum {
    MAP_LEN = 512
};

static int write_maps(pid_t pid, const char *uid_map, const char *gid_map, struct snp_err *err)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    if (snp_file_poke(path, uid_map) < 0) {
        return snp_fail_sys(err, errno, "write uid_map");
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
    if (snp_file_poke(path, gid_map) < 0) {
        return snp_fail_sys(err, errno, "write gid_map");
    }
    return 0;
}

/* The next unsigned number at *at, which moves past it; 0 if there is none. */
static uint64_t next_number(const char **at)
{
    uint64_t value = 0;

    *at += strspn(*at, " \n");
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (uint64_t)(**at - '0');
    }
    return value;
}

bool snp_idmap_has_ranges(void)
{
    const uint64_t end = (uint64_t)SNP_IDMAP_BASE + (uint64_t)SNP_IDMAP_SLOTS * SNP_IDMAP_RANGE;
    snp_autofree char *map = NULL;
    struct snp_err err;
    const char *at;

    if (snp_file_read("/proc/self/uid_map", 65536, &map, NULL, &err) < 0) {
        return false;
    }
    for (at = map; *at != '\0';) {
        uint64_t inside = next_number(&at);
        (void)next_number(&at);
        uint64_t count = next_number(&at);
        if (inside <= SNP_IDMAP_BASE && inside + count >= end) {
            return true;
        }
        at += strcspn(at, "\n");
        at += *at == '\n' ? 1 : 0;
    }
    return false;
}

int snp_idmap_open_locks(int *ret_fd, struct snp_err *err)
{
    static const char *const paths[] = {"/run/snipara-sandbox-ids", "/dev/shm/snipara-sandbox-ids"};
    int eno = ENOENT;

    for (size_t i = 0; i < SNP_ARRAY_LEN(paths); i++) {
        snp_autoclose int fd =
            open(paths[i], O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        struct stat st;
        /* Only own files: another user could hold locks on theirs forever. */
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
            (st.st_mode & 077) == 0) {
            *ret_fd = SNP_TAKE_FD(fd);
            return 0;
        }
        eno = fd < 0 ? errno : EPERM;
    }
    return snp_fail_sys(err, eno,
                        "lock user ids in %s or %s, one of which root must be able to write",
                        paths[0], paths[1]);
}

bool snp_idmap_lock(int locks_fd, unsigned slot, bool on)
{
    struct flock lock = {
        .l_type = on ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1};

    return fcntl(locks_fd, F_OFD_SETLK, &lock) == 0;
}

int snp_idmap_write(pid_t pid, int slot, uid_t inside_id, struct snp_err *err)
{
    char map[MAP_LEN];

    if (slot >= 0) {
        (void)snprintf(map, sizeof(map), "0 %u %u",
                       (unsigned)SNP_IDMAP_BASE + (unsigned)slot * SNP_IDMAP_RANGE,
                       (unsigned)SNP_IDMAP_RANGE);
    } else {
        (void)snprintf(map, sizeof(map), "%u 0 1", (unsigned)inside_id);
    }
    return write_maps(pid, map, map, err);
}

/*
 * Map of file ids to host ids: everything shifts into the sandbox's range, but owner and inside_id
 * are swapped, so that the folder's owner is the user that runs the code.
 */
static int swap_map(char *out, uint32_t base, uint32_t owner, uint32_t inside)
{
    uint32_t low = owner < inside ? owner : inside;
    uint32_t high = owner < inside ? inside : owner;
    int n = 0;

    if (owner == inside) {
        return snprintf(out, MAP_LEN, "0 %u %u\n", base, (unsigned)SNP_IDMAP_RANGE);
    }
    if (owner >= SNP_IDMAP_RANGE) { /* outside the range: it replaces inside_id */
        n = snprintf(out, MAP_LEN, "0 %u %u\n", base, inside);
        n += snprintf(out + n, MAP_LEN - (size_t)n, "%u %u %u\n", inside + 1, base + inside + 1,
                      SNP_IDMAP_RANGE - inside - 1);
        return n + snprintf(out + n, MAP_LEN - (size_t)n, "%u %u 1\n", owner, base + inside);
    }
    if (low > 0) {
        n = snprintf(out, MAP_LEN, "0 %u %u\n", base, low);
    }
    n += snprintf(out + n, MAP_LEN - (size_t)n, "%u %u 1\n", low, base + high);
    if (high > low + 1) {
        n += snprintf(out + n, MAP_LEN - (size_t)n, "%u %u %u\n", low + 1, base + low + 1,
                      high - low - 1);
    }
    n += snprintf(out + n, MAP_LEN - (size_t)n, "%u %u 1\n", high, base + low);
    return n + snprintf(out + n, MAP_LEN - (size_t)n, "%u %u %u\n", high + 1, base + high + 1,
                        SNP_IDMAP_RANGE - high - 1);
}

/* A user namespace with these maps, as a descriptor. */
static int open_namespace(const char *uid_map,
                          const char *gid_map,
                          int *ret_fd,
                          struct snp_err *err)
{
    char path[64];
    pid_t parent = getpid();
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    int r;

    if (pid == 0) {
        /* A sandbox's stream inherited here would stay open after its supervisor is killed. */
        (void)syscall(SYS_close_range, 0, ~0U, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        while (getppid() == parent) {
            (void)pause();
        }
        _exit(0);
    }
    if (pid < 0) {
        return snp_fail_sys(err, errno, "clone a user namespace");
    }
    r = write_maps((pid_t)pid, uid_map, gid_map, err);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "/proc/%ld/ns/user", pid);
        *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
        if (*ret_fd < 0) {
            r = snp_fail_sys(err, errno, "open the user namespace");
        }
    }
    (void)kill((pid_t)pid, SIGKILL);
    (void)SNP_RETRY(waitpid((pid_t)pid, NULL, 0));
    return r;
}

static int make_idmap(int dir_fd, int slot, uid_t inside_id, int *ret_ns_fd, struct snp_err *err)
{
    uint32_t base = (uint32_t)SNP_IDMAP_BASE + (uint32_t)slot * SNP_IDMAP_RANGE;
    char uid_map[MAP_LEN];
    char gid_map[MAP_LEN];
    struct stat st;

    if (fstat(dir_fd, &st) < 0) {
        return snp_fail_sys(err, errno, "stat the project");
    }
    (void)swap_map(uid_map, base, st.st_uid, inside_id);
    (void)swap_map(gid_map, base, st.st_gid, inside_id);
    return open_namespace(uid_map, gid_map, ret_ns_fd, err);
}

int snp_idmap_mount(int dir_fd, int slot, uid_t inside_id, int *ret_fd, struct snp_err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    snp_autoclose int fd = -1;
    snp_autoclose int ns_fd = -1;

    fd = (int)syscall(SYS_open_tree, dir_fd, "",
                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "clone the project's mount");
    }
    if (slot >= 0) {
        SNP_TRY(make_idmap(dir_fd, slot, inside_id, &ns_fd, err));
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)ns_fd;
    }
    if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
        if (slot >= 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
            return snp_fail(err, SNP_E_UNSUPPORTED,
                            "the project's file system cannot be mounted with translated owners");
        }
        return snp_fail_sys(err, errno, "make the project's mount read-only");
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}
