/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/sweep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <sys/signalfd.h>

#include "guest/pid1/frame.h"
#include "guest/pid1/kill.h"
#include "guest/pid1/process.h"
#include "guest/pid1/reap.h"

enum {
    QUIET_ROUNDS = 2,
    SWEEP_MS = 12000, /* below the supervisor's timeout */
    COMING_MS = 3500, /* for a copy being made; above its time limit */
    AWAKE_MS = 2000,  /* for a copy to come to rest */
    SAVERS_MS = 300   /* for a saver to end */
};

static void signal_one(pid_t pid, void *data)
{
    (void)snp_init_kill(pid, *(const int *)data);
}

/* Wait for a child's end, at most a millisecond. */
static void await_child(struct snp_init *in)
{
    struct pollfd children = {.fd = in->children_fd, .events = POLLIN};
    struct signalfd_siginfo info;

    if (poll(&children, 1, 1) > 0) {
        (void)!read(in->children_fd, &info, sizeof(info));
    }
    snp_reap(in);
}

static size_t n_awake(const struct snp_init *in)
{
    return snp_sleepers_awake(&in->sleepers);
}

static size_t n_savers(const struct snp_init *in)
{
    return in->sleepers.n_jobs - (in->worker > 0 ? 1 : 0);
}

/* Wait until the count is zero, at most ms. */
static void await_none(struct snp_init *in, size_t (*count)(const struct snp_init *), unsigned ms)
{
    struct pollfd polled[1 + SNP_SLEEPERS_MAX] = {{.fd = in->children_fd, .events = POLLIN}};
    const uint64_t end = snp_now_ms() + ms;

    for (uint64_t now = snp_now_ms(); count(in) > 0 && now < end; now = snp_now_ms()) {
        struct signalfd_siginfo info;
        int own_ms;
        size_t n = snp_sleepers_poll(&in->sleepers, polled + 1, &own_ms);

        (void)poll(polled, 1 + n, (int)(end - now));
        (void)!read(in->children_fd, &info, sizeof(info));
        snp_look_round(in);
    }
}

static size_t n_coming(const struct snp_init *in)
{
    return snp_sleepers_coming(&in->sleepers);
}

void snp_await_copies(struct snp_init *in)
{
    await_none(in, n_coming, COMING_MS);
}

void snp_settle(struct snp_init *in)
{
    int number = SIGSTOP;

    await_none(in, n_awake, AWAKE_MS);
    if (n_savers(in) > 0) {
        (void)snp_processes_each(in, signal_one, &number);
        await_none(in, n_savers, SAVERS_MS);
    }
    snp_sleepers_end_awake(&in->sleepers, in->worker);
}

int snp_sweep(struct snp_init *in)
{
    const uint64_t end = snp_now_ms() + SWEEP_MS;
    int number = SIGKILL;
    unsigned quiet = 0;

    while (quiet < QUIET_ROUNDS) {
        unsigned n;

        if (snp_now_ms() > end) {
            return EAGAIN;
        }
        if (!in->is_local) {
            (void)snp_init_kill(-1, SIGSTOP);
        }
        n = snp_processes_each(in, signal_one, &number) + snp_sleepers_dying(&in->sleepers);
        if (n > 0) {
            await_child(in);
        } else {
            snp_reap(in);
        }
        quiet = n + snp_sleepers_dying(&in->sleepers) == 0 ? quiet + 1 : 0;
    }
    if (in->worker > 0) {
        (void)snp_init_kill(in->worker, SIGCONT);
    }
    if (in->helper.pid > 0 && !in->is_local) {
        (void)snp_init_kill(in->helper.pid, SIGCONT);
    }
    if (in->relay > 0) {
        (void)snp_init_kill(in->relay, SIGCONT);
    }
    return 0;
}
