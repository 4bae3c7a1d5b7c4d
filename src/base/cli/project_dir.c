/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/project_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/project/project.h"
#include "base/str.h"

/* The nearest folder from here upwards that has .git, else this one; the caller frees. */
static char *around(void)
{
    char *here = realpath(".", NULL);
    snp_autofree char *at = here == NULL ? NULL : strdup(here);

    while (at != NULL && at[0] != '\0') {
        snp_autofree char *git = snp_format("%s/.git", at);

        if (git != NULL && access(git, F_OK) == 0) {
            free(here);
            return SNP_TAKE_PTR(at);
        }
        *strrchr(at, '/') = '\0';
    }
    return here;
}

/* Take a real path that may be a project. */
static int take(char **path, char **ret, struct snp_err *err)
{
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe) */
    snp_autofree char *real_home = home == NULL ? NULL : realpath(home, NULL);

    SNP_TRY(snp_project_check(*path, real_home, err));
    *ret = SNP_TAKE_PTR(*path);
    return 0;
}

int snp_project_dir(const char *dir, char **ret, struct snp_err *err)
{
    snp_autofree char *real = dir == NULL ? around() : realpath(dir, NULL);

    if (real == NULL) {
        return errno == ENOENT ? snp_fail(err, SNP_E_NOT_FOUND, "no folder '%.300s'", dir)
                               : snp_fail_sys(err, errno, "open %.300s", dir == NULL ? "." : dir);
    }
    return take(&real, ret, err);
}

int snp_project_shown(const char *dir, const char *flag, char **ret, struct snp_err *err)
{
    snp_autofree char *path = realpath(dir, NULL);
    struct stat st;

    if (path == NULL && errno == ENOENT) {
        return snp_fail(err, SNP_E_NOT_FOUND, "%s: no such folder: %s", flag,
                        dir[0] == '\0' ? "''" : dir);
    }
    if (path == NULL || stat(path, &st) < 0) {
        return snp_fail_sys(err, errno, "%s %s", flag, dir);
    }
    if (!S_ISDIR(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "%s: %s is not a folder", flag, dir);
    }
    return take(&path, ret, err);
}
