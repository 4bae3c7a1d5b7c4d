/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/self/mountinfo shows where a controller is mounted, /proc/self/cgroup which group we are
 * in. Version 1 is preferred if it has the controller, because a controller is in one version only.
 * On version 2 a group with processes cannot pass controllers on, so the user's systemd is asked
 * for a separate group; if that fails, in a group delegated to us all processes, including the
 * caller's shell and the supervisor, first move into a leaf.
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
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/str.h"
#include "os/scope.h"

enum {
    TEXT_MAX = 1 << 20,
    KNOB_MAX = 4096,
    PATH_LEN = 4096,
    NAME_LEN = 96,
    MOVED_MAX = 256, /* processes of a delegated group: with more none is moved */
    MOVE_ROUNDS = 8,
    SOCKET_SHARE = 32 /* 1/32 of the memory, at most */
};

#define FOLDER_PREFIX "snipara-sandbox-"
#define SOCKET_KNOB   "memory.kmem.tcp.limit_in_bytes"
#define LEAF_PREFIX   "snipara-supervisor-"

static const char *const controller_names[SNP_CGROUP_N] = {"memory", "pids", "cpu", "cpuacct"};

/* The comma-separated list contains word. */
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

/*
 * The n-th (from 0) space-separated field of a line; its length in *ret_len. NULL if there is none.
 */
static const char *field(const char *line, size_t n, size_t *ret_len)
{
    for (; n > 0; n--) {
        line += strcspn(line, " \n");
        if (*line != ' ') {
            return NULL;
        }
        line++;
    }
    *ret_len = strcspn(line, " \n");
    return line;
}

/* NULL after the last. */
static const char *next_line(const char *line)
{
    line = strchr(line, '\n');
    return line == NULL ? NULL : line + 1;
}

/*
 * Mount point and root of a hierarchy: of the version 1 controller, or (controller NULL) of version
 * 2. False if it is not mounted.
 */
static bool find_mount(const char *mountinfo,
                       const char *controller,
                       char *ret_point,
                       char *ret_root)
{
    for (const char *line = mountinfo; line != NULL && *line != '\0'; line = next_line(line)) {
        const char *dash = strstr(line, " - ");
        const char *eol = strchrnul(line, '\n');
        size_t type_len = 0;
        size_t options_len = 0;
        size_t root_len = 0;
        size_t point_len = 0;
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
        const char *root = field(line, 3, &root_len);
        const char *point = field(line, 4, &point_len);
        if (root == NULL || point == NULL) {
            continue;
        }
        (void)snprintf(ret_root, PATH_LEN, "%.*s", (int)root_len, root);
        (void)snprintf(ret_point, PATH_LEN, "%.*s", (int)point_len, point);
        return true;
    }
    return false;
}

/* Our own group in a hierarchy, e.g. "/user.slice"; controller NULL = version 2. */
static bool find_group(const char *cgroup, const char *controller, char *ret)
{
    for (const char *line = cgroup; line != NULL && *line != '\0'; line = next_line(line)) {
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

static void kill_members(int dir_fd)
{
    char line[32];
    FILE *file;
    int fd;

    if (snp_file_pokeat(dir_fd, "cgroup.kill", "1") == 0) {
        return; /* version 2 from 5.14: all at once, so that no fork escapes */
    }
    fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    file = fd < 0 ? NULL : fdopen(fd, "r");
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

/* Kill and remove a group folder and those below it; leftovers stay for the next start. */
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
    for (int i = 0; i < 50 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno == EBUSY; i++) {
        struct timespec pause = {.tv_nsec = 2000000};
        (void)nanosleep(&pause, NULL);
    }
}

/* name is one of our folders (PREFIX uid - pid - starttime) whose supervisor is gone. */
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
           snp_parse_u64(last + 1, &ticks) == 0 && snp_process_began(pid) != ticks;
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

/* Check one line of the registry, a path. True if it must be kept. */
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

/* Clean up by the registry and rewrite it with our folders. */
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
        /* On failure only the clean-up after a kill is less thorough. */
        (void)!snp_file_replace(registry, snp_buf_bytes(&kept), kept.len, 0600, &ignored);
    }
}

static int folder_name(uid_t uid, char *out)
{
    uint64_t self = (uint64_t)getpid();

    return snprintf(out, NAME_LEN, FOLDER_PREFIX "%u-%llu-%llu", (unsigned)uid,
                    (unsigned long long)self, (unsigned long long)snp_process_began(self));
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
        *ret_made = fd < 0 ? NULL : snp_format("%s/%s", path, name);
    }
    snp_closep(&parent);
    return fd;
}

/* Path of the group we are in, below the mount point. */
static void group_path(
    char *out, size_t out_len, const char *point, const char *root, const char *group)
{
    size_t n = strlen(root);

    if (n > 1 && strncmp(group, root, n) == 0 && (group[n] == '/' || group[n] == '\0')) {
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

/* Version 2. Sets of controllers are bit masks, 1 << SNP_CGROUP_MEMORY and so on. */

static unsigned controllers_in(int group_fd, const char *file)
{
    char text[KNOB_MAX];
    int fd = openat(group_fd, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    unsigned found = 0;

    snp_closep(&fd);
    for (int c = 0; n > 0 && c < SNP_CGROUP_CPUACCT; c++) {
        found |= has_word(text, (size_t)n, controller_names[c]) ? 1U << c : 0;
    }
    return found;
}

/*
 * Enable controllers for children of a group: one by one, because a delegated group often has only
 * some. Returns the wanted ones that are enabled.
 */
static unsigned pass_on(int group_fd, unsigned wanted)
{
    char word[16];

    for (int c = 0; c < SNP_CGROUP_CPUACCT; c++) {
        (void)snprintf(word, sizeof(word), "+%s", controller_names[c]);
        if ((wanted & 1U << c) != 0) {
            (void)!snp_file_pokeat(group_fd, "cgroup.subtree_control", word);
        }
    }
    return controllers_in(group_fd, "cgroup.subtree_control") & wanted;
}

/*
 * The group was delegated to us. systemd marks delegated groups with an attribute; otherwise a
 * group of ours inside one that is not ours. An ordinary group of ours is not enough: its manager
 * may want to add processes to it.
 */
static bool is_delegated(const char *path, uid_t uid)
{
    char parent[3 * PATH_LEN];
    char mark[2] = "";
    struct stat st;

    if (getxattr(path, "user.delegate", mark, sizeof(mark)) == 1 && mark[0] == '1') {
        return true;
    }
    (void)snprintf(parent, sizeof(parent), "%s/..", path);
    return uid != 0 && stat(path, &st) == 0 && st.st_uid == uid && stat(parent, &st) == 0 &&
           st.st_uid != uid;
}

static bool is_process_of(uint64_t pid, uid_t uid)
{
    char path[64];
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    const char *at;
    char number[32];
    uint64_t found;

    (void)snprintf(path, sizeof(path), "/proc/%llu/status", (unsigned long long)pid);
    if (snp_file_read(path, TEXT_MAX, &text, NULL, &ignored) < 0) {
        return false;
    }
    at = strstr(text, "\nUid:\t");
    if (at == NULL) {
        return false;
    }
    at += strlen("\nUid:\t");
    (void)snprintf(number, sizeof(number), "%.*s", (int)strspn(at, "0123456789"), at);
    return snp_parse_u64(number, &found) == 0 && found == uid;
}

/*
 * Read the processes of a group; their number, -1 if there are more than MOVED_MAX or it is
 * unreadable.
 */
static int members_of(int group_fd, uint64_t *out)
{
    int fd = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char line[32];
    int n = 0;

    if (file == NULL) {
        snp_closep(&fd);
        return -1;
    }
    while (n >= 0 && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        n = n < MOVED_MAX && snp_parse_u64(line, &out[n]) == 0 ? n + 1 : -1;
    }
    (void)fclose(file);
    return n;
}

/*
 * Processes prevent a group from passing controllers on; not in the root, the only one without a
 * type. Checked first, because the kernel would pass on controllers for threads, and then no
 * process can be put into a group below.
 */
static bool is_busy(int group_fd)
{
    uint64_t pids[MOVED_MAX];

    return faccessat(group_fd, "cgroup.type", F_OK, 0) == 0 && members_of(group_fd, pids) != 0;
}

/* Move all processes of one group into another, if all are the user's. */
static bool move_members(int from_fd, int to_fd, uid_t uid)
{
    uint64_t pids[MOVED_MAX];
    char number[32];
    int n = 1;

    for (int round = 0; n > 0 && round < MOVE_ROUNDS; round++) { /* some may fork during a round */
        n = members_of(from_fd, pids);
        for (int i = 0; i < n; i++) {
            (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)pids[i]);
            if (snp_process_began(pids[i]) != 0 &&
                (!is_process_of(pids[i], uid) ||
                 (snp_file_pokeat(to_fd, "cgroup.procs", number) < 0 && errno != ESRCH))) {
                return false;
            }
        }
    }
    return n >= 0;
}

/* Move the processes of a delegated group into a leaf; false if all stay where they are. */
static bool clear(int group_fd, uid_t uid)
{
    char leaf[NAME_LEN];
    bool done = false;
    int leaf_fd;

    (void)snprintf(leaf, sizeof(leaf), LEAF_PREFIX "%u", (unsigned)uid);
    if (mkdirat(group_fd, leaf, 0755) < 0 && errno != EEXIST) {
        return false;
    }
    leaf_fd = openat(group_fd, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (leaf_fd >= 0) {
        done = move_members(group_fd, leaf_fd, uid);
    }
    if (leaf_fd >= 0 && !done) {
        (void)move_members(leaf_fd, group_fd, uid);
        (void)unlinkat(group_fd, leaf, AT_REMOVEDIR);
    }
    snp_closep(&leaf_fd);
    return done;
}

struct v2_base {
    int fd;          /* our folder; -1 = none */
    char *made;      /* its path; owned */
    unsigned have;   /* controllers for groups in it */
    const char *why; /* why the others are missing */
};

/* Processes that may be moved out of a group so that it can pass controllers on. */
enum moving {
    MOVE_NOBODY = 0,
    MOVE_DELEGATED, /* all processes in a delegated group */
    MOVE_OWN,       /* the same, and it is known to be delegated */
};

/* Make our folder below the group at path, with the available ones of the wanted controllers. */
static void open_v2_base(
    struct v2_base *base, const char *path, uid_t uid, unsigned wanted, enum moving moving)
{
    snp_autoclose int group_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    base->why = "is not delegated to";
    wanted &= group_fd < 0 ? 0 : controllers_in(group_fd, "cgroup.controllers");
    if (wanted == 0) {
        return;
    }
    base->why = "needs permission to write to";
    if (faccessat(group_fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0) {
        return;
    }
    base->why = "is blocked by the processes in";
    if (is_busy(group_fd) &&
        (moving == MOVE_NOBODY || (moving == MOVE_DELEGATED && !is_delegated(path, uid)) ||
         !clear(group_fd, uid))) {
        return;
    }
    base->why = "cannot be passed on by";
    wanted = pass_on(group_fd, wanted);
    if (wanted != 0) {
        base->fd = open_base(path, uid, &base->made);
    }
    if (base->fd >= 0) {
        base->have = pass_on(base->fd, wanted);
    }
}

static void close_v2_base(struct v2_base *base)
{
    snp_closep(&base->fd);
    if (base->made != NULL) {
        (void)rmdir(base->made);
        free(SNP_TAKE_PTR(base->made));
    }
    base->have = 0;
}

/* Leave the leaf that an earlier tier in this group put us into. */
static void leave_leaf(char *path, uid_t uid)
{
    char leaf[NAME_LEN];
    char *slash = strrchr(path, '/');

    (void)snprintf(leaf, sizeof(leaf), LEAF_PREFIX "%u", (unsigned)uid);
    if (slash != NULL && strcmp(slash + 1, leaf) == 0) {
        *slash = '\0';
    }
}

/* Give empty slots the controllers of the base, or the reason for their absence. */
static void fill_slots(struct snp_cgroups *groups,
                       struct v2_base *base,
                       const char *path,
                       const char *scope)
{
    for (int c = 0; c < SNP_CGROUP_CPUACCT; c++) {
        struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0) {
            continue;
        }
        if ((base->have & 1U << c) != 0) {
            slot->base_fd = fcntl(base->fd, F_DUPFD_CLOEXEC, 3);
            slot->version = slot->base_fd >= 0 ? 2 : 0;
            groups->made[c] = SNP_TAKE_PTR(base->made); /* the first user removes it */
        } else if (slot->why[0] == '\0') {
            (void)snprintf(slot->why, sizeof(slot->why), "cgroup v2: controller %s %s %.60s%.60s",
                           controller_names[c], base->have != 0 ? "is not delegated to" : base->why,
                           path, base->have != 0 ? "" : scope);
        }
    }
}

/* The group we are in, below the mount point; false without version 2. */
static bool own_v2_path(const char *point, const char *root, const char *own, uid_t uid, char *out)
{
    char group[PATH_LEN];

    if (!find_group(own, NULL, group)) {
        return false;
    }
    group_path(out, (size_t)2 * PATH_LEN, point, root, group);
    leave_leaf(out, uid);
    return true;
}

/*
 * The group for an ordinary user: below the group we are in, if that has no other processes; else
 * below one that the user's systemd makes for us; else below our group after all, if it was
 * delegated and its processes can be moved into a leaf.
 */
static void open_v2_user(struct v2_base *base,
                         const char *point,
                         const char *root,
                         char *path,
                         unsigned wanted,
                         char *ret_scope)
{
    uid_t uid = geteuid();
    snp_autofree char *own = NULL;
    struct snp_err err;
    snp_autoclose int top_fd = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    open_v2_base(base, path, uid, wanted, MOVE_NOBODY);
    if (base->have != 0) {
        return;
    }
    close_v2_base(base);
    if (top_fd >= 0 && (controllers_in(top_fd, "cgroup.controllers") & wanted) != 0) {
        if (snp_scope_enter(uid, &err) == 0 &&
            snp_file_read("/proc/self/cgroup", TEXT_MAX, &own, NULL, &err) == 0 &&
            own_v2_path(point, root, own, uid, path)) {
            open_v2_base(base, path, uid, wanted, MOVE_OWN);
            return;
        }
        (void)snprintf(ret_scope, NAME_LEN, "; %.80s", err.msg);
    }
    open_v2_base(base, path, uid, wanted, MOVE_DELEGATED);
}

static void open_v2(struct snp_cgroups *groups, const char *mounts, const char *own, uid_t uid)
{
    char point[PATH_LEN];
    char root[PATH_LEN];
    char path[2 * PATH_LEN];
    char scope[NAME_LEN] = "";
    struct v2_base base = {.fd = -1};
    unsigned wanted = 0;

    for (int c = 0; c < SNP_CGROUP_CPUACCT; c++) {
        wanted |= groups->slot[c].version == 0 ? 1U << c : 0;
    }
    if (wanted == 0 || !find_mount(mounts, NULL, point, root) ||
        !own_v2_path(point, root, own, uid, path)) {
        return;
    }
    /* As root use the top of the visible hierarchy: our group is full of other processes. */
    if (uid == 0) {
        open_v2_base(&base, point, uid, wanted, MOVE_DELEGATED);
        if (base.have == 0 && strcmp(path, point) != 0) {
            close_v2_base(&base);
            open_v2_base(&base, path, uid, wanted, MOVE_DELEGATED);
        }
    } else {
        open_v2_user(&base, point, root, path, wanted, scope);
    }
    fill_slots(groups, &base, path, scope);
    close_v2_base(&base);
}

/* On version 2 controllers share one group: an earlier slot has the same. */
static bool is_shared(const struct snp_cgroups *groups, int c)
{
    for (int b = 0; b < c; b++) {
        if (groups->slot[c].version == 2 && groups->slot[b].version == 2) {
            return true;
        }
    }
    return false;
}

void snp_cgroups_open(struct snp_cgroups *groups, uid_t uid, const char *registry, bool disabled)
{
    snp_autofree char *mounts = NULL;
    snp_autofree char *own = NULL;
    struct snp_err err;

    *groups = (struct snp_cgroups){0};
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        groups->slot[c].base_fd = -1;
    }
    if (!disabled && snp_file_read("/proc/self/mountinfo", TEXT_MAX, &mounts, NULL, &err) == 0 &&
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

/*
 * On version 1 the kernel counts buffers of TCP and UDP sockets separately, and only once they have
 * a limit. So they get a part of the whole.
 */
uint64_t snp_cgroups_socket_part(const struct snp_cgroups *groups, uint64_t bytes)
{
    return groups->slot[SNP_CGROUP_MEMORY].version == 1 ? bytes / SOCKET_SHARE : 0;
}

static int limit_memory(const struct snp_cgroup_slot *slot, const char *name, uint64_t bytes)
{
    if (slot->version == 1) {
        const uint64_t sockets = bytes / SOCKET_SHARE;
        int r;

        bytes -= sockets;
        (void)!poke_number(slot->base_fd, name, SOCKET_KNOB, sockets);
        r = poke_number(slot->base_fd, name, "memory.limit_in_bytes", bytes);
        if (r < 0) { /* must not exceed the combined limit, if there is one */
            (void)!poke_number(slot->base_fd, name, "memory.memsw.limit_in_bytes", bytes);
            r = poke_number(slot->base_fd, name, "memory.limit_in_bytes", bytes);
        }
        /* Memory and swap together: only if the kernel accounts for swap. */
        if (r == 0 && poke_number(slot->base_fd, name, "memory.memsw.limit_in_bytes", bytes) < 0) {
            (void)!poke(slot->base_fd, name, "memory.swappiness", "0");
        }
        return r;
    }
    (void)!poke(slot->base_fd, name, "memory.swap.max", "0");
    (void)!poke(slot->base_fd, name, "memory.oom.group", "0");
    return poke_number(slot->base_fd, name, "memory.max", bytes);
}

/*
 * The average, over periods of 100 ms. Unused time of a period may be used in a later one (Linux
 * 5.14): otherwise some quick cells after a pause wait a quarter of a period, because copying the
 * interpreter also uses CPU time.
 */
static int limit_cpu(const struct snp_cgroup_slot *slot, const char *name, uint64_t cpus_milli)
{
    const char *burst = slot->version == 1 ? "cpu.cfs_burst_us" : "cpu.max.burst";
    const uint64_t quota_us = cpus_milli * 100;
    char text[64];
    int r;

    (void)!poke(slot->base_fd, name, burst, "0"); /* no quota may be below it */
    if (slot->version == 1) {
        (void)!poke(slot->base_fd, name, "cpu.cfs_period_us", "100000");
        r = poke_number(slot->base_fd, name, "cpu.cfs_quota_us", quota_us);
    } else {
        (void)snprintf(text, sizeof(text), "%llu 100000", (unsigned long long)quota_us);
        r = poke(slot->base_fd, name, "cpu.max", text);
    }
    if (r == 0) {
        (void)!poke_number(slot->base_fd, name, burst, quota_us);
    }
    return r;
}

bool snp_cgroups_bound_swap(const struct snp_cgroups *groups)
{
    const struct snp_cgroup_slot *slot = &groups->slot[SNP_CGROUP_MEMORY];
    const char *file = slot->version == 1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max";

    return slot->version != 0 && faccessat(slot->base_fd, file, W_OK, AT_EACCESS) == 0;
}

/*
 * The kernel's command line has this word in a list of parts that its memory controller leaves out.
 */
static bool is_left_out(const char *cmdline, const char *word)
{
    static const char key[] = "cgroup.memory=";
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    const char *at;

    if (snp_file_read(cmdline, TEXT_MAX, &text, NULL, &ignored) < 0) {
        return false;
    }
    at = strstr(text, key);
    return at != NULL && has_word(at + strlen(key), strcspn(at + strlen(key), " \n"), word);
}

const char *snp_cgroups_uncounted(const struct snp_cgroups *groups, const char *cmdline)
{
    const struct snp_cgroup_slot *slot = &groups->slot[SNP_CGROUP_MEMORY];

    if (slot->version == 0) {
        return NULL;
    }
    if (is_left_out(cmdline, "nokmem")) {
        return "what the kernel holds for the code (started with cgroup.memory=nokmem)";
    }
    if (slot->version == 2) {
        return is_left_out(cmdline, "nosocket")
                   ? "buffers of sockets (started with cgroup.memory=nosocket)"
                   : NULL;
    }
    /* Each group has the file, including the root of the hierarchy. */
    return faccessat(slot->base_fd, SOCKET_KNOB, W_OK, AT_EACCESS) == 0
               ? NULL
               : "buffers of TCP and UDP sockets (it has no " SOCKET_KNOB ")";
}

bool snp_swap_is_on(const char *table)
{
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    const char *line;

    if (snp_file_read(table, TEXT_MAX, &text, NULL, &ignored) < 0) {
        return false; /* a kernel without swap has no such file */
    }
    line = strchr(text, '\n'); /* after the heading */
    return line != NULL && line[1] != '\0';
}

int snp_cgroup_create(const struct snp_cgroups *groups, const char *name, struct snp_err *err)
{
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0 && !is_shared(groups, c) && mkdirat(slot->base_fd, name, 0755) < 0 &&
            errno != EEXIST) {
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

int snp_cgroup_set_processes(const struct snp_cgroups *groups, const char *name, uint64_t processes)
{
    const struct snp_cgroup_slot *slot = &groups->slot[SNP_CGROUP_PIDS];

    return slot->version == 0 ? 0 : poke_number(slot->base_fd, name, "pids.max", processes);
}

int snp_cgroup_set_memory(const struct snp_cgroups *groups, const char *name, uint64_t bytes)
{
    const struct snp_cgroup_slot *slot = &groups->slot[SNP_CGROUP_MEMORY];

    return slot->version == 0 ? 0 : limit_memory(slot, name, bytes);
}

int snp_cgroup_set_cpus(const struct snp_cgroups *groups, const char *name, uint64_t cpus_milli)
{
    const struct snp_cgroup_slot *slot = &groups->slot[SNP_CGROUP_CPU];

    return slot->version == 0 ? 0 : limit_cpu(slot, name, cpus_milli);
}

int snp_cgroup_attach(
    const struct snp_cgroups *groups, const char *name, pid_t pid, int version, struct snp_err *err)
{
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version == version && !is_shared(groups, c) &&
            poke_number(slot->base_fd, name, "cgroup.procs", (uint64_t)pid) < 0) {
            return snp_fail_sys(err, errno, "enter cgroup %s", controller_names[c]);
        }
    }
    return 0;
}

int snp_cgroup_doors(const struct snp_cgroups *groups,
                     const char *name,
                     int *ret_fds,
                     unsigned *ret_n,
                     struct snp_err *err)
{
    char path[PATH_LEN];

    *ret_n = 0;
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 1 || is_shared(groups, c)) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/tasks", name);
        ret_fds[*ret_n] = openat(slot->base_fd, path, O_WRONLY | O_CLOEXEC);
        if (ret_fds[*ret_n] < 0) {
            int eno = errno;
            while (*ret_n > 0) {
                snp_closep(&ret_fds[--*ret_n]);
            }
            return snp_fail_sys(err, eno, "open cgroup %s", controller_names[c]);
        }
        ++*ret_n;
    }
    return 0;
}

bool snp_cgroup_contains(const struct snp_cgroups *groups, const char *name, pid_t pid)
{
    char path[PATH_LEN];
    char line[24];
    char text[256];

    (void)snprintf(line, sizeof(line), "%d\n", (int)pid);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version == 0 || is_shared(groups, c)) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/cgroup.procs", name);
        int fd = openat(slot->base_fd, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : SNP_RETRY(read(fd, text, sizeof(text) - 1));
        snp_closep(&fd);
        text[n > 0 ? n : 0] = '\0';
        const char *at = strstr(text, line);
        if (at == NULL || (at != text && at[-1] != '\n')) {
            return false;
        }
    }
    return true;
}

bool snp_cgroup_remove(const struct snp_cgroups *groups, const char *name)
{
    bool done = true;

    for (int c = 0; c < SNP_CGROUP_N; c++) {
        const struct snp_cgroup_slot *slot = &groups->slot[c];
        if (slot->version != 0 && !is_shared(groups, c) &&
            unlinkat(slot->base_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
            done = false;
        }
    }
    return done;
}
