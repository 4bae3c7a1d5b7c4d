/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before a program (LD_PRELOAD): its wall clock, and that of its children, is later by
 * SNP_CLOCK seconds. Clocks that only measure intervals, and times of files, are unchanged.
 *
 * Images with musl load it, too: it uses no function that glibc alone has.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum {
    NS_PER_US = 1000,
    NS_PER_S = 1000000000,
    POLL_NS = NS_PER_S / 1000,
};

/* Read once: a program may clear its environment. */
static time_t later(void)
{
    static time_t seconds = -1;

    if (seconds < 0) {
        const char *text = getenv("SNP_CLOCK");
        time_t given = 0;

        for (; text != NULL && *text >= '0' && *text <= '9'; text++) {
            given = 10 * given + (*text - '0');
        }
        seconds = given;
    }
    return seconds;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the C library's are reserved */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int r = (int)syscall(SYS_clock_gettime, clock, ret);

    if (r == 0 &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) {
        ret->tv_sec += later();
    }
    return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / NS_PER_US};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}

/* Old interpreters wait for locks until a time of this clock. The kernel has the unchanged one. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    struct timespec now;

    while (sem_trywait(semaphore) < 0) {
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > until->tv_sec ||
            (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec)) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (nanosleep(&pause, NULL) < 0) {
            return -1;
        }
    }
    return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
