/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_FREEZE_H
#define SNP_GUEST_MODULE_FREEZE_H

/* The memory of a template, written so that guest/thaw can map it into another process. */

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/uio.h>

/* What a module may have set of its process, and no image has. */
struct snp_template_image_settings {
    long filters; /* seccomp; -1: the kernel does not say */
    mode_t umask;
    struct rlimit limits[RLIM_NLIMITS];
    struct timespec started; /* of the process; 1970: unknown */
};

/* Borrowed for ever. */
struct snp_template_image_source {
    const char *files; /* what was loaded, "PATH\0"...: files, folders and what is not there */
    size_t files_len;
    const struct snp_template_image_settings *began; /* when loading began */
    void (*entry)(void *start, size_t len); /* where the thawed process goes on; unmaps that */
};

/*
 * In a process with one thread: let a copy of it write an image to fd, a pipe, and go on at once.
 * The copy closes closed_fd and unmaps the n_hidden mappings first. If there is a reason why it
 * cannot be, nothing is written.
 */
void snp_template_image_send(const struct snp_template_image_source *source,
                             int fd,
                             int closed_fd,
                             const struct iovec *hidden,
                             size_t n_hidden);

/* Those of this process, which has one thread. */
void snp_template_image_settings_now(struct snp_template_image_settings *ret);

#endif
