/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a container.
 *
 *   inspect the image -> create -> inspect the container -> attach -> make the streams -> start ->
 *   pid 1 has the streams -> the interpreter is ready -> ... -> remove
 *
 * It is attached before it is started, so that no output is lost. When the connection closes, so
 * does its standard input, and pid 1 ends: so no container stays if we are killed. Containers that
 * an engine was too slow to remove are found by their labels when the next tier starts.
 */
#include "guest/pid1/container.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/docker/docker.h"
#include "tier/engine/inside.h"
#include "tier/engine/open.h"
#include "tier/engine/program.h"
#include "tier/engine/stream/handle.h"

enum {
    OPEN_MS = 60000,
    REMOVE_MS = 20,
    NO_PROGRAM = 127,
    NO_PRELOAD = 3,
    PATH_LEN = 512,
    SAID_MAX = 250, /* characters shown of an engine's reason */
};

static void step_image(struct snp_sandbox *s);

int snp_container_make(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = calloc(1, sizeof(*d));

    if (d == NULL || (d->timer = snp_timer_new(s->supervisor->loop, s)) == NULL) {
        free(d);
        return -1;
    }
    d->attach_fd = -1;
    d->engine = snp_docker_of(s->supervisor);
    snp_line_init(&d->line);
    s->own = d;
    return 0;
}

static void close_stream(struct snp_docker_sandbox *d)
{
    snp_handle_close(&d->poll);
    snp_line_close(&d->line);
    snp_channels_free(SNP_TAKE_PTR(d->channels));
    snp_closep(&d->attach_fd);
}

void snp_container_unmake(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    close_stream(d);
    snp_handle_close(&d->timer);
    json_decref(d->image);
    json_decref(d->made);
    free(SNP_TAKE_PTR(s->own));
}

/* The end ------------------------------------------------------------------------------------ */

static void gone_if_all_is_done(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (d->is_removed && d->n_asked == 0) {
        (void)uv_timer_stop(d->timer);
        snp_sandbox_gone(s);
    }
}

static void ended(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (!d->has_ended) {
        d->has_ended = true;
        close_stream(d);
        snp_sandbox_ended(s);
    }
}

static void removed(struct snp_sandbox *s)
{
    ended(s);
    snp_docker_sandbox_of(s)->is_removed = true;
    gone_if_all_is_done(s);
}

static void on_remove_again(uv_timer_t *timer);

static void on_removed(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_sandbox *s = data;
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    d->n_asked--;
    if (err == NULL &&
        status == SNP_DOCKER_CONFLICT) { /* it is also removed automatically at its end */
        (void)uv_timer_start(d->timer, on_remove_again, REMOVE_MS, 0);
        return;
    }
    if (err != NULL || (status != SNP_DOCKER_NO_CONTENT && status != SNP_DOCKER_NOT_FOUND)) {
        snp_log(SNP_LOG_WARN, "remove", "container=%.12s error=%s", d->id,
                err != NULL ? err->msg : snp_docker_message(body));
    }
    removed(s);
}

static void remove_container(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    char path[PATH_LEN];
    struct snp_err err;

    (void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", d->id);
    if (snp_docker_ask(&snp_docker_engine(s)->api,
                       &(const struct snp_docker_request){
                           .method = "DELETE", .path = path, .cb = on_removed, .data = s},
                       &err) < 0) {
        snp_log(SNP_LOG_WARN, "remove", "container=%.12s error=%s", d->id, err.msg);
        removed(s);
        return;
    }
    d->n_asked++;
}

static void on_remove_again(uv_timer_t *timer)
{
    remove_container(timer->data);
}

void snp_container_kill(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (d->stage != SNP_DOCKER_REMOVING) {
        d->stage = SNP_DOCKER_REMOVING;
        remove_container(s);
    }
}

/* Opening failed, for the reason in s->open_err. */
static void give_up(struct snp_sandbox *s)
{
    struct snp_err err = s->open_err;

    if (s->has_process) {
        snp_container_kill(s);
    } else {
        snp_sandbox_failed(s, &err);
    }
}

/* The container's own output, on one line; "" = none. */
static const char *last_words(struct snp_docker_sandbox *d)
{
    while (d->said_len > 0 && (unsigned char)d->said[d->said_len - 1] <= ' ') {
        d->said_len--;
    }
    d->said[d->said_len] = '\0';
    const char *line = strrchr(d->said, '\n');
    return line == NULL ? d->said : line + 1;
}

static void hear(struct snp_docker_sandbox *d, const char *bytes, size_t n)
{
    if (n > SNP_DOCKER_SAID_MAX) {
        bytes += n - SNP_DOCKER_SAID_MAX;
        n = SNP_DOCKER_SAID_MAX;
    }
    if (d->said_len + n > SNP_DOCKER_SAID_MAX) { /* the reason is at the end */
        size_t less = d->said_len + n - SNP_DOCKER_SAID_MAX;
        memmove(d->said, d->said + less, d->said_len - less);
        d->said_len -= less;
    }
    memcpy(d->said + d->said_len, bytes, n);
    d->said_len += n;
}

static void stream_ended(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (d->stage == SNP_DOCKER_STARTING && !d->is_started) {
        d->has_hung_up = true; /* the engine's answer will give the reason */
        snp_handle_close(&d->poll);
        return;
    }
    if (s->state == SNP_SANDBOX_OPENING && s->open_err.code == SNP_OK) {
        (void)snp_fail(&s->open_err, SNP_E_INTERNAL, "the container ended before it was ready: %s",
                       last_words(d)[0] == '\0' ? "it said nothing" : last_words(d));
    }
    snp_sandbox_kill(s, "the container ended");
    ended(s);
}

/* Opening ------------------------------------------------------------------------------------- */

/* Send the next request to the engine. */
static void ask(struct snp_sandbox *s, const char *path, json_t *body, snp_docker_cb cb)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    const struct snp_docker_request request = {
        .method =
            d->stage == SNP_DOCKER_INSPECTING || d->stage == SNP_DOCKER_CHECKING ? NULL : "POST",
        .path = path,
        .body = body,
        .cb = cb,
        .data = s};

    if (snp_docker_ask(&snp_docker_engine(s)->api, &request, &s->open_err) < 0) {
        give_up(s);
        return;
    }
    d->n_asked++;
}

/* Handle an answer. False: the sandbox is closing or the engine failed; both are handled here. */
static bool goes_on(struct snp_sandbox *s, const struct snp_err *err)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    d->n_asked--;
    if (d->stage == SNP_DOCKER_REMOVING) {
        gone_if_all_is_done(s);
        return false;
    }
    if (err == NULL && s->reason[0] == '\0') {
        return true;
    }
    if (err != NULL) {
        s->open_err = *err;
    } else {
        (void)snp_fail(&s->open_err, SNP_E_PEER, "%s", s->reason);
    }
    give_up(s);
    return false;
}

/* Report the engine's message on one line, with a fix. */
static void refused(struct snp_sandbox *s, const char *what, const json_t *body)
{
    static const struct {
        const char *said;
        const char *way_out;
    } known[] = {
        {"runtime specified", "; name one that it has (docker info), or leave docker_runtime out"},
        {"cgroup", "; see its cgroup driver (docker info): native.cgroupdriver=cgroupfs works "
                   "without systemd"},
        {"executable file not found", "; its runtime is not installed where it looks"},
        {"OCI runtime error", "; its runtime does not work: try it with docker run, or name "
                              "another: docker_runtime"},
    };
    const char *said = snp_docker_message(body);
    size_t n = strcspn(said, "\n");
    const size_t cut = n > SAID_MAX ? n - SAID_MAX : 0; /* the reason is at the end */
    const char *way_out = "";

    for (size_t i = 0; i < SNP_ARRAY_LEN(known) && way_out[0] == '\0'; i++) {
        way_out = strstr(said, known[i].said) != NULL ? known[i].way_out : "";
    }
    (void)snp_fail(&s->open_err, SNP_E_UNSUPPORTED, "the container engine could not %s: %s%.*s%s",
                   what, cut > 0 ? "..." : "", (int)(n - cut), said + cut, way_out);
    give_up(s);
}

static void on_opening_timeout(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;

    (void)snp_fail(&s->open_err, SNP_E_TIMEOUT, "the container was not ready within %d s%s%s",
                   OPEN_MS / 1000, last_words(snp_docker_sandbox_of(s))[0] == '\0' ? "" : ": ",
                   last_words(snp_docker_sandbox_of(s)));
    snp_sandbox_kill(s, s->open_err.msg);
}

static void add_text(struct snp_buf *raw, const char *text)
{
    (void)!snp_buf_add(raw, text, strlen(text) + 1);
}

static void add_list(struct snp_buf *raw, const char *const *list, uint32_t n)
{
    (void)!snp_buf_add(raw, &n, sizeof(n));
    for (uint32_t i = 0; i < n; i++) {
        add_text(raw, list[i]);
    }
}

static void on_spawned(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)bytes;
    (void)n;
    if (eno != 0 && eno != EPIPE) {
        (void)snp_fail(&s->open_err, SNP_E_INTERNAL, "python3 could not be started: %s",
                       strerrordesc_np(eno));
        snp_sandbox_kill(s, s->open_err.msg);
    }
}

/* Ask pid 1 before it runs: the request waits in the container's standard input. */
static int spawn(struct snp_sandbox *s, struct snp_err *err)
{
    static const char driver[] = SNP_CONTAINER_OURS "/guest/driver.py";
    const char *const argv[] = {"python3", "-I",         driver, "--template", s->spec.python.name,
                                "--start", "--pristine", "4",    "--fd",       "3"};
    static const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
                                       "PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp/.home"};
    snp_autobuf struct snp_buf raw = {0};
    snp_autoclose int fd = -1;
    int r = snp_sandbox_new_guest(s, &fd, err);

    if (r < 0) {
        return r;
    }
    snp_buf_init(&raw, 4096);
    add_list(&raw, argv, SNP_ARRAY_LEN(argv));
    add_list(&raw, envp, SNP_ARRAY_LEN(envp));
    add_text(&raw, "/workspace");
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_SPAWN, snp_buf_bytes(&raw), raw.len, fd), on_spawned,
                         s);
    return 0;
}

static void complain(void *data, const char *bytes, size_t n)
{
    hear(snp_docker_sandbox_of(data), bytes, n);
}

static void on_channels(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;

    (void)status;
    (void)events;
    if (snp_channels_step(snp_docker_sandbox_of(s)->channels, 0) < 0) {
        stream_ended(s);
    }
}

/*
 * The inner end writes to the attached stream. Unless pid 1 has fetched the session's streams over
 * the line, make them channels of the attached one.
 */
static void spoken(void *data)
{
    struct snp_sandbox *s = data;
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    static const unsigned ways[] = {SNP_CHANNEL_READ | SNP_CHANNEL_WRITE, SNP_CHANNEL_WRITE,
                                    SNP_CHANNEL_WRITE};
    bool failed = false;

    if (!snp_line_has_ends(&d->line)) {
        return; /* pid 1 has them; no channels are needed */
    }
    for (uint32_t id = 0; id < SNP_ARRAY_LEN(ways); id++) {
        int fd = SNP_TAKE_FD(d->line.ends[id]);

        failed = snp_channels_add(d->channels, id, fd, ways[id]) < 0 || failed;
    }
    snp_line_close(&d->line);
    if (failed) {
        snp_sandbox_kill(s, "out of memory");
    }
}

/* Make the streams: our ends for the engine's connection, the others for pid 1. */
static int make_streams(struct snp_sandbox *s, struct snp_err *err)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    int fd = SNP_TAKE_FD(d->attach_fd);
    const struct snp_channels_spec spec = {.in_fd = fd,
                                           .out_fd = fd,
                                           .is_attached = true,
                                           .complain = complain,
                                           .spoken = spoken,
                                           .data = s};
    int pair[2];
    int r;

    snp_handle_close(&d->poll);
    d->channels = snp_channels_new(&spec);
    d->poll = d->channels == NULL
                  ? NULL
                  : snp_poll_new(s->supervisor->loop, snp_channels_fd(d->channels), s);
    if (d->poll == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory or file descriptors");
    }
    d->line.ends[0] = pair[1];
    r = snp_sandbox_new_output(s, 0, d->line.ends + 1, err);
    for (size_t i = 1; r == 0 && i < SNP_ARRAY_LEN(d->line.ends); i++) {
        (void)fchmod(d->line.ends[i], 0666); /* the code may reopen its streams */
    }
    if (r < 0) {
        (void)close(pair[0]);
        return r;
    }
    r = snp_sandbox_connect(s, pair[0], err);
    r = r == 0 ? spawn(s, err) : r;
    (void)uv_poll_start(d->poll, UV_READABLE, on_channels);
    return r;
}

static void on_started(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_sandbox *s = data;

    if (!goes_on(s, err)) {
        return;
    }
    if (status != SNP_DOCKER_NO_CONTENT) {
        refused(s, "start the container", body);
        return;
    }
    snp_docker_sandbox_of(s)->is_started = true;
    if (snp_docker_sandbox_of(s)->has_hung_up) {
        stream_ended(s);
    }
}

static void step_start(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    char path[PATH_LEN];

    d->stage = SNP_DOCKER_STARTING;
    (void)snprintf(path, sizeof(path), "/containers/%s/start", d->id);
    if (make_streams(s, &s->open_err) < 0) {
        give_up(s);
        return;
    }
    ask(s, path, NULL, on_started);
}

/* The reason, if given, follows the head of the answer. */
static void not_attached(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    snp_autojson json_t *body = NULL;
    struct snp_err ignored;
    char text[SNP_DOCKER_HEAD_MAX];
    ssize_t n = SNP_RETRY(read(d->attach_fd, text, sizeof(text)));

    if (n > 0) {
        (void)!snp_json_parse_any(text, (size_t)n, &body, &ignored);
    }
    (void)snp_fail(&s->open_err, SNP_E_PEER,
                   "the container engine did not attach to the container: %.*s: %.300s",
                   (int)strcspn(d->head, "\r\n"), d->head, snp_docker_message(body));
    give_up(s);
}

/* Read the answer to attach; the stream follows its head. */
static void on_attached(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    ssize_t n = 0;

    (void)status;
    (void)events;
    while (d->head_len < SNP_DOCKER_HEAD_MAX - 1 &&
           (n = read(d->attach_fd, d->head + d->head_len, 1)) == 1) {
        d->head[++d->head_len] = '\0';
        if (snp_has_suffix(d->head, "\r\n\r\n")) {
            break;
        }
    }
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n == 1 &&
        (snp_has_prefix(d->head, "HTTP/1.1 101") || snp_has_prefix(d->head, "HTTP/1.1 200"))) {
        step_start(s);
        return;
    }
    snp_handle_close(&d->poll);
    not_attached(s);
}

static void step_attach(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    struct snp_err *err = &s->open_err;
    char request[PATH_LEN];
    int n = snprintf(request, sizeof(request),
                     "POST %s/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1 "
                     "HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                     "Content-Length: 0\r\n\r\n",
                     snp_engine_prefix(snp_docker_engine(s)->api.version), d->id);

    d->stage = SNP_DOCKER_ATTACHING;
    if (snp_engine_connect(snp_docker_engine(s)->api.socket, &d->attach_fd, err) < 0) {
        give_up(s);
        return;
    }
    if (snp_write_all(d->attach_fd, request, (size_t)n) < 0 ||
        snp_set_nonblock(d->attach_fd, true) < 0) {
        (void)snp_fail_sys(err, errno, "attach to the container");
        give_up(s);
        return;
    }
    d->poll = snp_poll_new(s->supervisor->loop, d->attach_fd, s);
    if (d->poll == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        give_up(s);
        return;
    }
    (void)uv_poll_start(d->poll, UV_READABLE, on_attached);
}

static void on_checked(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_sandbox *s = data;
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    snp_autojson json_t *made = SNP_TAKE_PTR(d->made);

    if (!goes_on(s, err)) {
        return;
    }
    if (status != SNP_DOCKER_OK) {
        refused(s, "look at the container", body);
        return;
    }
    if (snp_docker_check(s, made, body, &s->open_err) < 0) {
        give_up(s);
        return;
    }
    step_attach(s);
}

static void step_check(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    char path[PATH_LEN];

    d->stage = SNP_DOCKER_CHECKING;
    (void)snprintf(path, sizeof(path), "%s/containers/%s/json",
                   snp_docker_engine(s)->is_podman ? "/libpod" : "", d->id);
    ask(s, path, NULL, on_checked);
}

static void on_created(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_sandbox *s = data;
    struct snp_docker *docker = snp_docker_engine(s);
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (err == NULL && status == SNP_DOCKER_CREATED) {
        (void)snprintf(d->id, sizeof(d->id), "%s", snp_json_str(body, "Id", ""));
        s->has_process = true;
        d->made = json_incref(body);
    }
    if (!goes_on(s, err)) {
        return;
    }
    if (s->has_process) {
        step_check(s);
    } else if (!docker->is_podman && strstr(snp_docker_message(body), "seccomp profile") != NULL &&
               snp_docker_suit_podman(docker, s->supervisor->state_dir) == 0) {
        ask(s, "/containers/create", snp_docker_create_body(s), on_created);
    } else {
        refused(s, "create the container", body);
    }
}

/* Is the image for this machine's architecture? */
static int check_image(const struct snp_sandbox *s, const json_t *image, struct snp_err *err)
{
    const char *has = snp_json_str(image, "Architecture", "");
    struct utsname host;
    const char *wanted;

    (void)uname(&host);
    wanted = snp_streq(host.machine, "x86_64")    ? "amd64"
             : snp_streq(host.machine, "aarch64") ? "arm64"
                                                  : has;
    if (!snp_streq(snp_json_str(image, "Os", "linux"), "linux") || !snp_streq(has, wanted)) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "image %.200s is for %.20s/%.20s, and this host is linux/%s; docker "
                        "pull --platform linux/%s %.200s",
                        s->spec.python.rootfs, snp_json_str(image, "Os", "linux"), has, wanted,
                        wanted, s->spec.python.rootfs);
    }
    return 0;
}

static void on_image(void *data, int status, json_t *body, const struct snp_err *err)
{
    struct snp_sandbox *s = data;
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (!goes_on(s, err)) {
        return;
    }
    if (status == SNP_DOCKER_NOT_FOUND &&
        snp_has_prefix(s->spec.python.rootfs, SNP_ENGINE_WORKSPACE_IMAGE)) {
        (void)snp_fail(&s->open_err, SNP_E_NOT_FOUND,
                       "image %.100s (docker_workspace_setup) is not built yet; exec --env docker "
                       "in the workspace builds it",
                       s->spec.python.rootfs);
        give_up(s);
        return;
    }
    if (status == SNP_DOCKER_NOT_FOUND) {
        (void)snp_fail(&s->open_err, SNP_E_NOT_FOUND,
                       "no image %.100s in the container engine; pull it (docker pull %.100s, "
                       "podman pull, or exec --env docker, where there is a network), or name "
                       "another: docker_image",
                       s->spec.python.rootfs, s->spec.python.rootfs);
        give_up(s);
        return;
    }
    if (status != SNP_DOCKER_OK) {
        refused(s, "look at the image", body);
        return;
    }
    if (check_image(s, body, &s->open_err) < 0) {
        give_up(s);
        return;
    }
    d->image = json_incref(body);
    d->stage = SNP_DOCKER_CREATING;
    ask(s, "/containers/create", snp_docker_create_body(s), on_created);
}

static void step_image(struct snp_sandbox *s)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    char path[PATH_LEN];

    d->stage = SNP_DOCKER_INSPECTING;
    (void)snprintf(path, sizeof(path), "/images/%.400s/json", s->spec.python.rootfs);
    ask(s, path, NULL, on_image);
}

void snp_container_open(struct snp_sandbox *s)
{
    struct snp_docker *docker = snp_docker_of(s->supervisor);
    char name[SNP_DOCKER_MARK_LEN + 16];

    if (snp_docker_engine_find(s, &s->open_err) < 0) {
        give_up(s);
        return;
    }
    snp_docker_reap(snp_docker_engine(s), s->supervisor->state_dir);
    (void)snprintf(name, sizeof(name), "%s-%u", docker->mark, ++docker->n_lines);
    if (snp_line_open(&snp_docker_sandbox_of(s)->line, s->supervisor->loop,
                      s->supervisor->state_dir, name, snp_docker_sandbox_of(s)->id,
                      &s->open_err) < 0) {
        give_up(s);
        return;
    }
    (void)uv_timer_start(snp_docker_sandbox_of(s)->timer, on_opening_timeout, OPEN_MS, 0);
    step_image(s);
}

void snp_container_paired(struct snp_sandbox *s, const int ends[2])
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (d->channels != NULL) {
        snp_channels_pair(d->channels, ends);
    }
}

bool snp_container_goes_on(struct snp_sandbox *s)
{
    return goes_on(s, NULL);
}

void snp_container_fill(struct snp_sandbox *s)
{
    (void)uv_timer_start(snp_docker_sandbox_of(s)->timer, on_opening_timeout, OPEN_MS, 0);
    snp_docker_fill(s);
}

void snp_container_filled(struct snp_sandbox *s)
{
    (void)uv_timer_stop(snp_docker_sandbox_of(s)->timer);
    snp_sandbox_opened(s);
}

/* Events inside until the interpreter is ready ----------------------------------------- */

static void on_guest_frame(struct snp_sandbox *s, const struct snp_frame *frame)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    snp_tier_events.guest_frame(s, frame);
    if (frame->type == SNP_GUEST_READY && s->state == SNP_SANDBOX_OPENING &&
        d->stage == SNP_DOCKER_STARTING) {
        d->stage = SNP_DOCKER_RUNNING;
        if (s->project_fd < 0 || s->spec.is_to_load) { /* else the load brings its files */
            snp_container_filled(s);
        } else {
            snp_container_fill(s);
        }
    }
}

static void no_interpreter(struct snp_sandbox *s, int status)
{
    const char *image = s->spec.python.rootfs;
    const char *said = last_words(snp_docker_sandbox_of(s));

    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM) {
        (void)snp_fail(&s->open_err, SNP_E_UNSUPPORTED,
                       "image %.200s has no python3; use one with Python 3.8 or later, such "
                       "as " SNP_DOCKER_IMAGE,
                       image);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PRELOAD) {
        (void)snp_fail(&s->open_err, SNP_E_UNSUPPORTED,
                       "image %.200s lacks packages of template %.60s: %.200s", image,
                       s->spec.python.name, said);
    } else {
        (void)snp_fail(&s->open_err, SNP_E_UNSUPPORTED,
                       "python3 of image %.200s does not work here (Python 3.8 or later is "
                       "needed): %.200s",
                       image, said[0] == '\0' ? "it said nothing" : said);
    }
}

static void on_exited(struct snp_sandbox *s, uint32_t id, const char *raw)
{
    uint32_t status;

    if (s->state != SNP_SANDBOX_OPENING) {
        snp_tier_events.exited(s, id, raw);
        return;
    }
    memcpy(&status, raw + 1, sizeof(status));
    if (raw[0] == SNP_INIT_INTERPRETER && s->open_err.code == SNP_OK) {
        snp_sandbox_drain(s);
        no_interpreter(s, (int)status);
        snp_sandbox_kill(s, s->open_err.msg);
    }
}

static void on_guest_end(struct snp_sandbox *s, const struct snp_err *err)
{
    if (s->state != SNP_SANDBOX_OPENING) {
        snp_tier_events.guest_end(s, err);
    }
}

static void on_output(struct snp_sandbox *s, int stream, const char *bytes, size_t n)
{
    if (s->state == SNP_SANDBOX_OPENING) {
        hear(snp_docker_sandbox_of(s), bytes, n);
    } else {
        snp_tier_events.output(s, stream, bytes, n);
    }
}

const struct snp_sandbox_events *snp_docker_events(void)
{
    static struct snp_sandbox_events events;

    events = snp_tier_events;
    events.guest_frame = on_guest_frame;
    events.guest_end = on_guest_end;
    events.exited = on_exited;
    events.output = on_output;
    return &events;
}
