/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the tier protocol, in one table. The daemon has validated its requests; safety
 * checks are repeated here, and an invalid request is answered with an error.
 */
#include "tier/engine/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/project/project.h"
#include "base/str.h"
#include "base/wire/file.h"
#include "base/wire/process.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/engine/about.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/cell.h"
#include "tier/engine/cell/result.h"
#include "tier/engine/inside.h"
#include "tier/engine/manifest.h"
#include "tier/engine/open.h"
#include "tier/engine/process.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/clone.h"
#include "tier/engine/snapshot/rollback.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/snapshot/state.h"
#include "tier/engine/stream/spool.h"
#include "tier/engine/supervisor.h"
#include "wire/tier.h"

struct tier_request {
    struct snp_supervisor *supervisor;
    uint32_t id;
    union {
        struct snp_tier_open_request open;
        struct snp_tier_exec_request exec;
        struct snp_tier_answer_request answer;
        struct snp_tier_rollback_request rollback;
        struct snp_tier_drop_request drop;
        struct snp_tier_limit_request limit;
        struct snp_tier_save_request save;
        struct snp_tier_load_request load;
        struct snp_tier_clone_request clone;
        struct snp_put_request put;
        struct snp_get_request get;
        struct snp_ls_request ls;
        struct snp_output_request output;
        struct snp_process_read_request process_read;
        struct snp_process_write_request process_write;
        struct snp_process_signal_request process_signal;
        struct snp_tier_forget_request forget;
        struct snp_tier_outputs_request outputs;
    } in; /* the head, read as the method's record says */
    const char *raw;
    size_t raw_len;
    int fd;                      /* that came with it; set to -1 by the handler that takes it */
    struct snp_sandbox *sandbox; /* of methods that need one */
};

static int on_probe(struct tier_request *rq, struct snp_err *err)
{
    snp_autojson json_t *answer = rq->supervisor->ops->probe(rq->supervisor);
    snp_autojson json_t *about = snp_about_json(rq->supervisor->ops->about, snp_serve_methods());

    json_t *degraded = json_array();
    struct snp_limits limits;

    snp_limits_default(&limits);
    limits.value[SNP_LIMIT_CPUS] = 500; /* a fraction of one CPU */
    snp_manifest_degraded(rq->supervisor, &limits, degraded);
    if (json_object_set_new(about, "limits", snp_manifest_limits(rq->supervisor)) < 0 ||
        json_object_set_new(about, "degraded", degraded) < 0 ||
        json_object_update(answer, about) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

/* PATH with the programs of the interpreter's packages first, and the variables that venvs set. */
static int add_python_env(const struct snp_python *python, const json_t *env, struct snp_buf *block)
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

/* Add "NAME=VALUE" unless env has the variable. */
static int add_default(struct snp_buf *block, const json_t *env, const char *text)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
    return json_object_get(env, name) == NULL ? snp_buf_add(block, text, strlen(text) + 1) : 0;
}

/* more: a variable of the tier; NULL = none. */
static int read_env(const json_t *env,
                    const char *folder,
                    const char *more,
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
        "SHELL=/bin/sh", /* else bash looks its user up, over a socket that some tiers refuse */
        "PYTHONDONTWRITEBYTECODE=1",
        "MPLBACKEND=Agg",
        tmpdir,
        threads,
        "PIP_RETRIES=0", /* without a network, retries only delay the error */
        "PIP_DISABLE_PIP_VERSION_CHECK=1",
        "GIT_CONFIG_NOSYSTEM=1"}; /* last: git stops at a host file that it may not read */
    const size_t n_defaults = SNP_ARRAY_LEN(defaults) - (folder[0] == '\0' ? 1 : 0);
    const uint64_t cpus = spec->limits.value[SNP_LIMIT_CPUS] / 1000;
    snp_autobuf struct snp_buf block = {0};
    const char *key;
    json_t *value;
    int r = 0;

    (void)snprintf(home, sizeof(home), "HOME=%s/tmp/.home", folder);
    (void)snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s/tmp", folder);
    /*
     * NumPy's BLAS starts one thread for each visible processor, which may exceed the session's
     * CPUs; and an interpreter with threads cannot be copied.
     */
    (void)snprintf(threads, sizeof(threads), "OMP_NUM_THREADS=%llu",
                   (unsigned long long)(cpus == 0 ? 1 : cpus));
    snp_buf_init(&block, SNP_ENV_MAX);
    r = add_python_env(&spec->python, env, &block);
    for (size_t i = 0; r == 0 && i < n_defaults; i++) {
        r = add_default(&block, env, defaults[i]);
    }
    if (r == 0 && more != NULL) {
        r = add_default(&block, env, more);
    }
    json_object_foreach((json_t *)(uintptr_t)env, key, value)
    {
        if (!json_is_string(value) || *key == '\0' || strchr(key, '=') != NULL) {
            return snp_fail(
                err, SNP_E_INVALID,
                "environment variable '%.60s' must have a valid name and a text as its value", key);
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

static int on_open(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_tier_open_request *in = &rq->in.open;
    struct snp_sandbox_spec spec = {
        .has_network = in->network,
        .allow_degraded = in->allow_degraded,
        .require_exact = in->require_exact,
        .is_lasting = in->lasting,
        .is_to_load = in->loads,
        .epoch = in->epoch,
        .is_transactional = in->transaction,
    };
    const char *id = in->session == NULL ? "" : in->session;
    char folder[SNP_FOLDER_MAX] = "";
    int r;

    if (strlen(id) != SNP_SESSION_ID_LEN || strspn(id, "0123456789abcdef") != SNP_SESSION_ID_LEN) {
        return snp_fail(err, SNP_E_INVALID, "open: 'session' must be 32 hex digits");
    }
    if (snp_sandbox_exists(rq->supervisor, id)) {
        return snp_fail(err, SNP_E_INVALID, "open: session %s exists", id);
    }
    (void)snprintf(spec.id, sizeof(spec.id), "%s", id);
    snp_limits_default(&spec.limits);
    r = snp_limits_from_json(in->limits, &spec.limits, err);
    if (r == 0 && in->project != NULL) {
        r = snp_project_check(in->project, NULL, err);
        spec.project = r == 0 ? strdup(in->project) : NULL;
    }
    spec.instead_of = in->instead_of == NULL ? NULL : strdup(in->instead_of);
    if (r == 0) {
        const struct snp_python_query query = {
            .name = in->template,
            .project = in->project,
            .rootfs = in->rootfs,
            .state_dir = rq->supervisor->state_dir,
            .default_python = rq->supervisor->python,
            .home = rq->supervisor->home,
        };
        r = rq->supervisor->ops->find_python(&query, &spec.python, err);
    }
    if (r == 0 && rq->supervisor->ops->folder != NULL) {
        r = rq->supervisor->ops->folder(rq->supervisor, spec.id, folder, sizeof(folder), err);
    }
    if (r == 0) {
        const char *more =
            rq->supervisor->ops->variable == NULL ? NULL : rq->supervisor->ops->variable(&spec);

        r = read_env(in->env, folder, more, &spec, err);
    }
    if (r < 0) {
        snp_sandbox_spec_done(&spec);
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

static int on_exec(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_limit_info *wall = snp_limit_info(SNP_LIMIT_WALL);
    const struct snp_tier_exec_request *in = &rq->in.exec;
    const int64_t wall_ms = in->wall_ms == SNP_NO_NUMBER ? (int64_t)wall->fallback : in->wall_ms;
    struct snp_cell_request cell = {
        .id = rq->id,
        .number = in->cell,
        .kind = (enum snp_exec_kind)snp_word_find(snp_exec_kinds, in->kind),
        .argv = in->argv,
        .is_transactional = in->transaction,
        .is_atomic = in->atomic,
        .has_calls = in->calls,
        .epoch = in->epoch,
        .owner = in->owner == NULL ? in->session : in->owner,
        .wall_ms = (uint64_t)wall_ms,
        .has_stdin = in->stdin,
        .has_open_stdin = in->open_stdin,
        .code = rq->raw,
        .code_len = (size_t)in->code_len,
    };

    if (strlen(cell.owner) != SNP_SESSION_ID_LEN ||
        strspn(cell.owner, "0123456789abcdef") != SNP_SESSION_ID_LEN) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'owner' must be 32 hex digits");
    }
    if (in->code_len > rq->raw_len) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'code_len' is larger than what came");
    }
    if (wall_ms < (int64_t)wall->min || wall_ms > (int64_t)wall->max) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'wall_ms' is out of range");
    }
    if (cell.kind == SNP_EXEC_PYTHON && json_array_size(cell.argv) == 0) {
        cell.argv = NULL; /* null, absent or empty: no arguments */
    }
    if ((cell.kind != SNP_EXEC_PYTHON || cell.argv != NULL) && !is_argv(cell.argv)) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'argv' must be a list of texts");
    }
    if (in->require_exact) {
        int r = snp_sandbox_check_exact(rq->sandbox, err);
        if (r < 0) {
            return r;
        }
    }
    cell.input = rq->raw + in->code_len;
    cell.input_len = rq->raw_len - (size_t)in->code_len;
    return snp_cell_start(rq->sandbox, &cell, err);
}

static int on_interrupt(struct tier_request *rq, struct snp_err *err)
{
    snp_autojson json_t *answer =
        SNP_WRITE(snp_tier_interrupt_answer, .interrupted = snp_cell_interrupt(rq->sandbox));

    (void)err;
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static int on_answer(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_tier_answer_request *in = &rq->in.answer;
    const struct snp_cell_answer said = {
        .cell = in->cell,
        .call = (uint32_t)in->call,
        .is_ok = in->ok,
        .raw = rq->raw,
        .raw_len = rq->raw_len,
    };
    snp_autojson json_t *answer = NULL;

    if (in->call < 1 || in->call > UINT32_MAX || rq->raw_len > SNP_CALL_BYTES_MAX) {
        return snp_fail(err, SNP_E_INVALID, "answer: out of range");
    }
    answer = SNP_WRITE(snp_tier_answer_answer, .answered = snp_cell_answer(rq->sandbox, &said));
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static int on_close(struct tier_request *rq, struct snp_err *err)
{
    (void)err;
    rq->sandbox->close_id = rq->id;
    snp_sandbox_kill(rq->sandbox, "it was closed");
    return 0;
}

/* A file request that pid 1 is serving. */
struct file_call {
    struct snp_supervisor *supervisor; /* borrowed */
    uint32_t id;
    uint8_t type;
    uint64_t offset;
    enum snp_limit full; /* the limit that a full workspace has met */
    uint64_t full_bytes;
    uint64_t room_bytes; /* of all readable files, except a project's */
    uint32_t length;     /* requested */
    bool tells_holes;    /* else holes are sent as zeros */
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
        (void)snp_fail_with(&err, SNP_E_NOT_FOUND, SNP_REMEDY_LIST_FILES, NULL, 0,
                            "no file '%.200s' in the session", call->path);
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
        (void)snp_fail(&err, SNP_E_PEER, "the session ended first");
        break;
    case EISDIR:
        (void)snp_fail_with(&err, SNP_E_INVALID, SNP_REMEDY_RECURSE, NULL, 0,
                            "'%.200s' is a folder", call->path);
        break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        (void)snp_fail_with(&err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT,
                            snp_limit_info(call->full)->key, 0,
                            "no room for '%.150s': the workspace holds %s", call->path,
                            snp_format_bytes(call->full_bytes, size, sizeof(size)));
        snp_err_limit(&err, snp_limit_info(call->full)->key, (int64_t)call->full_bytes);
        break;
    case ENAMETOOLONG:
        (void)snp_fail(&err, SNP_E_INVALID,
                       "'%.200s' is too long: a name has at most 255 bytes, a path 4095",
                       call->path);
        break;
    case EINVAL:
        (void)snp_fail(&err, SNP_E_INVALID, "'%.200s' is not a regular file", call->path);
        break;
    default:
        (void)snp_fail_sys(&err, eno, "'%.200s'", call->path);
    }
    snp_err_about(&err, call->path);
    snp_answer_error(call->supervisor, call->id, &err);
}

/* Answer with the bytes that pid 1 read. Pid 1 is not trusted. */
static void on_got(const struct file_call *call, uint64_t size, const char *bytes, size_t n)
{
    snp_autofree char *zeros = NULL;
    snp_autojson json_t *answer = NULL;
    struct snp_init_got got;
    uint64_t hole;

    if (n < sizeof(got) || n - sizeof(got) > SNP_FILE_CHUNK_MAX) {
        file_error(call, EIO);
        return;
    }
    memcpy(&got, bytes, sizeof(got));
    hole = got.hole;
    bytes += sizeof(got);
    n -= sizeof(got);
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
    answer = SNP_WRITE(snp_get_answer, .size = size, .mode = got.mode & 0777U,
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

/* Cap the length of an answer. */
static uint32_t bounded(uint64_t length)
{
    return length > SNP_FILE_CHUNK_MAX ? SNP_FILE_CHUNK_MAX : (uint32_t)length;
}

/* Send a file request. head: n_head bytes before the path in the request to pid 1. */
static int ask_file(struct tier_request *rq,
                    uint8_t type,
                    const char *path,
                    const void *head,
                    size_t n_head,
                    struct snp_err *err)
{
    const struct snp_get_request *asks = type == SNP_INIT_GET ? &rq->in.get : NULL;
    size_t n = path == NULL ? 0 : strlen(path);
    struct file_call *call = n > SNP_CAP_PATH ? NULL : malloc(sizeof(*call) + n);
    snp_autobuf struct snp_buf raw = {0};

    if (call == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the path is too long");
    }
    *call = (struct file_call){
        .supervisor = rq->supervisor,
        .id = rq->id,
        .type = type,
        .offset = asks == NULL ? 0 : asks->offset,
        .room_bytes = rq->sandbox->spec.limits.value[SNP_LIMIT_WORKSPACE] +
                      rq->sandbox->spec.limits.value[SNP_LIMIT_TMP],
        .has_project = rq->sandbox->spec.project != NULL,
        .length = asks == NULL ? 0 : bounded(asks->length),
        .tells_holes = asks != NULL && asks->holes,
    };
    call->full = snp_sandbox_room(rq->sandbox, &call->full_bytes);
    memcpy(call->path, path == NULL ? "" : path, n + 1);
    snp_buf_init(&raw, SNP_FILE_CHUNK_MAX + 8192);
    if (snp_buf_add(&raw, head, n_head) < 0 || snp_buf_add(&raw, call->path, n + 1) < 0 ||
        (type == SNP_INIT_PUT && snp_buf_add(&raw, rq->raw, rq->raw_len) < 0)) {
        free(call);
        return snp_fail(err, SNP_E_LIMIT, "at most %d KiB at once", SNP_FILE_CHUNK_MAX >> 10);
    }
    if (type == SNP_INIT_PUT) {
        snp_cell_on_put(rq->sandbox, &raw);
    }
    snp_sandbox_ask_init(rq->sandbox, SNP_ASK(type, snp_buf_bytes(&raw), raw.len, -1),
                         on_file_reply, call);
    return 0;
}

/*
 * Files in memory count against the session's limit: beyond it the kernel would kill the whole
 * session.
 */
static int room_check(const struct tier_request *rq, struct snp_err *err)
{
    struct snp_sandbox *s = rq->sandbox;
    const uint64_t limit = s->spec.limits.value[SNP_LIMIT_MEMORY];
    const uint64_t most = limit - limit / 16;
    char text[64];
    uint64_t used = 0;

    if (s->cgroup == NULL ||
        !snp_meter_usage(&s->meter, &s->supervisor->cgroups, s->cgroup, limit / 2, &used) ||
        used + rq->raw_len <= most) {
        return 0;
    }
    (void)snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "memory", 0,
                        "the session's memory is full (limit %s): its files are kept there",
                        snp_limit_format(SNP_LIMIT_MEMORY, limit, text, sizeof(text)));
    snp_err_limit(err, "memory", (int64_t)limit);
    return err->code;
}

static int on_put(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_put_request *in = &rq->in.put;
    const struct snp_init_put head = {
        .offset = in->offset, .truncate = in->truncate ? 1 : 0, .mode = (uint32_t)in->mode};

    SNP_TRY(room_check(rq, err));
    rq->sandbox->is_unwritten = false;
    snp_snapshot_stale(rq->sandbox);
    return ask_file(rq, SNP_INIT_PUT, in->path, &head, sizeof(head), err);
}

static int on_get(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_get_request *in = &rq->in.get;
    const struct snp_init_get head = {.offset = in->offset, .length = bounded(in->length)};

    return ask_file(rq, SNP_INIT_GET, in->path, &head, sizeof(head), err);
}

static int on_ls(struct tier_request *rq, struct snp_err *err)
{
    return ask_file(rq, SNP_INIT_LS, rq->in.ls.path, "", 0, err);
}

static int on_output(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_output_request *in = &rq->in.output;
    struct snp_spool_part part = {.room = bounded(in->length)};
    snp_autofree char *bytes = malloc(part.room + 1);
    snp_autojson json_t *answer = NULL;
    int r;

    if (bytes == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    part.bytes = bytes;
    r = snp_spool_read(&rq->supervisor->spools, in->handle == NULL ? "" : in->handle,
                       in->stream == NULL ? "stdout" : in->stream, in->offset, &part, err);
    if (r < 0) {
        return r;
    }
    answer = SNP_WRITE(snp_output_answer, .size = part.size,
                       .eof = in->offset + part.n >= part.size, .truncated = part.is_cut);
    snp_answer_response(rq->supervisor, rq->id, answer, bytes, part.n);
    return 0;
}

static int on_process_list(struct tier_request *rq, struct snp_err *err)
{
    return snp_method_process_list(rq->sandbox, rq->id, err);
}

static int on_process_read(struct tier_request *rq, struct snp_err *err)
{
    struct snp_process_read_request in = rq->in.process_read;

    in.length = bounded(in.length);
    return snp_method_process_read(rq->sandbox, rq->id, &in, err);
}

static int on_process_write(struct tier_request *rq, struct snp_err *err)
{
    if (rq->raw_len > SNP_PROCESS_WRITE_MAX) {
        return snp_fail(err, SNP_E_INVALID, "process.write: more than %d bytes",
                        SNP_PROCESS_WRITE_MAX);
    }
    return snp_method_process_write(
        rq->sandbox, &rq->in.process_write,
        &(const struct snp_process_input){.id = rq->id, .bytes = rq->raw, .n = rq->raw_len}, err);
}

static int on_process_signal(struct tier_request *rq, struct snp_err *err)
{
    return snp_method_process_signal(rq->sandbox, rq->id, &rq->in.process_signal, err);
}

static int on_forget(struct tier_request *rq, struct snp_err *err SNP_UNUSED)
{
    const struct snp_tier_forget_request *in = &rq->in.forget;
    snp_autojson json_t *answer = json_object();

    snp_spools_forget(&rq->supervisor->spools, in->session == NULL ? "" : in->session);
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static int on_outputs(struct tier_request *rq, struct snp_err *err SNP_UNUSED)
{
    snp_autojson json_t *answer = json_object();

    snp_spools_bound(&rq->supervisor->spools, rq->in.outputs.bytes);
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static bool is_snapshot(int64_t number)
{
    return number >= 0 && number <= UINT32_MAX;
}

static int on_snapshot(struct tier_request *rq, struct snp_err *err)
{
    return snp_method_snapshot(rq->sandbox, rq->id, err);
}

static int on_rollback(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_tier_rollback_request *in = &rq->in.rollback;

    if (!is_snapshot(in->branch) || in->epoch < 0) {
        return snp_fail(err, SNP_E_INVALID, "rollback: 'branch' and 'epoch' must be numbers");
    }
    return snp_method_rollback(rq->sandbox, rq->id, (uint32_t)in->branch, (uint64_t)in->epoch, err);
}

static int on_drop(struct tier_request *rq, struct snp_err *err)
{
    if (!is_snapshot(rq->in.drop.branch)) {
        return snp_fail(err, SNP_E_INVALID, "drop: 'branch' must be a number");
    }
    return snp_method_drop(rq->sandbox, rq->id, (uint32_t)rq->in.drop.branch, err);
}

static int on_memory(struct tier_request *rq, struct snp_err *err)
{
    return snp_method_memory(rq->sandbox, rq->id, err);
}

static int on_limit(struct tier_request *rq, struct snp_err *err)
{
    struct snp_sandbox *s = rq->sandbox;
    uint64_t *value = s->spec.limits.value;
    struct snp_limits wanted = s->spec.limits;
    snp_autojson json_t *manifest = NULL;
    snp_autojson json_t *later = json_array();
    snp_autojson json_t *answer = NULL;

    SNP_TRY(snp_limits_from_json(rq->in.limit.limits, &wanted, err));
    if (s->supervisor->ops->limit != NULL) {
        s->supervisor->ops->limit(s, &wanted);
    }
    value[SNP_LIMIT_WALL] = wanted.value[SNP_LIMIT_WALL];
    value[SNP_LIMIT_OUTPUT] = wanted.value[SNP_LIMIT_OUTPUT];
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (value[i] != wanted.value[i]) {
            (void)json_array_append_new(later, json_string(snp_limit_info((enum snp_limit)i)->key));
        }
    }
    manifest = snp_manifest(s);
    answer = SNP_WRITE(snp_tier_limit_answer, .manifest = manifest, .later = later);
    snp_answer_response(rq->supervisor, rq->id, answer, NULL, 0);
    return 0;
}

static int on_save(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_tier_save_request *in = &rq->in.save;
    const struct snp_save_request save = {
        .id = rq->id,
        .has_snapshot = in->branch != SNP_NO_NUMBER,
        .snapshot = (uint32_t)in->branch,
        .epoch = in->epoch,
        .cell = in->cell == SNP_NO_NUMBER ? INT64_MAX : (uint64_t)in->cell,
        .known = rq->raw,
        .known_len = rq->raw_len,
        .wants_image = in->image,
    };

    if (save.has_snapshot && !is_snapshot(in->branch)) {
        return snp_fail(err, SNP_E_INVALID, "save: 'branch' must be a number or null");
    }
    return snp_method_save(rq->sandbox, &save, &rq->fd, err);
}

static int on_load(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_load_request load = {
        .id = rq->id, .epoch = rq->in.load.epoch, .effort = (unsigned)rq->in.load.effort};

    return snp_method_load(rq->sandbox, &load, &rq->fd, err);
}

static int on_clone(struct tier_request *rq, struct snp_err *err)
{
    const struct snp_tier_clone_request *in = &rq->in.clone;
    const struct snp_clone_request clone = {
        .id = rq->id, .from = in->from, .epoch = in->epoch, .cell = in->cell};

    return snp_method_clone(rq->sandbox, &clone, err);
}

static const struct {
    const char *name;
    bool needs_sandbox;
    bool takes_fd;
    const struct snp_record *form; /* of the method's head; NULL = only the session */
    int (*run)(struct tier_request *, struct snp_err *);
} methods[] = {
    {"probe", false, false, NULL, on_probe},
    {"open", false, false, &snp_tier_open_request_form, on_open},
    {"exec", true, false, &snp_tier_exec_request_form, on_exec},
    {"interrupt", true, false, NULL, on_interrupt},
    {"answer", true, false, &snp_tier_answer_request_form, on_answer},
    {"close", true, false, NULL, on_close},
    {"put", true, false, &snp_put_request_form, on_put},
    {"get", true, false, &snp_get_request_form, on_get},
    {"ls", true, false, &snp_ls_request_form, on_ls},
    {"output", false, false, &snp_output_request_form, on_output},
    {"process.list", true, false, NULL, on_process_list},
    {"process.read", true, false, &snp_process_read_request_form, on_process_read},
    {"process.write", true, false, &snp_process_write_request_form, on_process_write},
    {"process.signal", true, false, &snp_process_signal_request_form, on_process_signal},
    {"forget", false, false, &snp_tier_forget_request_form, on_forget},
    {"outputs", false, false, &snp_tier_outputs_request_form, on_outputs},
    {"snapshot", true, false, NULL, on_snapshot},
    {"rollback", true, false, &snp_tier_rollback_request_form, on_rollback},
    {"drop", true, false, &snp_tier_drop_request_form, on_drop},
    {"memory", true, false, NULL, on_memory},
    {"limit", true, false, &snp_tier_limit_request_form, on_limit},
    {"save", true, true, &snp_tier_save_request_form, on_save},
    {"load", true, true, &snp_tier_load_request_form, on_load},
    {"clone", true, false, &snp_tier_clone_request_form, on_clone},
};

json_t *snp_serve_methods(void)
{
    json_t *names = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(methods); i++) {
        (void)json_array_append_new(names, json_string(methods[i].name));
    }
    return names;
}

static int dispatch(struct tier_request *rq, const json_t *head, struct snp_err *err)
{
    const char *name = snp_json_str(head, "method", "");
    const char *session = snp_json_str(head, "session", "");

    for (size_t i = 0; i < SNP_ARRAY_LEN(methods); i++) {
        if (!snp_streq(methods[i].name, name)) {
            continue;
        }
        rq->sandbox = methods[i].needs_sandbox ? snp_sandbox_find(rq->supervisor, session) : NULL;
        if ((rq->fd >= 0) != methods[i].takes_fd) {
            return snp_fail(err, SNP_E_INVALID, "%s: %s", name,
                            rq->fd >= 0 ? "takes no descriptor" : "a descriptor is missing");
        }
        if (methods[i].needs_sandbox && rq->sandbox == NULL) {
            return snp_fail(err, SNP_E_NOT_FOUND, "no session '%.64s'", session);
        }
        if (methods[i].form != NULL) {
            snp_record_read(head, methods[i].form, &rq->in);
        }
        return methods[i].run(rq, err);
    }
    return snp_fail(err, SNP_E_UNSUPPORTED, "no method '%.40s'", name);
}

void snp_serve_frame(struct snp_supervisor *supervisor, const struct snp_frame *frame)
{
    snp_autojson json_t *head = NULL;
    struct tier_request rq = {
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

    r = r < 0 ? r : dispatch(&rq, head, &err);
    if (r < 0) {
        snp_answer_error(supervisor, frame->id, &err);
    }
    snp_closep(&rq.fd);
}
