/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/project.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/project/project.h"

/* The client has resolved the path; it is checked again here. */
int snp_session_project_check(const char *path, const char *home, struct snp_err *err)
{
    char real[PATH_MAX];
    struct stat st;

    SNP_TRY(snp_project_check(path, home, err));
    if (realpath(path, real) == NULL || stat(real, &st) < 0) {
        return snp_fail_sys(err, errno, "project %s", path);
    }
    if (strcmp(real, path) != 0) {
        return snp_fail(err, SNP_E_INVALID, "the project path goes through a link: %s is %s", path,
                        real);
    }
    if (!S_ISDIR(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "the project is not a folder: %s", path);
    }
    return 0;
}
