/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `template add`, `list`, `show` and `remove`: interpreters with packages for sandboxes.
 *
 * Records are changed under a lock. A folder is built under a unique name and belongs to no
 * template until its record is written, so an interrupted build leaves only a folder, which the
 * next one removes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/file.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/policy/template_name.h"
#include "base/registry/registry.h"
#include "base/registry/treehash.h"
#include "base/rundir.h"
#include "base/str.h"
#include "base/wire/session.h"
#include "cli/cli.h"
#include "cli/setup/template_build.h"

enum {
    PATH_LEN = 4096,
};

static const struct {
    const char *name;
    const char *what;
    const char *preload[4]; /* NULL-terminated; in addition to the standard library */
} builtin[] = {
    {"base", "the standard library", {NULL}},
    {"data", "numpy, pandas", {"numpy", "pandas", NULL}},
    {"plot", "numpy, pandas, matplotlib", {"numpy", "pandas", "matplotlib", NULL}},
};

/* The state folder, its templates, and the lock against other writers. */
struct template_store {
    char *state; /* owned */
    char *dir;   /* owned */
    int lock_fd;
};

static void place_done(struct template_store *place)
{
    free(place->state);
    free(place->dir);
    snp_closep(&place->lock_fd);
}

static int place_open(struct template_store *place, bool to_change, struct snp_err *err)
{
    char path[PATH_LEN];
    int r;

    *place = (struct template_store){.lock_fd = -1};
    r = snp_state_dir(&place->state, err);
    if (r < 0) {
        return r;
    }
    place->dir = snp_need(snp_registry_dir(place->state));
    if (!to_change) {
        return 0;
    }
    r = snp_mkdir_p(place->dir, 0700, err);
    if (r < 0) {
        return r;
    }
    (void)snprintf(path, sizeof(path), "%.4000s/.lock", place->dir);
    place->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (place->lock_fd < 0) {
        return snp_fail_sys(err, errno, "open %.300s", path);
    }
    if (flock(place->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        return snp_fail(err, SNP_E_LIMIT,
                        "another snipara-sandbox is changing the templates; wait until it is done");
    }
    return 0;
}

/* Remove folders that no record names: of replaced templates and unfinished builds. */
static void folders_sweep(const struct template_store *place)
{
    snp_autojson json_t *list = snp_registry_list(place->state);
    DIR *dir = opendir(place->dir);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        snp_autofree char *folder = snp_need_format("%s/%s", place->dir, entry->d_name);
        snp_autofree char *venv = folder == NULL ? NULL : snp_need_format("%s/venv", folder);
        bool is_used = venv == NULL || entry->d_name[0] == '.' || entry->d_type != DT_DIR;
        size_t i;
        json_t *item;

        json_array_foreach(list, i, item)
        {
            is_used = is_used || snp_streq(snp_json_str(item, "venv", NULL), venv);
        }
        if (!is_used) {
            snp_build_remove(folder);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* Sessions would miss modules that they have not imported yet. */
static int unused_check(struct snp_cli *cli, const char *name, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    size_t i;
    json_t *item;

    if (snp_remote_find(cli, err) < 0) {
        return 0; /* without a daemon there are no sessions */
    }
    if (snp_remote_list(cli, &reply, err) < 0) {
        return err->code;
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        SNP_READ(snp_session_row, row, item);
        if (snp_streq(row.template, name)) {
            return snp_fail(err, SNP_E_DENIED,
                            "template %s is in use by session %.64s: destroy it first, or give "
                            "--force",
                            name, row.name == NULL ? row.id : row.name);
        }
    }
    return 0;
}

/* add -------------------------------------------------------------------------------------- */

static const struct snp_opt add_options[] = {
    {"python", 0, SNP_OPT_STRING, "PATH",
     "interpreter: CPython 3.8 or later (default: /usr/bin/python3)", 0},
    {"venv", 0, SNP_OPT_STRING, "DIR", "use this virtual environment in place", 0},
    {"requirements", 'r', SNP_OPT_STRING, "FILE",
     "install the requirements in this file (pip format)", 0},
    {"index", 0, SNP_OPT_STRING, "DIR|URL", "source of packages: a folder of wheels, or an address",
     0},
    {"preload", 0, SNP_OPT_STRING, "LIST",
     "modules imported before sessions start, separated by commas", 0},
    {"allow-source", 0, SNP_OPT_FLAG, NULL,
     "also install packages without a wheel; building one runs its code outside any sandbox", 0},
    {"replace", 0, SNP_OPT_FLAG, NULL,
     "rebuild an existing template, from its original sources unless others are given", 0},
    {"force", 0, SNP_OPT_FLAG, NULL, "with --replace: rebuild it even if sessions use it", 0},
    SNP_CLI_OPT_JSON,
};

/* Use the old record if the command line names no packages. */
static void build_again(struct snp_build *build, const json_t *old)
{
    if (build->python != NULL || build->venv != NULL || build->requirements != NULL) {
        return;
    }
    if (!snp_json_bool(old, "is_ours", true)) {
        build->venv = snp_json_str(old, "venv", NULL);
        return;
    }
    build->python = snp_json_str(old, "python", NULL);
    build->requirements = snp_json_str(old, "source", NULL);
    build->index = build->index != NULL ? build->index : snp_json_str(old, "index", NULL);
}

/* The list of an old record as one text; owned. */
static char *preload_text(const json_t *old)
{
    json_t *list = json_object_get(old, "preload");
    char *text = NULL;
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        char *longer = snp_need_format("%s%s%s", text == NULL ? "" : text, text == NULL ? "" : ",",
                                       json_string_value(item));
        free(text);
        text = longer;
    }
    return text;
}

static int old_record(struct snp_cli *cli,
                      const struct template_store *place,
                      const struct snp_opts *opts,
                      const char *name,
                      json_t **ret,
                      struct snp_err *err)
{
    bool replace = snp_opts_flag(opts, "replace", false);
    char path[PATH_LEN];
    struct snp_err ignored;

    (void)snprintf(path, sizeof(path), "%.4000s/%s.json", place->dir, name);
    if (access(path, F_OK) < 0) {
        return 0;
    }
    if (!replace) {
        return snp_fail(err, SNP_E_DENIED, "template %s exists; --replace rebuilds it", name);
    }
    (void)!snp_registry_read(place->state, name, ret, &ignored); /* a damaged one is replaced too */
    return snp_opts_flag(opts, "force", false) ? 0 : unused_check(cli, name, err);
}

static void added_print(const json_t *record)
{
    snp_term_printf(stdout, "added %s: Python %s, %lld files, %s, %s\n",
                    snp_json_str(record, "name", "?"), snp_json_str(record, "version", "?"),
                    (long long)snp_json_int(record, "files", 0),
                    snp_human_bytes((uint64_t)snp_json_int(record, "bytes", 0)).text,
                    snp_json_str(record, "hash", "?"));
}

static int add(struct snp_cli *cli, const struct snp_opts *opts, json_t **ret, struct snp_err *err)
{
    const char *python = getenv("SNIPARA_SANDBOX_PYTHON"); /* NOLINT(concurrency-mt-unsafe) */
    struct template_store place;
    struct snp_build build = {
        .name = snp_opts_arg(opts, 0),
        .python = snp_opts_str(opts, "python"),
        .venv = snp_opts_str(opts, "venv"),
        .requirements = snp_opts_str(opts, "requirements"),
        .index = snp_opts_str(opts, "index"),
        .preload = snp_opts_str(opts, "preload"),
        .allow_source = snp_opts_flag(opts, "allow-source", false),
    };
    snp_autojson json_t *old = NULL;
    snp_autojson json_t *all = NULL;
    snp_autofree char *preload = NULL;
    int r = snp_template_new_name_check(build.name, err);

    if (r < 0) {
        return r;
    }
    r = place_open(&place, true, err);
    if (r == 0) {
        r = old_record(cli, &place, opts, build.name, &old, err);
    }
    all = r == 0 ? snp_registry_list(place.state) : NULL;
    if (r == 0 && old == NULL && json_array_size(all) >= SNP_REGISTRY_MAX) {
        r = snp_fail(err, SNP_E_LIMIT, "%d templates exist, which is the limit; remove one",
                     SNP_REGISTRY_MAX);
    }
    if (r == 0) {
        folders_sweep(&place);
        build.state_dir = place.state;
        build_again(&build, old);
        preload = preload_text(old);
        build.preload = build.preload != NULL ? build.preload : preload;
        if (build.python == NULL) {
            build.python = python != NULL && *python != '\0' ? python : "/usr/bin/python3";
        }
        r = snp_build_run(&build, ret, err);
    }
    if (r == 0) {
        r = snp_registry_write(place.state, *ret, err);
        folders_sweep(&place);
    }
    place_done(&place);
    return r;
}

static int run_add(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *record = NULL;
    struct snp_err err;
    int r;

    if (snp_opts_given(opts, "venv") &&
        (snp_opts_given(opts, "python") || snp_opts_given(opts, "requirements"))) {
        return snp_cli_usage(
            cli, "--venv cannot be combined with --python or --requirements: it is used as it is");
    }
    if (snp_opts_given(opts, "index") && !snp_opts_given(opts, "requirements") &&
        !snp_opts_given(opts, "replace")) {
        return snp_cli_usage(cli, "--index needs --requirements");
    }
    r = add(cli, opts, &record, &err);
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, record);
    }
    added_print(record);
    return SNP_EXIT_OK;
}

/* list ------------------------------------------------------------------------------------- */

static void list_print(const json_t *list)
{
    static const char *const heads[] = {"Name", "Python", "Preloads", "Size", "Hash"};
    struct snp_table table = SNP_TABLE(heads);
    size_t i;
    json_t *record;

    for (i = 0; i < SNP_ARRAY_LEN(builtin); i++) {
        snp_table_add(&table, builtin[i].name);
        snp_table_add(&table, "system");
        snp_table_add(&table, builtin[i].what);
        snp_table_add(&table, NULL);
        snp_table_add(&table, NULL);
    }
    json_array_foreach((json_t *)(uintptr_t)list, i, record)
    {
        snp_autofree char *preload = preload_text(record);

        snp_table_add(&table, snp_json_str(record, "name", "?"));
        snp_table_add(&table, snp_json_str(record, "version", "?"));
        snp_table_add(&table, preload);
        snp_table_add(&table, snp_human_bytes((uint64_t)snp_json_int(record, "bytes", 0)).text);
        snp_table_addf(&table, "%.19s", snp_json_str(record, "hash", ""));
    }
    snp_table_print(stdout, &table, "");
}

static int run_list(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *list = NULL;
    struct template_store place;
    size_t i;
    json_t *item;
    struct snp_err err;
    int r = place_open(&place, false, &err);

    list = r < 0 ? NULL : snp_registry_list(place.state);
    place_done(&place);
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, list);
    }
    if (!snp_opts_flag(opts, "names", false)) {
        list_print(list);
        return SNP_EXIT_OK;
    }
    for (i = 0; i < SNP_ARRAY_LEN(builtin); i++) {
        (void)puts(builtin[i].name);
    }
    json_array_foreach(list, i, item)
    {
        (void)puts(snp_json_str(item, "name", ""));
    }
    return SNP_EXIT_OK;
}

/* show ------------------------------------------------------------------------------------- */

static void record_print(const json_t *record)
{
    static const char *const shown[] = {"name",    "python", "version", "prefix", "venv",
                                        "hash",    "state",  "files",   "bytes",  "preload",
                                        "modules", "source", "index",   "created"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(shown); i++) {
        const json_t *value = json_object_get(record, shown[i]);
        snp_autofree char *text =
            json_is_string(value) ? snp_need_copy(json_string_value(value)) : snp_json_text(value);

        if (value == NULL || json_is_null(value) || text == NULL) {
            continue;
        }
        snp_term_put(stdout, SNP_STYLE_CYAN, shown[i]);
        (void)fputs(": ", stdout);
        if (snp_term_write(stdout, text, strlen(text)) < 0) {
            return;
        }
        (void)putchar('\n');
    }
}

/* Whether the template's files are unchanged. */
static const char *state_of(const json_t *record)
{
    struct snp_tree_digest tree = {.skip_bytecode = !snp_json_bool(record, "is_ours", false)};
    struct snp_err ignored;

    if (snp_tree_hash(snp_json_str(record, "venv", ""), &tree, &ignored) < 0) {
        return "unreadable";
    }
    return snp_streq(tree.hash, snp_json_str(record, "hash", "")) ? "as built"
                                                                  : "changed since it was added";
}

/* The record of a built-in template; NULL: no such template, or no memory. */
static json_t *builtin_record(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(builtin); i++) {
        json_t *list;

        if (strcmp(builtin[i].name, name) != 0) {
            continue;
        }
        list = json_array();
        for (size_t k = 0; builtin[i].preload[k] != NULL; k++) {
            (void)json_array_append_new(list, json_string(builtin[i].preload[k]));
        }
        return json_pack("{s:s, s:s, s:o}", "name", name, "state", "built in", "preload", list);
    }
    return NULL;
}

static int show(const char *name, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *record = builtin_record(name);
    struct template_store place;
    int r;

    if (record != NULL) {
        *ret = SNP_TAKE_PTR(record);
        return 0;
    }
    r = place_open(&place, false, err);
    if (r == 0) {
        r = snp_registry_read(place.state, name, &record, err);
    }
    place_done(&place);
    if (r == 0) {
        (void)json_object_set_new(record, "state", json_string(state_of(record)));
        *ret = SNP_TAKE_PTR(record);
    }
    return r;
}

static int run_show(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *record = NULL;
    struct snp_err err;
    int r = show(snp_opts_arg(opts, 0), &record, &err);

    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, record);
    }
    record_print(record);
    return SNP_EXIT_OK;
}

/* remove ----------------------------------------------------------------------------------- */

static int remove_one(struct snp_cli *cli,
                      const struct template_store *place,
                      const char *name,
                      bool force,
                      struct snp_err *err)
{
    snp_autojson json_t *record = NULL;
    snp_autofree char *path = NULL;
    int r = snp_template_new_name_check(name, err);

    if (r < 0) {
        return r;
    }
    path = snp_need_format("%s/%s.json", place->dir, name);
    if (path == NULL || access(path, F_OK) < 0) { /* reports the cause */
        return snp_registry_read(place->state, name, &record, err);
    }
    r = force ? 0 : unused_check(cli, name, err);
    if (r == 0 && unlink(path) < 0) {
        r = snp_fail_sys(err, errno, "remove %.300s", path);
    }
    return r;
}

static int run_remove(struct snp_cli *cli, const struct snp_opts *opts)
{
    bool force = snp_opts_flag(opts, "force", false);
    snp_autojson json_t *removed = json_array();
    int exit_code = SNP_EXIT_OK;
    struct template_store place;
    struct snp_err err;

    for (size_t i = 0; i < snp_opts_n_args(opts); i++) {
        if (snp_template_new_name_check(snp_opts_arg(opts, i), &err) < 0) {
            return snp_cli_fail(cli, &err); /* before anything is removed */
        }
    }
    if (place_open(&place, true, &err) < 0) {
        place_done(&place);
        return snp_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < snp_opts_n_args(opts); i++) {
        const char *name = snp_opts_arg(opts, i);

        if (remove_one(cli, &place, name, force, &err) < 0) {
            exit_code = snp_cli_fail(cli, &err);
            continue;
        }
        (void)json_array_append_new(removed, json_string(name));
    }
    folders_sweep(&place);
    place_done(&place);
    return snp_cli_done_list(cli, "removed", removed, NULL, exit_code);
}

/* Verbs ------------------------------------------------------------------------------------ */

static const struct snp_opt list_options[] = {
    {"names", 0, SNP_OPT_FLAG, NULL, "print only the names, one a line", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt show_options[] = {SNP_CLI_OPT_JSON};
static const struct snp_opt remove_options[] = {
    {"force", 0, SNP_OPT_FLAG, NULL, "remove it even if sessions use it", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg one_name[] = {{"NAME", "name of the template", 1, 1}};
static const struct snp_opt_arg some_names[] = {{"NAME", "name of a template", 1, 0}};

static const struct snp_verb verb_add = {
    .name = "add",
    .summary = "make a template from an interpreter, a virtual environment or requirements",
    .description = "Make a template: an interpreter with packages, for sessions with --template "
                   "NAME.\n"
                   "Packages are installed here, outside any sandbox, by venv and pip of that "
                   "interpreter; inside they are read-only. Their content is hashed, and a "
                   "template that was changed afterwards does not start.",
    .spec = SNP_SPEC(add_options, one_name),
    .examples =
        "template add web --requirements requirements.txt\n"
        "template add web --requirements requirements.txt --index ./wheels --preload flask\n"
        "template add old --python /opt/python3.8/bin/python3.8\n"
        "template add mine --venv ~/venvs/work\n"
        "template add web --replace",
    .run = run_add,
};
static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "list the templates",
    .spec = SNP_OPTIONS(list_options),
    .run = run_list,
};
static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "show one template, and whether its files have changed",
    .spec = SNP_SPEC(show_options, one_name),
    .run = run_show,
};
static const struct snp_verb verb_remove = {
    .name = "remove",
    .summary = "remove templates; your virtual environments stay",
    .spec = SNP_SPEC(remove_options, some_names),
    .run = run_remove,
};
static const struct snp_verb *const verbs[] = {&verb_add, &verb_list, &verb_show, &verb_remove,
                                               NULL};

const struct snp_verb snp_verb_template = {
    .name = "template",
    .summary = "add, list, show and remove interpreters with packages",
    .verbs = verbs,
    .fallback = &verb_list,
};
