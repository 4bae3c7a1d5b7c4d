/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/docker/docker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>

#include "base/policy/engine_call.h"
#include "base/rundir.h"
#include "base/str.h"
#include "guest/pid1/wire.h"
#include "tier/engine/inside.h"
#include "tier/host/syscalls.h"

/* Find our programs that run inside. */
static int find_ours(struct snp_docker *docker, struct snp_err *err)
{
    snp_autofree char *init = NULL;
    int r = snp_own_program("snp-init", &init, err);

    if (r == 0 && init != NULL) {
        *strrchr(init, '/') = '\0';
        (void)snprintf(docker->ours, sizeof(docker->ours), "%s", init);
    }
    return r == 0 && docker->ours[0] == '\0'
               ? snp_fail(err, SNP_E_INTERNAL, "snp-init is missing beside tier-docker")
               : r;
}

/* The seccomp profile as a text; new reference, NULL = out of memory. */
static json_t *filter_make(void)
{
    snp_autojson json_t *profile = snp_syscalls_profile();
    snp_autofree char *text = snp_json_text(profile);

    return text == NULL ? NULL : json_string(text);
}

static int start(struct snp_supervisor *supervisor, struct snp_err *err)
{
    struct snp_docker *docker = snp_docker_of(supervisor);
    struct snp_err no_engine;
    uint64_t mark;
    int r = find_ours(docker, err);

    if (r < 0) {
        return r;
    }
    docker->filter = filter_make();
    if (docker->filter == NULL || getrandom(&mark, sizeof(mark), 0) != (ssize_t)sizeof(mark)) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)snprintf(docker->mark, sizeof(docker->mark), "%016llx", (unsigned long long)mark);
    snp_line_clean(supervisor->state_dir, docker->mark);
    docker->api.loop = supervisor->loop;
    supervisor->events = snp_docker_events();
    supervisor->can_run = true; /* an engine may start and stop: each sandbox checks again */
    if (snp_engine_socket(docker->api.socket, &no_engine) < 0) {
        docker->no_engine = no_engine;
    }
    return 0;
}

static void await(struct snp_sandbox *s)
{
    (void)s; /* the loop runs until is_over */
}

static void stop(struct snp_supervisor *supervisor)
{
    (void)supervisor;
}

static bool is_over(struct snp_supervisor *supervisor)
{
    unsigned n_left = 0;

    for (const struct snp_docker *each = snp_docker_of(supervisor); each != NULL;
         each = each->next) {
        n_left += each->n_left;
    }
    return supervisor->sandboxes == NULL && supervisor->pooled == NULL && n_left == 0;
}

static void done(struct snp_supervisor *supervisor)
{
    struct snp_docker *own = snp_docker_of(supervisor);

    for (struct snp_docker *each = own, *next; each != NULL; each = next) {
        next = each->next;
        snp_docker_api_done(&each->api);
        json_decref(each->filter);
        if (each != own) {
            free(each);
        }
    }
}

/* Engines ------------------------------------------------------------------------------------- */

/* The Python id is [SOCKET#]RUNTIME. */
const char *snp_docker_runtime(const struct snp_sandbox *s)
{
    const char *id = s->spec.python.id == NULL ? "" : s->spec.python.id;
    const char *at = strchr(id, '#');

    return at == NULL ? id : at + 1;
}

int snp_docker_engine_find(struct snp_sandbox *s, struct snp_err *err)
{
    struct snp_docker *own = snp_docker_of(s->supervisor);
    struct snp_docker *each = own;
    const char *socket = s->spec.python.id;
    const char *mark = socket == NULL ? NULL : strchr(socket, '#');
    size_t n = mark == NULL ? 0 : (size_t)(mark - socket);
    struct snp_docker *made;

    if (n == 0) {
        *err = own->no_engine;
        return err->code;
    }
    do {
        if (strlen(each->api.socket) == n && memcmp(each->api.socket, socket, n) == 0) {
            snp_docker_sandbox_of(s)->engine = each;
            return 0;
        }
        each = each->next;
    } while (each != NULL);
    made = calloc(1, sizeof(*made));
    if (made == NULL || (made->filter = filter_make()) == NULL) {
        free(made);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    made->api.loop = s->supervisor->loop;
    (void)snprintf(made->api.socket, sizeof(made->api.socket), "%.*s", (int)n, socket);
    memcpy(made->mark, own->mark, sizeof(own->mark));
    memcpy(made->ours, own->ours, sizeof(own->ours));
    made->next = own->next;
    own->next = made;
    snp_docker_sandbox_of(s)->engine = made;
    return 0;
}

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";

/* Does the project have a venv, which is for the host's Python? */
static bool has_venv(const char *project)
{
    snp_autofree char *path = project == NULL ? NULL : snp_format("%s/.venv/pyvenv.cfg", project);

    return path != NULL && access(path, F_OK) == 0;
}

/* "" = the engine's default. Shim names have dots, program paths slashes. */
static int check_runtime_name(const char *runtime, struct snp_err *err)
{
    return strspn(runtime, plain) != strlen(runtime) || strlen(runtime) > 100
               ? snp_fail(err, SNP_E_INVALID,
                          "'%.60s' is not a valid runtime name; docker_runtime is a name that "
                          "the container engine knows, such as runc, runsc or crun",
                          runtime)
               : 0;
}

/* socket: as written by snp_engine_socket; "" = the supervisor's engine. */
static int check_socket(const char *socket, struct snp_err *err)
{
    return socket[0] == '\0' || (strlen(socket) <= SNP_ENGINE_PATH_MAX &&
                                 strchr(socket, '#') == NULL && snp_engine_is_local(socket))
               ? 0
               : snp_fail(err, SNP_E_INVALID, "'%.100s' is not the socket of a container engine",
                          socket);
}

/* Find the python3 of the image in [IMAGE][#RUNTIME[#SOCKET]]. */
static int find_python(const struct snp_python_query *query,
                       struct snp_python *ret,
                       struct snp_err *err)
{
    static const char *const templates[] = {"base", "data", "plot"};
    const char *name = query->name == NULL ? "base" : query->name;
    const char *asked = query->rootfs == NULL ? "" : query->rootfs;
    const char *runtime = strchrnul(asked, '#');
    snp_autofree char *image =
        runtime == asked ? strdup(SNP_DOCKER_IMAGE) : strndup(asked, (size_t)(runtime - asked));
    snp_autofree char *name_of_runtime = NULL;
    const char *socket;
    bool is_known = false;

    for (size_t i = 0; i < SNP_ARRAY_LEN(templates); i++) {
        is_known = is_known || snp_streq(templates[i], name);
    }
    if (!is_known) {
        return snp_fail_with(err, SNP_E_UNSUPPORTED, SNP_REMEDY_TIER, "native", 0,
                             "template %.60s is a folder of this host, which containers do not "
                             "see; the docker tier has the templates base, data and plot",
                             name);
    }
    SNP_TRY_MEMORY(image, err);
    runtime += runtime[0] == '#' ? 1 : 0;
    socket = strchrnul(runtime, '#');
    name_of_runtime = strndup(runtime, (size_t)(socket - runtime));
    socket += socket[0] == '#' ? 1 : 0;
    SNP_TRY_MEMORY(name_of_runtime, err);
    if (snp_engine_image_check(image, err) < 0 || check_runtime_name(name_of_runtime, err) < 0 ||
        check_socket(socket, err) < 0) {
        return err->code;
    }
    *ret = (struct snp_python){
        .name = strdup(name),
        .exe = strdup("python3"),
        .rootfs = SNP_TAKE_PTR(image),
        .id = snp_format("%s%s%s", socket, socket[0] == '\0' ? "" : "#", name_of_runtime)};
    if (query->name == NULL && has_venv(query->project)) {
        ret->note = strdup("the docker tier does not use a project's .venv");
    }
    if (ret->name == NULL || ret->exe == NULL || ret->id == NULL) {
        snp_python_done(ret);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/*
 * A workspace image may have only the packages of its tests; the project's modules are imported
 * from its copy.
 */
static const char *variable(const struct snp_sandbox_spec *spec)
{
    return spec->project != NULL && snp_has_prefix(spec->python.rootfs, SNP_ENGINE_WORKSPACE_IMAGE)
               ? "PYTHONPATH=/workspace"
               : NULL;
}

static int check(const struct snp_sandbox *s, struct snp_err *err)
{
    (void)err;
    if (s->spec.has_network) {
        (void)json_array_append_new(
            s->degraded,
            json_string("network: the engine's, as docker_network_disabled = false asks"));
    }
    return 0;
}

static void on_swept(void *data, int eno, const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    snp_sandbox_swept(data, eno);
}

static void sweep(struct snp_sandbox *s)
{
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_SWEEP, NULL, 0, -1), on_swept, s);
}

/*
 * The container's limit includes copies of the interpreter, so pid 1 watches the code's part. At a
 * refused fork the code has one process more than its limit; gVisor refuses none.
 */
static void watch(struct snp_sandbox *s, bool is_running)
{
    const uint64_t *value = s->spec.limits.value;
    const struct snp_init_watch raw = {.memory = is_running ? value[SNP_LIMIT_MEMORY] : 0,
                                       .processes = is_running && !snp_docker_is_gvisor(s)
                                                        ? (uint32_t)value[SNP_LIMIT_PROCESSES] + 1
                                                        : 0};

    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_WATCH, &raw, sizeof(raw), -1), snp_sandbox_ignore,
                         NULL);
}

/* Maps of other processes are not visible from here. */
static uint64_t own_memory(const struct snp_sandbox *s, pid_t copy)
{
    (void)s;
    (void)copy;
    return UINT64_MAX;
}

static void copies_usage(const struct snp_sandbox *s,
                         const pid_t *copies,
                         size_t n,
                         struct snp_copies_usage *ret)
{
    (void)s;
    (void)copies;
    (void)n;
    *ret = (struct snp_copies_usage){0};
}

const struct snp_tier_ops snp_docker_ops = {
    .name = "docker",
    .about = &snp_docker_about,
    .output_prefix = "docker/",
    .can_pool = true,
    .bounds_workspace = true,
    .limits_itself = true,
    .holds_files_in_memory = true,
    .start = start,
    .probe = snp_docker_probe,
    .await = await,
    .stop = stop,
    .is_over = is_over,
    .done = done,
    .find_python = find_python,
    .variable = variable,
    .limited_by = snp_docker_limited_by,
    .degraded = snp_docker_degraded,
    .check = check,
    .controls = snp_docker_controls,
    .make = snp_container_make,
    .unmake = snp_container_unmake,
    .open = snp_container_open,
    .fill = snp_container_fill,
    .paired = snp_container_paired,
    .kill = snp_container_kill,
    .sweep = sweep,
    .watch = watch,
    .own_memory = own_memory,
    .copies_usage = copies_usage,
};
