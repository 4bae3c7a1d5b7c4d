/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/dir.h"
#include "guest/pid1/kill.h"

enum {
    ROUNDS_MAX = 200 /* of one millisecond */
};

/* The state letter in a "stat" of /proc; 'X' (dead) if it cannot be read. */
static char state_at(int dir_fd, const char *path)
{
    char text[512];
    snp_autoclose int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    const char *at;

    text[n < 0 ? 0 : n] = '\0';
    at = strrchr(text, ')'); /* ends the name, which may contain anything */
    return at == NULL || at[1] != ' ' ? 'X' : at[2];
}

static bool is_still(char state)
{
    return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

struct threads {
    unsigned n;
    unsigned n_moving;
};

static struct threads look(pid_t pid)
{
    struct threads ret = {0};
    const char *name;
    char path[300];

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    snp_autodir DIR *dir = opendir(path);
    while ((name = snp_dir_next(dir)) != NULL) {
        (void)snprintf(path, sizeof(path), "%s/stat", name);
        ret.n++;
        ret.n_moving += is_still(state_at(dirfd(dir), path)) ? 0 : 1;
    }
    return ret;
}

static bool was_stopped(const struct snp_stop *stop, pid_t pid)
{
    for (size_t i = 0; i < stop->n; i++) {
        if (stop->pid[i] == pid) {
            return true;
        }
    }
    return false;
}

static int remember(struct snp_stop *stop, pid_t pid)
{
    if (stop->n == stop->cap) {
        size_t cap = stop->cap == 0 ? 16 : stop->cap * 2;
        pid_t *grown = realloc(stop->pid, cap * sizeof(*grown));
        if (grown == NULL) {
            return -1;
        }
        stop->pid = grown;
        stop->cap = cap;
    }
    stop->pid[stop->n++] = pid;
    return 0;
}

void snp_stop_one(struct snp_stop *stop, pid_t pid)
{
    struct threads threads = look(pid);

    if (threads.n_moving == 0 || (pid == stop->interpreter && threads.n == 1)) {
        return; /* dead, exempt, or stopped by the code, which must find it so */
    }
    if (stop->is_counting) {
        stop->n_active++;
        return;
    }
    stop->n_moving++;
    if (!was_stopped(stop, pid) && remember(stop, pid) == 0) {
        (void)snp_init_kill(pid, SIGSTOP);
    }
}

bool snp_stop_again(struct snp_stop *stop)
{
    if (stop->rounds++ >= ROUNDS_MAX) {
        return false;
    }
    (void)poll(NULL, 0, stop->rounds < 3 ? 0 : 1);
    return true;
}

void snp_stop_done(struct snp_stop *stop)
{
    for (size_t i = 0; i < stop->n; i++) {
        (void)snp_init_kill(stop->pid[i], SIGCONT);
    }
    free(stop->pid);
    *stop = (struct snp_stop){0};
}
