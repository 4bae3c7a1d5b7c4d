/* SPDX-License-Identifier: Apache-2.0 */
#include "context/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "context/walk.h"

enum {
    QUIET_MS = 200,
    LATEST_MS = 2000,
    PATH_LEN = 32,
    EVENTS_BYTES = 16 << 10,
};

static const uint32_t changes =
    IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE | IN_CLOSE_WRITE | IN_ATTRIB;

static int folder_watch(void *arg, int dir_fd, struct snp_err *err)
{
    const int *fd = arg;
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
    if (inotify_add_watch(*fd, path, changes) >= 0 || errno == ENOENT) { /* removed since */
        return 0;
    }
    return errno == ENOSPC
               ? snp_fail(err, SNP_E_LIMIT,
                          "the project has more folders than fs.inotify.max_user_watches lets "
                          "this user watch; raise it (sysctl), or index without --watch")
               : snp_fail_sys(err, errno, "watch a folder");
}

int snp_watch_folders(int root_fd, int *fd, struct snp_err *err)
{
    struct stat st;

    if (fstat(root_fd, &st) == 0 && st.st_nlink == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the project's folder was removed");
    }
    if (*fd < 0) {
        *fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    }
    if (*fd < 0) {
        return snp_fail_sys(err, errno, "inotify");
    }
    return snp_walk_folders(root_fd, folder_watch, fd, err);
}

int snp_watch_wait(int fd, struct snp_err *err)
{
    char events[EVENTS_BYTES];
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    uint64_t until_us = UINT64_MAX;

    for (;;) {
        int n = SNP_RETRY(poll(&poll_fd, 1, until_us == UINT64_MAX ? -1 : QUIET_MS));

        if (n < 0) {
            return snp_fail_sys(err, errno, "poll");
        }
        if (n == 0 || snp_now_us() > until_us) {
            return 0;
        }
        /* The index finds out which files changed; a full queue is enough for that. */
        if (SNP_RETRY(read(fd, events, sizeof(events))) < 0 && errno != EAGAIN) {
            return snp_fail_sys(err, errno, "inotify");
        }
        if (until_us == UINT64_MAX) {
            until_us = snp_now_us() + (uint64_t)LATEST_MS * 1000;
        }
    }
}
