/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock: a table of the folders that may be read, executed and written.
 *
 * Rights and structures have the kernel's numbers (linux/landlock.h); those newer than Debian 12's
 * header are defined here, with their ABI.
 */
#include "guest/module/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FS_READ   (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_RUN    (FS_READ | LANDLOCK_ACCESS_FS_EXECUTE)
#define FS_ALL1   ((1ULL << 13) - 1)
#define FS_REFER  (1ULL << 13) /* ABI 2 */
#define FS_TRUNC  (1ULL << 14) /* ABI 3 */
#define FS_IOCTL  (1ULL << 15) /* ABI 5 */
#define FS_DEVICE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNC)
#define FS_EDIT   (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNC)
#define SCOPES    3ULL /* ABI 6: abstract unix sockets, signals */
#define NET_TCP   3ULL /* ABI 4: bind, connect */
#define FS_NODES \
    (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SOCK)
#define FS_STORE                                                             \
    (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_TRUNC)
#define FS_OWN ((FS_ALL1 & ~FS_NODES) | FS_REFER | FS_TRUNC)

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

static const struct {
    const char *path;
    uint64_t access;
} rules[] = {
    {"/usr", FS_RUN},
    {"/etc", FS_READ},
    {"/run/guest", FS_RUN},
    {"/run/python", FS_RUN},
    {"/run/venv", FS_RUN},
    {"/proc", FS_EDIT},
    {"/dev", FS_READ | FS_IOCTL}, /* /dev/zero could be mapped as shared memory */
    {"/dev/null", FS_DEVICE},
    {"/dev/full", FS_DEVICE},
    {"/dev/random", FS_DEVICE},
    {"/dev/urandom", FS_DEVICE},
    {"/dev/shm", FS_ALL1 | FS_REFER | FS_TRUNC},
    {"/tmp", FS_ALL1 | FS_REFER | FS_TRUNC},
    {"/workspace", FS_ALL1 | FS_REFER | FS_TRUNC},
    /* Folders if /usr is not merged; missing ones are skipped. */
    {"/lib", FS_RUN},
    {"/lib64", FS_RUN},
    {"/bin", FS_RUN},
    {"/sbin", FS_RUN},
    {"/", LANDLOCK_ACCESS_FS_READ_DIR},
};

/* The kernel's ABI version, at most the given one; 0 = no Landlock. */
static int usable_abi(int most)
{
    long abi = most <= 0
                   ? 0
                   : syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    return abi <= 0 ? 0 : abi < most ? (int)abi : most;
}

static uint64_t handled_by(int abi)
{
    uint64_t fs = FS_ALL1;

    fs |= abi >= 2 ? FS_REFER : 0;
    fs |= abi >= 3 ? FS_TRUNC : 0;
    fs |= abi >= 5 ? FS_IOCTL : 0;
    return fs;
}

static int add_rule(int ruleset, int fd, const char *path, uint64_t access, struct snp_err *err)
{
    struct landlock_path_beneath_attr beneath = {.allowed_access = access, .parent_fd = fd};

    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0) {
        return snp_fail_sys(err, errno, "landlock rule for %s", path);
    }
    return 0;
}

static int add_path(int ruleset, const char *path, uint64_t access, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_PATH | O_CLOEXEC);

    if (fd < 0) {
        return errno == ENOENT ? 0 : snp_fail_sys(err, errno, "open %s", path);
    }
    return add_rule(ruleset, fd, path, access, err);
}

/* Make a ruleset with all rights of this ABI; -1 and *err. */
static int open_ruleset(int abi, uint64_t net, struct snp_err *err)
{
    const struct ruleset_attr attr = {.handled_access_fs = handled_by(abi),
                                      .handled_access_net = abi >= 4 ? net : 0,
                                      .scoped = abi >= 6 ? SCOPES : 0};
    size_t attr_len = abi >= 6 ? sizeof(attr) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, attr_len, 0);

    if (ruleset < 0) {
        (void)snp_fail_sys(err, errno, "landlock_create_ruleset");
    }
    return ruleset;
}

static int restrict_self(int ruleset, struct snp_err *err)
{
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0
               ? snp_fail_sys(err, errno, "landlock_restrict_self")
               : 0;
}

int snp_landlock_apply(const struct snp_landlock_own *own,
                       int most_abi,
                       int *ret_abi,
                       struct snp_err *err)
{
    const struct {
        int fd;
        const char *name;
        uint64_t access;
    } held[] = {
        {own->upper_fd, "the workspace's layer", FS_READ},
        {own->base_fd, "the project", FS_READ},
        {own->copies_fd, "the copies of the workspace", FS_STORE},
    };
    int abi = usable_abi(most_abi);
    snp_autoclose int ruleset = abi == 0 ? -1 : open_ruleset(abi, 0, err);
    int r = 0;

    *ret_abi = abi;
    if (ruleset < 0) {
        return abi == 0 ? 0 : err->code;
    }
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(held); i++) {
        r = held[i].fd < 0 ? 0
                           : add_rule(ruleset, held[i].fd, held[i].name,
                                      held[i].access & handled_by(abi), err);
    }
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(rules); i++) {
        r = add_path(ruleset, rules[i].path, rules[i].access & handled_by(abi), err);
    }
    return r < 0 ? r : restrict_self(ruleset, err);
}

static const uint64_t accesses[] = {
    [SNP_LANDLOCK_READ] = FS_READ,
    [SNP_LANDLOCK_LIST] = LANDLOCK_ACCESS_FS_READ_DIR,
    [SNP_LANDLOCK_RUN] = FS_RUN,
    [SNP_LANDLOCK_EDIT] = FS_EDIT | FS_IOCTL,
    [SNP_LANDLOCK_ALL] = FS_ALL1 | FS_REFER | FS_TRUNC,
    [SNP_LANDLOCK_OWN] = FS_OWN,
    [SNP_LANDLOCK_SCRATCH] = FS_OWN & ~LANDLOCK_ACCESS_FS_EXECUTE,
    [SNP_LANDLOCK_STORE] = FS_STORE,
};

/* Rights for folders are invalid on a file. */
static int add_any(int ruleset,
                   const struct snp_landlock_rule *rule,
                   uint64_t handled,
                   struct snp_err *err)
{
    uint64_t access = accesses[rule->access] & handled;
    struct stat st;

    if (stat(rule->path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        access &= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                  LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNC | FS_IOCTL;
    }
    return add_path(ruleset, rule->path, access, err);
}

int snp_landlock_fence(const struct snp_landlock_rule *list,
                       size_t n,
                       int most_abi,
                       bool refuses_tcp,
                       int *ret_abi,
                       struct snp_err *err)
{
    int abi = usable_abi(most_abi);
    snp_autoclose int ruleset = abi == 0 ? -1 : open_ruleset(abi, refuses_tcp ? NET_TCP : 0, err);
    int r = 0;

    *ret_abi = abi;
    if (ruleset < 0) {
        return abi == 0 ? snp_fail(err, SNP_E_UNSUPPORTED, "this kernel has no Landlock")
                        : err->code;
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = add_any(ruleset, &list[i], handled_by(abi), err);
    }
    return r < 0 ? r : restrict_self(ruleset, err);
}
