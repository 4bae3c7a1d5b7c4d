/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_SYSCALLS_H
#define SNP_TIER_HOST_SYSCALLS_H

/*
 * System calls that the code may make: an allow-list in groups, each with its reason.
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
    SNP_ARCH_NATIVE, /* the architecture of this build */
    SNP_ARCH_X86_64,
    SNP_ARCH_AARCH64,
};

enum snp_filter {
    SNP_FILTER_SESSION,           /* with memory counted by a cgroup */
    SNP_FILTER_SESSION_UNCOUNTED, /* without a cgroup for memory */
    SNP_FILTER_ZYGOTE,
};

/* Number of calls that the code may make on this architecture. */
unsigned snp_syscalls_count(bool counts_memory);

/*
 * A filter under construction. The first failure, a negative errno, stays in r and skips later
 * rules.
 */
struct snp_making {
    scmp_filter_ctx ctx;
    enum snp_arch arch;
    const char *const *skip; /* as in the parts */
    int r;
};

/* Differences of a filter from the table. */
struct snp_filter_parts {
    const char *const *skip; /* calls of the table to leave out, NULL-terminated; NULL = none */
    void (*add)(struct snp_making *m, const void *data);
    const void *data; /* borrowed */
};

/* Parts of the native tier's filters, by enum snp_filter. */
extern const struct snp_filter_parts snp_syscalls_parts[];

/*
 * Compile a filter into a file: the table less skip, plus the rules of add. Argument values are
 * this machine's.
 */
int snp_filter_compile_for(enum snp_arch arch,
                           const struct snp_filter_parts *parts,
                           int fd,
                           struct snp_err *err) SNP_NODISCARD;

/* Compile the filters of sandboxes and of zygotes for this machine into sealed memfds. */
int snp_filters_compile(const struct snp_filter_parts *session,
                        const struct snp_filter_parts *zygote,
                        int *ret_session_fd,
                        int *ret_zygote_fd,
                        struct snp_err *err) SNP_NODISCARD;

/*
 * For add: a rule for one call and its arguments. Without effect if the architecture lacks the
 * call, which is then refused. The kernel reads only the low 32 bits of most arguments, so the
 * filter must do the same.
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
/* Allow a call if its first and its last argument carry the sandbox's mark. */
void snp_filter_marked(struct snp_making *m, const char *name, unsigned last);
/* Allow clone, ioctl and prctl by argument, and answer calls that libraries only probe. */
void snp_filter_conditional(struct snp_making *m, bool counts_memory);
/* Allow the calls of a sandbox's set-up, until its filter is installed. */
void snp_filter_setup(struct snp_making *m);

/*
 * The table as a profile for container engines (JSON), which record no refusals. It does not check
 * signals, and it allows Landlock, because it applies to pid 1 too. New reference, NULL when out of
 * memory.
 */
json_t *snp_syscalls_profile(void);

/* Print the table as Markdown; the same on every architecture. */
void snp_syscalls_print(FILE *out);

#endif
