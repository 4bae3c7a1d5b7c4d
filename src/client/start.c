/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the daemon, and processes of runs.
 *
 * The daemon outlives its starter, so it inherits as little as possible: no descriptor, no blocked
 * signal, no terminal, and only the environment variables listed here. In particular no API key of
 * the shell it was started from.
 */
#include "client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    FD_INSIDE = 3, /* the number of the ready pipe, or of the socket, in the child */
    ENV_MAX = 256,
    WORDS_MAX = 256,
    LOG_READ_MAX = 4 << 20,
    FRESH_S = 60, /* older messages are about an earlier end */
};

/* Whole names, and prefixes (with '*'). */
static const char *const env_kept[] = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "LANG",
    "LC_*",
    "XDG_*",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "SNP_*",
    "SNIPARA_SANDBOX_*",
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "LSAN_OPTIONS",
    "LD_LIBRARY_PATH",
};
/* Never, although their names match the list above. */
static const char *const env_secret[] = {"KEY", "TOKEN", "SECRET", "PASSWORD"};
/* Except this one: the path of a file. */
static const char env_path[] = "SNIPARA_SANDBOX_STORE_KEY";

static bool is_kept(const char *variable)
{
    size_t n = strcspn(variable, "=");
    bool kept = false;
    char name[128];

    if (n >= sizeof(name)) {
        return false;
    }
    memcpy(name, variable, n);
    name[n] = '\0';
    for (size_t i = 0; i < SNP_ARRAY_LEN(env_kept); i++) {
        size_t len = strlen(env_kept[i]);

        kept |= env_kept[i][len - 1] == '*' ? strncmp(name, env_kept[i], len - 1) == 0
                                            : strcmp(name, env_kept[i]) == 0;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(env_secret); i++) {
        kept = kept && strstr(name, env_secret[i]) == NULL;
    }
    return kept || strcmp(name, env_path) == 0;
}

/*
 * Start a program that outlives this one: it forks at once, so that it is not our child; the caller
 * waits for *ret. log_fd: its standard error, -1 = none; fd becomes FD_INSIDE.
 */
static int spawn(
    char *const *argv, char *const *envp, int log_fd, int fd, pid_t *ret, struct snp_err *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    int eno;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, log_fd < 0 ? STDIN_FILENO : log_fd,
                                           STDERR_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, fd, FD_INSIDE);
    /* The program must not inherit descriptors of a program with the library. */
    (void)posix_spawn_file_actions_addclosefrom_np(&actions, FD_INSIDE + 1);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    eno = posix_spawn(ret, argv[0], &actions, &attr, argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    return eno == 0 ? 0 : snp_fail_sys(err, eno, "start %s", argv[0]);
}

static int daemon_spawn(char *program, int log_fd, int ready_fd, pid_t *ret, struct snp_err *err)
{
    static char flag[] = "--ready-fd";
    static char number[] = "3";
    char *const argv[] = {program, flag, number, NULL};
    char *envp[ENV_MAX + 1];
    size_t n_env = 0;

    for (char **e = environ; *e != NULL && n_env < ENV_MAX; e++) {
        if (is_kept(*e)) {
            envp[n_env++] = *e;
        }
    }
    envp[n_env] = NULL;
    return spawn(argv, envp, log_fd, ready_fd, ret, err);
}

int snp_run_process_start(int *ret_fd, struct snp_err *err)
{
    static char verb[] = "serve-run";
    snp_autofree char *program = NULL;
    snp_autofree char *suite = NULL;
    snp_autoclose int own = -1;
    snp_autoclose int other = -1;
    struct snp_err ignored;
    pid_t pid = -1;
    int status = 0;
    int ends[2];

    SNP_TRY(snp_own_program("snipara-sandbox", &program, err));
    if (snp_own_program("agent", &suite, &ignored) < 0) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "runs, diff, apply, export and import need the package "
                        "snipara-agent, which is not installed");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return snp_fail_sys(err, errno, "socketpair");
    }
    own = ends[0];
    other = fcntl(ends[1], F_DUPFD_CLOEXEC, FD_INSIDE + 1);
    (void)close(ends[1]);
    if (other < 0 || snp_set_nonblock(own, true) < 0) {
        return snp_fail_sys(err, errno, "socket");
    }
    SNP_TRY(spawn((char *const[]){program, verb, NULL}, environ, -1, other, &pid, err));
    /* With SIGCHLD ignored the result is unknown here; the other end of the socket shows it. */
    if (SNP_RETRY(waitpid(pid, &status, 0)) == pid && status != 0) {
        return snp_fail(err, SNP_E_PEER, "%s ended at once", program);
    }
    *ret_fd = SNP_TAKE_FD(own);
    return 0;
}

void snp_daemon_start_done(struct snp_daemon_start *start)
{
    if (start->fd >= 0) {
        snp_closep(&start->fd);
        (void)SNP_RETRY(waitpid(start->pid, NULL, 0));
    }
}

int snp_daemon_started(struct snp_daemon_start *start, struct snp_err *err)
{
    char words[WORDS_MAX];
    char byte;
    ssize_t n = SNP_RETRY(read(start->fd, &byte, 1));

    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    snp_daemon_start_done(start);
    return n == 1 ? 1
                  : snp_fail(err, SNP_E_PEER, "it ended at once%s",
                             snp_daemon_last_words(words, sizeof(words)));
}

int snp_daemon_start(struct snp_daemon_start *ret, struct snp_err *err)
{
    snp_autofree char *program = NULL;
    snp_autofree char *state = NULL;
    snp_autoclose int log_fd = -1;
    snp_autoclose int read_fd = -1;
    snp_autoclose int write_fd = -1;
    int ends[2];

    SNP_TRY(snp_own_program("snipara-sandboxd", &program, err));
    SNP_TRY(snp_state_dir(&state, err));
    SNP_TRY(snp_daemon_log_open(state, &log_fd, err));
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    read_fd = ends[0];
    /* Above its number in the child: a dup2 onto itself would keep CLOEXEC. */
    write_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, FD_INSIDE + 1);
    (void)close(ends[1]);
    if (write_fd < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    if (log_fd == FD_INSIDE) {
        int other = fcntl(log_fd, F_DUPFD_CLOEXEC, FD_INSIDE + 1);

        if (other < 0) {
            return snp_fail_sys(err, errno, "log");
        }
        snp_closep(&log_fd);
        log_fd = other;
    }
    SNP_TRY(daemon_spawn(program, log_fd, write_fd, &ret->pid, err));
    ret->fd = SNP_TAKE_FD(read_fd);
    return 0;
}

const char *snp_daemon_last_words(char *out, size_t out_len)
{
    snp_autofree char *state = NULL;
    snp_autofree char *path = NULL;
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    struct stat st;
    size_t n = 0;
    const char *line;

    out[0] = '\0';
    if (snp_state_dir(&state, &ignored) < 0) {
        return out;
    }
    path = snp_format("%s/daemon.log", state);
    if (path == NULL || stat(path, &st) < 0 || st.st_mtime + FRESH_S < time(NULL) ||
        snp_file_read(path, LOG_READ_MAX, &text, &n, &ignored) < 0) {
        return out;
    }
    while (n > 0 && text[n - 1] == '\n') {
        text[--n] = '\0';
    }
    line = strrchr(text, '\n');
    line = line == NULL ? text : line + 1;
    /* A line without a level is not from the log: a missing library, an abort. */
    if (*line != '\0' && !snp_has_prefix(line, "info ") && !snp_has_prefix(line, "warn ") &&
        !snp_has_prefix(line, "debug ")) {
        (void)snprintf(out, out_len, "; its last message: %s", line);
    }
    return out;
}
