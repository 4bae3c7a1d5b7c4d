/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_SPEC_H
#define SNP_GUEST_SPEC_H

/*
 * Messages between the supervisor and the code in a new sandbox until pid 1 runs: plain records
 * without encoding, because both sides are of one build. docs/wire.md describes the later protocol.
 *
 * Order on the session's control socket (stream): the supervisor sends struct snp_spec with its
 * descriptors, then mask_len bytes; the child answers struct snp_setup_reply (with a descriptor of
 * each file system, in the order of enum snp_setup_fs, and the seccomp listener if it made one) and
 * then executes pid 1, which speaks the init protocol.
 */

#include <stdint.h>

#include "base/err.h"

/*
 * Buffers of the code's sockets, which the kernel does not charge to a process: sysctls of its
 * network namespace.
 */
#define SNP_TCP_BUFFERS "2304 8192 65536"
#define SNP_UDP_BUFFERS "2304"

enum {
    SNP_SPEC_MAGIC = 0x53504331, /* "SPC1" */
    SNP_INSIDE_ID = 1000,        /* user and group of the code, in its user namespace */
    SNP_ENV_MAX = 256 << 10,     /* bytes of "K=V\0" in a guest frame START */
    SNP_MASK_MAX = 4 << 20,      /* bytes of mask records */
    SNP_VERSION_MAX = 31,        /* characters of the interpreter's version */
    SNP_FOLDER_MAX = 1024,       /* bytes of the path of a session's folder */
    /* of our processes inside: init, the pristine copy, snp-files, a worker of that */
    SNP_OWN_PROCESSES = 4,
};

/* Limits of all copies of a session's workspace together; shared files count once. */
enum {
    SNP_COPIES_BYTES_MAX = 256 << 20,
    SNP_COPIES_FILES_MAX = 100000,
};

/* Descriptors sent with the spec, in this order; the project is optional; n_groups more follow. */
enum snp_spec_fd {
    SNP_SPEC_FD_GUEST = 0, /* the interpreter's end of the guest stream */
    SNP_SPEC_FD_STDOUT,    /* write ends */
    SNP_SPEC_FD_STDERR,
    SNP_SPEC_FD_INIT,    /* the program of pid 1 */
    SNP_SPEC_FD_FILES,   /* the program of its helper */
    SNP_SPEC_FD_PROJECT, /* detached read-only mount of the project folder */
    SNP_SPEC_FD_N,
    SNP_SPEC_GROUPS_MAX = 4, /* doors of control groups; see snp_cgroup_doors */
};

/* Placeholders in the filter's program for the halves of spec.mark, replaced during set-up. */
#define SNP_MARK_PLACE_HIGH 0x9d3c51e7U
#define SNP_MARK_PLACE_LOW  0xb26a08f5U

struct snp_spec {
    uint32_t magic;
    uint32_t has_project;
    uint64_t tmp_bytes;
    uint64_t workspace_bytes;
    uint64_t workspace_inodes;
    uint64_t copies_bytes; /* for copies of the workspace; 0 = none are kept */
    uint64_t file_bytes;
    uint64_t data_bytes;  /* RLIMIT_DATA above the template's use; 0 = none */
    uint64_t space_bytes; /* RLIMIT_AS; 0 = none */
    uint32_t processes;
    uint32_t open_files;
    uint32_t cpu_first;    /* the first of its CPUs, if no cgroup limits them ... */
    uint32_t cpu_count;    /* ... their number; 0 = not bound */
    uint32_t landlock_abi; /* the newest Landlock ABI to use; 0 = none */
    uint32_t want_notify;  /* make a seccomp listener for denied calls */
    uint32_t can_setgroups;
    uint32_t mask_len;
    uint32_t n_groups;
    uint64_t mark; /* carried by pid 1's signals (guest/pid1/kill.h); not 0 */
    char hostname[32];
    /* For a sandbox without namespaces (the local tier): */
    uint32_t is_local;
    uint32_t own_id;             /* user and group to change to; 0 = no change */
    char folder[SNP_FOLDER_MAX]; /* with its workspace/ and tmp/ */
};

/* File systems that a sandbox can fill. */
enum snp_setup_fs {
    SNP_SETUP_WORKSPACE = 0, /* for writes: the overlay's upper, or the workspace */
    SNP_SETUP_TMP,
    SNP_SETUP_SHM,
    SNP_SETUP_FS_N,
};

/*
 * One mask record: u8 kind, path below the project, NUL, u32 length, bytes. Kind 'w'
 * hides the path, 'f' shows a regular file of these bytes in its place.
 */

struct snp_setup_reply {
    uint32_t magic;
    int32_t ok;
    int32_t landlock_abi; /* 0 = not supported by the kernel */
    struct snp_err err;   /* when !ok: "step NAME: ..." */
};

/*
 * Control socket of a zygote (SOCK_SEQPACKET): a byte and, except for READY and THAWED, the u32
 * number of the order. FAILED may follow FORKED, if the child was killed early.
 */
enum {
    SNP_ZYGOTE_FORK = 'F',   /* to the zygote, with the session's control socket */
    SNP_ZYGOTE_PLAIN = 'L',  /* the same, without new namespaces */
    SNP_ZYGOTE_IMAGE = 'I',  /* with a pipe, to which it writes an image; see guest/image.h */
    SNP_ZYGOTE_FORKED = 'P', /* reply, sent by the child, with its pidfd */
    SNP_ZYGOTE_FAILED = 'E', /* reply; then u32 errno */
    SNP_ZYGOTE_READY = 'R',  /* once, after the preloads; then the version as text */
    SNP_ZYGOTE_THAWED = 'T', /* the same, if an image was used */
};

/* Descriptors of an interpreter, besides 0 to 2. */
enum {
    SNP_GUEST_FD = 3,          /* guest stream */
    SNP_GUEST_PRISTINE_FD = 4, /* the pristine copy's end of its socket to pid 1; until START */
};

/*
 * Messages of a sleeping copy, and of the interpreter woken from it, to pid 1: one byte each; the
 * kernel adds the sender (SCM_CREDENTIALS). To the copy: any byte with the guest stream of a new
 * interpreter.
 */
enum {
    SNP_COPY_ASLEEP = 'B', /* from the copy: it exists */
    SNP_COPY_AWAKE = 'W',  /* from the new interpreter */
    SNP_COPY_FAILED = 'F', /* from the copy: forking failed */
};

/* Descriptors of pid 1 at its start. */
enum {
    SNP_INIT_CONTROL_FD = 3,
    SNP_INIT_PRISTINE_FD = 4, /* socket to the pristine copy; closed = there will be none */
    SNP_INIT_UPPER_FD = 5,    /* SNP_SETUP_WORKSPACE */
    SNP_INIT_COPIES_FD = 6,   /* folder for copies of the workspace; closed = no copies */
    SNP_INIT_BASE_FD = 7,     /* the project's initial state, read-only; closed = none */
    SNP_INIT_FILES_FD = 8,    /* the program snp-files */
    SNP_INIT_DIAG_FD = 9,     /* lists the sockets of the sandbox; closed = not supported */
};

/* snp-files: descriptors 6 to 8 as for pid 1, and this one. */
enum {
    SNP_FILES_CONTROL_FD = 3, /* to pid 1 */
};

#endif
