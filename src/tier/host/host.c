/* SPDX-License-Identifier: Apache-2.0 */
/* Id ranges, the program of pid 1, and kernel features used by every sandbox. */
#include "tier/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/landlock.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/str.h"
#include "os/idmap.h"
#include "tier/engine/sandbox.h"
#include "tier/host/template.h"

enum {
    INIT_SIZE_MAX = 8 << 20
};

/* Open when first needed: a disk that was full for a moment must not refuse later sandboxes. */
static int open_locks(struct snp_host *host, struct snp_err *err)
{
    return !host->is_root || host->locks_fd >= 0 ? 0 : snp_idmap_open_locks(&host->locks_fd, err);
}

int snp_host_take_slot(struct snp_supervisor *supervisor)
{
    struct snp_host *host = snp_host_of(supervisor);
    struct snp_err err;

    if (!host->is_root) {
        return -1;
    }
    if (open_locks(host, &err) < 0) {
        return -2;
    }
    for (unsigned i = 0; i < SNP_IDMAP_SLOTS; i++) {
        /* range 0 is for templates */
        unsigned slot = 1 + (host->next_slot + i) % (SNP_IDMAP_SLOTS - 1);
        if (host->slots[slot] == 0 && snp_idmap_lock(host->locks_fd, slot, true)) {
            host->slots[slot] = 1;
            host->next_slot = slot;
            return (int)slot;
        }
    }
    return -2;
}

uid_t snp_host_code_uid(const struct snp_supervisor *supervisor, int slot)
{
    const struct snp_host *host = snp_host_of(supervisor);

    return !host->is_root || slot < 0
               ? 0
               : (uid_t)SNP_IDMAP_BASE + (uid_t)slot * SNP_IDMAP_RANGE + SNP_INSIDE_ID;
}

void snp_host_free_slot(struct snp_supervisor *supervisor, int slot)
{
    struct snp_host *host = snp_host_of(supervisor);

    if (slot >= 0) {
        host->slots[slot] = 0;
        (void)snp_idmap_lock(host->locks_fd, (unsigned)slot, false);
    }
}

/* Find our program's folder and path. */
static int find_self(struct snp_supervisor *supervisor, char *ret_dir, struct snp_err *err)
{
    struct snp_host *host = snp_host_of(supervisor);
    ssize_t n = readlink("/proc/self/exe", host->self, sizeof(host->self) - 1);
    struct stat st;
    char *slash;

    if (n <= 0) {
        return snp_fail_sys(err, errno, "read /proc/self/exe");
    }
    host->self[n] = '\0';
    if (stat("/proc/self/exe", &st) < 0) {
        return snp_fail_sys(err, errno, "stat /proc/self/exe");
    }
    host->self_dev = st.st_dev;
    host->self_ino = st.st_ino;
    (void)snprintf(ret_dir, SNP_SUPERVISOR_PATH_MAX, "%s", host->self);
    slash = strrchr(ret_dir, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    if (snprintf(host->guest_dir, sizeof(host->guest_dir), "%s/guest", ret_dir) >=
        (int)sizeof(host->guest_dir)) {
        return snp_fail(err, SNP_E_LIMIT, "our own path is too long");
    }
    return 0;
}

/*
 * Load a program of pid 1 into a sealed memfd of mode 0111: the code can execute it but not read
 * it, and the kernel makes a process not dumpable if its program is unreadable.
 */
static int load_program(const char *dir, const char *name, int *ret_fd, struct snp_err *err)
{
    char path[SNP_SUPERVISOR_PATH_MAX + 16];
    snp_autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    snp_autoclose int program = -1;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%s/snp-%s", dir, name);
    program = open(path, O_RDONLY | O_CLOEXEC);
    if (program < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    do {
        n = sendfile(fd, program, NULL, INIT_SIZE_MAX);
    } while (n > 0);
    if (fd < 0 || n < 0 || fchmod(fd, 0111) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        return snp_fail_sys(err, errno, "prepare the program snp-%s", name);
    }
    /* Execution requires that no descriptor is writable: keep a path descriptor only. */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *ret_fd = open(path, O_PATH | O_CLOEXEC);
    return *ret_fd < 0 ? snp_fail_sys(err, errno, "open the program snp-%s", name) : 0;
}

/* The kernel's ABI, or an older one from the environment; 0 = none. */
static int landlock_abi(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *none = getenv("SNIPARA_SANDBOX_NO_LANDLOCK");
    const char *older = getenv("SNIPARA_SANDBOX_LANDLOCK_ABI");
    /* NOLINTEND(concurrency-mt-unsafe) */
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t most = INT_MAX;

    if (none != NULL || abi <= 0 || (older != NULL && snp_parse_u64(older, &most) < 0)) {
        return 0;
    }
    return (uint64_t)abi < most ? (int)abi : (int)most;
}

int snp_host_start(struct snp_supervisor *supervisor, struct snp_err *err)
{
    struct snp_host *host = snp_host_of(supervisor);
    const char *forks =
        getenv("SNIPARA_SANDBOX_TEMPLATE_FORKS"); /* NOLINT(concurrency-mt-unsafe) */
    const char *images =
        getenv("SNIPARA_SANDBOX_TEMPLATE_IMAGES"); /* NOLINT(concurrency-mt-unsafe) */
    char dir[SNP_SUPERVISOR_PATH_MAX];
    uint64_t forks_max = 0;
    int r = find_self(supervisor, dir, err);

    if (r < 0) {
        return r;
    }
    host->is_root = supervisor->uid == 0;
    host->image_idle_ms = SNP_TEMPLATE_IMAGE_IDLE_MS;
    if (images != NULL && (snp_parse_u64(images, &host->image_idle_ms) < 0 ||
                           host->image_idle_ms > SNP_TEMPLATE_IMAGE_IDLE_MAX_MS)) {
        return snp_fail(err, SNP_E_INVALID,
                        "SNIPARA_SANDBOX_TEMPLATE_IMAGES is 0 to %d milliseconds, not '%.20s'",
                        SNP_TEMPLATE_IMAGE_IDLE_MAX_MS, images);
    }
#ifndef __x86_64__
    host->image_idle_ms = 0; /* guest/thaw supports x86-64 only */
#endif
    host->forks_max = SNP_TEMPLATE_FORKS_MAX;
    if (forks != NULL && snp_parse_u64(forks, &forks_max) == 0 && forks_max >= 1 &&
        forks_max <= SNP_TEMPLATE_FORKS_MAX) {
        host->forks_max = (unsigned)forks_max;
    }
    host->slots = calloc(SNP_IDMAP_SLOTS, 1);
    host->next_slot =
        /* so that two supervisors start far apart */
        (unsigned)getpid() * 31U % (SNP_IDMAP_SLOTS - 1);
    if (host->slots == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    host->landlock_abi = landlock_abi();
    r = load_program(dir, "init", &host->init_fd, err);
    return r < 0 ? r : load_program(dir, "files", &host->files_fd, err);
}

void snp_host_degraded(const struct snp_supervisor *supervisor, json_t *list)
{
    if (snp_host_of(supervisor)->landlock_abi == 1) {
        (void)json_array_append_new(
            list, json_string("landlock: ABI 1 cannot tell moves and links between folders "
                              "apart, so it refuses them all; a kernel from 5.19 on can"));
    }
}

int snp_host_check(const struct snp_sandbox *s, struct snp_err *err)
{
    if (snp_host_of(s->supervisor)->landlock_abi == 0 && !s->spec.allow_degraded) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_ALLOW_DEGRADED, NULL, 0,
                             "this kernel has no Landlock, the second fence around files");
    }
    return open_locks(snp_host_of(s->supervisor), err);
}
