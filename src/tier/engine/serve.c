/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the tier protocol, in one table. The daemon has checked what it sends;
 * what matters for safety is checked again here, and a request that makes no sense is
 * answered with an error.
 */
#include "tier/engine/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "guest/pid1/wire.h"
#include "policy/project.h"
#include "tier/engine/about.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/cell.h"
#include "tier/engine/cell/result.h"
#include "tier/engine/inside.h"
#include "tier/engine/manifest.h"
#include "tier/engine/open.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/rollback.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/snapshot/state.h"
#include "tier/engine/stream/spool.h"
#include "tier/engine/supervisor.h"
#include "wire/file.h"
#include "wire/rpc.h"
#include "wire/tier.h"

struct request {
    struct snp_supervisor *supervisor;
    uint32_t id;
    const json_t *head;
    const char *raw;
    size_t raw_len;
    int fd;                      /* that came with it; whoever keeps it sets -1 */
    struct snp_sandbox *sandbox; /* of methods that need one */
};

static int on_probe(struct request *rq, struct snp_err *err)
{
    snp_autojson json_t *answer = rq->supervisor->ops->probe(rq->supervisor);
    snp_autojson json_t *about =
        snp_about_json(rq->supervisor->ops->about, snp_serve_methods());

    if (json_object_set_new(about, "limits", snp_manifest_limits(rq->supervisor)) < 0 ||
        json_object_update(answer, about) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

/* PATH with the programs of the interpreter's packages first, and what venvs set. */
static int add_python_env(const struct snp_python *python,
                          const json_t *env,
                          struct snp_buf *block)
{
    static const char path[] = "/usr/local/bin:/usr/bin:/bin";
    int r = 0;

    if (python->site != NULL && json_object_get(env, "VIRTUAL_ENV") == NULL) {
        r = snp_buf_addf(block, "VIRTUAL_ENV=%s", python->site);
        r = r < 0 ? r : snp_buf_add(block, "", 1);
    }
    if (r == 0 && json_object_get(env, "PATH") == NULL) {
        r = snp_buf_addf(
            block, "PATH=%s%s%s%s%s", python->site == NULL ? "" : python->site,
            python->site == NULL ? "" : "/bin:", python->prefix == NULL ? "" : python->prefix,
            python->prefix == NULL ? "" : "/bin:", path);
        r = r < 0 ? r : snp_buf_add(block, "", 1);
    }
    return r;
}

static int read_env(const json_t *env,
                    const char *folder,
                    struct snp_sandbox_spec *spec,
                    struct snp_err *err)
{
    char home[SNP_FOLDER_MAX + 32];
    char tmpdir[SNP_FOLDER_MAX + 32];
    char threads[48];
    const char *const defaults[] = {
        home,
        "LANG=C.UTF-8",
        "TERM=dumb",
        "SHELL=/bin/sh", /* else bash looks its user up, over a socket that is refused in places */
        "PYTHONDONTWRITEBYTECODE=1",
        "MPLBACKEND=Agg",
        tmpdir,
        threads,
        "PIP_RETRIES=0", /* there is nothing to wait for */
        "PIP_DISABLE_PIP_VERSION_CHECK=1",
        "GIT_CONFIG_NOSYSTEM=1"}; /* last: git stops at a file of the host it may not read */
    const size_t n_defaults = SNP_ARRAY_LEN(defaults) - (folder[0] == '\0' ? 1 : 0);
    const uint64_t cpus = spec->limits.value[SNP_LIMIT_CPUS] / 1000;
    snp_autobuf struct snp_buf block = {0};
    const char *key;
    json_t *value;
    int r = 0;

    (void)snprintf(home, sizeof(home), "HOME=%s/tmp/.home", folder);
    (void)snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s/tmp", folder);
    /*
     * Libraries of arithmetic start a thread for each processor they see, which may be more than
     * the session may use; and an interpreter with threads cannot be copied.
     */
    (void)snprintf(threads, sizeof(threads), "OMP_NUM_THREADS=%llu",
                   (unsigned long long)(cpus == 0 ? 1 : cpus));
    snp_buf_init(&block, SNP_ENV_MAX);
    r = add_python_env(&spec->python, env, &block);
    for (size_t i = 0; r == 0 && i < n_defaults; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(defaults[i], "="), defaults[i]);
        if (json_object_get(env, name) == NULL) {
            r = snp_buf_add(&block, defaults[i], strlen(defaults[i]) + 1);
        }
    }
    json_object_foreach((json_t *)(uintptr_t)env, key, value)
    {
        if (!json_is_string(value) || *key == '\0' || strchr(key, '=') != NULL) {
            return snp_fail(err, SNP_E_INVALID,
                            "environment variable '%.60s' must be a name with a text", key);
        }
        if (r == 0) {
            r = snp_buf_addf(&block, "%s=%s", key, json_string_value(value));
        }
        if (r == 0) {
            r = snp_buf_add(&block, "", 1);
        }
    }
    if (r < 0) {
        return snp_fail(err, SNP_E_LIMIT, "the environment is larger than %d KiB",
                        SNP_ENV_MAX >> 10);
    }
    spec->env = malloc(block.len + 1);
    if (spec->env == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    memcpy(spec->env, snp_buf_bytes(&block), block.len);
    spec->env_len = (uint32_t)block.len;
    return 0;
}

static int on_open(struct request *rq, struct snp_err *err)
{
    struct snp_sandbox_spec spec = {
        .allow_degraded = snp_json_bool(rq->head, "allow_degraded", false),
        .require_exact = snp_json_bool(rq->head, "require_exact", false),
        .is_lasting = snp_json_bool(rq->head, "lasting", true),
        .is_to_load = snp_json_bool(rq->head, "loads", false),
        .epoch = (uint64_t)snp_json_int(rq->head, "epoch", 0),
        .is_transactional = snp_json_bool(rq->head, "transaction", true),
    };
    const char *id = snp_json_str(rq->head, "session", "");
    const char *project = snp_json_str(rq->head, "project", NULL);
    const char *instead_of = snp_json_str(rq->head, "instead_of", NULL);
    char folder[SNP_FOLDER_MAX];
    int r;

    if (strlen(id) != SNP_SESSION_ID_LEN ||
        strspn(id, "0123456789abcdef") != SNP_SESSION_ID_LEN) {
        return snp_fail(err, SNP_E_INVALID, "open: 'session' must be 32 hex digits");
    }
    if (snp_sandbox_exists(rq->supervisor, id)) {
        return snp_fail(err, SNP_E_INVALID, "open: session %s exists", id);
    }
    (void)snprintf(spec.id, sizeof(spec.id), "%s", id);
    snp_limits_default(&spec.limits);
    r = snp_limits_from_json(json_object_get(rq->head, "limits"), &spec.limits, err);
    if (r == 0 && project != NULL) {
        r = snp_project_check(project, NULL, err);
        spec.project = r == 0 ? strdup(project) : NULL;
    }
    spec.instead_of = instead_of == NULL ? NULL : strdup(instead_of);
    if (r == 0) {
        const struct snp_python_query query = {
            .name = snp_json_str(rq->head, "template", NULL),
            .project = project,
            .rootfs = snp_json_str(rq->head, "rootfs", NULL),
            .state_dir = rq->supervisor->state_dir,
            .default_python = rq->supervisor->python,
            .home = rq->supervisor->home,
        };
        r = rq->supervisor->ops->find_python(&query, &spec.python, err);
    }
    if (r == 0) {
        r = rq->supervisor->ops->folder(rq->supervisor, spec.id, folder, sizeof(folder), err);
    }
    if (r == 0) {
        r = read_env(json_object_get(rq->head, "env"), folder, &spec, err);
    }
    if (r < 0) {
        snp_python_done(&spec.python);
        free(spec.project);
        free(spec.env);
        free(spec.instead_of);
        return r;
    }
    return snp_sandbox_open(rq->supervisor, &spec, rq->id, err);
}

static bool is_argv(const json_t *argv)
{
    size_t i;
    json_t *arg;

    if (!json_is_array(argv) || json_array_size(argv) == 0 || json_array_size(argv) > 4096) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)argv, i, arg)
    {
        if (!json_is_string(arg) || strlen(json_string_value(arg)) != json_string_length(arg)) {
            return false;
        }
    }
    return true;
}

static int on_exec(struct request *rq, struct snp_err *err)
{
    const struct snp_limit_info *wall = snp_limit_info(SNP_LIMIT_WALL);
    int64_t code_len = snp_json_int(rq->head, "code_len", 0);
    int64_t wall_ms = snp_json_int(rq->head, "wall_ms", (int64_t)wall->fallback);
    struct snp_cell_request cell = {
        .id = rq->id,
        .number = (uint64_t)snp_json_int(rq->head, "cell", 0),
        .is_command = snp_streq(snp_json_str(rq->head, "kind", "python"), "command"),
        .argv = json_object_get(rq->head, "argv"),
        .is_transactional = snp_json_bool(rq->head, "transaction", true),
        .is_atomic = snp_json_bool(rq->head, "atomic", false),
        .has_calls = snp_json_bool(rq->head, "calls", false),
        .epoch = (uint64_t)snp_json_int(rq->head, "epoch", 0),
        .has_stdin = snp_json_bool(rq->head, "stdin", false),
        .code = rq->raw,
    };

    if (code_len < 0 || (size_t)code_len > rq->raw_len) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'code_len' is larger than what came");
    }
    if (wall_ms < (int64_t)wall->min || wall_ms > (int64_t)wall->max) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'wall_ms' is out of range");
    }
    if (!cell.is_command && json_array_size(cell.argv) == 0) {
        cell.argv = NULL; /* null, absent or empty: no arguments */
    }
    if ((cell.is_command || cell.argv != NULL) && !is_argv(cell.argv)) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'argv' must be a list of texts");
    }
    if (snp_json_bool(rq->head, "require_exact", false)) {
        int r = snp_sandbox_check_exact(rq->sandbox, err);
        if (r < 0) {
            return r;
        }
    }
    cell.wall_ms = (uint64_t)wall_ms;
    cell.code_len = (size_t)code_len;
    cell.input = rq->raw + code_len;
    cell.input_len = rq->raw_len - (size_t)code_len;
    return snp_cell_start(rq->sandbox, &cell, err);
}

static int on_interrupt(struct request *rq, struct snp_err *err)
{
    snp_autojson json_t *answer =
        SNP_WRITE(snp_tier_interrupt_answer, .interrupted = snp_cell_interrupt(rq->sandbox));

    (void)err;
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static int on_answer(struct request *rq, struct snp_err *err)
{
    int64_t call = snp_json_int(rq->head, "call", 0);
    const struct snp_cell_answer said = {
        .cell = (uint64_t)snp_json_int(rq->head, "cell", 0),
        .call = (uint32_t)call,
        .is_ok = snp_json_bool(rq->head, "ok", false),
        .raw = rq->raw,
        .raw_len = rq->raw_len,
    };
    snp_autojson json_t *answer = NULL;

    if (call < 1 || call > UINT32_MAX || rq->raw_len > SNP_CALL_BYTES_MAX) {
        return snp_fail(err, SNP_E_INVALID, "answer: out of range");
    }
    answer = SNP_WRITE(snp_tier_answer_answer, .answered = snp_cell_answer(rq->sandbox, &said));
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static int on_close(struct request *rq, struct snp_err *err)
{
    (void)err;
    rq->sandbox->close_id = rq->id;
    snp_sandbox_kill(rq->sandbox, "it was closed");
    return 0;
}

enum {
    GOT_HEAD = 20 /* of pid 1's answer to GET: u64 size, u32 mode, u64 bytes of a hole */
};

/* One file request on its way through pid 1. */
struct file_call {
    struct snp_supervisor *supervisor; /* borrowed */
    uint32_t id;
    uint8_t type;
    uint64_t offset;
    uint64_t workspace_bytes;
    uint64_t room_bytes; /* of all files that get can read, but for a project's */
    uint32_t length;     /* asked for */
    bool tells_holes;    /* else a hole is answered with zeros */
    bool has_project;
    char path[1]; /* NUL-terminated */
};

static void file_error(const struct file_call *call, int eno)
{
    struct snp_err err;
    char size[32];

    switch (eno) {
    case ENOENT:
    case ENOTDIR:
        (void)snp_fail(&err, SNP_E_NOT_FOUND, "no file '%.200s' in the session", call->path);
        break;
    case EACCES:
    case EPERM:
    case EXDEV:
    case ELOOP:
    case EROFS:
        (void)snp_fail(&err, SNP_E_DENIED,
                       "'%.180s' is not below /workspace or /tmp of the session, or is a link "
                       "that leads out of them",
                       call->path);
        break;
    case EPIPE:
        (void)snp_fail(&err, SNP_E_PEER, "the session ended meanwhile");
        break;
    case EISDIR:
        (void)snp_fail_with(&err, SNP_E_INVALID, SNP_REMEDY_RECURSE, NULL, 0,
                            "'%.200s' is a folder", call->path);
        break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        (void)snp_fail_with(&err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "workspace_size", 0,
                            "no room for '%.150s': the workspace holds %s", call->path,
                            snp_format_bytes(call->workspace_bytes, size, sizeof(size)));
        snp_err_limit(&err, "workspace_size", (int64_t)call->workspace_bytes);
        break;
    case EINVAL:
        (void)snp_fail(&err, SNP_E_INVALID, "'%.200s' is not a regular file", call->path);
        break;
    default:
        (void)snp_fail_sys(&err, eno, "'%.200s'", call->path);
    }
    snp_answer_error(call->supervisor, call->id, &err);
}

/* What pid 1 read; it is not trusted. */
static void on_got(const struct file_call *call, uint64_t size, const char *bytes, size_t n)
{
    snp_autofree char *zeros = NULL;
    snp_autojson json_t *answer = NULL;
    uint64_t hole = 0;
    uint32_t mode = 0;

    if (n < GOT_HEAD || n - GOT_HEAD > SNP_FILE_CHUNK_MAX) {
        file_error(call, EIO);
        return;
    }
    memcpy(&mode, bytes + 8, sizeof(mode));
    memcpy(&hole, bytes + 12, sizeof(hole));
    bytes += GOT_HEAD;
    n -= GOT_HEAD;
    if (hole > 0 && (n > 0 || call->offset > size || hole > size - call->offset)) {
        file_error(call, EIO);
        return;
    }
    if (hole > 0 && !call->tells_holes) {
        n = hole < call->length ? (size_t)hole : call->length;
        zeros = calloc(1, n + 1);
        bytes = zeros;
        hole = 0;
        if (zeros == NULL) {
            file_error(call, ENOMEM);
            return;
        }
    }
    answer = SNP_WRITE(snp_get_answer, .size = size, .mode = mode & 0777U,
                       .eof = call->offset + hole + n >= size || hole + n == 0,
                       .hole = call->tells_holes ? (int64_t)hole : SNP_NO_NUMBER,
                       .room = call->tells_holes ? (int64_t)call->room_bytes : SNP_NO_NUMBER,
                       .project = call->tells_holes && call->has_project);
    snp_answer_response(call->supervisor, call->id, answer, bytes, n);
}

static void on_file_reply(void *data, int eno, const char *bytes, size_t n)
{
    snp_autofree struct file_call *call = data;
    snp_autojson json_t *answer = NULL;
    uint64_t size = 0;

    if (eno != 0) {
        file_error(call, eno);
        return;
    }
    if (call->type == SNP_INIT_LS) {
        answer = snp_result_entries(bytes, n);
        snp_answer_response(call->supervisor, call->id, answer, NULL, 0);
        return;
    }
    memcpy(&size, bytes, n >= sizeof(size) ? sizeof(size) : 0);
    if (size > INT64_MAX) { /* pid 1 is not trusted */
        file_error(call, EIO);
        return;
    }
    if (call->type == SNP_INIT_PUT) {
        answer = SNP_WRITE(snp_put_answer, .size = size);
        snp_answer_response(call->supervisor, call->id, answer, NULL, 0);
        return;
    }
    on_got(call, size, bytes, n);
}

/* What a call may be answered with at most. */
static uint32_t read_length(const struct request *rq)
{
    int64_t length = snp_json_int(rq->head, "length", SNP_FILE_CHUNK_MAX);

    return length < 0 || length > SNP_FILE_CHUNK_MAX ? SNP_FILE_CHUNK_MAX : (uint32_t)length;
}

static int ask_file(struct request *rq, uint8_t type, struct snp_buf *raw, struct snp_err *err)
{
    const char *path = snp_json_str(rq->head, "path", "");
    size_t n = strlen(path);
    struct file_call *call = n > 4095 ? NULL : malloc(sizeof(*call) + n);

    if (call == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the path is too long");
    }
    *call = (struct file_call){
        .supervisor = rq->supervisor,
        .id = rq->id,
        .type = type,
        .offset = (uint64_t)snp_json_int(rq->head, "offset", 0),
        .workspace_bytes = rq->sandbox->spec.limits.value[SNP_LIMIT_WORKSPACE],
        .room_bytes = rq->sandbox->spec.limits.value[SNP_LIMIT_WORKSPACE] +
                      rq->sandbox->spec.limits.value[SNP_LIMIT_TMP],
        .has_project = rq->sandbox->spec.project != NULL,
        .length = read_length(rq),
        .tells_holes = snp_json_bool(rq->head, "holes", false),
    };
    memcpy(call->path, path, n + 1);
    if (snp_buf_add(raw, path, n + 1) < 0 ||
        (type == SNP_INIT_PUT && snp_buf_add(raw, rq->raw, rq->raw_len) < 0)) {
        free(call);
        return snp_fail(err, SNP_E_LIMIT, "at most %d KiB at once", SNP_FILE_CHUNK_MAX >> 10);
    }
    if (type == SNP_INIT_PUT) {
        snp_cell_on_put(rq->sandbox, raw);
    }
    snp_sandbox_ask_init(rq->sandbox, type, raw, -1, on_file_reply, call);
    return 0;
}

static int on_put(struct request *rq, struct snp_err *err)
{
    uint64_t offset = (uint64_t)snp_json_int(rq->head, "offset", 0);
    uint8_t truncate = snp_json_bool(rq->head, "truncate", false) ? 1 : 0;
    uint32_t mode = (uint32_t)snp_json_int(rq->head, "mode", 0);
    snp_autobuf struct snp_buf raw = {0};

    snp_buf_init(&raw, SNP_FILE_CHUNK_MAX + 8192);
    if (snp_buf_add(&raw, &offset, 8) < 0 || snp_buf_add(&raw, &truncate, 1) < 0 ||
        snp_buf_add(&raw, &mode, 4) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    rq->sandbox->is_unwritten = false;
    snp_snapshot_stale(rq->sandbox);
    return ask_file(rq, SNP_INIT_PUT, &raw, err);
}

static int on_get(struct request *rq, struct snp_err *err)
{
    uint64_t offset = (uint64_t)snp_json_int(rq->head, "offset", 0);
    uint32_t most = read_length(rq);
    snp_autobuf struct snp_buf raw = {0};

    snp_buf_init(&raw, 8192);
    if (snp_buf_add(&raw, &offset, 8) < 0 || snp_buf_add(&raw, &most, 4) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return ask_file(rq, SNP_INIT_GET, &raw, err);
}

static int on_ls(struct request *rq, struct snp_err *err)
{
    snp_autobuf struct snp_buf raw = {0};

    snp_buf_init(&raw, 8192);
    return ask_file(rq, SNP_INIT_LS, &raw, err);
}

static int on_output(struct request *rq, struct snp_err *err)
{
    int64_t length = snp_json_int(rq->head, "length", SNP_FILE_CHUNK_MAX);
    int64_t offset = snp_json_int(rq->head, "offset", 0);
    struct snp_spool_part part = {.room = length < 0 || length > SNP_FILE_CHUNK_MAX
                                              ? SNP_FILE_CHUNK_MAX
                                              : (size_t)length};
    snp_autofree char *bytes = malloc(part.room + 1);
    snp_autojson json_t *answer = NULL;
    int r;

    if (bytes == NULL || offset < 0) {
        return snp_fail(err, SNP_E_INVALID, "output: 'offset' must not be negative");
    }
    part.bytes = bytes;
    r = snp_spool_read(&rq->supervisor->spools, snp_json_str(rq->head, "handle", ""),
                       snp_json_str(rq->head, "stream", "stdout"), (uint64_t)offset, &part,
                       err);
    if (r < 0) {
        return r;
    }
    answer = SNP_WRITE(snp_output_answer, .size = part.size,
                       .eof = (uint64_t)offset + part.n >= part.size, .truncated = part.is_cut);
    snp_answer_response(rq->supervisor, rq->id, answer, bytes, part.n);
    return 0;
}

/* A snapshot's number; -1 for anything else. */
static int64_t read_snapshot(const struct request *rq)
{
    int64_t number = snp_json_int(rq->head, "branch", -1);

    return number > UINT32_MAX ? -1 : number;
}

static int on_snapshot(struct request *rq, struct snp_err *err)
{
    return snp_method_snapshot(rq->sandbox, rq->id, err);
}

static int on_rollback(struct request *rq, struct snp_err *err)
{
    int64_t number = read_snapshot(rq);
    int64_t epoch = snp_json_int(rq->head, "epoch", -1);

    if (number < 0 || epoch < 0) {
        return snp_fail(err, SNP_E_INVALID, "rollback: 'branch' and 'epoch' must be numbers");
    }
    return snp_method_rollback(rq->sandbox, rq->id, (uint32_t)number, (uint64_t)epoch, err);
}

static int on_drop(struct request *rq, struct snp_err *err)
{
    int64_t number = read_snapshot(rq);

    if (number < 0) {
        return snp_fail(err, SNP_E_INVALID, "drop: 'branch' must be a number");
    }
    return snp_method_drop(rq->sandbox, rq->id, (uint32_t)number, err);
}

static int on_memory(struct request *rq, struct snp_err *err)
{
    return snp_method_memory(rq->sandbox, rq->id, err);
}

static int on_save(struct request *rq, struct snp_err *err)
{
    const json_t *snapshot = json_object_get(rq->head, "branch");
    const struct snp_save_request save = {
        .id = rq->id,
        .has_snapshot = json_is_integer(snapshot),
        .snapshot = (uint32_t)json_integer_value(snapshot),
        .epoch = (uint64_t)snp_json_int(rq->head, "epoch", 0),
        .cell = (uint64_t)snp_json_int(rq->head, "cell", INT64_MAX),
        .is_describe = snp_json_bool(rq->head, "describe", false),
        .known = rq->raw,
        .known_len = rq->raw_len,
    };

    if (save.has_snapshot && read_snapshot(rq) < 0) {
        return snp_fail(err, SNP_E_INVALID, "save: 'branch' must be a number or null");
    }
    return snp_method_save(rq->sandbox, &save, &rq->fd, err);
}

static int on_load(struct request *rq, struct snp_err *err)
{
    const struct snp_load_request load = {
        .id = rq->id,
        .epoch = (uint64_t)snp_json_int(rq->head, "epoch", 0),
        .effort = (unsigned)snp_json_int(rq->head, "effort", 0),
    };

    return snp_method_load(rq->sandbox, &load, &rq->fd, err);
}

static int on_stats(struct request *rq, struct snp_err *err)
{
    struct snp_meter_reading usage = {0};
    snp_autojson json_t *answer = NULL;

    (void)err;
    if (rq->sandbox->cgroup != NULL) {
        snp_meter_read_once(&rq->supervisor->cgroups, rq->sandbox->cgroup, &usage);
    }
    answer = json_pack("{s:I,s:I}", "memory_bytes", (json_int_t)usage.memory_bytes, "cpu_us",
                       (json_int_t)usage.cpu_us);
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static const struct {
    const char *name;
    bool needs_sandbox;
    bool takes_fd;
    int (*run)(struct request *, struct snp_err *);
} methods[] = {
    {"probe",     false, false, on_probe    },
    {"open",      false, false, on_open     },
    {"exec",      true,  false, on_exec     },
    {"interrupt", true,  false, on_interrupt},
    {"answer",    true,  false, on_answer   },
    {"close",     true,  false, on_close    },
    {"put",       true,  false, on_put      },
    {"get",       true,  false, on_get      },
    {"ls",        true,  false, on_ls       },
    {"output",    false, false, on_output   },
    {"stats",     true,  false, on_stats    },
    {"snapshot",  true,  false, on_snapshot },
    {"rollback",  true,  false, on_rollback },
    {"drop",      true,  false, on_drop     },
    {"memory",    true,  false, on_memory   },
    {"save",      true,  true,  on_save     },
    {"load",      true,  true,  on_load     },
};

json_t *snp_serve_methods(void)
{
    json_t *names = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(methods); i++) {
        (void)json_array_append_new(names, json_string(methods[i].name));
    }
    return names;
}

static int dispatch(struct request *rq, struct snp_err *err)
{
    const char *name = snp_json_str(rq->head, "method", "");
    const char *session = snp_json_str(rq->head, "session", "");

    for (size_t i = 0; i < SNP_ARRAY_LEN(methods); i++) {
        if (!snp_streq(methods[i].name, name)) {
            continue;
        }
        rq->sandbox =
            methods[i].needs_sandbox ? snp_sandbox_find(rq->supervisor, session) : NULL;
        if ((rq->fd >= 0) != methods[i].takes_fd) {
            return snp_fail(err, SNP_E_INVALID, "%s: %s", name,
                            rq->fd >= 0 ? "takes no descriptor" : "a descriptor is missing");
        }
        if (methods[i].needs_sandbox && rq->sandbox == NULL) {
            return snp_fail(err, SNP_E_NOT_FOUND, "no session '%.64s'", session);
        }
        return methods[i].run(rq, err);
    }
    return snp_fail(err, SNP_E_UNSUPPORTED, "no method '%.40s'", name);
}

void snp_serve_frame(struct snp_supervisor *supervisor, const struct snp_frame *frame)
{
    snp_autojson json_t *head = NULL;
    struct request rq = {
        .supervisor = supervisor,
        .id = frame->id,
        .raw = frame->raw,
        .raw_len = frame->raw_len,
        .fd = snp_link_take_fd(&supervisor->daemon),
    };
    struct snp_err err;
    int r = frame->type != SNP_RPC_REQUEST
                ? snp_fail(&err, SNP_E_PEER, "not a request")
                : snp_json_parse(frame->head, frame->head_len, &head, &err);

    rq.head = head;
    if (r == 0) {
        r = dispatch(&rq, &err);
    }
    if (r < 0) {
        snp_answer_error(supervisor, frame->id, &err);
    }
    snp_closep(&rq.fd);
}
