/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attempt waits for one of three things: the answer to the greeting (calls.fd), a starting
 * daemon (start.fd), or the time of the next try (neither).
 */
#include "client/greet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "client/calls.h"
#include "client/start.h"

enum {
    START_MS = 20000, /* for daemons to be ready; less if one ends */
    HELLO_MS = 20000,
    RETRY_MS = 20,
    WORDS_MAX = 256,
};

struct snp_greeting {
    struct snp_calls calls; /* the socket, with the greeting as its only call */
    char *path;             /* owned */
    bool has_start;
    bool any_state;
    bool was_ready; /* the daemon that was started, so it is early for another one */
    struct snp_daemon_start start;
    uint64_t until_us;
    uint64_t give_up_us;
    int answer; /* 0 = none, 1 = greeted; negative: refused, because of *err */
    struct snp_err *err;
};

int snp_greeting_fd(const struct snp_greeting *greeting)
{
    return greeting->calls.fd >= 0 ? greeting->calls.fd : greeting->start.fd;
}

uint64_t snp_greeting_until(const struct snp_greeting *greeting)
{
    return greeting->until_us;
}

int snp_greeting_take_fd(struct snp_greeting *greeting)
{
    SNP_ASSERT(greeting->answer == 1 && greeting->calls.in.len == 0);
    return SNP_TAKE_FD(greeting->calls.fd);
}

void snp_greeting_free(struct snp_greeting *greeting)
{
    if (greeting != NULL) {
        snp_calls_done(&greeting->calls);
        snp_daemon_start_done(&greeting->start);
        free(greeting->path);
        free(greeting);
    }
}

static bool is_late(const struct snp_greeting *greeting)
{
    return snp_now_us() >= greeting->until_us;
}

static void wait_at_most(struct snp_greeting *greeting, unsigned ms)
{
    greeting->until_us = snp_now_us() + (uint64_t)ms * 1000;
}

/* Try again after a while. */
static int retry(struct snp_greeting *greeting, const char *problem, struct snp_err *err)
{
    char words[WORDS_MAX];

    wait_at_most(greeting, RETRY_MS);
    return greeting->until_us < greeting->give_up_us
               ? 0
               : snp_fail(err, SNP_E_PEER, "the daemon %s%s", problem,
                          snp_daemon_last_words(words, sizeof(words)));
}

/* The greeting ---------------------------------------------------------------------------- */

/*
 * *ret_fd: -1 = too many clients wait for the daemon. SNP_E_NOT_FOUND: no daemon listens, so
 * starting one would help.
 */
static int socket_connect(const char *path, int *ret_fd, struct snp_err *err)
{
    snp_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);

    memcpy(address.sun_path, path, strlen(path)); /* its length was checked */
    if (fd < 0) {
        return snp_fail_sys(err, errno, "socket");
    }
    if (SNP_RETRY(connect(fd, (const struct sockaddr *)&address, sizeof(address))) < 0) {
        if (errno == ENOENT || errno == ECONNREFUSED) {
            return snp_fail(err, SNP_E_NOT_FOUND, "no daemon answers at %s", path);
        }
        return errno == EAGAIN ? 0 : snp_fail_sys(err, errno, "connect to %s", path);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid()) {
        return snp_fail(err, SNP_E_DENIED, "%s is served by another user", path);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

/* The daemon does not take its folder from a client, so a client that names another is refused. */
static int state_check(const json_t *greeting, struct snp_err *err)
{
    const char *own = getenv("SNIPARA_SANDBOX_STATE_DIR");   /* NOLINT(concurrency-mt-unsafe) */
    const char *id = snp_json_str(greeting, "state_id", ""); /* an older daemon sends none */
    char own_id[SNP_DIR_ID_MAX + 1];

    if (own == NULL || own[0] == '\0' || id[0] == '\0' ||
        strcmp(snp_dir_id(own, own_id), id) == 0) {
        return 0;
    }
    return snp_fail(err, SNP_E_INVALID,
                    "the running daemon has the state folder %.120s, but SNIPARA_SANDBOX_STATE_DIR "
                    "is %.120s; unset it, stop that daemon (snipara-sandbox daemon stop), or set "
                    "SNIPARA_SANDBOX_RUNTIME_DIR, too, for another daemon",
                    snp_json_str(greeting, "state_dir", "?"), own);
}

static void on_answer(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_greeting *greeting = ctx;

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        *greeting->err = *err;
        greeting->answer = err->code;
        return;
    }
    greeting->answer = greeting->any_state ? 0 : state_check(head, greeting->err);
    greeting->answer = greeting->answer < 0 ? greeting->answer : 1;
}

static int hello_send(struct snp_greeting *greeting, struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION);
    struct snp_async_call hello = {.done = on_answer, .ctx = greeting};
    uint32_t ignored = 0;

    SNP_TRY_MEMORY(head != NULL, err);
    SNP_TRY(socket_connect(greeting->path, &greeting->calls.fd, err));
    if (greeting->calls.fd < 0) {
        return retry(greeting, "does not answer", err);
    }
    wait_at_most(greeting, HELLO_MS);
    hello.head = SNP_TAKE_PTR(head);
    SNP_TRY(snp_calls_begin(&greeting->calls, &hello, &ignored, err));
    return snp_calls_send(&greeting->calls, err); /* an empty socket has room for it */
}

static int answer_take(struct snp_greeting *greeting, struct snp_err *err)
{
    int r;

    greeting->err = err;
    r = snp_calls_receive(&greeting->calls, err);
    if (r == 0 && greeting->answer == 0 && is_late(greeting)) {
        r = snp_fail(err, SNP_E_TIMEOUT, "the daemon does not answer");
    }
    r = greeting->answer == 0 ? r : greeting->answer;
    if (r < 0) {
        snp_calls_done(&greeting->calls);
    }
    if (r == SNP_E_PEER && greeting->answer == 0) { /* the next one will answer */
        return snp_fail(err, SNP_E_NOT_FOUND, "the daemon at %s is ending", greeting->path);
    }
    return r == SNP_E_UNSUPPORTED
               ? snp_err_wrap(err, "daemon and client do not match; stop the daemon and try again")
               : r;
}

/* The daemon ------------------------------------------------------------------------------ */

static int daemon_start(struct snp_greeting *greeting, struct snp_err *err)
{
    if (SNP_TAKE(greeting->was_ready, false)) {
        return retry(greeting, "does not start", err);
    }
    wait_at_most(greeting, START_MS);
    return snp_daemon_start(&greeting->start, err) < 0
               ? snp_err_wrap(err, "the daemon cannot start")
               : 0;
}

static int ready_take(struct snp_greeting *greeting, struct snp_err *err)
{
    char words[WORDS_MAX];
    int r = snp_daemon_started(&greeting->start, err);

    if (r == 0 && is_late(greeting)) {
        r = snp_fail(err, SNP_E_PEER, "it is not ready after %d s%s", START_MS / 1000,
                     snp_daemon_last_words(words, sizeof(words)));
    }
    if (r < 0) {
        return snp_err_wrap(err, "the daemon cannot start");
    }
    greeting->was_ready = r == 1;
    return r == 1 ? hello_send(greeting, err) : 0;
}

int snp_greeting_step(struct snp_greeting *greeting, struct snp_err *err)
{
    int r = greeting->calls.fd >= 0   ? answer_take(greeting, err)
            : greeting->start.fd >= 0 ? ready_take(greeting, err)
            : is_late(greeting)       ? hello_send(greeting, err)
                                      : 0;

    return r == SNP_E_NOT_FOUND && greeting->has_start ? daemon_start(greeting, err) : r;
}

int snp_greeting_begin(const char *socket,
                       bool no_start,
                       bool any_state,
                       struct snp_greeting **ret,
                       struct snp_err *err)
{
    snp_cleanup(snp_greeting_freep) struct snp_greeting *greeting = calloc(1, sizeof(*greeting));

    SNP_TRY_MEMORY(greeting != NULL, err);
    snp_calls_init(&greeting->calls); /* before any failure: snp_greeting_free closes it */
    greeting->start.fd = -1;
    greeting->has_start = !no_start && socket == NULL;
    greeting->any_state = any_state;
    greeting->give_up_us = snp_now_us() + (uint64_t)START_MS * 1000;
    if (socket != NULL) {
        SNP_TRY(snp_socket_path_check(socket, err));
        greeting->path = strdup(socket);
    } else {
        SNP_TRY(snp_socket_path(&greeting->path, err));
    }
    SNP_TRY_MEMORY(greeting->path != NULL, err);
    SNP_TRY(snp_greeting_step(greeting, err)); /* it is late for the first try */
    *ret = SNP_TAKE_PTR(greeting);
    return 0;
}
