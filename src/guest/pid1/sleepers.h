/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_SLEEPERS_H
#define SNP_GUEST_PID1_SLEEPERS_H

/*
 * Sleeping copies of the interpreter, as pid 1 knows them. Number 0 is the pristine copy. Code ran
 * in the others before they were made, so what they do is not trusted: who speaks on a socket the
 * kernel says, a copy counts only if it is our child, and it is stopped while it sleeps.
 *
 * A copy is at rest once the kernel has told us that it stands. Whatever lets it go on (SIGCONT has
 * many senders: a child's end, an orphaned group) leaves a mark that the kernel keeps until we ask
 * for it, and one that was let go on by anybody but us is ended. So a copy that is still on the
 * list has not run since it came to rest.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SNP_SLEEPERS_MAX = 1 + 64 + 2, /* the pristine copy, and two in passing from one to the next */
    SNP_INIT_JOBS_MAX = 72,
    SNP_INIT_LATER = -1, /* instead of an errno: ret_done of the watch comes later */
};

struct snp_sleeper {
    uint32_t number;
    pid_t pid;         /* 0 = has not said that it is there, -1 = gone */
    int fd;            /* our end of its socket; owned; -1 = closed */
    uint8_t waits_for; /* enum: what it is to say; 0 = nothing, and it is at rest */
    bool is_stopping;  /* it has said so, and was told to stop */
    pid_t woken;       /* what it has said so of */
    bool is_job;       /* what is woken is not to be the interpreter */
    bool is_dropped;   /* killed; goes when it is reaped */
    uint32_t reply_to; /* the request that waits; 0 = none */
    uint64_t until_ms;
    struct { /* a wake that came before the last one was at rest again; fd owned, 0 = none */
        int fd;
        bool is_job;
        uint32_t reply_to;
    } next;
};

struct snp_sleepers {
    struct snp_sleeper at[SNP_SLEEPERS_MAX];
    size_t n;
    pid_t jobs[SNP_INIT_JOBS_MAX]; /* children that do something for the host */
    size_t n_jobs;
    uint64_t n_ended; /* copies that were of no use any more */
    /* A request is done: 0 or errno. pid: of the copy (HOLD), or of what was woken. */
    void (*done)(void *data, const struct snp_sleeper *b, int eno, pid_t pid);
    /* To be spared by a sweep from now on, or gone. number: UINT32_MAX = a job. */
    void (*spared)(void *data, uint32_t number, pid_t pid, bool is_there);
    /*
     * Is nobody else in the session of this copy? Else others could have the kernel let it go on.
     */
    bool (*is_alone)(void *data, pid_t pid, pid_t woken);
    void *data;
};

/* pristine_fd: the socket to the pristine copy; owned. */
void snp_sleepers_init(struct snp_sleepers *bs, int pristine_fd);

/* Is it a copy or a job? */
bool snp_sleepers_spare(const struct snp_sleepers *bs, pid_t pid);

/* Whether it is a copy, also one that is being ended: what that holds is on its way out. */
bool snp_sleepers_has(const struct snp_sleepers *sleepers, pid_t pid);

/* The kernel says that a child has stopped, or was let go on. */
void snp_sleepers_moved(struct snp_sleepers *bs, pid_t pid, bool is_stopped);

/* How many copies are being made and are not at rest. */
unsigned snp_sleepers_coming(const struct snp_sleepers *bs);

/* How many copies are not at rest. */
unsigned snp_sleepers_awake(const struct snp_sleepers *bs);

/* Processes that they are, and that were asked of them, also those on their way out. */
unsigned snp_sleepers_taken(const struct snp_sleepers *bs);

/* End those, and all jobs but this one. */
void snp_sleepers_end_awake(struct snp_sleepers *bs, pid_t job);

/* How many were ended and have not been reaped. */
unsigned snp_sleepers_dying(const struct snp_sleepers *bs);

/* Is it a job that has not been reaped? */
bool snp_sleepers_is_job(const struct snp_sleepers *bs, pid_t pid);

/* A child that is to be spared while it lives; false if there are too many. */
bool snp_sleepers_add_job(struct snp_sleepers *bs, pid_t pid);

/*
 * Requests; each 0 or an errno at once, or SNP_INIT_LATER. Descriptors stay the caller's.
 * hold: a copy will speak on (a duplicate of) fd. wake: the copy forks itself, with stream_fd.
 */
int snp_sleepers_add(struct snp_sleepers *bs, uint32_t number, int fd, uint32_t reply_to);
int snp_sleepers_wake(
    struct snp_sleepers *bs, uint32_t number, bool is_job, int stream_fd, uint32_t reply_to);
int snp_sleepers_drop(struct snp_sleepers *bs, uint32_t number, uint32_t reply_to);

/* A child was reaped; whether it was one of these. */
bool snp_sleepers_reaped(struct snp_sleepers *bs, pid_t pid);

/* What to poll for (room for all of them) and, if anybody waits, at most how long: ms, or -1. */
size_t snp_sleepers_poll(const struct snp_sleepers *bs, struct pollfd *ret, int *ret_timeout_ms);

/* Something may have been said, or the time be over; other: processes that are none of these. */
void snp_sleepers_look(struct snp_sleepers *bs, const pid_t *other, size_t n_other);

#endif
