/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/fd.h"
#include "base/str.h"

/* A device or FIFO, or a link to one (/dev/stdout), which is equivalent. */
static int special_open(const char *path, int *ret_fd, struct snp_err *err)
{
    struct stat st;
    snp_autoclose int fd = -1;

    if (stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode))) {
        fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
            return snp_fail_sys(err, errno, "open %s", path);
        }
    }
    if (fd < 0 || (!S_ISCHR(st.st_mode) && !S_ISFIFO(st.st_mode))) {
        return snp_fail(err, SNP_E_INVALID,
                        "%.100s is not a regular file, and is not replaced; name another, or - "
                        "for standard output",
                        path);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

int snp_target_open(const char *path, bool may_replace, struct snp_target *ret, struct snp_err *err)
{
    struct stat st;
    char id[33];
    bool is_there;

    *ret = (struct snp_target){.fd = STDOUT_FILENO};
    if (strcmp(path, "-") == 0) {
        return 0;
    }
    *ret = (struct snp_target){.path = path, .fd = -1};
    is_there = lstat(path, &st) == 0;
    if (!is_there && errno != ENOENT) {
        return snp_fail_sys(err, errno, "look at %s", path);
    }
    if (is_there && !S_ISREG(st.st_mode)) {
        return special_open(path, &ret->fd, err);
    }
    if (is_there && !may_replace) {
        return snp_fail(err, SNP_E_DENIED, "%s exists; --force replaces it", path);
    }
    if (snp_random_id(id) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    ret->temporary = snp_need_format("%s.%s.part", path, id);
    ret->fd = open(ret->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (ret->fd < 0) {
        int eno = errno;

        free(SNP_TAKE_PTR(ret->temporary)); /* not ours to remove */
        return eno == ENOENT ? snp_fail(err, SNP_E_NOT_FOUND,
                                        "the folder of %s does not exist; make it first", path)
                             : snp_fail_sys(err, eno, "create %s", path);
    }
    return 0;
}

int snp_target_commit(struct snp_target *target, int mode, struct snp_err *err)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    if (target->temporary == NULL) {
        return 0; /* written into standard output, a device or FIFO */
    }
    if ((mode >= 0 && fchmod(target->fd, ((mode_t)mode & 0777) & ~mask) < 0) ||
        fsync(target->fd) < 0 || rename(target->temporary, target->path) < 0) {
        return snp_fail_sys(err, errno, "write %s", target->path);
    }
    free(SNP_TAKE_PTR(target->temporary));
    return 0;
}

void snp_target_done(struct snp_target *target)
{
    if (target->temporary != NULL) {
        (void)unlink(target->temporary);
    }
    if (target->path != NULL) {
        snp_closep(&target->fd);
    }
    free(target->temporary);
}
