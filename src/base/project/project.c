/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The project rule. The code can read the project, so a folder with keys, mail and browser profiles
 * is never allowed: the home folder itself, and all its parents.
 */
#include "base/project/project.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"

static bool is_normal(const char *path)
{
    const char *part = path + 1;

    while (*part != '\0') {
        size_t n = strcspn(part, "/");

        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        part += n;
        if (*part == '/') {
            part++;
            if (*part == '\0') {
                return false;
            }
        }
    }
    return true;
}

int snp_project_check(const char *path, const char *home, struct snp_err *err)
{
    size_t n = strnlen(path, SNP_PROJECT_PATH_MAX + 1);

    if (n > SNP_PROJECT_PATH_MAX) {
        return snp_fail(err, SNP_E_INVALID, "the project path is longer than %d bytes",
                        SNP_PROJECT_PATH_MAX);
    }
    if (path[0] != '/' || !is_normal(path)) {
        return snp_fail(err, SNP_E_INVALID,
                        "the project must be an absolute path without links, '.' or '..': %s",
                        path);
    }
    if (n == 1) {
        return snp_fail(err, SNP_E_DENIED,
                        "/ cannot be the project: it would show the whole machine; "
                        "name the folder of one project");
    }
    if (home != NULL && snp_has_prefix(home, path) && (home[n] == '/' || home[n] == '\0')) {
        return snp_fail(err, SNP_E_DENIED,
                        "%s cannot be the project: it would show everything in your home folder; "
                        "name a folder inside it, such as %s/project",
                        path, home);
    }
    return 0;
}
