/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol with zygotes. Orders are answered in order, so one queue of waiting requests per
 * template is enough. The last lines of a template's standard error become the message if it dies
 * before it is ready.
 */
#include "tier/host/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/policy/template_name.h"
#include "base/registry/python.h"
#include "base/str.h"
#include "guest/spec.h"
#include "os/idmap.h"
#include "tier/engine/pool.h"
#include "tier/engine/stream/handle.h"
#include "tier/host/host.h"
#include "tier/host/image.h"
#include "tier/host/procs.h"

enum {
    STDERR_MAX = 2048,
    NAME_MAX_LEN = 32,
    START_TIMEOUT_MS = 60000,
    ORDERS_MAX = 64,
    CHECK_MS = 4,
    PATIENCE_US = 1000000,
    SWEEP_MS = 5
};

struct waiter {
    struct waiter *next;
    snp_pending_cb cb;
    void *data;
};

struct snp_template {
    struct snp_template *next;
    struct snp_supervisor *supervisor; /* borrowed */
    char name[NAME_MAX_LEN];
    char **args;           /* of the launcher, owned; they identify the template */
    uint64_t used_us;      /* time of the last request */
    uv_process_t *process; /* owned by the loop until it exits */
    uv_poll_t *control;    /* NULL = dead */
    uv_poll_t *stderr_poll;
    uv_timer_t *timer; /* start-up timeout, later the check */
    int control_fd;
    int stderr_fd;
    bool is_ready;
    pid_t zygote;                     /* of the local tier */
    char python[SNP_VERSION_MAX + 1]; /* once ready */
    bool is_retired;                  /* a successor serves its requests */
    bool has_image;                   /* it was started with an image ... */
    bool is_thawed;                   /* ... and used it */
    bool is_old;                      /* the image */
    bool was_imaged;                  /* an image was requested */
    char stderr_text[STDERR_MAX];
    size_t stderr_len;
    unsigned forks;
    uint64_t born_us;
    uint64_t programs; /* the stamp of programs at its start */
    /* Ordered forks: the control sockets and id ranges of future children, oldest first. */
    struct snp_pending ordered[ORDERS_MAX];
    unsigned n_ordered;
    uint64_t starved_us;  /* since when no order was possible; 0 = possible */
    unsigned n_preparing; /* forked; a worker moves them into cgroups */
    struct waiter *first; /* pending requests */
    struct waiter *last;
};

/* Groups whose processes are ending. */
struct snp_dead_group {
    struct snp_dead_group *next;
    char name[24];
};

bool snp_pending_sweep(struct snp_supervisor *supervisor)
{
    struct snp_host *host = snp_host_of(supervisor);

    for (struct snp_dead_group **at = &host->dead; *at != NULL;) {
        struct snp_dead_group *group = *at;
        if (snp_cgroup_remove(&supervisor->cgroups, group->name)) {
            *at = group->next;
            free(group);
        } else {
            at = &group->next;
        }
    }
    return host->dead == NULL;
}

static void on_sweep(uv_timer_t *timer)
{
    if (snp_pending_sweep(timer->data)) {
        (void)uv_timer_stop(timer);
    }
}

static void remove_later(struct snp_supervisor *supervisor, const char *name)
{
    struct snp_host *host = snp_host_of(supervisor);
    struct snp_dead_group *group = calloc(1, sizeof(*group));

    if (host->sweep_timer == NULL) {
        host->sweep_timer = snp_timer_new(supervisor->loop, supervisor);
    }
    if (group == NULL || host->sweep_timer == NULL) {
        free(group); /* the next start removes it */
        return;
    }
    (void)snprintf(group->name, sizeof(group->name), "%s", name);
    group->next = host->dead;
    host->dead = group;
    (void)uv_timer_start(host->sweep_timer, on_sweep, SWEEP_MS, SWEEP_MS);
}

void snp_pending_drop(struct snp_supervisor *supervisor, struct snp_pending *pending)
{
    snp_closep(&pending->control_fd); /* it exits at end of stream */
    snp_closep(&pending->pidfd);
    snp_host_free_slot(supervisor, pending->slot);
    pending->slot = -1;
    if (pending->has_cgroup) {
        pending->has_cgroup = false;
        remove_later(supervisor, pending->cgroup);
    }
}

static void serve_waiter(struct snp_template *t,
                         const struct snp_pending *pending,
                         const struct snp_err *err)
{
    struct waiter *w = t->first;

    t->first = w->next;
    t->last = t->first == NULL ? NULL : t->last;
    w->cb(w->data, pending, err);
    free(w);
}

/* The template has ended or failed to start: fail all pending requests. */
static void template_end(struct snp_template *t, const struct snp_err *err)
{
    if (t->control == NULL) {
        return;
    }
    snp_handle_close(&t->control);
    snp_handle_close(&t->timer);
    snp_closep(&t->control_fd);
    for (unsigned i = 0; i < t->n_ordered; i++) {
        snp_pending_drop(t->supervisor, &t->ordered[i]);
    }
    t->n_ordered = 0;
    while (t->first != NULL) {
        serve_waiter(t, NULL, err);
    }
}

static bool has_rootfs(const struct snp_template *t)
{
    for (size_t i = 0; t->args[i] != NULL; i++) {
        if (snp_has_prefix(t->args[i], "rootfs=")) {
            return true;
        }
    }
    return false;
}

static void template_fail(struct snp_template *t)
{
    struct snp_err err;
    const char *line = t->stderr_text;
    snp_autojson json_t *said = NULL;

    t->stderr_text[t->stderr_len] = '\0';
    while (t->stderr_len > 0 && t->stderr_text[t->stderr_len - 1] == '\n') {
        t->stderr_text[--t->stderr_len] = '\0';
    }
    if (strrchr(line, '\n') != NULL) {
        line = strrchr(line, '\n') + 1;
    }
    if (snp_has_prefix(line, "template ") && strstr(line, ": ") != NULL) {
        line = strstr(line, ": ") + 2; /* the launcher's prefix: it is added again below */
    }
    if (snp_json_parse(line, strlen(line), &said, &err) == 0) { /* driver.py's own message */
        line = snp_json_str(said, "error", line);
    }
    (void)snp_fail(&err, SNP_E_UNSUPPORTED, "template %s did not start: %.250s%s", t->name,
                   *line == '\0' ? "the interpreter ended without a message" : line,
                   has_rootfs(t) ? " (a rootfs needs a complete CPython 3.8 or later, built "
                                   "with glibc; Debian: python3, not python3-minimal)"
                                 : "");
    template_end(t, &err);
}

static void on_stderr(uv_poll_t *poll, int status, int events)
{
    struct snp_template *t = poll->data;
    char text[512];
    ssize_t n = read(t->stderr_fd, text, sizeof(text));

    (void)events;
    if (status < 0 || n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        snp_handle_close(&t->stderr_poll);
        snp_closep(&t->stderr_fd);
        return;
    }
    if (n < 0) {
        return;
    }
    if (t->stderr_len + (size_t)n >= sizeof(t->stderr_text)) {
        t->stderr_len = 0; /* only the last lines matter */
    }
    memcpy(t->stderr_text + t->stderr_len, text, (size_t)n);
    t->stderr_len += (size_t)n;
}

static void order_fork(struct snp_template *t)
{
    const struct snp_host_ops *ops = snp_host_ops_of(t->supervisor);
    char order[1 + sizeof(uint32_t)] = {ops->zygote_order};
    struct snp_pending e = {.pid = -1,
                            .number = t->forks,
                            .pidfd = -1,
                            .control_fd = -1,
                            .slot = ops->has_slot ? -1 : snp_host_take_slot(t->supervisor)};
    int pair[2];

    if (t->n_ordered == ORDERS_MAX || e.slot == -2 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        snp_host_free_slot(t->supervisor, e.slot);
        return;
    }
    e.control_fd = pair[0];
    memcpy(order + 1, &e.number, sizeof(e.number));
    if (snp_send_fds(t->control_fd, order, sizeof(order), &pair[1], 1) < 0) {
        snp_pending_drop(t->supervisor, &e);
    } else {
        t->ordered[t->n_ordered++] = e;
        t->forks++;
    }
    (void)close(pair[1]);
}

static unsigned waiting(const struct snp_template *t)
{
    unsigned n = 0;

    for (const struct waiter *w = t->first; w != NULL; w = w->next) {
        n++;
    }
    return n;
}

/* Changes when a program is installed or removed: an overlay may still show the old folder. */
static uint64_t programs_stamp(void)
{
    static const char *const folders[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin"};
    uint64_t sum = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
        struct stat st;

        if (stat(folders[i], &st) == 0) {
            sum += (uint64_t)st.st_mtim.tv_sec * 1000000000U + (uint64_t)st.st_mtim.tv_nsec;
        }
    }
    return sum;
}

static bool is_worn(const struct snp_template *t)
{
    return t->forks >= snp_host_of(t->supervisor)->forks_max || t->programs != programs_stamp() ||
           snp_now_us() - t->born_us > SNP_TEMPLATE_AGE_MAX_S * 1000000ULL;
}

/* Arguments of the launcher ------------------------------------------------------------ */

static void args_free(char **args)
{
    for (size_t i = 0; args != NULL && args[i] != NULL; i++) {
        free(args[i]);
    }
    free((void *)args);
}

static bool args_equal(char *const *a, char *const *b)
{
    for (; *a != NULL && *b != NULL; a++, b++) {
        if (!snp_streq(*a, *b)) {
            return false;
        }
    }
    return *a == *b;
}

/* NULL when out of memory. */
static char **args_copy(char *const *args)
{
    size_t n = 0;
    char **copy;

    while (args[n] != NULL) {
        n++;
    }
    copy = calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = strdup(args[i]);
        if (copy[i] == NULL) {
            args_free(copy);
            return NULL;
        }
    }
    return copy;
}

/* Arguments in the form of snp_launch_read, without NULL members. NULL when out of memory. */
static char **args_make(const struct snp_supervisor *supervisor, const struct snp_python *python)
{
    const struct snp_host *host = snp_host_of(supervisor);
    const struct snp_host_ops *ops = snp_host_ops_of(supervisor);
    char host_id[24];
    char landlock_abi[16];
    const struct {
        const char *name;
        const char *value;
    } rows[] = {
        {"template", python->name},
        {"python", python->exe},
        {"guest", host->guest_dir},
        {"host-id", host_id},
        {"prefix", python->prefix},
        {"venv", python->venv},
        {"site", python->site},
        {"alias", python->alias},
        {"hash", python->hash},
        {"ours", python->is_ours ? "1" : NULL},
        {"preload", python->preload},
        {"folder", host->folder},
        {"landlock-abi", ops->has_keeper ? landlock_abi : NULL},
        {"rootfs", python->rootfs},
        {"id", python->id},
    };
    char **args = calloc(SNP_ARRAY_LEN(rows) + 3, sizeof(*args));
    size_t n = 0;
    bool ok = args != NULL;

    (void)snprintf(landlock_abi, sizeof(landlock_abi), "%d", host->landlock_abi);
    (void)snprintf(host_id, sizeof(host_id), "%u",
                   host->is_root ? (unsigned)SNP_IDMAP_BASE + SNP_INSIDE_ID : 0U);
    if (ok) {
        args[n++] = strdup(host->self);
        args[n] = args[0] == NULL ? NULL : strdup("--zygote");
        ok = args[n] != NULL;
        n++;
    }
    for (size_t i = 0; ok && i < SNP_ARRAY_LEN(rows); i++) {
        if (rows[i].value != NULL && rows[i].value[0] != '\0') {
            args[n] = snp_format("%s=%s", rows[i].name, rows[i].value);
            ok = args[n++] != NULL;
        }
    }
    if (!ok) {
        args_free(args);
        return NULL;
    }
    return args;
}

/* image_fd: stays the caller's; -1 = import. */
static int template_start(struct snp_supervisor *supervisor,
                          const char *name,
                          char *const *args,
                          int image_fd,
                          struct snp_template **ret,
                          struct snp_err *err);

static struct snp_template *template_find(struct snp_supervisor *supervisor, char *const *args)
{
    for (struct snp_template *t = snp_host_of(supervisor)->templates; t != NULL; t = t->next) {
        if (t->control != NULL && !t->is_retired && args_equal(t->args, args)) {
            return t;
        }
    }
    return NULL;
}

/* Start a successor of a worn template. It imports, to get a new address layout. */
static void renew(struct snp_template *t)
{
    struct snp_template *successor;
    struct snp_err err;

    t->is_retired = true;
    if (template_start(t->supervisor, t->name, t->args, -1, &successor, &err) < 0) {
        t->is_retired = false;
        snp_log(SNP_LOG_WARN, "template_renew", "name=%s error=%s", t->name, err.msg);
        return;
    }
    (void)snp_fail(&err, SNP_E_INTERNAL, "template %s was renewed", t->name);
    template_end(t, &err);
}

static void want_check(struct snp_template *t);

/* Order one fork for each pending request without one. */
static void order_missing(struct snp_template *t)
{
    struct snp_err err;

    for (unsigned have = t->n_ordered + t->n_preparing; have < waiting(t); have++) {
        order_fork(t);
    }
    if (t->first == NULL || t->n_ordered + t->n_preparing > 0) {
        t->starved_us = 0;
        return;
    }
    /* Pooled sandboxes hold resources, and so do closing ones until they are gone. */
    t->starved_us = t->starved_us == 0 ? snp_now_us() : t->starved_us;
    if (snp_pool_drop(t->supervisor) || snp_now_us() - t->starved_us < PATIENCE_US) {
        want_check(t);
        return;
    }
    (void)snp_fail(&err, SNP_E_LIMIT, "no descriptors or user ids are left for another sandbox");
    t->starved_us = 0;
    while (t->first != NULL) {
        serve_waiter(t, NULL, &err);
    }
}

static bool is_busy(const struct snp_template *t)
{
    return t->first != NULL || t->n_ordered > 0 || t->n_preparing > 0;
}

static void on_check(uv_timer_t *timer);

/* Write an image for the next start, if the template is idle or the image is needed. */
static void make_image(struct snp_template *t, bool is_needed)
{
    const uint64_t idle_ms = snp_host_of(t->supervisor)->image_idle_ms;

    if (!snp_host_ops_of(t->supervisor)->has_images || idle_ms == 0 || t->is_thawed ||
        t->was_imaged) {
        return;
    }
    if (is_needed || (!is_busy(t) && snp_now_us() - t->used_us >= idle_ms * 1000)) {
        t->was_imaged = snp_template_image_make(t->supervisor, t->name, t->args, t->control_fd);
    }
    if (!t->was_imaged && uv_is_active((uv_handle_t *)t->timer) == 0) {
        (void)uv_timer_start(t->timer, on_check, idle_ms, 0);
    }
}

static void on_check(uv_timer_t *timer)
{
    struct snp_template *t = timer->data;

    if (t->control == NULL || !t->is_ready || t->is_retired) {
        return;
    }
    if (is_worn(t) && !is_busy(t)) {
        renew(t);
        return;
    }
    order_missing(t);
    make_image(t, false);
}

/* Check soon, after pending requests. */
static void want_check(struct snp_template *t)
{
    if (t->timer != NULL) {
        (void)uv_timer_start(t->timer, on_check, CHECK_MS, 0);
    }
}

/* A worker's task for a forked process: id maps, cgroups. */
struct preparation {
    uv_work_t work;
    struct snp_template *template;
    struct snp_pending pending;
    int result;
    struct snp_err err;
};

static int prepare(struct snp_supervisor *supervisor, struct snp_pending *e, struct snp_err *err)
{
    const struct snp_host_ops *ops = snp_host_ops_of(supervisor);
    int r;

    e->pid = snp_pidfd_number(e->pidfd);
    if (e->pid < 0) {
        return snp_fail(err, SNP_E_INTERNAL, "the new process is gone");
    }
    r = ops->map_ids == NULL ? 0 : ops->map_ids(e, err);
    if (r < 0) {
        return r;
    }
    r = snp_cgroup_create(&supervisor->cgroups, e->cgroup, err);
    if (r < 0) {
        return r;
    }
    e->has_cgroup = true;
    r = snp_cgroup_attach(&supervisor->cgroups, e->cgroup, e->pid, 2, err);
    /* All this used the pid: had the process died, the pid could have been reused. */
    if (r == 0 && syscall(SYS_pidfd_send_signal, e->pidfd, 0, NULL, 0) < 0) {
        r = snp_fail(err, SNP_E_INTERNAL, "the new process is gone");
    }
    return r;
}

static void preparation_run(uv_work_t *work)
{
    struct preparation *p = work->data;

    p->result = prepare(p->template->supervisor, &p->pending, &p->err);
}

static void preparation_done(uv_work_t *work, int status)
{
    struct preparation *p = work->data;
    struct snp_template *t = p->template;

    t->n_preparing--;
    if (p->result < 0 || status < 0) {
        snp_pending_drop(t->supervisor, &p->pending);
        if (t->first != NULL) {
            serve_waiter(t, NULL, &p->err);
        }
    } else if (t->control != NULL && t->first != NULL) {
        serve_waiter(t, &p->pending, NULL);
    } else {
        snp_pending_drop(t->supervisor, &p->pending);
    }
    if (t->first != NULL) {
        want_check(t); /* there were more than could be ordered at once */
    }
    free(p);
}

/*
 * Take the order that a message of the zygote (after its first byte) answers, if it is pending: a
 * child that is killed early has already answered, and may then be reported as failed. Answers have
 * the order of orders.
 */
static bool take_order(struct snp_template *t, const char *message, struct snp_pending *ret)
{
    uint32_t number;

    memcpy(&number, message, sizeof(number));
    if (t->n_ordered == 0 || t->ordered[0].number != number) {
        return false;
    }
    *ret = t->ordered[0];
    memmove(t->ordered, t->ordered + 1, --t->n_ordered * sizeof(*ret));
    return true;
}

/* The zygote has carried out an order. */
static void on_forked(struct snp_template *t, const char *message, int pidfd)
{
    struct preparation *p;
    struct snp_pending e;

    if (!take_order(t, message, &e)) {
        (void)close(pidfd);
        return;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        struct snp_err err;
        e.pidfd = pidfd;
        snp_pending_drop(t->supervisor, &e);
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        if (t->first != NULL) {
            serve_waiter(t, NULL, &err);
        }
        return;
    }
    p->work.data = p;
    p->template = t;
    p->pending = e;
    p->pending.pidfd = pidfd;
    p->pending.keeper = t->process == NULL ? -1 : t->process->pid;
    p->pending.zygote = t->zygote;
    memcpy(p->pending.python, t->python, sizeof(t->python));
    p->pending.is_thawed = t->is_thawed;
    (void)snprintf(p->pending.cgroup, sizeof(p->pending.cgroup), "%llu",
                   (unsigned long long)snp_host_of(t->supervisor)->next_pending++);
    t->n_preparing++;
    if (uv_queue_work(t->supervisor->loop, &p->work, preparation_run, preparation_done) < 0) {
        (void)snp_fail(&p->err, SNP_E_NOMEM, "cannot start a worker");
        p->result = -1;
        preparation_done(&p->work, 0);
    }
}

static void on_fork_failed(struct snp_template *t, const char *message)
{
    struct snp_pending e;
    struct snp_err err;
    int32_t eno;

    if (!take_order(t, message, &e)) {
        return;
    }
    memcpy(&eno, message + sizeof(e.number), sizeof(eno));
    snp_pending_drop(t->supervisor, &e);
    (void)snp_fail_sys(&err, eno, "fork template %s into new namespaces", t->name);
    if (t->first != NULL) {
        serve_waiter(t, NULL, &err);
    }
    if (t->first != NULL) {
        want_check(t);
    }
}

/* The reason why an image was not used: guest/thaw's line on standard error. */
static const char *import_reason(struct snp_template *t)
{
    if (!t->has_image || t->is_thawed) {
        return "";
    }
    if (t->stderr_poll != NULL) {
        on_stderr(t->stderr_poll, 0, UV_READABLE);
    }
    t->stderr_text[t->stderr_len] = '\0';
    t->stderr_text[strcspn(t->stderr_text, "\n")] = '\0';
    return t->stderr_text;
}

static void on_ready(struct snp_template *t, const char *version)
{
    const char *reason;

    (void)snprintf(t->python, sizeof(t->python), "%.*s", SNP_VERSION_MAX, version);
    t->is_ready = true;
    t->zygote =
        snp_host_ops_of(t->supervisor)->has_keeper ? snp_proc_first_child(t->process->pid) : -1;
    (void)uv_timer_stop(t->timer);
    reason = import_reason(t);
    snp_log(SNP_LOG_INFO, "template_ready", "name=%s ms=%llu from=%s %s", t->name,
            (unsigned long long)((snp_now_us() - t->born_us) / 1000),
            t->is_thawed ? "image" : "import", reason);
    if (t->is_thawed || reason[0] != '\0') {
        snp_template_image_trouble(t->supervisor, t->name, reason);
    }
    for (unsigned n = waiting(t); n > 0; n--) {
        order_fork(t);
    }
    want_check(t);
}

/* A template from an image has ended: import instead, for pending requests. False: no image. */
static bool start_without_image(struct snp_template *t)
{
    struct snp_template *successor = NULL;
    struct snp_err err;

    if (!t->has_image || (t->is_ready && !t->is_thawed)) {
        return false;
    }
    snp_log(SNP_LOG_WARN, "template_image", "name=%s error=it ended %s", t->name,
            t->is_ready ? "" : import_reason(t));
    snp_template_image_trouble(t->supervisor, t->name,
                               "it ended when it was started from its image");
    snp_template_image_remove(t->supervisor, t->args);
    if (template_start(t->supervisor, t->name, t->args, -1, &successor, &err) < 0 ||
        successor == NULL) {
        return false;
    }
    (void)snp_fail(&err, SNP_E_INTERNAL, "template %s is started again", t->name);
    successor->used_us = t->used_us;
    successor->first = SNP_TAKE_PTR(t->first);
    successor->last = SNP_TAKE_PTR(t->last);
    template_end(t, &err);
    return true;
}

static void on_control(uv_poll_t *poll, int status, int events)
{
    struct snp_template *t = poll->data;
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    char message[SNP_VERSION_MAX + 8] = {0};
    ssize_t n;

    (void)events;
    n = status < 0 ? 0 : snp_recv_fds(t->control_fd, message, sizeof(message) - 1, fds, &n_fds);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        if (t->stderr_poll != NULL) {
            on_stderr(t->stderr_poll, 0, UV_READABLE); /* its last lines may be unread */
        }
        if (!start_without_image(t)) {
            template_fail(t);
        }
    } else if (message[0] == SNP_ZYGOTE_FORKED && n_fds == 1) {
        on_forked(t, message + 1, SNP_TAKE_FD(fds[0]));
    } else if (message[0] == SNP_ZYGOTE_FAILED) {
        on_fork_failed(t, message + 1);
    } else if ((message[0] == SNP_ZYGOTE_READY || message[0] == SNP_ZYGOTE_THAWED) &&
               !t->is_ready) {
        t->is_thawed = message[0] == SNP_ZYGOTE_THAWED;
        on_ready(t, message + 1);
    }
    for (size_t i = 0; i < n_fds; i++) {
        snp_closep(&fds[i]);
    }
}

static void on_start_timeout(uv_timer_t *timer)
{
    struct snp_template *t = timer->data;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_TIMEOUT, "template %s was not ready after %d s", t->name,
                   START_TIMEOUT_MS / 1000);
    template_end(t, &err);
}

static void on_process_exit(uv_process_t *process, int64_t status, int signal_number)
{
    (void)status;
    (void)signal_number;
    snp_handle_close(&process);
}

static int spawn_process(
    struct snp_template *t, int control_fd, int stderr_fd, int image_fd, struct snp_err *err)
{
    struct snp_supervisor *supervisor = t->supervisor;
    const struct snp_host *host = snp_host_of(supervisor);
    const bool has_keeper = snp_host_ops_of(supervisor)->has_keeper;
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = stderr_fd},
        {.flags = UV_INHERIT_FD, .data.fd = control_fd},
        {.flags = UV_INHERIT_FD, .data.fd = host->session_filter_fd},
        {.flags = UV_INHERIT_FD, .data.fd = host->zygote_filter_fd},
        {.flags = has_keeper ? UV_INHERIT_FD : UV_IGNORE, .data.fd = host->life_fd[0]},
        {.flags = UV_INHERIT_FD, .data.fd = image_fd},
    };
    uv_process_options_t options = {
        .file = host->self,
        .args = t->args,
        .exit_cb = on_process_exit,
        .stdio = stdio,
        .stdio_count = SNP_ARRAY_LEN(stdio) - (image_fd < 0 ? 1 : 0),
    };
    uv_process_t *process = calloc(1, sizeof(*process));
    int r;

    if (process == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = uv_spawn(supervisor->loop, process, &options);
    if (r < 0) {
        snp_handle_close(&process);
        return snp_fail_sys(err, -r, "start template %s", t->name);
    }
    t->process = process;
    return 0;
}

static uv_poll_t *watch(struct snp_template *t, int fd, uv_poll_cb cb)
{
    uv_poll_t *poll =
        snp_set_nonblock(fd, true) < 0 ? NULL : snp_poll_new(t->supervisor->loop, fd, t);

    if (poll != NULL) {
        (void)uv_poll_start(poll, UV_READABLE, cb);
    }
    return poll;
}

static void template_free(struct snp_template *t)
{
    if (t != NULL) {
        args_free(t->args);
        free(t);
    }
}

/* A template of another version would use another protocol. */
static int self_check(const struct snp_host *host, struct snp_err *err)
{
    struct stat st;

    return stat(host->self, &st) == 0 && st.st_dev == host->self_dev && st.st_ino == host->self_ino
               ? 0
               : snp_fail(err, SNP_E_UNSUPPORTED,
                          "snipara-sandbox was upgraded or removed while this daemon runs; end "
                          "it, which saves named sessions: snipara-sandbox daemon stop");
}

static int template_start(struct snp_supervisor *supervisor,
                          const char *name,
                          char *const *args,
                          int image_fd,
                          struct snp_template **ret,
                          struct snp_err *err)
{
    struct snp_template *t;
    int control[2] = {-1, -1};
    int errors[2] = {-1, -1};
    int r;

    SNP_TRY(self_check(snp_host_of(supervisor), err));
    t = calloc(1, sizeof(*t));
    if (t != NULL) {
        t->args = args_copy(args);
    }
    if (t == NULL || t->args == NULL ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
        pipe2(errors, O_CLOEXEC) < 0) {
        template_free(t);
        snp_closep(&control[0]);
        snp_closep(&control[1]);
        return snp_fail(err, SNP_E_NOMEM, "cannot start template %s", name);
    }
    t->supervisor = supervisor;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    t->born_us = snp_now_us();
    t->programs = programs_stamp();
    t->control_fd = control[0];
    t->stderr_fd = errors[0];
    t->has_image = image_fd >= 0;
    r = spawn_process(t, control[1], errors[1], image_fd, err);
    (void)close(control[1]);
    (void)close(errors[1]);
    t->timer = r < 0 ? NULL : snp_timer_new(supervisor->loop, t);
    if (t->timer == NULL) {
        (void)close(control[0]);
        (void)close(errors[0]);
        template_free(t);
        return r < 0 ? r : snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    t->control = watch(t, t->control_fd, on_control);
    t->stderr_poll = watch(t, t->stderr_fd, on_stderr);
    (void)uv_timer_start(t->timer, on_start_timeout, START_TIMEOUT_MS, 0);
    t->next = snp_host_of(supervisor)->templates;
    snp_host_of(supervisor)->templates = t;
    *ret = t;
    return 0;
}

/* Free those that ended long ago; callbacks may have referred to them. */
static void templates_prune(struct snp_supervisor *supervisor)
{
    for (struct snp_template **at = &snp_host_of(supervisor)->templates; *at != NULL;) {
        struct snp_template *t = *at;
        if (t->control == NULL && t->stderr_poll == NULL && t->n_preparing == 0) {
            *at = t->next;
            template_free(t);
        } else {
            at = &t->next;
        }
    }
}

void snp_template_request(struct snp_supervisor *supervisor,
                          const struct snp_python *python,
                          snp_pending_cb cb,
                          void *data)
{
    struct snp_template *t;
    struct waiter *w;
    struct snp_err err;
    char **args = args_make(supervisor, python);
    int r = 0;

    templates_prune(supervisor);
    t = args == NULL ? NULL : template_find(supervisor, args);
    if (args == NULL) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else if (t == NULL) {
        uint64_t age_s = 0;
        snp_autoclose int image_fd =
            snp_template_image_open(supervisor, python->name, args, &age_s);

        r = template_start(supervisor, python->name, args, image_fd, &t, &err);
        if (r == 0) {
            t->is_old = image_fd >= 0 && age_s > SNP_TEMPLATE_AGE_MAX_S;
        }
    }
    args_free(args);
    if (r < 0 || t == NULL) {
        cb(data, NULL, &err);
        return;
    }
    SNP_ASSERT(t != NULL);
    t->used_us = snp_now_us();
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        cb(data, NULL, &err);
        return;
    }
    *w = (struct waiter){.cb = cb, .data = data};
    if (t->last != NULL) {
        t->last->next = w;
    } else {
        t->first = w;
    }
    t->last = w;
    if (t->is_ready) {
        if (t->n_ordered + t->n_preparing < waiting(t)) {
            order_fork(t);
        }
        want_check(t);
    }
}

void snp_template_keep(struct snp_supervisor *supervisor, const struct snp_python *python)
{
    char **args = args_make(supervisor, python);
    struct snp_template *t = args == NULL ? NULL : template_find(supervisor, args);

    args_free(args);
    if (t != NULL && t->control != NULL && t->is_ready && !t->is_retired) {
        make_image(t, true);
    }
}

/* Built-in templates stay; there may be many others, one for each project. */
void snp_templates_watch(struct snp_supervisor *supervisor)
{
    uint64_t now = snp_now_us();
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_INTERNAL, "the template was not used for long");
    for (struct snp_template *t = snp_host_of(supervisor)->templates; t != NULL; t = t->next) {
        if (t->control != NULL && !t->is_retired && t->is_ready && t->is_old && !is_busy(t) &&
            now - t->used_us > SNP_TEMPLATE_RENEW_IDLE_S * 1000000ULL) {
            renew(t);
        }
        if (!snp_template_is_builtin(t->name) && t->first == NULL && t->is_ready &&
            now - t->used_us > SNP_TEMPLATE_IDLE_MAX_S * 1000000ULL) {
            template_end(t, &err);
        }
    }
    templates_prune(supervisor);
}

void snp_templates_close(struct snp_supervisor *supervisor)
{
    struct snp_err err;

    /* An image of a session can be woken only with its template's image. */
    snp_template_image_wait(supervisor);
    (void)snp_fail(&err, SNP_E_PEER, "the tier is ending");
    for (struct snp_template *t = snp_host_of(supervisor)->templates; t != NULL; t = t->next) {
        template_end(t, &err);
    }
}
