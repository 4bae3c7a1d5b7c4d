/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "guest/pid1/files.h"

enum {
    ARGS_MAX = 4096
};

static int input_fd(const char *bytes, size_t n)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC);

    if (fd < 0) { /* not allowed where no cgroup counts its pages */
        fd = open(snp_files_tmp(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }

    if (fd >= 0 && (snp_write_all(fd, bytes, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
        snp_closep(&fd);
    }
    return fd;
}

/* Look a program up in the PATH of the environment it will get, as a shell does. */
static void exec_in_path(char **argv, char **envp)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    char file[4096];

    for (char **e = envp; *e != NULL; e++) {
        path = strncmp(*e, "PATH=", 5) == 0 ? *e + 5 : path;
    }
    if (strchr(argv[0], '/') != NULL) {
        (void)execve(argv[0], argv, envp);
        return;
    }
    for (const char *at = path; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, ":");
        if (snprintf(file, sizeof(file), "%.*s/%s", (int)n, at, argv[0]) < (int)sizeof(file)) {
            (void)execve(file, argv, envp);
        }
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
            return;
        }
        at = at[n] == ':' ? at + n + 1 : NULL;
    }
}

static SNP_NORETURN void run_command(char **argv, char **envp, const char *cwd, int stdin_fd)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t none;
    int eno;

    /* We come from the interpreter's template, which ignores some. */
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &act, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    if (stdin_fd >= 0 && dup2(stdin_fd, 0) < 0) {
        _exit(126);
    }
    if (chdir(cwd) < 0) {
        (void)dprintf(2, "%s: %s\n", cwd, strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
        _exit(126);
    }
    exec_in_path(argv, envp);
    eno = errno;
    (void)dprintf(2, "%s: %s\n", argv[0],
                  eno == ENOENT ? "command not found"
                                : strerror(eno)); /* NOLINT(concurrency-mt-unsafe) */
    _exit(eno == ENOENT ? 127 : 126);
}

static char **take_list(struct snp_body *c)
{
    uint32_t n = (uint32_t)snp_body_take(c, 4);
    char **list = n > ARGS_MAX ? NULL : calloc((size_t)n + 1, sizeof(*list));

    if (list == NULL) {
        c->bad = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (char *)(uintptr_t)snp_body_text(c);
    }
    return list;
}

int snp_command_start(struct snp_init *in, uint32_t id, struct snp_body *c)
{
    char **argv = take_list(c);
    char **envp = take_list(c);
    const char *cwd = snp_body_text(c);
    bool has_stdin = snp_body_take(c, 1) != 0;
    int stdin_fd = -1;
    int r = c->bad || argv == NULL || argv[0] == NULL ? EINVAL : in->command != -1 ? EBUSY : 0;

    if (r == 0 && has_stdin) {
        stdin_fd = input_fd(c->at, (size_t)(c->end - c->at));
        r = stdin_fd < 0 ? errno : 0;
    }
    if (r == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            run_command(argv, envp, cwd, stdin_fd);
        }
        r = pid < 0 ? errno : 0;
        in->command = r == 0 ? pid : in->command;
        in->is_stopped = r == 0 ? false : in->is_stopped;
        in->command_id = r == 0 ? id : in->command_id;
    }
    snp_closep(&stdin_fd);
    free(argv);
    free(envp);
    return r;
}
