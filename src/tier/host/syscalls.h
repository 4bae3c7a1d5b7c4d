/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_SYSCALLS_H
#define SNP_TIER_HOST_SYSCALLS_H

/*
 * Which system calls the code may make: an allow-list in groups, each with its reason.
 * docs/syscalls.md is printed from it (`tier-native --syscalls`).
 */

#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Compile the two programs into sealed memfds: for sandboxes, and for zygotes (which also
 * may set up a sandbox). counts_memory: a cgroup counts a sandbox's pages. If not, code
 * may not make memfds, whose pages belong to no process.
 */
int snp_syscalls_compile(bool counts_memory,
                         int *ret_session_fd,
                         int *ret_zygote_fd,
                         struct snp_err *err) SNP_NODISCARD;

enum snp_arch {
    SNP_ARCH_NATIVE, /* what this program was built for */
    SNP_ARCH_X86_64,
    SNP_ARCH_AARCH64,
};

enum snp_filter {
    SNP_FILTER_SESSION,           /* of code whose memory a cgroup counts */
    SNP_FILTER_SESSION_UNCOUNTED, /* of code whose memory none counts */
    SNP_FILTER_ZYGOTE,
};

enum snp_call {
    SNP_CALL_REFUSED,
    SNP_CALL_ALLOWED,
    SNP_CALL_BY_ARGUMENT, /* with some arguments only */
    SNP_CALL_ABSENT,      /* answered as not there */
};

/*
 * Compile one of the programs into a file, for another architecture if wanted. Values of
 * arguments are those of the architecture this was built for.
 */
int snp_syscalls_compile_for(enum snp_arch arch,
                             enum snp_filter filter,
                             int fd,
                             struct snp_err *err) SNP_NODISCARD;

/* What the table says of a call; refused, also if the architecture has no such call. */
enum snp_call snp_syscalls_verdict(enum snp_arch arch,
                                   enum snp_filter filter,
                                   const char *name);

/* Number of calls that the code may make on this architecture. */
unsigned snp_syscalls_count(bool counts_memory);

/* A filter that is being made. */
struct snp_making {
    scmp_filter_ctx ctx;
    enum snp_arch arch;
};

/* What distinguishes a filter over the table. add returns 0 or a negative errno. */
struct snp_filter_parts {
    const char *const
        *skip; /* calls of the table that are left out, ends with NULL; NULL = none */
    int (*add)(const struct snp_making *m, const void *data);
    const void *data; /* borrowed */
};

/* Compile one into a file: the table less skip, and what add adds. */
int snp_filter_compile_for(enum snp_arch arch,
                           const struct snp_filter_parts *parts,
                           int fd,
                           struct snp_err *err) SNP_NODISCARD;

/* Compile one for this architecture into a sealed memfd. */
int snp_filter_compile(const struct snp_filter_parts *parts,
                       int *ret_fd,
                       struct snp_err *err) SNP_NODISCARD;

/*
 * For add: allow a call; allow it when the low 32 bits of an argument are one of values;
 * allow clone, ioctl and prctl by argument and answer what libraries only try.
 */
int snp_filter_allow(const struct snp_making *m, const char *name) SNP_NODISCARD;
int snp_filter_values(const struct snp_making *m,
                      const char *name,
                      unsigned arg,
                      const uint64_t *values,
                      size_t n) SNP_NODISCARD;
/* Allow a call when an argument has none of these bits. */
int snp_filter_without(const struct snp_making *m,
                       const char *name,
                       unsigned arg,
                       uint64_t bits) SNP_NODISCARD;
/* Allow a call when its first and its last argument bear the mark of the sandbox. */
int snp_filter_marked(const struct snp_making *m,
                      const char *name,
                      unsigned last) SNP_NODISCARD;
int snp_filter_conditional(const struct snp_making *m, bool counts_memory) SNP_NODISCARD;

/* The table as Markdown, the same whatever this was built for. */
void snp_syscalls_print(FILE *out);

#endif
