/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bus is used through busctl, which is part of systemd: without it there is no service manager
 * either, and a library for one call on few hosts would be loaded by all supervisors. Its answer is
 * not trusted: we are in the scope when the kernel says so.
 */
#include "os/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    ASK_MS = 6000,
    MOVED_ROUNDS = 300,
    MOVED_MS = 10,
    NAME_LEN = 64,
    NUMBER_LEN = 24,
    ADDRESS_LEN = 4096,
    CGROUP_MAX = 64 << 10
};

#define BUSCTL "/usr/bin/busctl"

/* The path is a socket of the user. */
static bool is_own_socket(const char *path, uid_t uid)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == uid;
}

/* "DBUS_SESSION_BUS_ADDRESS=..." of the user's bus; false without one. */
static bool find_bus(uid_t uid, char *out)
{
    const char *address =
        getenv("DBUS_SESSION_BUS_ADDRESS");          /* NOLINT(concurrency-mt-unsafe): one thread */
    const char *runtime = getenv("XDG_RUNTIME_DIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char path[ADDRESS_LEN / 2];

    if (address != NULL && *address != '\0') {
        return snprintf(out, ADDRESS_LEN, "DBUS_SESSION_BUS_ADDRESS=%s", address) < ADDRESS_LEN;
    }
    if (runtime != NULL && runtime[0] == '/' &&
        snprintf(path, sizeof(path), "%s/bus", runtime) < (int)sizeof(path) &&
        is_own_socket(path, uid)) {
        return snprintf(out, ADDRESS_LEN, "DBUS_SESSION_BUS_ADDRESS=unix:path=%s", path) > 0;
    }
    (void)snprintf(path, sizeof(path), "/run/user/%u/bus", (unsigned)uid);
    return is_own_socket(path, uid) &&
           snprintf(out, ADDRESS_LEN, "DBUS_SESSION_BUS_ADDRESS=unix:path=%s", path) > 0;
}

/* Its exit status; -1 if it could not be run or did not end in time. */
static int run(char *const argv[], char *const envp[])
{
    posix_spawn_file_actions_t actions;
    struct pollfd ended = {.fd = -1, .events = POLLIN};
    int status = -1;
    pid_t pid = -1;

    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    for (int fd = 0; fd <= 2; fd++) {
        (void)posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    }
    if (posix_spawn(&pid, argv[0], &actions, NULL, argv, envp) != 0) {
        pid = -1;
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (pid < 0) {
        return -1;
    }
    ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (ended.fd >= 0 && SNP_RETRY(poll(&ended, 1, ASK_MS)) != 1) {
        (void)kill(pid, SIGKILL); /* its time limit is shorter */
    }
    snp_closep(&ended.fd);
    if (SNP_RETRY(waitpid(pid, &status, 0)) != pid || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

/* The kernel reports that we are in the scope called name. */
static bool is_in(const char *name)
{
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    const char *at;
    size_t n = strlen(name);

    if (snp_file_read("/proc/self/cgroup", CGROUP_MAX, &text, NULL, &ignored) < 0) {
        return false;
    }
    at = snp_has_prefix(text, "0::") ? text : strstr(text, "\n0::");
    if (at == NULL) {
        return false;
    }
    at += *at == '\n' ? 1 : 0;
    at += strcspn(at, "\n") - n; /* a line of "0::/" and a name is longer */
    return at > text && at[-1] == '/' && strncmp(at, name, n) == 0;
}

int snp_scope_enter(uid_t uid, struct snp_err *err)
{
    static char address[ADDRESS_LEN];
    char name[NAME_LEN];
    char pid[NUMBER_LEN];
    const char *const argv[] = {BUSCTL,
                                "--user",
                                "--quiet",
                                "--timeout=5",
                                "call",
                                "org.freedesktop.systemd1",
                                "/org/freedesktop/systemd1",
                                "org.freedesktop.systemd1.Manager",
                                "StartTransientUnit",
                                "ssa(sv)a(sa(sv))",
                                name,
                                "fail",
                                "4",
                                "Description",
                                "s",
                                "supervisor of sandboxes (snipara-sandbox)",
                                "PIDs",
                                "au",
                                "1",
                                pid,
                                "Delegate",
                                "b",
                                "true",
                                "CollectMode",
                                "s",
                                "inactive-or-failed",
                                "0",
                                NULL};
    char *const envp[] = {address, (char *)(uintptr_t) "LC_ALL=C", NULL};

    if (access(BUSCTL, X_OK) < 0) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "this host has no systemd (busctl)");
    }
    if (!find_bus(uid, address)) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "the user has no session bus");
    }
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    (void)snprintf(name, sizeof(name), "snipara-sandbox-%d.scope", (int)getpid());
    switch (run((char *const *)(uintptr_t)argv, envp)) {
    case 0:
        break;
    case -1:
        return snp_fail(err, SNP_E_TIMEOUT, "the user's systemd does not answer");
    default:
        return snp_fail(err, SNP_E_DENIED, "the user's systemd refused a scope");
    }
    for (int i = 0; i < MOVED_ROUNDS; i++) {
        if (is_in(name)) {
            return 0;
        }
        (void)poll(NULL, 0, MOVED_MS);
    }
    return snp_fail(err, SNP_E_TIMEOUT, "the user's systemd did not move us");
}
