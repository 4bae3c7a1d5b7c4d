/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_INSIDE_H
#define SNP_GUEST_PID1_INSIDE_H

/* Pid 1's state of its sandbox. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/pid1/changes.h"
#include "guest/pid1/helper.h"
#include "guest/pid1/sleepers.h"
#include "guest/pid1/wire.h"

struct snp_init {
    pid_t interpreter; /* -1 = none */
    pid_t command;     /* -1 = none */
    bool is_stopped;   /* the command was signalled: its remaining processes are ended, too */
    uint32_t command_id;
    pid_t processes[SNP_INIT_PROCESSES_MAX]; /* detached; 0 = free */
    pid_t left[SNP_INIT_PROCESSES_MAX];      /* groups that ended ones left; 0 = free */
    int stream_fd[3];                        /* output, error and input of the next one, or -1 */
    bool has_store;                          /* for copies of the workspace, which use memory */
    bool is_local;                           /* no namespaces: /proc is not accessible */
    bool is_container;
    pid_t relay; /* in a container, a child that ends only with us; 0 = none */
    /*
     * in a container: our processes besides pid 1 that its pids limit allows for; 0 = no
     * reservation
     */
    unsigned room;
    bool is_watching;
    bool was_crowded;      /* a sample found most_threads, since the watch began */
    uint64_t watched;      /* bytes in the last report */
    uint64_t watch_limit;  /* bytes above which to report; 0 = not watched */
    uint64_t most_threads; /* of the code; 0 = not watched */
    unsigned n_samples;
    int diag_fd;                /* SNP_INIT_DIAG_FD, -1 = not supported */
    uint64_t mappings_bytes;    /* last count; expensive, so not in each sample */
    uint64_t sockets_bytes;     /* last count, also not in each sample */
    int children_fd;            /* readable when a child has ended */
    int passed_fd[SNP_FDS_MAX]; /* of pending requests, in their order */
    size_t n_passed;
    struct snp_sleepers sleepers;
    uint64_t n_ended;  /* of copies, at the last sweep */
    uint32_t n_others; /* processes of the code when the last copy was stopped */
    struct snp_layer_changes *changes;
    struct snp_helper helper;
    pid_t worker; /* child that packs or unpacks; -1 = none */
    bool is_unpacking;
    uint32_t worker_reply;
    struct snp_buf in;
    struct snp_buf out;
    struct snp_buf answer; /* of the helper, a whole frame */
};

#endif
