/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/docker/line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"
#include "guest/dir.h"
#include "tier/engine/stream/handle.h"

enum {
    PROC_MAX = 64 << 10,
};

static const char prefix[] = "line-";

void snp_line_init(struct snp_line *line)
{
    *line = (struct snp_line){.fd = -1, .ends = {-1, -1, -1}};
}

static void remove_folder(const char *folder)
{
    char path[sizeof(((struct snp_line *)0)->folder) + sizeof(SNP_CONTAINER_SOCKET) + 1];

    (void)snprintf(path, sizeof(path), "%s/" SNP_CONTAINER_SOCKET, folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void hang_up(struct snp_line *line)
{
    snp_handle_close(&line->poll);
    snp_closep(&line->fd);
}

void snp_line_close(struct snp_line *line)
{
    hang_up(line);
    for (size_t i = 0; i < SNP_ARRAY_LEN(line->ends); i++) {
        snp_closep(&line->ends[i]);
    }
    if (line->folder[0] != '\0') {
        remove_folder(line->folder);
        line->folder[0] = '\0';
    }
}

static void on_line(uv_poll_t *poll, int status, int events);

static bool proc_says(pid_t pid, const char *file, const char *text)
{
    char path[64];
    snp_autofree char *content = NULL;
    struct snp_err ignored;
    size_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return snp_file_read(path, PROC_MAX, &content, &n, &ignored) == 0 &&
           strstr(content, text) != NULL;
}

/*
 * Is the peer pid 1 of our container? Only that process has both pid 1 in a new namespace and the
 * container's cgroup.
 */
static bool is_awaited(const struct snp_line *line, int fd)
{
    struct ucred peer = {0};
    socklen_t n = sizeof(peer);

    return snp_line_has_ends(line) && line->container[0] != '\0' &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid > 0 &&
           proc_says(peer.pid, "cgroup", line->container) &&
           proc_says(peer.pid, "status", "\t1\nNSpgid:");
}

/* Send the ends. Ours stay open until pid 1 confirms that it has them. */
static void take_call(struct snp_line *line)
{
    int fd = SNP_RETRY(accept4(line->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    uv_loop_t *loop = line->poll->loop;

    if (fd < 0 || !is_awaited(line, fd)) {
        snp_closep(&fd);
        return;
    }
    hang_up(line);
    if (snp_send_fds(fd, "s", 1, line->ends, SNP_ARRAY_LEN(line->ends)) < 0) {
        snp_closep(&fd);
        return;
    }
    line->fd = fd;
    line->has_caller = true;
    line->poll = snp_poll_new(loop, fd, line);
    if (line->poll == NULL || uv_poll_start(line->poll, UV_READABLE, on_line) < 0) {
        hang_up(line);
    }
}

static void on_line(uv_poll_t *poll, int status, int events)
{
    struct snp_line *line = poll->data;
    char byte;

    (void)status;
    (void)events;
    if (!line->has_caller) {
        take_call(line);
    } else if (SNP_RETRY(read(line->fd, &byte, 1)) == 1) {
        snp_line_close(line);
    } else {
        hang_up(line); /* it could not receive them */
    }
}

/* Bind by a short name, because the folder's path may exceed a socket address. */
static int bind_in(int fd, const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snp_autoclose int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

    (void)snprintf(address.sun_path, sizeof(address.sun_path),
                   "/proc/self/fd/%d/" SNP_CONTAINER_SOCKET, dir);
    return dir < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
                   fchmodat(dir, SNP_CONTAINER_SOCKET, 0666, 0) < 0 || listen(fd, 1) < 0
               ? -1
               : 0;
}

int snp_line_open(struct snp_line *line,
                  uv_loop_t *loop,
                  const char *state_dir,
                  const char *name,
                  const char *container,
                  struct snp_err *err)
{
    char folder[sizeof(line->folder)];

    if (snprintf(folder, sizeof(folder), "%s/%s%s", state_dir, prefix, name) >=
        (int)sizeof(folder)) {
        return snp_fail(err, SNP_E_LIMIT, "the path of the state folder is too long: %.200s",
                        state_dir);
    }
    line->container = container;
    line->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line->fd < 0 || mkdir(folder, 0755) < 0) {
        return snp_fail_sys(err, errno, "mkdir %.300s", folder);
    }
    memcpy(line->folder, folder, sizeof(folder));
    /* The parent folder restricts access; the umask may be strict. */
    if (chmod(folder, 0755) < 0 || bind_in(line->fd, folder) < 0) {
        return snp_fail_sys(err, errno, "a socket in %.300s", folder);
    }
    line->poll = snp_poll_new(loop, line->fd, line);
    if (line->poll == NULL || uv_poll_start(line->poll, UV_READABLE, on_line) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

void snp_line_clean(const char *state_dir, const char *ours)
{
    snp_autodir DIR *dir = opendir(state_dir);
    const char *name;

    while ((name = snp_dir_next(dir)) != NULL) {
        char folder[sizeof(((struct snp_line *)0)->folder)];

        if (snp_has_prefix(name, prefix) && !snp_has_prefix(name + strlen(prefix), ours) &&
            snprintf(folder, sizeof(folder), "%s/%s", state_dir, name) < (int)sizeof(folder)) {
            remove_folder(folder);
        }
    }
}
