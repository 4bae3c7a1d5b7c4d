/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_DIR_H
#define SNP_GUEST_DIR_H

/* Iteration over names in folders. */

#include <dirent.h>
#include <string.h>

#include "base/macro.h"

/* fd is consumed; -1 keeps its errno. NULL with errno. */
static inline DIR *snp_dir_of(int fd)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir == NULL) {
        snp_closep(&fd);
    }
    return dir;
}

/* The next name except "." and ".."; borrowed until the next call, NULL = end. dir may be NULL. */
static inline const char *snp_dir_next(DIR *dir)
{
    struct dirent *entry;

    do {
        entry = dir == NULL ? NULL : readdir(dir); /* NOLINT(concurrency-mt-unsafe): one thread */
    } while (entry != NULL &&
             (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry == NULL ? NULL : entry->d_name;
}

static inline void snp_dir_closep(DIR **dir)
{
    if (*dir != NULL) {
        (void)closedir(*dir);
    }
}

#define snp_autodir snp_cleanup(snp_dir_closep)

#endif
