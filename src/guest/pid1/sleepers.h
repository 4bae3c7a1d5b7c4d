/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_SLEEPERS_H
#define SNP_GUEST_PID1_SLEEPERS_H

/*
 * Pid 1's record of sleeping copies of the interpreter. Number 0 is the pristine copy. Code ran in
 * the others before they were made, so they are not trusted: the kernel identifies the sender on a
 * socket, a copy is accepted only as our child, and it is stopped while it sleeps.
 *
 * A copy is at rest once the kernel has reported that it is stopped. Anything that continues it
 * (SIGCONT has many senders: a child's end, an orphaned group) leaves a mark in the kernel until we
 * read it, and a copy continued by others is ended. So a copy that is still listed has not run
 * since it came to rest.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SNP_SLEEPERS_MAX = 1 + 64 + 2, /* the pristine copy, and two in transition */
    SNP_INIT_JOBS_MAX = 72,
    SNP_INIT_LATER = -1, /* not an errno: done() of the watch is called later */
};

struct snp_sleeper {
    uint32_t number;
    pid_t pid;         /* 0 = not reported yet, -1 = gone */
    int fd;            /* our end of its socket; owned; -1 = closed */
    uint8_t waits_for; /* enum: the expected message; 0 = none, it is at rest */
    bool is_stopping;  /* it has sent the message, and has the request to stop */
    pid_t woken;       /* the process of that message */
    bool is_job;       /* the woken process is not the interpreter */
    bool is_dropped;   /* killed; removed when reaped */
    uint32_t reply_to; /* pending request; 0 = none */
    uint64_t until_ms;
    struct { /* a wake received before the last one was at rest; fd owned, 0 = none */
        int fd;
        bool is_job;
        uint32_t reply_to;
    } next;
};

struct snp_sleepers {
    struct snp_sleeper at[SNP_SLEEPERS_MAX];
    size_t n;
    pid_t jobs[SNP_INIT_JOBS_MAX]; /* children with a task for the host */
    size_t n_jobs;
    uint64_t n_ended; /* unusable copies */
    /* A request is done: 0 or errno. pid: of the copy (HOLD), or of the woken process. */
    void (*done)(void *data, const struct snp_sleeper *b, int eno, pid_t pid);
    /* A sweep must spare it from now on, or it has ended. number: UINT32_MAX = a job. */
    void (*spared)(void *data, uint32_t number, pid_t pid, bool is_there);
    /* Is the copy alone in its session? Other members could make the kernel continue it. */
    bool (*is_alone)(void *data, pid_t pid, pid_t woken);
    void *data;
};

/* pristine_fd: the socket to the pristine copy; owned. */
void snp_sleepers_init(struct snp_sleepers *bs, int pristine_fd);

/* Is it a copy or a job? */
bool snp_sleepers_spare(const struct snp_sleepers *bs, pid_t pid);

/* Is it a copy, perhaps one that is being ended, whose memory is about to be freed? */
bool snp_sleepers_has(const struct snp_sleepers *sleepers, pid_t pid);

/* The kernel reports that a child has stopped or continued. */
void snp_sleepers_moved(struct snp_sleepers *bs, pid_t pid, bool is_stopped);

/* Copies being made, not at rest yet. */
unsigned snp_sleepers_coming(const struct snp_sleepers *bs);

/* Copies that are not at rest. */
unsigned snp_sleepers_awake(const struct snp_sleepers *bs);

/* Processes of copies and of requested ones, including those being ended. */
unsigned snp_sleepers_taken(const struct snp_sleepers *bs);

/* End those, and all jobs except this one. */
void snp_sleepers_end_awake(struct snp_sleepers *bs, pid_t job);

/* Ended copies that are not reaped yet. */
unsigned snp_sleepers_dying(const struct snp_sleepers *bs);

/* Is it a job that is not reaped yet? */
bool snp_sleepers_is_job(const struct snp_sleepers *bs, pid_t pid);

/* Add a child that sweeps spare while it lives; false if there are too many. */
bool snp_sleepers_add_job(struct snp_sleepers *bs, pid_t pid);

/*
 * Requests; each returns 0 or an errno, or SNP_INIT_LATER. Descriptors stay the caller's. hold: a
 * copy will send on (a duplicate of) fd. wake: the copy forks, passing on stream_fd.
 */
int snp_sleepers_add(struct snp_sleepers *bs, uint32_t number, int fd, uint32_t reply_to);
int snp_sleepers_wake(
    struct snp_sleepers *bs, uint32_t number, bool is_job, int stream_fd, uint32_t reply_to);
int snp_sleepers_drop(struct snp_sleepers *bs, uint32_t number, uint32_t reply_to);

/* A child was reaped; true if it was one of these. */
bool snp_sleepers_reaped(struct snp_sleepers *bs, pid_t pid);

/* Descriptors to poll (room for all) and the longest wait: ms, or -1 if none is pending. */
size_t snp_sleepers_poll(const struct snp_sleepers *bs, struct pollfd *ret, int *ret_timeout_ms);

/* Handle messages and timeouts; other: other processes. */
void snp_sleepers_look(struct snp_sleepers *bs, const pid_t *other, size_t n_other);

#endif
