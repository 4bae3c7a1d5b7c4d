/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding interpreters.
 *
 * A project is hostile, and its .venv names the interpreter it belongs to. That one is only
 * accepted where interpreters are usually installed, or if the user has named it with `template add
 * --python`; it is never inside the project. The .venv itself is executed only inside the sandbox,
 * as part of the workspace.
 */
#include "base/registry/python.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/policy/prefix.h"
#include "base/policy/template_name.h"
#include "base/registry/registry.h"
#include "base/str.h"

enum {
    CONFIG_MAX = 16 << 10,
    PATH_LEN = 4096,
    ELF_HEAD = 4096, /* the headers and the name of the loader are at the start */
#if defined(__aarch64__)
    OUR_MACHINE = EM_AARCH64,
#else
    OUR_MACHINE = EM_X86_64,
#endif
};

/* Where interpreters are installed: by an administrator, or below a home folder by common tools. */
static const char *const usual_places[] = {"/usr/", "/opt/"};
static const char *const usual_in_home[] = {
    ".pyenv/versions/", ".local/share/uv/python/",     ".asdf/installs/python/",
    "miniconda3/",      ".local/share/mise/installs/", "miniforge3/",
    "anaconda3/",
};

enum {
    TEXTS_N = 11
};

/* The owned texts; the note is the last. */
static void texts_of(struct snp_python *python, char **texts[TEXTS_N])
{
    char **const all[TEXTS_N] = {&python->name,   &python->exe,   &python->prefix, &python->venv,
                                 &python->site,   &python->alias, &python->hash,   &python->preload,
                                 &python->rootfs, &python->id,    &python->note};

    memcpy(texts, all, sizeof(all));
}

void snp_python_done(struct snp_python *python)
{
    char **texts[TEXTS_N];

    texts_of(python, texts);
    for (size_t i = 0; i < TEXTS_N; i++) {
        free(*texts[i]);
    }
    *python = (struct snp_python){0};
}

int snp_python_copy(const struct snp_python *python, struct snp_python *ret)
{
    struct snp_python from = *python;
    char **texts[2][TEXTS_N];

    *ret = (struct snp_python){.is_ours = python->is_ours};
    texts_of(&from, texts[0]);
    texts_of(ret, texts[1]);
    for (size_t i = 0; i < TEXTS_N; i++) {
        *texts[1][i] = *texts[0][i] == NULL ? NULL : strdup(*texts[0][i]);
        if (*texts[0][i] != NULL && *texts[1][i] == NULL) {
            snp_python_done(ret);
            return -1;
        }
    }
    return 0;
}

bool snp_python_equal(const struct snp_python *a, const struct snp_python *b)
{
    struct snp_python copy[2] = {*a, *b};
    char **texts[2][TEXTS_N];

    texts_of(&copy[0], texts[0]);
    texts_of(&copy[1], texts[1]);
    for (size_t i = 0; i + 1 < TEXTS_N; i++) {
        const char *x = *texts[0][i];
        const char *y = *texts[1][i];
        if (x == NULL || y == NULL ? x != y : !snp_streq(x, y)) {
            return false;
        }
    }
    return a->is_ours == b->is_ours;
}

/* The N of a text that begins with "3.N"; -1 otherwise. */
static int minor_of(const char *text)
{
    char digits[4];
    uint64_t minor = 0;
    size_t n;

    if (!snp_has_prefix(text, "3.")) {
        return -1;
    }
    n = strspn(text + 2, "0123456789");
    if (n == 0 || n >= sizeof(digits)) {
        return -1;
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)n, text + 2);
    return snp_parse_u64(digits, &minor) == 0 ? (int)minor : -1;
}

/* Cut the last part off a path without links. */
static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL) {
        *slash = '\0';
    }
}

int snp_python_locate(const char *path,
                      const char *home,
                      char **ret_exe,
                      char **ret_prefix,
                      int *ret_minor,
                      struct snp_err *err)
{
    snp_autofree char *exe = realpath(path, NULL);
    snp_autofree char *prefix = NULL;
    const char *base;
    char landmark[PATH_LEN];
    struct stat st;
    int minor;
    int r;

    if (exe == NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "its interpreter %.200s is not on this machine",
                        path);
    }
    base = strrchr(exe, '/') + 1;
    minor = snp_has_prefix(base, "python") ? minor_of(base + strlen("python")) : -1;
    if (minor < SNP_PYTHON_MINOR_MIN) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%.200s is not CPython 3.%d or later", exe,
                        SNP_PYTHON_MINOR_MIN);
    }
    prefix = strdup(exe);
    if (prefix == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    cut_last(prefix); /* bin */
    cut_last(prefix);
    (void)snprintf(landmark, sizeof(landmark), "%.4000s/lib/python3.%d/os.py", prefix, minor);
    if (stat(exe, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0 ||
        (st.st_mode & 0002) != 0 || access(landmark, R_OK) < 0) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%.200s is not a complete CPython: %.200s is missing", exe, landmark);
    }
    r = snp_prefix_is_system(exe) ? 0 : snp_prefix_check(prefix, home, err);
    if (r < 0) {
        return r;
    }
    if (!snp_prefix_is_system(exe) && snp_prefix_is_covered(prefix)) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "a sandbox has a separate %.20s, so the interpreter in %.200s cannot "
                        "be seen there; install it elsewhere, such as in /opt",
                        prefix, prefix);
    }
    *ret_minor = minor;
    *ret_prefix = snp_prefix_is_system(exe) ? NULL : SNP_TAKE_PTR(prefix);
    *ret_exe = SNP_TAKE_PTR(exe);
    return 0;
}

/* A project's .venv ---------------------------------------------------------------------------- */

/* Open below a folder, without following links. */
static int open_below(int dir_fd, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
}

/* The value of a line `key = value`; false if there is none. */
static bool config_value(const char *text, const char *key, char *out, size_t out_len)
{
    size_t n = strlen(key);

    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *at = line + n + (len > n ? strspn(line + n, " \t") : 0);

        if (len > n && strncmp(line, key, n) == 0 && *at == '=') {
            size_t skip = 1 + strspn(at + 1, " \t");
            size_t end = (size_t)(line + len - at);
            while (end > skip && strchr(" \t\r", at[end - 1]) != NULL) {
                end--;
            }
            (void)snprintf(out, out_len, "%.*s", (int)(end - (skip < end ? skip : end)), at + skip);
            return end > skip;
        }
        line += len + (line[len] == '\n' ? 1 : 0);
    }
    return false;
}

static bool is_usual_place(const struct snp_python_query *query, const char *exe)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(usual_places); i++) {
        if (snp_has_prefix(exe, usual_places[i])) {
            return true;
        }
    }
    for (size_t i = 0; query->home != NULL && i < SNP_ARRAY_LEN(usual_in_home); i++) {
        char place[PATH_LEN];
        (void)snprintf(place, sizeof(place), "%.4000s/%s", query->home, usual_in_home[i]);
        if (snp_has_prefix(exe, place)) {
            return true;
        }
    }
    return false;
}

static bool is_registered(const struct snp_python_query *query, const char *exe)
{
    snp_autojson json_t *list = snp_registry_list(query->state_dir);
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        if (snp_streq(snp_json_str(item, "python", NULL), exe)) {
            return true;
        }
    }
    return false;
}

/* Read pyvenv.cfg; false if it is invalid. */
static bool config_read(int project_fd, char *text, size_t room)
{
    snp_autoclose int fd = open_below(project_fd, ".venv/pyvenv.cfg", O_RDONLY);
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    n = snp_read_all(fd, text, room - 1);
    text[n < 0 ? 0 : n] = '\0';
    return n >= 0;
}

static bool has_packages(int project_fd, int minor)
{
    char path[64];
    snp_autoclose int fd = -1;

    (void)snprintf(path, sizeof(path), ".venv/lib/python3.%d/site-packages", minor);
    fd = open_below(project_fd, path, O_RDONLY | O_DIRECTORY);
    return fd >= 0;
}

static int venv_use(const struct snp_python_query *query,
                    int project_fd,
                    const char *config,
                    struct snp_python *ret,
                    struct snp_err *err)
{
    char home[PATH_LEN];
    char version[64] = "";
    char exe[PATH_LEN + 32];
    size_t n = strlen(query->project);
    int wanted;
    int minor = 0;
    int r;

    if (!config_value(config, "home", home, sizeof(home)) || home[0] != '/') {
        return snp_fail(err, SNP_E_UNSUPPORTED, "pyvenv.cfg names no interpreter");
    }
    if (!config_value(config, "version_info", version, sizeof(version))) {
        (void)config_value(config, "version", version, sizeof(version));
    }
    wanted = minor_of(version);
    if (wanted < SNP_PYTHON_MINOR_MIN) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "it is for Python %.20s; 3.%d or later is needed",
                        version[0] == '\0' ? "?" : version, SNP_PYTHON_MINOR_MIN);
    }
    (void)snprintf(exe, sizeof(exe), "%s/python3.%d", home, wanted);
    r = snp_python_locate(exe, query->home, &ret->exe, &ret->prefix, &minor, err);
    if (r < 0) {
        return r;
    }
    if (strncmp(ret->exe, query->project, n) == 0 && ret->exe[n] == '/') {
        return snp_fail(err, SNP_E_DENIED, "its interpreter lies in the project");
    }
    if (!is_usual_place(query, ret->exe) && !is_registered(query, ret->exe)) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_ALLOW_PYTHON, ret->exe, 0,
                             "%.150s is not in a usual place for an interpreter", ret->exe);
    }
    if (minor != wanted || !has_packages(project_fd, minor)) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "it has no lib/python3.%d/site-packages", minor);
    }
    ret->name = strdup("venv");
    ret->site = strdup(SNP_PYTHON_PROJECT_SITE);
    ret->alias = snp_format("%s/.venv", query->project);
    return ret->name == NULL || ret->site == NULL || ret->alias == NULL
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

/* 1: the project's .venv is used; 0: it has none, or it cannot be used (then with a note). */
static int project_find(const struct snp_python_query *query, struct snp_python *ret)
{
    char config[CONFIG_MAX];
    snp_autoclose int fd = open(query->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct snp_err err;

    if (fd < 0 || !config_read(fd, config, sizeof(config))) {
        return 0;
    }
    if (venv_use(query, fd, config, ret, &err) == 0) {
        return 1;
    }
    snp_python_done(ret);
    ret->note = err.remedy.kind == SNP_REMEDY_ALLOW_PYTHON
                    ? snp_format("%s; allow it with: snipara-sandbox template add NAME --python %s",
                                 err.msg, err.remedy.name)
                    : snp_format("%s; create the .venv again with a Python of this machine: "
                                 "python3 -m venv --clear .venv",
                                 err.msg);
    return 0;
}

/* By name --------------------------------------------------------------------------------- */

static int builtin_find(const struct snp_python_query *query,
                        struct snp_python *ret,
                        struct snp_err *err)
{
    int minor = 0;

    ret->name = strdup(query->name == NULL ? "base" : query->name);
    /* The usual interpreter is run under its given name; another may have a prefix to show. */
    if (snp_prefix_is_system(query->default_python)) {
        ret->exe = strdup(query->default_python);
    } else {
        int r = snp_python_locate(query->default_python, query->home, &ret->exe, &ret->prefix,
                                  &minor, err);
        if (r < 0) {
            return snp_err_wrap(err, "SNIPARA_SANDBOX_PYTHON");
        }
    }
    return ret->name == NULL || ret->exe == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static char *join(const json_t *list)
{
    char *text = strdup("");
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        char *longer = text == NULL
                           ? NULL
                           : snp_format("%s%s%s", text, i == 0 ? "" : ",", json_string_value(item));
        free(text);
        text = longer;
    }
    return text;
}

static int record_find(const struct snp_python_query *query,
                       struct snp_python *ret,
                       struct snp_err *err)
{
    snp_autojson json_t *record = NULL;
    const char *venv;
    int minor = 0;
    int r = snp_registry_read(query->state_dir, query->name, &record, err);

    if (r < 0) {
        return r;
    }
    venv = snp_json_str(record, "venv", "");
    r = snp_python_locate(snp_json_str(record, "python", ""), query->home, &ret->exe, &ret->prefix,
                          &minor, err);
    if (r == 0) {
        r = snp_prefix_check(venv, query->home, err);
    }
    if (r < 0) {
        return snp_err_wrap(err, "template %s", query->name);
    }
    ret->name = strdup(query->name);
    ret->venv = strdup(venv);
    ret->site = strdup(SNP_PYTHON_SITE);
    ret->alias = strdup(venv);
    ret->hash = strdup(snp_json_str(record, "hash", ""));
    ret->is_ours = snp_json_bool(record, "is_ours", false);
    ret->preload = join(json_object_get(record, "preload"));
    if (ret->name == NULL || ret->venv == NULL || ret->site == NULL || ret->alias == NULL ||
        ret->hash == NULL || ret->preload == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_registry_preload_check(ret->preload, err);
}

/* Another file system --------------------------------------------------------------------- */

/* Open as with this folder as root: links and '..' stay inside. */
static int open_in(int root_fd, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* Check the start of a program: 64-bit, for this machine, and its loader. */
static int program_check(int fd, const char *path, struct snp_err *err)
{
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F'};
    unsigned char head[ELF_HEAD] = {0};
    Elf64_Ehdr elf;
    ssize_t n = snp_read_all(fd, head, sizeof(head));

    memcpy(&elf, head, sizeof(elf));
    if (n < (ssize_t)sizeof(elf) || memcmp(head, magic, sizeof(magic)) != 0) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%s in the file system is not a program", path);
    }
    if (head[EI_CLASS] != ELFCLASS64 || head[EI_DATA] != ELFDATA2LSB ||
        elf.e_machine != OUR_MACHINE) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%s in the file system is for another processor than this machine's: "
                        "build one for this machine (mmdebstrap does so by default)",
                        path);
    }
    if (memmem(head, (size_t)n, "/ld-musl-", 9) != NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%s in the file system is built with musl, and cannot load our extension "
                        "module: use one with glibc (Debian, Fedora; not Alpine)",
                        path);
    }
    return 0;
}

static int rootfs_find(const struct snp_python_query *query,
                       struct snp_python *ret,
                       struct snp_err *err)
{
    static const char *const programs[] = {"/usr/bin/python3", "/usr/local/bin/python3"};
    snp_autofree char *folder = realpath(query->rootfs, NULL);
    snp_autoclose int root = -1;
    struct stat st;
    int r = 0;

    if (folder == NULL) {
        return snp_fail_sys(err, errno, "rootfs %.300s", query->rootfs);
    }
    r = snp_prefix_check(folder, query->home, err);
    if (r < 0) {
        return snp_err_wrap(err, "rootfs");
    }
    if (query->name != NULL && !snp_template_is_builtin(query->name)) {
        return snp_fail(
            err, SNP_E_INVALID,
            "a rootfs has its own Python, so it works only with the templates base, data and plot");
    }
    root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return snp_fail_sys(err, errno, "rootfs %.300s", query->rootfs);
    }
    if (fstat(root, &st) < 0) {
        return snp_fail_sys(err, errno, "rootfs %.300s", query->rootfs);
    }
    ret->id =
        snp_format("%llu.%llu.%lld.%ld", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
    for (size_t i = 0; i < SNP_ARRAY_LEN(programs); i++) {
        snp_autoclose int fd = open_in(root, programs[i], O_RDONLY);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0) {
            continue;
        }
        r = program_check(fd, programs[i], err);
        if (r < 0) {
            return r;
        }
        ret->name = strdup(query->name == NULL ? "base" : query->name);
        ret->exe = strdup(programs[i]);
        ret->rootfs = SNP_TAKE_PTR(folder);
        return ret->name == NULL || ret->exe == NULL || ret->rootfs == NULL || ret->id == NULL
                   ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                   : 0;
    }
    return snp_fail(
        err, SNP_E_UNSUPPORTED,
        "%.300s has neither /usr/bin/python3 nor /usr/local/bin/python3; a sandbox needs "
        "a CPython of 3.%d or later there",
        query->rootfs, SNP_PYTHON_MINOR_MIN);
}

int snp_python_find(const struct snp_python_query *query,
                    struct snp_python *ret,
                    struct snp_err *err)
{
    struct snp_python found = {0};
    bool is_own = query->name == NULL || snp_streq(query->name, "venv");
    int r;

    if (query->rootfs != NULL) {
        r = rootfs_find(query, &found, err);
        if (r < 0) {
            snp_python_done(&found);
            return r;
        }
        *ret = found;
        return 0;
    }
    if (is_own && query->project != NULL && project_find(query, &found) == 1) {
        *ret = found;
        return 0;
    }
    if (query->name != NULL && is_own) {
        r = snp_fail(err, SNP_E_NOT_FOUND, "the project's .venv cannot be used: %s",
                     found.note == NULL ? "there is none" : found.note);
        snp_python_done(&found);
        return r;
    }
    if (query->name == NULL || snp_template_is_builtin(query->name)) {
        r = builtin_find(query, &found, err);
    } else {
        r = record_find(query, &found, err);
    }
    if (r < 0) {
        snp_python_done(&found);
        return r;
    }
    *ret = found;
    return 0;
}
