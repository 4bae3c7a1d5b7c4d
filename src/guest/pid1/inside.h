/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_INSIDE_H
#define SNP_GUEST_PID1_INSIDE_H

/* What pid 1 knows of its sandbox. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/pid1/changes.h"
#include "guest/pid1/helper.h"
#include "guest/pid1/sleepers.h"

struct snp_init {
    pid_t interpreter; /* -1 = none */
    pid_t command;     /* -1 = none */
    bool is_stopped;   /* the command was signalled: what it leaves behind goes with it */
    uint32_t command_id;
    bool has_store; /* for copies of the workspace, whose memory counts */
    bool is_local;  /* no namespaces: /proc is closed to us */
    bool is_container;
    pid_t relay; /* of a container, a child that ends only with us; 0 = there is none */
    /* of a container: processes of ours beside pid 1 that its pids limit allows; 0 = not held */
    unsigned room;
    bool is_watching;
    bool was_crowded;      /* since the watch began */
    uint64_t watched;      /* bytes last reported */
    uint64_t watch_limit;  /* bytes that matter; 0 = not watched */
    uint64_t most_threads; /* of the code; 0 = not watched */
    unsigned n_samples;
    int diag_fd;                /* SNP_INIT_DIAG_FD, -1 = there is none */
    uint64_t mappings_bytes;    /* as last counted, which is dear: not in each sample */
    uint64_t sockets_bytes;     /* the same */
    int children_fd;            /* readable when one has ended */
    int passed_fd[SNP_FDS_MAX]; /* of requests that are not run yet, in their order */
    size_t n_passed;
    struct snp_sleepers sleepers;
    uint64_t n_ended;  /* of copies, at the last sweep */
    uint32_t n_others; /* processes of the code when a copy came to rest */
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
