/* SPDX-License-Identifier: Apache-2.0 */
/* Packages: whether the interpreter's search path has a folder or a module of that name. */
#include "base/registry/packages.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    PATH_LEN = 4096,
    FOLDERS_MAX = 4,
    NAMES_MAX = 16, /* named; others are left out */
};

/* Import names; the most common first. Packages that need a network are not included. */
static const char *const known[] = {
    "numpy",      "pandas",     "matplotlib", "scipy",   "sklearn",  "sympy",      "PIL",
    "seaborn",    "plotly",     "polars",     "pyarrow", "duckdb",   "networkx",   "statsmodels",
    "torch",      "tensorflow", "cv2",        "skimage", "openpyxl", "xlsxwriter", "docx",
    "pypdf",      "reportlab",  "yaml",       "lxml",    "bs4",      "jinja2",     "pydantic",
    "sqlalchemy", "flask",      "django",     "fastapi", "pytest",
};

/* The folders where an interpreter searches packages. */
struct folders {
    int fd[FOLDERS_MAX]; /* owned */
    size_t n;
};

static void folders_done(struct folders *folders)
{
    for (size_t i = 0; i < folders->n; i++) {
        snp_closep(&folders->fd[i]);
    }
}
#define autofolders snp_cleanup(folders_done)

static void folder_add(struct folders *folders, const char *path)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && folders->n < FOLDERS_MAX) {
        folders->fd[folders->n++] = fd;
    } else {
        snp_closep(&fd);
    }
}

static void folder_of(struct folders *folders, const char *below, const char *part, unsigned minor)
{
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), "%.4000s/lib/python3.%u/%s-packages", below, minor, part);
    folder_add(folders, path);
}

static void folders_find(const struct snp_python_query *query,
                         const struct snp_python *python,
                         const char *exe,
                         unsigned minor,
                         struct folders *folders)
{
    char prefix[PATH_LEN];
    char *slash;

    if (python->venv != NULL) {
        folder_of(folders, python->venv, "site", minor);
        return;
    }
    if (python->site != NULL) { /* the project's venv */
        (void)snprintf(prefix, sizeof(prefix), "%.4000s/.venv", query->project);
        folder_of(folders, prefix, "site", minor);
        return;
    }
    (void)snprintf(prefix, sizeof(prefix), "%s", exe); /* PREFIX/bin/python3.N */
    for (int i = 0; i < 2 && (slash = strrchr(prefix, '/')) != NULL; i++) {
        *slash = '\0';
    }
    folder_of(folders, prefix, "site", minor);
    if (strcmp(prefix, "/usr") == 0) { /* Debian's layout */
        folder_add(folders, "/usr/lib/python3/dist-packages");
        folder_of(folders, "/usr/local", "dist", minor);
    }
}

static bool is_there(const struct folders *folders, const char *name)
{
    char module[64];
    struct stat st;

    (void)snprintf(module, sizeof(module), "%.60s.py", name);
    for (size_t i = 0; i < folders->n; i++) {
        if (fstatat(folders->fd[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
            fstatat(folders->fd[i], module, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            return true;
        }
    }
    return false;
}

/* A comma-separated list contains the name of n bytes. */
static bool is_in(const char *list, const char *name, size_t n)
{
    for (; *list != '\0'; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',' ? 1 : 0)) {
        if (strcspn(list, ",") == n && strncmp(list, name, n) == 0) {
            return true;
        }
    }
    return false;
}

/* First the modules that the template loads. */
static int names_add(const char *loaded, const struct folders *folders, struct snp_buf *names)
{
    size_t n_named = 0;
    int r = 0;

    for (const char *at = loaded; *at != '\0' && n_named < NAMES_MAX && r == 0;) {
        size_t n = strcspn(at, ",");

        r = snp_buf_addf(names, "%s%.*s", n_named++ == 0 ? "" : ", ", (int)n, at);
        at += n + (at[n] == ',' ? 1 : 0);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(known) && n_named < NAMES_MAX && r == 0; i++) {
        if (!is_in(loaded, known[i], strlen(known[i])) && is_there(folders, known[i])) {
            r = snp_buf_addf(names, "%s%s", n_named++ == 0 ? "" : ", ", known[i]);
        }
    }
    return r;
}

int snp_packages_find(const struct snp_python_query *query,
                      unsigned *ret_minor,
                      struct snp_buf *names,
                      struct snp_err *err)
{
    struct snp_python python = {0};
    autofolders struct folders folders = {.n = 0};
    snp_autofree char *exe = NULL;
    snp_autofree char *prefix = NULL;
    int minor = 0;
    int r = snp_python_find(query, &python, err);

    *ret_minor = 0;
    if (r < 0) {
        return r;
    }
    r = snp_python_locate(python.exe, query->home, &exe, &prefix, &minor, err);
    if (r == 0) {
        *ret_minor = (unsigned)minor;
        folders_find(query, &python, exe, *ret_minor, &folders);
        r = names_add(python.preload == NULL ? "" : python.preload, &folders, names);
        r = r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    snp_python_done(&python);
    return r;
}
