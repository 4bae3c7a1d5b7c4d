/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which part of an interpreter is shown: the folder it was installed into, if that does not also
 * contain users' files.
 */
#include "base/policy/prefix.h"

#include <string.h>

#include "base/str.h"

/* Parents of home folders, and folders that every sandbox replaces. */
static const char *const home_roots[] = {"/home", "/Users"};
static const char *const covered[] = {"/tmp", "/dev",       "/proc", "/sys",
                                      "/run", "/workspace", "/etc"};

/* path is dir, or below it. */
static bool is_within(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

bool snp_prefix_is_system(const char *path)
{
    return is_within(path, "/usr");
}

bool snp_prefix_is_covered(const char *path)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(covered); i++) {
        if (is_within(path, covered[i])) {
            return true;
        }
    }
    return false;
}

static bool is_home(const char *path, const char *home)
{
    if (home != NULL && is_within(home, path)) {
        return true;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(home_roots); i++) {
        size_t n = strlen(home_roots[i]);
        if (is_within(path, home_roots[i]) &&
            (path[n] == '\0' || strchr(path + n + 1, '/') == NULL)) {
            return true;
        }
    }
    return snp_streq(path, "/root") || snp_streq(path, "/var");
}

int snp_prefix_check(const char *path, const char *home, struct snp_err *err)
{
    if (path[0] != '/') {
        return snp_fail(err, SNP_E_INVALID, "not an absolute path: %s", path);
    }
    if (path[1] == '\0' || is_home(path, home)) {
        return snp_fail(err, SNP_E_DENIED,
                        "%s would show more than an interpreter, because it is or contains a "
                        "home folder; use a Python that is installed in a separate folder",
                        path);
    }
    return 0;
}
