/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snp-bench: the stop-watch of tools/bench.
 *
 *   cell SOCKET SESSION RUNS CODE              cells in one session, one after the other
 *   fresh SOCKET TEMPLATE RUNS GAP_US CODE     new session, its first cell; then its end
 *   rate SOCKET TEMPLATE CLIENTS SECONDS CODE  the same by several clients at once
 *   burst SOCKET TEMPLATE CLIENTS CODE         every client asks for one in the same moment
 *   live SOCKET TEMPLATE FROM TO CODE          sessions of these numbers, which stay
 *   end SOCKET FROM TO                         end them
 *   library SOCKET SESSION CLIENTS RUNS GAP_US CODE
 *                                              cells by the C library, each client in
 *                                              SESSION-0, 1...
 *   ask SOCKET RUNS STEPS                      requests of any kind, in turns; see run_ask
 *   spawn RUNS COMMAND... [-- COMMAND...]...   whole processes, in turns
 *   pingpong HOPS RUNS BYTES                   a message through HOPS sockets and back
 *
 * One JSON object per line and sample; times are microseconds. It is written in C and asks as
 * the command line tool asks (src/client), because a client in Python costs more than what
 * is measured. Several clients are several processes, which start together behind a pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <snipara/sandbox.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/wire/exec.h"
#include "base/wire/session.h"
#include "client/client.h"

enum {
    NUMBER_MAX = 10 * 1000 * 1000,
    CLIENTS_MAX = 1000,
    HOPS_MAX = 16,
    COMMANDS_MAX = 32,
    BYTES_MAX = 64 << 10,
    SAMPLES_MAX = 200 * 1000, /* of one client */
    NAME_LEN = 32,
};

/* One measured session. */
struct sample {
    double us;       /* until its first result */
    double close_us; /* from there until nothing of it was left */
    bool is_hit;     /* it came from the pool */
};

/* What the processes of several clients share. */
struct shared {
    unsigned n;
    unsigned n_ready; /* clients that are connected and wait for the start */
    struct sample samples[];
};

static double now_us(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pause_us(unsigned us)
{
    struct timespec left = {.tv_sec = us / 1000000U, .tv_nsec = (long)(us % 1000000U) * 1000};

    (void)nanosleep(&left, NULL);
}

static int number(const char *text, unsigned max, unsigned *ret, struct snp_err *err)
{
    uint64_t value = 0;

    if (snp_parse_u64(text, &value) < 0 || value > max) {
        return snp_fail(err, SNP_E_INVALID, "a number up to %u is needed, not '%s'", max, text);
    }
    *ret = (unsigned)value;
    return 0;
}

/* Sessions ---------------------------------------------------------------------------- */

static int client_open(const char *socket_path, struct snp_client **ret, struct snp_err *err)
{
    struct snp_client_options options = {.socket_path = socket_path, .signal_fd = -1};

    return snp_client_connect(&options, ret, err);
}

/* SNP_BENCH_TIER: another tier than native. SNP_BENCH_ROOTFS: its image. */
static const char *setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return text == NULL ? otherwise : text;
}

/*
 * Run one cell; anything but "ok" is a failure. ret_hit: whether its session came from the pool.
 * No standby is made and no disk waited for: what these cost is measured apart, by `ask`.
 */
static int cell_run(struct snp_client *client,
                    const char *session,
                    const char *template,
                    const char *code,
                    bool *ret_hit,
                    struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(
        snp_exec_request, .session = session, .kind = "python", .code_len = strlen(code),
        .tier = setting("SNP_BENCH_TIER", "native"), .rootfs = setting("SNP_BENCH_ROOTFS", NULL),
        .template = template, .durability = "process");
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call call = {.head = head, .raw = code, .raw_len = strlen(code)};
    int r = head == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                         : snp_client_call(client, &call, &reply, err);

    if (r < 0) {
        return r;
    }
    if (!snp_streq(snp_json_str(reply.head, "status", ""), "ok")) {
        return snp_fail(err, SNP_E_INVALID, "the cell ended with status '%s'",
                        snp_json_str(reply.head, "status", ""));
    }
    *ret_hit = snp_json_bool(json_object_get(reply.head, "manifest"), "from_pool", false);
    return 0;
}

static int session_end(struct snp_client *client, const char *session, struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(snp_sessions_destroy_request, .session = session);
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call call = {.head = head};

    return head == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                        : snp_client_call(client, &call, &reply, err);
}

/* A session from nothing to nothing. */
static int session_measure(struct snp_client *client,
                           const char *template,
                           const char *code,
                           struct sample *ret,
                           struct snp_err *err)
{
    static unsigned last;
    char name[NAME_LEN];
    struct sample sample = {0};
    double start;
    double middle;
    int r;

    (void)snprintf(name, sizeof(name), "bench-%d-%u", (int)getpid(), last++);
    start = now_us();
    r = cell_run(client, name, template, code, &sample.is_hit, err);
    middle = now_us();
    if (r == 0) {
        r = session_end(client, name, err);
    }
    if (r < 0) {
        return r;
    }
    sample.us = middle - start;
    sample.close_us = now_us() - middle;
    *ret = sample;
    return 0;
}

static void sample_print(const struct sample *sample)
{
    (void)printf("{\"us\": %.1f, \"close_us\": %.1f, \"hit\": %s}\n", sample->us, sample->close_us,
                 sample->is_hit ? "true" : "false");
}

/* One client --------------------------------------------------------------------------- */

static int run_cell(char **argv, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    unsigned runs = 0;
    int r = number(argv[2], NUMBER_MAX, &runs, err);

    if (r == 0) {
        r = client_open(argv[0], &client, err);
    }
    for (unsigned i = 0; r == 0 && i < runs; i++) {
        bool hit = false;
        double start = now_us();

        r = cell_run(client, argv[1], NULL, argv[3], &hit, err);
        if (r == 0) {
            (void)printf("{\"us\": %.1f}\n", now_us() - start);
        }
    }
    return r;
}

static int run_fresh(char **argv, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    unsigned runs = 0;
    unsigned gap = 0;
    int r = number(argv[2], NUMBER_MAX, &runs, err);

    if (r == 0) {
        r = number(argv[3], NUMBER_MAX, &gap, err);
    }
    if (r == 0) {
        r = client_open(argv[0], &client, err);
    }
    for (unsigned i = 0; r == 0 && i < runs; i++) {
        struct sample sample;

        if (gap > 0) {
            pause_us(gap);
        }
        r = session_measure(client, argv[1], argv[4], &sample, err);
        if (r == 0) {
            sample_print(&sample);
        }
    }
    return r;
}

static int run_live(char **argv, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    unsigned from = 0;
    unsigned to = 0;
    int r = number(argv[2], NUMBER_MAX, &from, err);

    if (r == 0) {
        r = number(argv[3], NUMBER_MAX, &to, err);
    }
    if (r == 0) {
        r = client_open(argv[0], &client, err);
    }
    for (unsigned i = from; r == 0 && i < to; i++) {
        char name[NAME_LEN];
        bool hit = false;
        double start = now_us();

        (void)snprintf(name, sizeof(name), "live-%u", i);
        r = cell_run(client, name, argv[1], argv[4], &hit, err);
        if (r == 0) {
            (void)printf("{\"live\": %u, \"us\": %.1f, \"hit\": %s}\n", i, now_us() - start,
                         hit ? "true" : "false");
        }
    }
    return r;
}

static int run_end(char **argv, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    unsigned from = 0;
    unsigned to = 0;
    int r = number(argv[1], NUMBER_MAX, &from, err);

    if (r == 0) {
        r = number(argv[2], NUMBER_MAX, &to, err);
    }
    if (r == 0) {
        r = client_open(argv[0], &client, err);
    }
    for (unsigned i = from; r == 0 && i < to; i++) {
        char name[NAME_LEN];
        double start = now_us();

        (void)snprintf(name, sizeof(name), "live-%u", i);
        r = session_end(client, name, err);
        if (r == 0) {
            (void)printf("{\"close_us\": %.1f}\n", now_us() - start);
        }
    }
    return r;
}

/* Several clients ----------------------------------------------------------------------- */

struct job {
    const char *socket_path;
    const char *template;
    const char *code;
    const char *session; /* prefix; cells by the C library in sessions that stay; or NULL */
    unsigned runs;       /* with session: cells of each client */
    unsigned gap_us;     /* before each */
    double seconds;      /* 0 = one session each */
    unsigned clients;
    int start_fd; /* becomes readable when all may start */
    struct shared *shared;
    size_t most; /* samples it has room for */
};

static int wait_for_start(const struct job *job, struct snp_err *err)
{
    char byte;

    (void)__atomic_add_fetch(&job->shared->n_ready, 1, __ATOMIC_SEQ_CST);
    return SNP_RETRY(read(job->start_fd, &byte, 1)) < 0
               ? snp_fail_sys(err, errno, "wait for the start")
               : 0;
}

static void sample_keep(const struct job *job, const struct sample *sample)
{
    unsigned at = __atomic_fetch_add(&job->shared->n, 1, __ATOMIC_SEQ_CST);

    if (at < job->most) {
        job->shared->samples[at] = *sample;
    }
}

/* Sessions from nothing to nothing, for so many seconds. */
static int sessions_measure(const struct job *job, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    double begin;
    int r = client_open(job->socket_path, &client, err);
    int started = wait_for_start(job, err);

    r = r < 0 ? r : started;
    begin = now_us();
    while (r == 0) {
        struct sample sample;

        r = session_measure(client, job->template, job->code, &sample, err);
        if (r == 0) {
            sample_keep(job, &sample);
        }
        if (now_us() - begin >= job->seconds * 1e6) {
            break;
        }
    }
    return r;
}

/* One cell by the library, with its defaults; anything but "ok" is a failure. */
static int library_cell(struct snipara *box,
                        const char *session,
                        const char *code,
                        struct snp_err *err)
{
    struct snipara_call *call = snipara_run(box, SNIPARA_RUN(.session = session, .code = code));
    const struct snipara_error *error;
    int r = 0;

    while (!snipara_wait(call, -1)) {
    }
    error = snipara_call_error(call);
    if (error != NULL) {
        r = snp_fail(err, SNP_E_PEER, "%s", error->message);
    } else if (!snp_streq(snipara_text(call, "status", NULL), "ok")) {
        r = snp_fail(err, SNP_E_INVALID, "the cell ended with status '%s'",
                     snipara_text(call, "status", NULL));
    }
    snipara_free(call);
    return r;
}

static int library_measure(const struct job *job, unsigned number_of, struct snp_err *err)
{
    struct snipara *box;
    const struct snipara_error *error =
        snipara_connect(SNIPARA_OPTIONS(.socket = job->socket_path), &box);
    char session[2 * NAME_LEN];
    int r = error == NULL ? 0 : snp_fail(err, SNP_E_PEER, "%s", error->message);
    int started;

    (void)snprintf(session, sizeof(session), "%s-%u", job->session, number_of);
    r = r < 0 ? r : library_cell(box, session, job->code, err);
    started = wait_for_start(job, err);
    r = r < 0 ? r : started;
    for (unsigned i = 0; r == 0 && i < job->runs; i++) {
        struct sample sample = {0};
        double start;

        pause_us(job->gap_us);
        start = now_us();
        r = library_cell(box, session, job->code, err);
        if (r == 0) {
            sample.us = now_us() - start;
            sample_keep(job, &sample);
        }
    }
    snipara_close(box);
    return r;
}

/* A client's process: connect, wait for the start, measure. Returns its exit status. */
static int client_main(const struct job *job, unsigned number_of)
{
    struct snp_err err = {0};
    int r =
        job->session == NULL ? sessions_measure(job, &err) : library_measure(job, number_of, &err);

    if (r < 0) {
        (void)fprintf(stderr, "snp-bench: %s\n", err.msg);
    }
    return r < 0 ? 1 : 0;
}

/* Fork the clients, start them together, wait for all; the time it took in *ret_us. */
static int clients_run(struct job *job, double *ret_us, struct snp_err *err)
{
    snp_autoclose int read_fd = -1;
    snp_autoclose int write_fd = -1;
    int ends[2];
    double start;
    unsigned failed = 0;
    unsigned n = 0;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    read_fd = ends[0];
    write_fd = ends[1];
    job->start_fd = read_fd;
    while (n < job->clients) {
        pid_t pid = fork();

        if (pid == 0) {
            snp_closep(&write_fd);
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(client_main(job, n));
        }
        if (pid < 0) {
            failed = job->clients - n;
            break;
        }
        n++;
    }
    while (__atomic_load_n(&job->shared->n_ready, __ATOMIC_SEQ_CST) < n) {
        pause_us(1000);
    }
    pause_us(100 * 1000); /* the pool is full again, and everybody asleep */
    start = now_us();
    snp_closep(&write_fd); /* the end of the pipe is the start of the race */
    write_fd = -1;
    while (n > 0) {
        int status = 0;

        if (SNP_RETRY(wait(&status)) < 0) {
            break;
        }
        failed += status != 0 ? 1 : 0;
        n--;
    }
    *ret_us = now_us() - start;
    return failed == 0 ? 0 : snp_fail(err, SNP_E_PEER, "%u clients failed", failed);
}

static int clients_measure(struct job *job, struct snp_err *err)
{
    size_t size;
    double us = 0;
    int r;

    job->most = job->clients * (size_t)(job->seconds > 0 ? SAMPLES_MAX
                                        : job->runs > 0  ? job->runs
                                                         : 1);
    size = sizeof(struct shared) + job->most * sizeof(struct sample);
    job->shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job->shared == MAP_FAILED) {
        return snp_fail_sys(err, errno, "shared memory");
    }
    r = clients_run(job, &us, err);
    if (r == 0) {
        for (unsigned i = 0; i < job->shared->n && i < job->most; i++) {
            sample_print(&job->shared->samples[i]);
        }
        (void)printf("{\"sessions\": %u, \"total_us\": %.1f}\n", job->shared->n, us);
    }
    (void)munmap(job->shared, size);
    return r;
}

static int run_rate(char **argv, struct snp_err *err)
{
    struct job job = {.socket_path = argv[0], .template = argv[1], .code = argv[4]};
    unsigned seconds = 0;
    int r = number(argv[2], CLIENTS_MAX, &job.clients, err);

    if (r == 0) {
        r = number(argv[3], NUMBER_MAX, &seconds, err);
    }
    job.seconds = seconds;
    return r == 0 ? clients_measure(&job, err) : r;
}

static int run_burst(char **argv, struct snp_err *err)
{
    struct job job = {.socket_path = argv[0], .template = argv[1], .code = argv[3]};
    int r = number(argv[2], CLIENTS_MAX, &job.clients, err);

    return r == 0 ? clients_measure(&job, err) : r;
}

static int run_library(char **argv, struct snp_err *err)
{
    struct job job = {.socket_path = argv[0], .session = argv[1], .code = argv[5]};
    int r = number(argv[2], CLIENTS_MAX, &job.clients, err);

    if (r == 0) {
        r = number(argv[3], SAMPLES_MAX, &job.runs, err);
    }
    if (r == 0) {
        r = number(argv[4], NUMBER_MAX, &job.gap_us, err);
    }
    return r == 0 ? clients_measure(&job, err) : r;
}

/* Processes ----------------------------------------------------------------------------- */

static int command_run(char **argv, const posix_spawn_file_actions_t *actions, double *ret_us)
{
    double start = now_us();
    pid_t pid = -1;
    int status = 0;

    if (argv[0] == NULL || posix_spawnp(&pid, argv[0], actions, NULL, argv, environ) != 0 ||
        SNP_RETRY(waitpid(pid, &status, 0)) != pid) {
        return -1;
    }
    *ret_us = now_us() - start;
    return status == 0 ? 0 : -1;
}

static int run_spawn(char **argv, struct snp_err *err)
{
    posix_spawn_file_actions_t actions;
    char **commands[COMMANDS_MAX] = {&argv[1]};
    unsigned n = 1;
    unsigned runs = 0;
    int r = number(argv[0], NUMBER_MAX, &runs, err);

    for (char **at = &argv[1]; *at != NULL; at++) {
        if (snp_streq(*at, "--") && n < COMMANDS_MAX) {
            *at = NULL;
            commands[n++] = at + 1;
        }
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
    /* Run 0 warms what there is to warm. */
    for (unsigned i = 0; r == 0 && i <= runs; i++) {
        for (unsigned j = 0; r == 0 && j < n; j++) {
            double us = 0;

            if (command_run(commands[j], &actions, &us) < 0) {
                r = snp_fail(err, SNP_E_PEER, "command %u failed: %s", j, commands[j][0]);
            } else if (i > 0) {
                (void)printf("{\"row\": %u, \"us\": %.1f}\n", j, us);
            }
        }
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* The floor ------------------------------------------------------------------------------ */

static int read_whole(int fd, char *bytes, size_t n)
{
    for (size_t have = 0; have < n;) {
        ssize_t more = SNP_RETRY(read(fd, bytes + have, n - have));

        if (more <= 0) {
            return -1;
        }
        have += (size_t)more;
    }
    return 0;
}

/* Passes every message on to below, and its answer back up; the last one answers itself. */
static void hop_main(int up, int below, char *bytes, size_t n)
{
    while (read_whole(up, bytes, n) == 0) {
        if (below >= 0 && (snp_write_all(below, bytes, n) < 0 || read_whole(below, bytes, n) < 0)) {
            break;
        }
        if (snp_write_all(up, bytes, n) < 0) {
            break;
        }
    }
    _exit(0);
}

/* The chain is built from its far end; *ret_fd is the near one. */
static int hops_start(unsigned hops, char *bytes, size_t n, int *ret_fd, struct snp_err *err)
{
    int below = -1;

    for (unsigned i = 0; i < hops; i++) {
        int pair[2];
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
            return snp_fail_sys(err, errno, "socketpair");
        }
        pid = fork();
        if (pid == 0) {
            snp_closep(&pair[0]);
            hop_main(pair[1], below, bytes, n);
        }
        snp_closep(&pair[1]);
        snp_closep(&below);
        below = pair[0];
        if (pid < 0) {
            snp_closep(&below);
            return snp_fail_sys(err, errno, "fork");
        }
    }
    *ret_fd = below;
    return 0;
}

static int run_pingpong(char **argv, struct snp_err *err)
{
    static char bytes[BYTES_MAX];
    unsigned hops = 0;
    unsigned runs = 0;
    unsigned n = 0;
    snp_autoclose int fd = -1;
    int r = number(argv[0], HOPS_MAX, &hops, err);

    if (r == 0) {
        r = number(argv[1], NUMBER_MAX, &runs, err);
    }
    if (r == 0) {
        r = number(argv[2], BYTES_MAX, &n, err);
    }
    if (r == 0) {
        r = hops_start(hops, bytes, n, &fd, err);
    }
    for (unsigned i = 0; r == 0 && i < runs; i++) {
        double start = now_us();

        if (snp_write_all(fd, bytes, n) < 0 || read_whole(fd, bytes, n) < 0) {
            r = snp_fail_sys(err, errno, "message");
        } else {
            (void)printf("{\"us\": %.2f}\n", now_us() - start);
        }
    }
    return r;
}

/* Any requests ------------------------------------------------------------------------ */

/* A member "$NAME" takes what NAME was in the latest answer that had it; names is their record. */
static int step_fill(json_t *head, const json_t *names)
{
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(head, next, key, value)
    {
        const char *text = json_string_value(value);
        json_t *known;

        if (text == NULL || text[0] != '$') {
            continue;
        }
        known = json_object_get(names, text + 1);
        if (known == NULL || json_object_set(head, key, known) < 0) {
            return -1;
        }
    }
    return 0;
}

/* An exec's "code" travels behind the head. */
static int step_send(struct snp_client *client, json_t *head, json_t *names, struct snp_err *err)
{
    snp_autofree char *code = strdup(snp_json_str(head, "code", ""));
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call call = {.head = head, .raw = code};
    int r;

    if (code == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (json_object_del(head, "code") == 0) {
        call.raw_len = strlen(code);
        (void)json_object_set_new(head, "code_len", json_integer((json_int_t)call.raw_len));
        (void)json_object_set_new(head, "kind", json_string("python"));
        (void)json_object_set_new(head, "stdin", json_false());
        (void)json_object_set_new(head, "stream", json_false());
    }
    r = snp_client_call(client, &call, &reply, err);
    if (r == 0 && !snp_streq(snp_json_str(reply.head, "status", "ok"), "ok")) {
        r = snp_fail(err, SNP_E_INVALID, "the cell ended with status '%s'",
                     snp_json_str(reply.head, "status", ""));
    }
    if (r == 0 && json_object_update(names, reply.head) < 0) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return r;
}

/* One step of one run: the pause "wait_us" it asks for, then the request. */
static int step_run(struct snp_client *client,
                    const json_t *step,
                    json_t *names,
                    size_t number_of_step,
                    struct snp_err *err)
{
    snp_autojson json_t *head = json_copy((json_t *)(uintptr_t)step);
    unsigned wait_us = (unsigned)snp_json_int(head, "wait_us", 0);
    double start;
    int r;

    (void)json_object_del(head, "wait_us");
    if (head == NULL || step_fill(head, names) < 0) {
        return snp_fail(err, SNP_E_INVALID, "step %zu wants what no answer had", number_of_step);
    }
    if (wait_us > 0) {
        pause_us(wait_us);
    }
    start = now_us();
    r = step_send(client, head, names, err);
    if (r == 0) {
        (void)printf(
            "{\"step\": %zu, \"us\": %.1f, \"hit\": %s}\n", number_of_step, now_us() - start,
            snp_json_bool(json_object_get(names, "manifest"), "from_pool", false) ? "true"
                                                                                  : "false");
    }
    return r;
}

/*
 * STEPS: a JSON array of request heads, each with its "method"; in each run all are asked in
 * that order, each when the one before is answered. One sample per step.
 */
static int run_ask(char **argv, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autojson json_t *steps = NULL;
    snp_autojson json_t *names = json_object();
    unsigned runs = 0;
    int r = number(argv[1], NUMBER_MAX, &runs, err);

    steps = json_loads(argv[2], JSON_REJECT_DUPLICATES, NULL);
    if (r == 0 && !json_is_array(steps)) {
        r = snp_fail(err, SNP_E_INVALID, "the steps must be a JSON array of objects");
    }
    if (r == 0) {
        r = client_open(argv[0], &client, err);
    }
    for (unsigned i = 0; r == 0 && i < runs; i++) {
        for (size_t k = 0; r == 0 && k < json_array_size(steps); k++) {
            r = step_run(client, json_array_get(steps, k), names, k, err);
        }
    }
    return r;
}

/* ---------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int n_args; /* at least, for spawn */
    int (*run)(char **argv, struct snp_err *err);
} modes[] = {
    {"cell", 4, run_cell},         {"fresh", 5, run_fresh},     {"rate", 5, run_rate},
    {"burst", 4, run_burst},       {"library", 6, run_library}, {"live", 5, run_live},
    {"end", 3, run_end},           {"ask", 3, run_ask},         {"spawn", 2, run_spawn},
    {"pingpong", 3, run_pingpong},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < SNP_ARRAY_LEN(modes); i++) {
        struct snp_err err = {0};

        if (snp_streq(argv[1], modes[i].name) && argc - 2 >= modes[i].n_args) {
            if (modes[i].run(argv + 2, &err) < 0) {
                (void)fflush(stdout);
                (void)fprintf(stderr, "snp-bench: %s\n", err.msg);
                return 1;
            }
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    (void)fprintf(stderr, "usage: snp-bench MODE ARGS...; its source lists the modes\n");
    return 2;
}
