/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a controller is mounted comes from /proc/self/mountinfo, which group we are in
 * from /proc/self/cgroup. Version 1 is preferred where it holds the controller, because
 * a controller is in one version only. On version 2 a group with processes cannot pass
 * controllers on, so the supervisor first moves itself into a leaf of its own.
 */
#include "os/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    TEXT_MAX = 1 << 20,
    KNOB_MAX = 4096,
    PATH_LEN = 4096,
    NAME_LEN = 96
};

#define FOLDER_PREFIX "snipara-sandbox-"

static const char *const controller_names[SNP_CGROUP_N] = {"memory", "pids", "cpu", "cpuacct"};

/* Is word one of the comma separated words of list? */
static bool has_word(const char *list, size_t list_len, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= list_len; i++) {
        if ((i == 0 || list[i - 1] == ',' || list[i - 1] == ' ') &&
            memcmp(list + i, word, n) == 0 &&
            (i + n == list_len || list[i + n] == ',' || list[i + n] == ' ' ||
             list[i + n] == '\n')) {
            return true;
        }
    }
    return false;
}

/* The n-th (from 0) space separated field of a line; its length in *ret_len. NULL if there is none. */
static const char *field(const char *line, size_t n, size_t *ret_len)
{
    for (; n > 0; n--) {
        line = strchr(line, ' ');
        if (line == NULL) {
            return NULL;
        }
        line++;
    }
    *ret_len = strcspn(line, " \n");
    return line;
}

/*
 * Mount point and root of a hierarchy: of the version 1 controller, or (controller NULL)
 * of version 2. False if it is not mounted.
 */
static bool find_mount(const char *mountinfo,
                       const char *controller,
                       char *ret_point,
                       char *ret_root)
{
    for (const char *line = mountinfo; line != NULL && *line != '\0';
         line = strchr(line, '\n'), line += line != NULL) {
        const char *dash = strstr(line, " - ");
        const char *eol = strchrnul(line, '\n');
        size_t type_len = 0;
        size_t options_len = 0;
        size_t n = 0;
        if (dash == NULL || dash > eol) {
            continue;
        }
        const char *type = field(dash + 3, 0, &type_len);
        const char *options = field(dash + 3, 2, &options_len);
        bool v1 = type_len == 6 && memcmp(type, "cgroup", 6) == 0;
        bool v2 = type_len == 7 && memcmp(type, "cgroup2", 7) == 0;
        if (controller == NULL
                ? !v2
                : !v1 || options == NULL || !has_word(options, options_len, controller)) {
            continue;
        }
        const char *root = field(line, 3, &n);
        (void)snprintf(ret_root, PATH_LEN, "%.*s", (int)n, root);
        const char *point = field(line, 4, &n);
        (void)snprintf(ret_point, PATH_LEN, "%.*s", (int)n, point);
        return true;
    }
    return false;
}

/* Our own group in a hierarchy, e.g. "/user.slice"; controller NULL = version 2. */
static bool find_group(const char *cgroup, const char *controller, char *ret)
{
    for (const char *line = cgroup; line != NULL && *line != '\0';
         line = strchr(line, '\n'), line += line != NULL) {
        const char *names = strchr(line, ':');
        const char *path = names == NULL ? NULL : strchr(names + 1, ':');
        if (path == NULL) {
            return false;
        }
        size_t names_len = (size_t)(path - names) - 1;
        if (controller == NULL ? names_len == 0 : has_word(names + 1, names_len, controller)) {
            (void)snprintf(ret, PATH_LEN, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
            return true;
        }
    }
    return false;
}

/* Start time of a process in clock ticks, 0 if it is gone: field 22 of its stat. */
static uint64_t start_time(uint64_t pid)
{
    char path[64];
    snp_autofree char *text = NULL;
    struct snp_err err;
    const char *at;
    size_t n;
    uint64_t ticks = 0;
    char number[32];

    (void)snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
    if (snp_file_read(path, KNOB_MAX, &text, NULL, &err) < 0) {
        return 0;
    }
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at != NULL && (at[1] == '\0' || strchr("ZXx", at[2]) != NULL)) {
        return 0; /* a zombie owns nothing any more */
    }
    at = at == NULL ? NULL : field(at, 20, &n);
    if (at == NULL) {
        return 0;
    }
    (void)snprintf(number, sizeof(number), "%.*s", (int)n, at);
    return snp_parse_u64(number, &ticks) == 0 ? ticks : 0;
}

static void kill_members(int dir_fd)
{
    int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char line[32];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        uint64_t pid;
        line[strcspn(line, "\n")] = '\0';
        if (snp_parse_u64(line, &pid) == 0 && pid > 1 && (pid_t)pid != getpid()) {
            (void)kill((pid_t)pid, SIGKILL);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    } else {
        snp_closep(&fd);
    }
}

/* Kill and remove a group folder and the ones below it; left-overs stay for the next start. */
static void remove_tree(int parent_fd, const char *name, int depth)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir != NULL && depth < 4 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            remove_tree(dirfd(dir), entry->d_name, depth + 1);
        }
    }
    if (dir != NULL) {
        kill_members(dirfd(dir));
        (void)closedir(dir);
    }
    for (int i = 0; i < 50 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno == EBUSY;
         i++) {
        struct timespec pause = {.tv_nsec = 2000000};
        (void)nanosleep(&pause, NULL);
    }
}

/* Is name one of our folders (PREFIX uid - pid - starttime) whose supervisor is gone? */
static bool is_stale(const char *folder)
{
    char name[NAME_LEN];
    uint64_t pid;
    uint64_t ticks;
    char *last;
    char *middle;

    if (!snp_has_prefix(folder, FOLDER_PREFIX) || strlen(folder) >= sizeof(name)) {
        return false;
    }
    (void)snprintf(name, sizeof(name), "%s", folder + strlen(FOLDER_PREFIX));
    last = strrchr(name, '-');
    if (last == NULL) {
        return false;
    }
    *last = '\0';
    middle = strrchr(name, '-');
    return middle != NULL && snp_parse_u64(middle + 1, &pid) == 0 &&
           snp_parse_u64(last + 1, &ticks) == 0 && start_time(pid) != ticks;
}

static void remove_stale(int parent_fd, uid_t uid)
{
    char prefix[NAME_LEN];
    int fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    (void)snprintf(prefix, sizeof(prefix), FOLDER_PREFIX "%u-", (unsigned)uid);
    while (dir != NULL && (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (snp_has_prefix(entry->d_name, prefix) && is_stale(entry->d_name)) {
            remove_tree(parent_fd, entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else {
        snp_closep(&fd);
    }
}

/* One line of the registry, a path. True if it must be kept. */
static bool check_registered(char *path)
{
    char *slash = strrchr(path, '/');
    int parent;
    struct stat st;

    if (slash == NULL || slash == path || lstat(path, &st) < 0) {
        return false;
    }
    if (!is_stale(slash + 1)) {
        return true;
    }
    *slash = '\0';
    parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) {
        remove_tree(parent, slash + 1, 0);
    }
    snp_closep(&parent);
    *slash = '/';
    return lstat(path, &st) == 0;
}

/* Clean up by the registry and write it anew with our own folders. */
static void renew_registry(const struct snp_cgroups *groups, const char *registry)
{
    snp_autofree char *text = NULL;
    snp_autobuf struct snp_buf kept = {0};
    struct snp_err ignored;
    char *rest = NULL;
    int r = 0;

    snp_buf_init(&kept, TEXT_MAX);
    if (snp_file_read(registry, TEXT_MAX, &text, NULL, &ignored) == 0) {
        rest = text;
    }
    while (rest != NULL && *rest != '\0') {
        char *line = rest;
        char *end = strchr(line, '\n');
        rest = end == NULL ? NULL : end + 1;
        if (end != NULL) {
            *end = '\0';
        }
        if (check_registered(line)) {
            r |= snp_buf_addf(&kept, "%s\n", line);
        }
    }
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        if (groups->made[c] != NULL) {
            r |= snp_buf_addf(&kept, "%s\n", groups->made[c]);
        }
    }
    if (r == 0) {
        /* Without it only the clean-up after a kill is less thorough. */
        (void)!snp_file_write_atomic(registry, snp_buf_bytes(&kept), kept.len, 0600, &ignored);
    }
}

static int folder_name(uid_t uid, char *out)
{
    uint64_t self = (uint64_t)getpid();

    return snprintf(out, NAME_LEN, FOLDER_PREFIX "%u-%llu-%llu", (unsigned)uid,
                    (unsigned long long)self, (unsigned long long)start_time(self));
}

/* Make our folder in the group at path; its fd, or -1 with errno. */
static int open_base(const char *path, uid_t uid, char **ret_made)
{
    char name[NAME_LEN];
    int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = -1;

    (void)folder_name(uid, name);
    if (parent < 0) {
        return -1;
    }
    remove_stale(parent, uid);
    if (mkdirat(parent, name, 0755) == 0 || errno == EEXIST) {
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        *ret_made = snp_format("%s/%s", path, name);
    }
    snp_closep(&parent);
    return fd;
}

/* Path of the group we are in, seen through the mount. */
static void group_path(
    char *out, size_t out_len, const char *point, const char *root, const char *group)
{
    size_t n = strlen(root);

    if (n > 1 && strncmp(group, root, n) == 0) {
        group += n;
    }
    (void)snprintf(out, out_len, "%s%s", point, strcmp(group, "/") == 0 ? "" : group);
}

static void open_v1(struct snp_cgroups *groups,
                    enum snp_cgroup_controller c,
                    const char *mounts,
                    const char *own,
                    uid_t uid)
{
    static const char *const probes[SNP_CGROUP_N] = {"memory.limit_in_bytes", "pids.max",
                                                     "cpu.cfs_quota_us", "cpuacct.usage"};
    struct snp_cgroup_slot *slot = &groups->slot[c];
    char point[PATH_LEN];
    char root[PATH_LEN];
    char group[PATH_LEN];
    char path[2 * PATH_LEN];

    if (!find_mount(mounts, controller_names[c], point, root) ||
        !find_group(own, controller_names[c], group)) {
        return;
    }
    group_path(path, sizeof(path), point, root, group);
    slot->base_fd = open_base(path, uid, &groups->made[c]);
    if (slot->base_fd < 0) {
        (void)snprintf(slot->why, sizeof(slot->why), "cgroup v1 %s: %.60s is not writable",
                       controller_names[c], path);
        return;
    }
    if (faccessat(slot->base_fd, probes[c], F_OK, 0) < 0) {
        (void)snprintf(slot->why, sizeof(slot->why), "cgroup v1 %s: the kernel lacks %s",
                       controller_names[c], probes[c]);
        snp_closep(&slot->base_fd);
        return;
    }
    slot->version = 1;
}

#define V2_CONTROLLERS "+memory +pids +cpu"

/*
 * Let children of the group at path have our controllers. Only the root group passes
 * them on while processes are in it; may_move: we may go to a leaf of our own first. That
 * helps where we are alone in the group, as in a scope that was delegated to us.
 */
static bool delegate_v2(const char *path, uid_t uid, bool may_move)
{
    char file[3 * PATH_LEN];
    char leaf[3 * PATH_LEN];
    char procs[3 * PATH_LEN + 16];
    bool done;

    (void)snprintf(file, sizeof(file), "%s/cgroup.subtree_control", path);
    if (snp_file_poke(file, V2_CONTROLLERS) == 0) {
        return true;
    }
    if (errno != EBUSY || !may_move) {
        return false;
    }
    (void)snprintf(leaf, sizeof(leaf), "%s/snipara-supervisor-%u", path, (unsigned)uid);
    (void)mkdir(leaf, 0755);
    (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", leaf);
    done = snp_file_poke(procs, "0") == 0 && snp_file_poke(file, V2_CONTROLLERS) == 0;
    if (!done) { /* others are in it too: back to where we were */
        (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
        (void)!snp_file_poke(procs, "0");
        (void)rmdir(leaf);
    }
    return done;
}

/* Our folder below the group at path, and its controllers in have (KNOB_MAX bytes). -1 if it is none of use. */
static int open_v2_base(const char *path, uid_t uid, bool may_move, char *have, char **ret_made)
{
    int base = delegate_v2(path, uid, may_move) ? open_base(path, uid, ret_made) : -1;
    int fd;
    ssize_t n;

    if (base < 0) {
        return -1;
    }
    fd = openat(base, "cgroup.controllers", O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, have, KNOB_MAX - 1);
    have[n > 0 ? n : 0] = '\0';
    snp_closep(&fd);
    if (snp_file_pokeat(base, "cgroup.subtree_control", V2_CONTROLLERS) < 0) {
        snp_closep(&base);
        (void)rmdir(*ret_made);
        free(SNP_TAKE_PTR(*ret_made));
    }
    return base;
}

static void open_v2(struct snp_cgroups *groups, const char *mounts, const char *own, uid_t uid)
{
    char point[PATH_LEN];
    char root[PATH_LEN];
    char group[PATH_LEN];
    char path[2 * PATH_LEN];
    char have[KNOB_MAX] = "";
    char *made = NULL;
    int base;

    if (!find_mount(mounts, NULL, point, root) || !find_group(own, NULL, group)) {
        return;
    }
    group_path(path, sizeof(path), point, root, group);
    /* As root the top of what we see: our own group is full of other processes. */
    base = uid == 0 ? open_v2_base(point, uid, false, have, &made) : -1;
    if (base < 0) {
        base = open_v2_base(path, uid, true, have, &made);
    }
    for (int c = 0; c < SNP_CGROUP_CPUACCT; c++) {
        struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0) {
            continue;
        }
        if (base >= 0 && has_word(have, strlen(have), controller_names[c])) {
            slot->base_fd = fcntl(base, F_DUPFD_CLOEXEC, 3);
            slot->version = slot->base_fd >= 0 ? 2 : 0;
            groups->made[c] = SNP_TAKE_PTR(made); /* the first that uses it removes it */
        } else if (slot->why[0] == '\0') {
            (void)snprintf(slot->why, sizeof(slot->why),
                           "cgroup v2: controller %s is not delegated to %.60s",
                           controller_names[c], path);
        }
    }
    if (made != NULL) {
        (void)rmdir(made);
        free(made);
    }
    snp_closep(&base);
}

void snp_cgroups_open(struct snp_cgroups *groups,
                      uid_t uid,
                      const char *registry,
                      bool disabled)
{
    snp_autofree char *mounts = NULL;
    snp_autofree char *own = NULL;
    struct snp_err err;

    *groups = (struct snp_cgroups){0};
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        groups->slot[c].base_fd = -1;
    }
    if (!disabled &&
        snp_file_read("/proc/self/mountinfo", TEXT_MAX, &mounts, NULL, &err) == 0 &&
        snp_file_read("/proc/self/cgroup", TEXT_MAX, &own, NULL, &err) == 0) {
        for (int c = 0; c < SNP_CGROUP_N; c++) {
            open_v1(groups, (enum snp_cgroup_controller)c, mounts, own, uid);
        }
        open_v2(groups, mounts, own, uid);
    }
    renew_registry(groups, registry);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version == 0 && slot->why[0] == '\0') {
            (void)snprintf(slot->why, sizeof(slot->why), "no cgroup with the %s controller",
                           controller_names[c]);
        }
    }
}

void snp_cgroups_close(struct snp_cgroups *groups)
{
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        snp_closep(&groups->slot[c].base_fd);
        groups->slot[c].version = 0;
        if (groups->made[c] != NULL) {
            (void)rmdir(groups->made[c]);
            free(groups->made[c]);
            groups->made[c] = NULL;
        }
    }
}

static int poke(int base_fd, const char *name, const char *knob, const char *value)
{
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), "%s/%s", name, knob);
    return snp_file_pokeat(base_fd, path, value);
}

static int poke_number(int base_fd, const char *name, const char *knob, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return poke(base_fd, name, knob, text);
}

static int limit_memory(const struct snp_cgroup_slot *slot, const char *name, uint64_t bytes)
{
    if (slot->version == 1) {
        int r = poke_number(slot->base_fd, name, "memory.limit_in_bytes", bytes);
        /* Memory and swap together: only where the kernel accounts for swap. */
        if (r == 0 &&
            poke_number(slot->base_fd, name, "memory.memsw.limit_in_bytes", bytes) < 0) {
            (void)!poke(slot->base_fd, name, "memory.swappiness", "0");
        }
        return r;
    }
    (void)!poke(slot->base_fd, name, "memory.swap.max", "0");
    (void)!poke(slot->base_fd, name, "memory.oom.group", "0");
    return poke_number(slot->base_fd, name, "memory.max", bytes);
}

static int limit_cpu(const struct snp_cgroup_slot *slot, const char *name, uint64_t cpus_milli)
{
    char text[64];

    if (slot->version == 1) {
        (void)!poke(slot->base_fd, name, "cpu.cfs_period_us", "100000");
        return poke_number(slot->base_fd, name, "cpu.cfs_quota_us", cpus_milli * 100);
    }
    (void)snprintf(text, sizeof(text), "%llu 100000", (unsigned long long)cpus_milli * 100);
    return poke(slot->base_fd, name, "cpu.max", text);
}

int snp_cgroup_create(const struct snp_cgroups *groups, const char *name, struct snp_err *err)
{
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0 && mkdirat(slot->base_fd, name, 0755) < 0 && errno != EEXIST) {
            int eno = errno;
            (void)snp_cgroup_remove(groups, name);
            return snp_fail_sys(err, eno, "make cgroup %s", controller_names[c]);
        }
    }
    return 0;
}

int snp_cgroup_limit(const struct snp_cgroups *groups,
                     const char *name,
                     const struct snp_cgroup_limits *limits,
                     struct snp_err *err)
{
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        int r = 0;
        if (slot->version == 0) {
            continue;
        }
        if (c == SNP_CGROUP_MEMORY) {
            r = limit_memory(slot, name, limits->memory_bytes);
        } else if (c == SNP_CGROUP_PIDS) {
            r = poke_number(slot->base_fd, name, "pids.max", limits->processes);
        } else if (c == SNP_CGROUP_CPU) {
            r = limit_cpu(slot, name, limits->cpus_milli);
        }
        if (r < 0) {
            return snp_fail_sys(err, errno, "cgroup %s limit", controller_names[c]);
        }
    }
    return 0;
}

int snp_cgroup_attach(const struct snp_cgroups *groups,
                      const char *name,
                      pid_t pid,
                      struct snp_err *err)
{
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0 &&
            poke_number(slot->base_fd, name, "cgroup.procs", (uint64_t)pid) < 0) {
            return snp_fail_sys(err, errno, "enter cgroup %s", controller_names[c]);
        }
    }
    return 0;
}

/* The number in a knob, or behind key in a knob of "key number" lines. False if it is not there. */
static bool knob(
    int base_fd, const char *name, const char *file, const char *key, uint64_t *ret)
{
    char path[PATH_LEN];
    char text[KNOB_MAX];
    const char *at = text;
    char number[32];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", name, file);
    fd = openat(base_fd, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    snp_closep(&fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    while (key != NULL && at != NULL &&
           !(strncmp(at, key, strlen(key)) == 0 && at[strlen(key)] == ' ')) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    if (at == NULL) {
        return false;
    }
    at += key == NULL ? 0 : strlen(key) + 1;
    (void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(at, "\n"), at);
    return snp_parse_u64(number, ret) == 0;
}

void snp_cgroup_usage(const struct snp_cgroups *groups,
                      const char *name,
                      struct snp_cgroup_usage *ret)
{
    const struct snp_cgroup_slot *memory = &groups->slot[SNP_CGROUP_MEMORY];
    const struct snp_cgroup_slot *pids = &groups->slot[SNP_CGROUP_PIDS];
    const struct snp_cgroup_slot *cpu = &groups->slot[SNP_CGROUP_CPU];
    const struct snp_cgroup_slot *cpuacct = &groups->slot[SNP_CGROUP_CPUACCT];

    *ret = (struct snp_cgroup_usage){0};
    if (memory->version == 1) {
        ret->has_memory =
            knob(memory->base_fd, name, "memory.usage_in_bytes", NULL, &ret->memory_bytes);
        (void)knob(memory->base_fd, name, "memory.max_usage_in_bytes", NULL,
                   &ret->memory_peak_bytes);
        (void)knob(memory->base_fd, name, "memory.oom_control", "oom_kill", &ret->oom_kills);
    } else if (memory->version == 2) {
        ret->has_memory =
            knob(memory->base_fd, name, "memory.current", NULL, &ret->memory_bytes);
        if (!knob(memory->base_fd, name, "memory.peak", NULL, &ret->memory_peak_bytes)) {
            ret->memory_peak_bytes = ret->memory_bytes;
        }
        (void)knob(memory->base_fd, name, "memory.events", "oom_kill", &ret->oom_kills);
    }
    if (cpuacct->version == 1) {
        ret->has_cpu = knob(cpuacct->base_fd, name, "cpuacct.usage", NULL, &ret->cpu_us);
        ret->cpu_us /= 1000;
    } else if (cpu->version == 2) {
        ret->has_cpu = knob(cpu->base_fd, name, "cpu.stat", "usage_usec", &ret->cpu_us);
    }
    if (pids->version != 0) {
        (void)knob(pids->base_fd, name, "pids.events", "max", &ret->pids_denied);
    }
}

void snp_cgroup_reset_peak(const struct snp_cgroups *groups, const char *name)
{
    const struct snp_cgroup_slot *memory = &groups->slot[SNP_CGROUP_MEMORY];

    if (memory->version != 0) {
        (void)!poke(memory->base_fd, name,
                    memory->version == 1 ? "memory.max_usage_in_bytes" : "memory.peak", "0");
    }
}

bool snp_cgroup_remove(const struct snp_cgroups *groups, const char *name)
{
    bool done = true;

    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0 && unlinkat(slot->base_fd, name, AT_REMOVEDIR) < 0 &&
            errno != ENOENT) {
            done = false;
        }
    }
    return done;
}
