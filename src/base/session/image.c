/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a workspace image is a hash of its inputs except the sources, because each session
 * has a copy of those. So it is rebuilt when the files that name dependencies change.
 */
#include "base/session/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/project_dir.h"
#include "base/cli/spawn.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/policy/engine_call.h"
#include "base/policy/engine_socket.h"
#include "base/registry/treehash.h"
#include "base/rundir.h"
#include "base/session/policy.h"
#include "base/str.h"

enum {
    ANSWER_MAX = 1 << 20,
    FILE_MAX = 64 << 20,
    HASH_AT = 7, /* behind "sha256:" */
    SHORT = 16,
};

#define PIP   "python -m pip install "
#define LABEL "snipara-sandbox.workspace"

struct image {
    const struct snp_config *config;
    char socket[SNP_ENGINE_PATH_MAX + 1];
    bool has_engine; /* it answers */
    const char *base;
    char *path;    /* owned; of the workspace */
    char *command; /* owned; the install command */
    char hash[SNP_TREE_HASH_LEN + 1];
    char tag[64];
};

static void image_done(struct image *image)
{
    free(image->path);
    free(image->command);
}

/* The install command -------------------------------------------------------------------------- */

static bool has_file(const struct image *image, const char *name)
{
    snp_autofree char *path = snp_need_format("%s/%s", image->path, name);

    return access(path, F_OK) == 0;
}

static const char *infer(const struct image *image, const char *setup)
{
    static const struct {
        const char *setup;
        const char *file; /* required file; NULL = none */
        const char *command;
    } rows[] = {
        {"tests-only", NULL, PIP "pytest pytest-asyncio"},
        {"dev", "pyproject.toml", PIP "-e '.[dev]'"},
        {"dev", "setup.py", PIP "-e '.[dev]'"},
        {"dev", "setup.cfg", PIP "-e '.[dev]'"},
        {"dev", "requirements-dev.txt", PIP "-r requirements-dev.txt"},
        {"dev", "requirements-test.txt", PIP "-r requirements-test.txt"},
        {"dev", "requirements.txt", PIP "-r requirements.txt pytest"},
        {"package", "pyproject.toml", PIP "-e ."},
        {"package", "setup.py", PIP "-e ."},
        {"package", "setup.cfg", PIP "-e ."},
        {"package", "requirements.txt", PIP "-r requirements.txt"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (snp_streq(rows[i].setup, setup) &&
            (rows[i].file == NULL || has_file(image, rows[i].file))) {
            return rows[i].command;
        }
    }
    return NULL;
}

static int add_extras(struct snp_buf *command, const struct snp_config *config, struct snp_err *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[]<>=!~,+*";
    const char *const *items = NULL;
    size_t n = snp_config_list(config, SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS, &items);

    for (size_t i = 0; i < n; i++) {
        if (items[i][0] == '\0' || items[i][0] == '-' ||
            strspn(items[i], allowed) != strlen(items[i])) {
            return snp_fail(err, SNP_E_INVALID,
                            "Invalid install extra '%.60s' (docker_workspace_install_extras): "
                            "letters, digits and . _ - [ ] < > = ! ~ , + * make the name of a "
                            "package",
                            items[i]);
        }
        if (snp_buf_addf(command, "%s'%s'", i == 0 ? " && " PIP : " ", items[i]) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

static int find_command(struct image *image, struct snp_err *err)
{
    const char *setup = snp_config_str(image->config, SNP_KEY_DOCKER_WORKSPACE_SETUP);
    const char *own = snp_config_str(image->config, SNP_KEY_DOCKER_WORKSPACE_INSTALL_COMMAND);
    const char *command = own != NULL && own[0] != '\0' ? own : infer(image, setup);
    snp_autobuf struct snp_buf text = {0};

    if (command == NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "Cannot infer an install command for docker_workspace_setup = \"%s\": "
                        "%.200s has no pyproject.toml, setup.py, setup.cfg or requirements "
                        "file; set docker_workspace_install_command",
                        setup, image->path);
    }
    snp_buf_init(&text, ANSWER_MAX);
    if (snp_buf_adds(&text, command) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    SNP_TRY(add_extras(&text, image->config, err));
    image->command = snp_need_copy(snp_need(snp_buf_cstr(&text)));
    return 0;
}

/* The name ------------------------------------------------------------------------------------ */

/* Hash the files that name dependencies, as 16 digits. */
static int hash_dependencies(const struct image *image, char out[SHORT + 1], struct snp_err *err)
{
    static const char *const names[] = {"pyproject.toml",
                                        "setup.py",
                                        "setup.cfg",
                                        "requirements.txt",
                                        "requirements-dev.txt",
                                        "requirements-test.txt",
                                        "uv.lock",
                                        "poetry.lock",
                                        "Pipfile",
                                        "Pipfile.lock"};
    char hash[SNP_TREE_HASH_LEN + 1];
    snp_autobuf struct snp_buf all = {0};
    int r = 0;

    snp_buf_init(&all, FILE_MAX);
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(names); i++) {
        snp_autofree char *path = snp_need_format("%s/%s", image->path, names[i]);
        snp_autofree char *text = NULL;
        size_t n = 0;

        if (access(path, F_OK) < 0) {
            continue;
        }
        SNP_TRY(snp_file_read(path, FILE_MAX, &text, &n, err));
        if (snp_buf_add(&all, names[i], strlen(names[i]) + 1) < 0 ||
            snp_buf_add(&all, text, n) < 0 || snp_buf_add(&all, "", 1) < 0) {
            r = snp_fail(err, SNP_E_LIMIT, "the lock files in %.200s are too large", image->path);
        }
    }
    SNP_TRY(r);
    SNP_TRY(snp_bytes_hash(all.len == 0 ? "" : snp_buf_bytes(&all), all.len, hash, err));
    (void)snprintf(out, SHORT + 1, "%.*s", SHORT, hash + HASH_AT);
    return 0;
}

static int find_tag(struct image *image, struct snp_err *err)
{
    char dependencies[SHORT + 1];
    const char *const parts[] = {image->base, image->path, image->command, dependencies};
    snp_autobuf struct snp_buf all = {0};

    SNP_TRY(hash_dependencies(image, dependencies, err));
    snp_buf_init(&all, ANSWER_MAX + FILE_MAX);
    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        if ((i > 0 && snp_buf_add(&all, "", 1) < 0) || snp_buf_adds(&all, parts[i]) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    SNP_TRY(snp_bytes_hash(snp_buf_bytes(&all), all.len, image->hash, err));
    (void)snprintf(image->tag, sizeof(image->tag), SNP_ENGINE_WORKSPACE_IMAGE "%.*s", SHORT,
                   image->hash + HASH_AT);
    return 0;
}

/*
 * Whether the tag itself exists, not another one with the same prefix. One without our label is
 * from an older release.
 */
static int has_tag(const struct image *image, bool *ret, struct snp_err *err)
{
    snp_autojson json_t *found = NULL;
    const json_t *labels;

    SNP_TRY(snp_engine_image(image->socket, image->tag, &found, err));
    labels = json_object_get(json_object_get(found, "Config"), "Labels");
    *ret = found != NULL && snp_streq(snp_json_str(labels, LABEL, image->hash), image->hash);
    return 0;
}

/* Getting it ---------------------------------------------------------------------------------- */

/*
 * Ask tier-docker, which knows the secret files of the workspace. *ret_log: of a build, when it
 * fails.
 */
static int get(const json_t *spec, json_t **ret_log, struct snp_err *err)
{
    snp_autofree char *program = NULL;
    snp_autofree char *text = snp_json_text(spec);
    snp_autobuf struct snp_buf out = {0};
    snp_autojson json_t *answer = NULL;
    snp_autoclose int fd = memfd_create(
        "image", MFD_CLOEXEC); /* its content must never appear in a list of processes */
    char file[40];
    const char *error;

    snp_buf_init(&out, ANSWER_MAX);
    SNP_TRY(snp_own_program("tier-docker", &program, err));
    if (text == NULL || fd < 0 || snp_write_all(fd, text, strlen(text)) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)snprintf(file, sizeof(file), "/proc/%d/fd/%d", (int)getpid(), fd);
    const char *const argv[] = {program, "--image", file, NULL};
    SNP_TRY(snp_spawn(argv, &out, err));
    SNP_TRY(snp_json_parse(snp_buf_bytes(&out), out.len, &answer, err));
    *ret_log = json_incref(json_object_get(answer, "log"));
    error = snp_json_str(answer, "error", NULL);
    return error == NULL ? 0 : snp_fail(err, SNP_E_PEER, "%s", error);
}

/* pip settings from the environment, for the build only. */
static json_t *build_args(const struct snp_config *config, struct snp_buf *dockerfile)
{
    static const char *const names[] = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"};
    json_t *args = snp_need(json_object());

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        const char *value = snp_config_process_env(config, names[i]);

        if (value != NULL && value[0] != '\0') {
            (void)json_object_set_new(args, names[i], json_string(value));
            (void)!snp_buf_addf(dockerfile, "ARG %s\n", names[i]);
        }
    }
    return args;
}

static int build(const struct image *image, struct snp_err *err)
{
    snp_autofree char *line =
        snp_need_format("python -m pip install --upgrade pip && %s", image->command);
    snp_autojson json_t *run =
        snp_need(json_pack("[s,s,o]", "/bin/sh", "-c", snp_json_bytes(line, strlen(line))));
    snp_autofree char *run_text = snp_need(json_dumps(run, JSON_COMPACT | JSON_ENSURE_ASCII));
    snp_autobuf struct snp_buf dockerfile = {0};
    snp_autojson json_t *spec = NULL;
    snp_autojson json_t *log = NULL;
    struct snp_err why;
    json_t *args;
    json_t *text;
    size_t i;

    snp_buf_init(&dockerfile, ANSWER_MAX);
    (void)!snp_buf_addf(&dockerfile, "FROM %s\n", image->base);
    args = build_args(image->config, &dockerfile);
    (void)!snp_buf_addf(
        &dockerfile,
        "ENV PYTHONDONTWRITEBYTECODE=1 HOME=/tmp XDG_CACHE_HOME=/tmp/.cache "
        "PYTHONPYCACHEPREFIX=/tmp/pycache PYTEST_ADDOPTS=\"-o cache_dir=/tmp/pytest-cache\" "
        "PYTHONPATH=/workspace PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 "
        "PIP_DISABLE_PIP_VERSION_CHECK=1\n"
        "WORKDIR /workspace\nCOPY . /workspace\nRUN %s\n",
        run_text);
    spec = snp_need(json_pack(
        "{s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:o}", "socket", image->socket, "base", image->base, "tag",
        image->tag, "path", snp_json_bytes(image->path, strlen(image->path)), "dockerfile",
        snp_need(snp_buf_cstr(&dockerfile)), "label", image->hash, "network",
        snp_config_str(image->config, SNP_KEY_DOCKER_WORKSPACE_BUILD_NETWORK), "args", args));
    if (get(spec, &log, err) == 0) {
        return 0;
    }
    if (json_array_size(log) > 0) {
        (void)fprintf(stderr, "Recent build log:\n");
    }
    json_array_foreach(log, i, text)
    {
        snp_term_printf(stderr, "  %s\n", json_string_value(text));
    }
    why = *err;
    return snp_fail(err, why.code, "Failed to prepare workspace image '%s' for %.100s. %.250s",
                    image->tag, image->path, why.msg);
}

static int prepare_workspace(struct image *image,
                             enum snp_cli_image_way way,
                             char **ret,
                             struct snp_err *err)
{
    const char *dir = snp_config_str(image->config, SNP_KEY_DOCKER_WORKSPACE_PATH);
    bool is_there = !image->has_engine; /* which the tier asks for it later */

    SNP_TRY(snp_project_shown(dir == NULL ? "." : dir, "docker_workspace_path", &image->path, err));
    SNP_TRY(snp_engine_image_check(image->base, err));
    SNP_TRY(find_command(image, err));
    SNP_TRY(find_tag(image, err));
    SNP_TRY(is_there ? 0 : has_tag(image, &is_there, err));
    if (!is_there && way != SNP_CLI_IMAGE_GET) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "image %s for %.100s is not built yet; exec --env docker builds it",
                        image->tag, image->path);
    }
    SNP_TRY(is_there ? 0 : build(image, err));
    *ret = snp_need_copy(image->tag);
    return 0;
}

/* A failure here is reported by the tier, if it needs the image. */
static void pull(const struct image *image)
{
    snp_autojson json_t *found = NULL;
    snp_autojson json_t *log = NULL;
    snp_autojson json_t *spec =
        snp_need(json_pack("{s:s,s:s}", "socket", image->socket, "base", image->base));
    struct snp_err err;

    if (snp_engine_image(image->socket, image->base, &found, &err) == 0 && found == NULL &&
        get(spec, &log, &err) < 0) {
        snp_term_printf(stderr, "docker: %s\n", err.msg);
    }
}

int snp_cli_image(const struct snp_config *config,
                  enum snp_cli_image_way way,
                  char **ret,
                  struct snp_err *err)
{
    snp_cleanup(image_done) struct image image = {
        .config = config, .base = snp_config_str(config, SNP_KEY_DOCKER_IMAGE)};

    image.has_engine = way != SNP_CLI_IMAGE_NAME && snp_engine_find(image.socket, err) == 0;
    if (!snp_streq(snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_SETUP), "none")) {
        return prepare_workspace(&image, way, ret, err);
    }
    if (image.has_engine && way == SNP_CLI_IMAGE_GET) {
        pull(&image);
    }
    *ret = snp_need_copy(image.base);
    return 0;
}
