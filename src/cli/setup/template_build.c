/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates are built outside any sandbox, as the calling user, with the interpreter's venv and
 * pip. Therefore only wheels are installed by default: unpacking one runs none of its code,
 * building a source package does.
 */
#include "cli/setup/template_build.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/spawn.h"
#include "base/cli/term.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/policy/prefix.h"
#include "base/registry/python.h"
#include "base/registry/registry.h"
#include "base/registry/treehash.h"
#include "base/str.h"

enum {
    PROBE_MAX = 16 << 10,
    REQUIREMENTS_MAX = 256 << 10,
    MODULES_MAX = 5000,
    SCRIPT_MAX = 256 << 10,
    ARGS_MAX = 24,
    PATH_LEN = 4096,
};

/* Facts about the interpreter. */
struct interpreter {
    char *exe;    /* owned */
    char *prefix; /* owned, or NULL */
    int minor;
    char version[32];
};

static void interpreter_done(struct interpreter *interpreter)
{
    free(interpreter->exe);
    free(interpreter->prefix);
}

static const char probe_code[] =
    "import json, sys, sysconfig\n"
    "print(json.dumps({'implementation': sys.implementation.name,\n"
    "    'version': '%d.%d.%d' % sys.version_info[:3], 'minor': sys.version_info[1],\n"
    "    'major': sys.version_info[0], 'prefix': sys.base_prefix, 'executable': "
    "sys.executable,\n"
    "    'free_threaded': bool(sysconfig.get_config_var('Py_GIL_DISABLED'))}))\n";

static void progress(const struct snp_build *build, const char *what)
{
    snp_term_printf(stderr, "template %s: %s\n", build->name, what);
}

static char *home_dir(void)
{
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): one thread */

    return home == NULL ? NULL : realpath(home, NULL);
}

/* Probe the interpreter without its site packages. */
static int probe(const char *python, json_t **ret, struct snp_err *err)
{
    const char *const argv[] = {python, "-I", "-S", "-c", probe_code, NULL};
    snp_autobuf struct snp_buf out = {0};
    snp_autojson json_t *answer = NULL;
    const char *implementation;
    int r;

    snp_buf_init(&out, PROBE_MAX);
    r = snp_spawn(argv, &out, err);
    if (r == 0) {
        r = snp_json_parse(snp_buf_bytes(&out), out.len, &answer, err);
    }
    if (r < 0) {
        return snp_err_wrap(err, "%.200s is not a usable Python", python);
    }
    implementation = snp_json_str(answer, "implementation", NULL);
    if (implementation == NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%.200s is not a usable Python", python);
    }
    if (!snp_streq(implementation, "cpython") || snp_json_int(answer, "major", 0) != 3 ||
        snp_json_int(answer, "minor", 0) < SNP_PYTHON_MINOR_MIN) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%.200s is %.40s %.20s; CPython 3.%d or later is needed", python,
                        implementation, snp_json_str(answer, "version", "?"), SNP_PYTHON_MINOR_MIN);
    }
    if (snp_json_bool(answer, "free_threaded", false)) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%.200s is a free-threaded build, which cannot load our extension module; "
                        "use the regular build of this version",
                        python);
    }
    *ret = SNP_TAKE_PTR(answer);
    return 0;
}

static int interpreter_find(const char *python, struct interpreter *ret, struct snp_err *err)
{
    snp_autojson json_t *answer = NULL;
    snp_autofree char *home = home_dir();
    char path[PATH_LEN];
    const char *prefix;
    int r = probe(python, &answer, err);

    if (r < 0) {
        return r;
    }
    (void)snprintf(ret->version, sizeof(ret->version), "%.31s",
                   snp_json_str(answer, "version", ""));
    r = snp_python_locate(snp_json_str(answer, "executable", ""), home, &ret->exe, &ret->prefix,
                          &ret->minor, err);
    if (r == SNP_E_UNSUPPORTED) { /* a copy in a virtual environment, or an unusual name */
        prefix = snp_json_str(answer, "prefix", "");
        (void)snprintf(path, sizeof(path), "%.4000s/bin/python3.%d", prefix,
                       (int)snp_json_int(answer, "minor", 0));
        r = snp_python_locate(path, home, &ret->exe, &ret->prefix, &ret->minor, err);
    }
    return r;
}

/* Virtual environment --------------------------------------------------------------------- */

static int venv_make(const struct snp_build *build,
                     const struct interpreter *interpreter,
                     const char *venv,
                     struct snp_err *err)
{
    const char *const argv[] = {interpreter->exe, "-I", "-m", "venv", "--without-pip", venv, NULL};
    char text[PATH_LEN];

    (void)snprintf(text, sizeof(text), "making a virtual environment with Python %s, %.4000s",
                   interpreter->version, interpreter->exe);
    progress(build, text);
    return snp_spawn(argv, NULL, err) < 0 ? snp_err_wrap(err, "cannot make a virtual environment")
                                          : 0;
}

/*
 * Run the pip bundled with the interpreter's ensurepip from its wheel, so that it is not among the
 * packages.
 */
static const char pip_code[] =
    "import glob, os, runpy, sys, sysconfig\n"
    "wheels = []\n"
    "try:\n"
    "    import ensurepip\n"
    "    folders = [getattr(ensurepip, '_WHEEL_PKG_DIR', None),\n"
    "               os.path.join(os.path.dirname(ensurepip.__file__), '_bundled'),\n"
    "               sysconfig.get_config_var('WHEEL_PKG_DIR'), '/usr/share/python-wheels']\n"
    "    for folder in filter(None, folders):\n"
    "        wheels += sorted(glob.glob(os.path.join(folder, 'pip-*.whl')))\n"
    "except ImportError:\n"
    "    pass\n"
    "if not wheels:\n"
    "    sys.exit('this Python has no pip (Debian: python3-venv)')\n"
    "sys.path.insert(0, wheels[0])\n"
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)\n";

static int packages_install(const struct snp_build *build, const char *venv, struct snp_err *err)
{
    char python[PATH_LEN];
    const char *argv[ARGS_MAX] = {python,
                                  "-I",
                                  "-c",
                                  pip_code,
                                  "--disable-pip-version-check",
                                  "--no-input",
                                  "install",
                                  "--no-warn-script-location",
                                  "--no-cache-dir",
                                  "-r",
                                  build->requirements};
    size_t n = 11;
    struct stat st;
    int r;

    (void)snprintf(python, sizeof(python), "%.4000s/bin/python", venv);
    if (!build->allow_source) {
        argv[n++] = "--only-binary=:all:";
    }
    if (build->index != NULL) {
        bool is_dir = stat(build->index, &st) == 0 && S_ISDIR(st.st_mode);

        if (!is_dir && strstr(build->index, "://") == NULL) {
            return snp_fail(err, SNP_E_NOT_FOUND,
                            "--index %.200s is neither a folder nor an address", build->index);
        }
        argv[n++] = "--isolated"; /* no other index from a configuration */
        argv[n++] = is_dir ? "--no-index" : "--index-url";
        if (is_dir) {
            argv[n++] = "--find-links";
        }
        argv[n++] = build->index;
    }
    argv[n] = NULL;
    progress(build, "installing its requirements");
    r = snp_spawn(argv, NULL, err);
    if (r == SNP_E_PEER) {
        return snp_fail(
            err, r, "pip could not install %.150s; see the lines above%s", build->requirements,
            build->allow_source ? ""
                                : ". Only wheels are installed; --allow-source also builds "
                                  "packages, which runs their code outside any sandbox");
    }
    return r < 0 ? snp_err_wrap(err, "cannot install %.150s", build->requirements) : 0;
}

/* Replace the folder's path here with its path inside, in one script. */
static int script_move(const char *path, const char *from, struct snp_err *err)
{
    snp_autobuf struct snp_buf moved = {0};
    snp_autofree char *text = NULL;
    size_t len = 0;
    struct stat st;
    struct snp_err ignored;

    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        snp_file_read(path, SCRIPT_MAX, &text, &len, &ignored) < 0 || text == NULL ||
        strlen(text) != len || !snp_has_prefix(text, "#!") || strstr(text, from) == NULL) {
        return 0;
    }
    snp_buf_init(&moved, (size_t)2 * SCRIPT_MAX);
    for (const char *at = text; *at != '\0';) {
        const char *next = strstr(at, from);
        size_t n = next == NULL ? strlen(at) : (size_t)(next - at);
        int r = snp_buf_add(&moved, at, n);

        if (r == 0 && next != NULL) {
            r = snp_buf_adds(&moved, SNP_PYTHON_SITE);
            n += strlen(from);
        }
        if (r < 0) {
            return snp_fail(err, SNP_E_LIMIT, "script %.200s is too long", path);
        }
        at += n;
    }
    return snp_file_write_atomic(path, snp_buf_bytes(&moved), moved.len, st.st_mode & 0777U, err);
}

/* Scripts begin with the path of their interpreter: set it to the path inside. */
static int scripts_move(const char *venv, struct snp_err *err)
{
    SNP_ASSERT(venv != NULL);
    snp_autofree char *bin = snp_need_format("%s/bin", venv);
    DIR *dir = bin == NULL ? NULL : opendir(bin);
    const struct dirent *entry;
    int r = 0;

    while (r == 0 && dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        snp_autofree char *path = snp_need_format("%s/%s", bin, entry->d_name);
        r = script_move(path, venv, err);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return r;
}

/* Importable names: folders, and files up to their first dot. */
static void modules_list(const char *venv, int minor, json_t *list)
{
    char path[PATH_LEN];
    DIR *dir;
    const struct dirent *entry;

    (void)snprintf(path, sizeof(path), "%.4000s/lib/python3.%d/site-packages", venv, minor);
    dir = opendir(path);
    while (dir != NULL && json_array_size(list) < MODULES_MAX &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        static const char bytes[] = "abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_";
        size_t n = strspn(entry->d_name, bytes);
        bool is_file = snp_has_suffix(entry->d_name, ".py") || snp_has_suffix(entry->d_name, ".so");

        if (n > 0 && entry->d_name[0] != '_' &&
            (entry->d_name[n] == '\0' || (is_file && entry->d_name[n] == '.'))) {
            (void)json_array_append_new(list, json_stringn(entry->d_name, n));
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static json_t *preload_list(const char *text)
{
    json_t *list = json_array();

    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, ",");
        (void)json_array_append_new(list, json_stringn(text, n));
        text += n + (text[n] == ',' ? 1 : 0);
    }
    return list;
}

/* Record ---------------------------------------------------------------------------------- */

static int record_make(const struct snp_build *build,
                       const struct interpreter *interpreter,
                       const char *venv,
                       json_t **ret,
                       struct snp_err *err)
{
    struct snp_tree_digest tree = {.skip_bytecode = build->venv != NULL,
                                   .must_be_public = geteuid() == 0};
    snp_autofree char *requirements = NULL;
    snp_autofree char *source =
        build->requirements == NULL ? NULL : realpath(build->requirements, NULL);
    json_t *modules = json_array();
    struct timespec now;
    int r;

    progress(build, "reading its files");
    r = snp_tree_hash(venv, &tree, err);
    if (r == 0 && build->requirements != NULL) {
        r = snp_file_read(build->requirements, REQUIREMENTS_MAX, &requirements, NULL, err);
    }
    if (r < 0) {
        json_decref(modules);
        return r;
    }
    modules_list(venv, interpreter->minor, modules);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *ret = json_pack("{s:s,s:s,s:s,s:s?,s:s,s:b,s:s,s:I,s:I,s:o,s:o,s:s?,s:s?,s:s?,s:I}", "name",
                     build->name, "python", interpreter->exe, "version", interpreter->version,
                     "prefix", interpreter->prefix, "venv", venv, "is_ours", build->venv == NULL,
                     "hash", tree.hash, "files", (json_int_t)tree.files, "bytes",
                     (json_int_t)tree.bytes, "preload", preload_list(build->preload), "modules",
                     modules, "requirements", requirements, "source", source, "index", build->index,
                     "created", (json_int_t)now.tv_sec);
    return *ret == NULL ? snp_fail(err, SNP_E_INVALID, "a path is not UTF-8") : 0;
}

void snp_build_remove(const char *path)
{
    const char *const argv[] = {"/bin/rm", "-rf", "--", path, NULL};
    struct snp_err ignored;

    (void)!snp_spawn(argv, NULL, &ignored);
}

/* Use the user's virtual environment in place. */
static int use_venv(const struct snp_build *build, json_t **ret, struct snp_err *err)
{
    snp_autofree char *venv = realpath(build->venv, NULL);
    snp_autofree char *home = NULL;
    struct interpreter interpreter = {0};
    char path[PATH_LEN];
    int r;

    if (venv == NULL) {
        return snp_fail_sys(err, errno, "--venv %.200s", build->venv);
    }
    home = home_dir();
    (void)snprintf(path, sizeof(path), "%.4000s/pyvenv.cfg", venv);
    if (access(path, R_OK) < 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "%.200s is not a virtual environment: it has no pyvenv.cfg", venv);
    }
    r = snp_prefix_check(venv, home, err);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "%.4000s/bin/python", venv);
        r = interpreter_find(path, &interpreter, err);
    }
    if (r == 0) {
        r = record_make(build, &interpreter, venv, ret, err);
    }
    interpreter_done(&interpreter);
    return r;
}

static int make_venv(const struct snp_build *build, json_t **ret, struct snp_err *err)
{
    snp_autofree char *folder =
        snp_need_format("%s/templates/%s.XXXXXX", build->state_dir, build->name);
    snp_autofree char *venv = NULL;
    struct interpreter interpreter = {0};
    int r = interpreter_find(build->python, &interpreter, err);

    if (r == 0 && (folder == NULL || mkdtemp(folder) == NULL)) {
        r = snp_fail_sys(err, errno, "make a folder in %.200s/templates", build->state_dir);
    }
    if (r < 0) {
        interpreter_done(&interpreter);
        return r;
    }
    venv = snp_need_format("%s/venv", folder);
    r = venv_make(build, &interpreter, venv, err);
    if (r == 0 && build->requirements != NULL) {
        r = packages_install(build, venv, err);
        r = r < 0 ? r : scripts_move(venv, err);
    }
    if (r == 0) {
        r = record_make(build, &interpreter, venv, ret, err);
    }
    if (r < 0) {
        snp_build_remove(folder);
    }
    interpreter_done(&interpreter);
    return r;
}

int snp_build_run(const struct snp_build *build, json_t **ret, struct snp_err *err)
{
    int r = build->preload == NULL ? 0 : snp_registry_preload_check(build->preload, err);

    if (r < 0) {
        return r;
    }
    if (build->requirements != NULL && access(build->requirements, R_OK) < 0) {
        return snp_fail_sys(err, errno, "--requirements %.200s", build->requirements);
    }
    (void)umask(0022); /* the files are read by another user id inside */
    return build->venv != NULL ? use_venv(build, ret, err) : make_venv(build, ret, err);
}
