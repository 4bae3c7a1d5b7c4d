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
#include "base/json.h"

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

/* Number of calls that the code may make on this architecture. */
unsigned snp_syscalls_count(bool counts_memory);

/*
 * A filter that is being made. The first failure, a negative errno, stays in r and ends the rest.
 */
struct snp_making {
    scmp_filter_ctx ctx;
    enum snp_arch arch;
    const char *const *skip; /* as in the parts */
    int r;
};

/* What distinguishes a filter over the table. */
struct snp_filter_parts {
    const char *const *skip; /* calls of the table that are left out, ends with NULL; NULL = none */
    void (*add)(struct snp_making *m, const void *data);
    const void *data; /* borrowed */
};

/* Those of the native tier, by enum snp_filter. */
extern const struct snp_filter_parts snp_syscalls_parts[];

/*
 * Compile one into a file: the table less skip, and what add adds. Values of arguments are
 * this machine's.
 */
int snp_filter_compile_for(enum snp_arch arch,
                           const struct snp_filter_parts *parts,
                           int fd,
                           struct snp_err *err) SNP_NODISCARD;

/* Compile those of sandboxes and of zygotes for this machine into sealed memfds. */
int snp_filters_compile(const struct snp_filter_parts *session,
                        const struct snp_filter_parts *zygote,
                        int *ret_session_fd,
                        int *ret_zygote_fd,
                        struct snp_err *err) SNP_NODISCARD;

/*
 * For add: a rule for one call, with what its arguments must be; none if the architecture has no
 * such call, which is then refused. The kernel looks at the low 32 bits of most arguments; so must
 * the filter.
 */
void snp_filter_rule(struct snp_making *m,
                     uint32_t action,
                     const char *name,
                     unsigned n,
                     const struct scmp_arg_cmp *args);
#define SNP_RULE(m, action, name, ...)                                                          \
    snp_filter_rule((m), (action), (name),                                                      \
                    sizeof((struct scmp_arg_cmp[]){__VA_ARGS__}) / sizeof(struct scmp_arg_cmp), \
                    (struct scmp_arg_cmp[]){__VA_ARGS__})
#define SNP_BITS(arg, mask, value) SCMP_CMP((arg), SCMP_CMP_MASKED_EQ, (mask), (value))
#define SNP_LOW(arg, value)        SNP_BITS((arg), 0xffffffffU, (value))
void snp_filter_allow(struct snp_making *m, const char *name);
/* Allow a call when the low 32 bits of an argument are one of values. */
void snp_filter_values(
    struct snp_making *m, const char *name, unsigned arg, const uint64_t *values, size_t n);
/* Allow a call when its first and its last argument bear the mark of the sandbox. */
void snp_filter_marked(struct snp_making *m, const char *name, unsigned last);
/* Allow clone, ioctl and prctl by argument, and answer what libraries only try. */
void snp_filter_conditional(struct snp_making *m, bool counts_memory);
/* Allow what any sandbox needs until its own filter is in force. */
void snp_filter_setup(struct snp_making *m);

/*
 * The same as a profile for container engines (JSON), which record no refusals. Signals are not
 * checked in it, and Landlock may be used, because pid 1 comes under it too. New reference, NULL
 * when out of memory.
 */
json_t *snp_syscalls_profile(void);

/* The table as Markdown, the same whatever this was built for. */
void snp_syscalls_print(FILE *out);

#endif
