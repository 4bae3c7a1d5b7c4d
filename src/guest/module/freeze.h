/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_FREEZE_H
#define SNP_GUEST_MODULE_FREEZE_H

/* Writes the memory of a template, so that guest/thaw can map it into another process. */

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Process settings that a module may change, and an image does not have. */
struct snp_template_image_settings {
    uint64_t filters; /* seccomp filters */
    mode_t umask;
    struct rlimit limits[RLIM_NLIMITS];
    struct timespec started; /* of the process; 1970: unknown */
};

/* Borrowed forever. */
struct snp_template_image_source {
    const char *files; /* loaded paths, "PATH\0"...: files, folders and missing ones */
    size_t files_len;
    const struct snp_template_image_settings *began; /* settings when loading began */
    /* where the thawed process continues; unmaps that, and calls snp_image_restore_kernel() */
    void (*entry)(void *start, size_t len);
};

/*
 * In a process with one thread: fork a copy that writes an image to fd, a pipe, and return at once.
 * The copy first closes closed_fd and unmaps the n_hidden mappings. If no image is possible, it
 * writes nothing.
 */
void snp_template_image_send(const struct snp_template_image_source *source,
                             int fd,
                             int closed_fd,
                             const struct iovec *hidden,
                             size_t n_hidden);

/* The current settings of this process, which has one thread. */
void snp_template_image_settings_now(struct snp_template_image_settings *ret);

#endif
