/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An overlay shows a single file system: mounts inside the folder would disappear and reveal the
 * folders below them. So an overlay is made for each of these mounts, too. The kernel refuses this
 * to an ordinary user, who could see below the mounts.
 */
#include "tier/native/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    PATH_LEN = 4096,
    INNER_MAX = 64,
    MOUNTINFO_MAX = 4 << 20
};

/* The kernel escapes blanks and the like in paths as \ooo. */
static void unescape(char *path)
{
    char *to = path;

    for (const char *at = path; *at != '\0'; to++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] != '\0' && at[3] != '\0') {
            *to = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
            at += 4;
        } else {
            *to = *at++;
        }
    }
    *to = '\0';
}

/*
 * Bind the folder with its inner mounts, because without them the folders below would be revealed.
 */
int snp_overlay_bind(int fd, const char *path)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    snp_autoclose int tree = (int)syscall(SYS_open_tree, fd, "",
                                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                                              (unsigned)AT_RECURSIVE | (unsigned)AT_EMPTY_PATH);

    return tree < 0 ||
                   syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
                   syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof(attr)) < 0
               ? -1
               : 0;
}

/* The fifth field of a line of mountinfo: the mount point. */
static bool read_place(const char *line, char *place)
{
    size_t n;

    for (int i = 1; i < 5; i++) {
        line += strcspn(line, " \n");
        line += *line == ' ' ? 1 : 0;
    }
    n = strcspn(line, " \n");
    if (n == 0 || n >= PATH_LEN) {
        return false;
    }
    memcpy(place, line, n);
    place[n] = '\0';
    unescape(place);
    return true;
}

/* A mount inside a folder. */
struct inner {
    int fd;
    char path[PATH_LEN]; /* relative to the folder */
};

/* Find the mounts in the folder fd, outer ones first; returns their number, -1 if above n. */
static int find_inner(int fd, struct inner *list, int n)
{
    snp_autofree char *text = NULL;
    char self[40];
    char top[PATH_LEN + 1];
    struct snp_err err;
    ssize_t len;
    int found = 0;

    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    len = readlink(self, top, sizeof(top) - 1);
    if (len <= 0 || snp_file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL, &err) < 0) {
        return -1;
    }
    top[len] = '/';
    len += top[len - 1] == '/' ? 0 : 1; /* with one final slash, the root as well */
    top[len] = '\0';
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        char at[PATH_LEN];

        next = strchr(line, '\n');
        next = next == NULL ? NULL : next + 1;
        if (!read_place(line, at) || !snp_has_prefix(at, top)) {
            continue;
        }
        if (found == n) {
            return -1;
        }
        (void)snprintf(list[found].path, PATH_LEN, "%s", at + len);
        list[found].fd = openat(fd, list[found].path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        found += list[found].fd >= 0 ? 1 : 0; /* a covered mount is invisible outside, too */
    }
    return found;
}

static int lay_over(int fd, const char *path, const char *empty)
{
    struct stat st;
    char data[PATH_LEN + 64];

    if (fstat(fd, &st) < 0) {
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        return S_ISREG(st.st_mode) ? snp_overlay_bind(fd, path) : 0;
    }
    (void)snprintf(data, sizeof(data), "lowerdir=/proc/self/fd/%d:%s,userxattr", fd, empty);
    return mount("overlay", path, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, data);
}

int snp_overlay_show(int fd, const char *path, const char *empty)
{
    struct inner *inner = calloc(INNER_MAX, sizeof(*inner));
    int n = inner == NULL ? -1 : find_inner(fd, inner, INNER_MAX);
    int r = n < 0 ? -1 : lay_over(fd, path, empty);
    int eno = errno;

    for (int i = 0; i < n; i++) {
        char at[2 * PATH_LEN];

        (void)snprintf(at, sizeof(at), "%s/%s", path, inner[i].path);
        if (r == 0 && lay_over(inner[i].fd, at, empty) < 0) {
            r = -1;
            eno = errno;
            (void)umount2(path, MNT_DETACH);
        }
        (void)close(inner[i].fd);
    }
    free(inner);
    errno = eno;
    return r;
}

int snp_overlay_try(void)
{
    int fd;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m") < 0 || mkdir("/tmp/empty", 0755) < 0 ||
        mkdir("/tmp/usr", 0755) < 0) {
        return -1;
    }
    fd = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : snp_overlay_show(fd, "/tmp/usr", "/tmp/empty");
}
