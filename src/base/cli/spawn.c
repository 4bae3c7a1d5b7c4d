/* SPDX-License-Identifier: Apache-2.0 */
/* Run programs and wait for them. They stay in our process group, so Ctrl-C reaches them too. */
#include "base/cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/cli/need.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    CHUNK = 16 << 10
};

/* Our environment without variables that change how Python behaves. NULL when out of memory. */
static char **environment(void)
{
    size_t n = 0;
    size_t kept = 0;
    char **env;

    while (environ[n] != NULL) {
        n++;
    }
    env = snp_need(calloc(n + 1, sizeof(*env)));
    for (size_t i = 0; env != NULL && i < n; i++) {
        if (!snp_has_prefix(environ[i], "PYTHON") &&
            !snp_has_prefix(environ[i], "__PYVENV_LAUNCHER__")) {
            env[kept++] = environ[i];
        }
    }
    return env;
}

static int collect(int fd, struct snp_buf *out, struct snp_err *err)
{
    char chunk[CHUNK];

    for (;;) {
        ssize_t n = SNP_RETRY(read(fd, chunk, sizeof(chunk)));

        if (n <= 0) {
            return n < 0 ? snp_fail_sys(err, errno, "read its answer") : 0;
        }
        if (snp_buf_add(out, chunk, (size_t)n) < 0) {
            return snp_fail(err, SNP_E_LIMIT, "its answer is too long");
        }
    }
}

static int start(const char *const *argv, int out_fd, pid_t *ret_pid, struct snp_err *err)
{
    char **env = environment();
    posix_spawn_file_actions_t actions;
    int eno;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
    eno = posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    free((void *)env);
    return eno == 0 ? 0 : snp_fail_sys(err, eno, "run %.200s", argv[0]);
}

int snp_spawn_status(const char *const *argv,
                     struct snp_buf *out,
                     int *ret_status,
                     struct snp_err *err)
{
    int pair[2] = {-1, -1};
    int status = 0;
    pid_t pid = -1;
    int r;

    if (out != NULL && pipe2(pair, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    r = start(argv, out == NULL ? STDERR_FILENO : pair[1], &pid, err);
    snp_closep(&pair[1]);
    if (r == 0) {
        r = out == NULL ? 0 : collect(pair[0], out, err);
        snp_closep(&pair[0]); /* ends a program that prints too much */
        if (SNP_RETRY(waitpid(pid, &status, 0)) < 0) {
            status = -1;
        }
    }
    snp_closep(&pair[0]);
    if (r < 0) {
        return r;
    }
    if (WIFSIGNALED(status)) {
        return snp_fail(err, SNP_E_PEER, "%.200s was ended by signal %d", argv[0],
                        WTERMSIG(status));
    }
    *ret_status = WEXITSTATUS(status);
    return 0;
}

int snp_spawn(const char *const *argv, struct snp_buf *out, struct snp_err *err)
{
    int status = 0;
    int r = snp_spawn_status(argv, out, &status, err);

    return r < 0 || status == 0
               ? r
               : snp_fail(err, SNP_E_PEER, "%.200s failed with status %d", argv[0], status);
}

int snp_become(const char *name, char *const *argv, struct snp_err *err)
{
    snp_autofree char *program = NULL;
    int r = snp_own_program(name, &program, err);

    if (r < 0) {
        return r;
    }
    (void)execv(program, argv);
    return snp_fail_sys(err, errno, "run %s", program);
}
