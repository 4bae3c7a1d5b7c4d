/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_OS_CGROUP_H
#define SNP_OS_CGROUP_H

/*
 * Control groups, version 1 and 2 behind one interface.
 *
 * A cgroup tree belongs to one supervisor process: below its group it makes a folder named after
 * itself, with one group per sandbox. On version 1 there is such a folder per controller. The next
 * supervisor removes groups of supervisors that are gone.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum snp_cgroup_controller {
    SNP_CGROUP_MEMORY = 0,
    SNP_CGROUP_PIDS,
    SNP_CGROUP_CPU,
    SNP_CGROUP_CPUACCT, /* version 1 only; version 2 counts without a controller */
    SNP_CGROUP_N,
};

enum {
    SNP_CGROUP_WHY_MAX = 240
};

struct snp_cgroup_slot {
    int version;                  /* 1, 2; 0 = not available */
    int base_fd;                  /* our folder; owned; -1 = none */
    char why[SNP_CGROUP_WHY_MAX]; /* when version is 0: the reason */
};

/* The supervisor's tree. */
struct snp_cgroups {
    struct snp_cgroup_slot slot[SNP_CGROUP_N];
    /* Paths of our folders; owned; NULL = none or shared with an earlier slot. */
    char *made[SNP_CGROUP_N];
};

struct snp_cgroup_limits {
    uint64_t memory_bytes;
    uint64_t processes;
    uint64_t cpus_milli;
};

/*
 * Find and make the groups that this process may have; never fails as a whole: each slot has its
 * result. Also removes groups of dead supervisors: in the group we are in, and at the paths in the
 * file registry (they may have run in another); then our folders are added to it. uid: the user in
 * the folders' names. disabled: behave as if there were no control groups
 * (SNIPARA_SANDBOX_NO_CGROUP).
 */
void snp_cgroups_open(struct snp_cgroups *groups, uid_t uid, const char *registry, bool disabled);
void snp_cgroups_close(struct snp_cgroups *groups);

static inline bool snp_cgroups_has(const struct snp_cgroups *groups, enum snp_cgroup_controller c)
{
    return groups->slot[c].version != 0;
}

/* The memory limit includes swap. False without such a controller. */
bool snp_cgroups_bound_swap(const struct snp_cgroups *groups);

/* The part of a memory limit reserved for buffers of sockets. */
uint64_t snp_cgroups_socket_part(const struct snp_cgroups *groups, uint64_t bytes);

/*
 * The kinds of memory that this kernel does not count, in words; NULL = none, or it counts no
 * memory. cmdline: /proc/cmdline.
 */
const char *snp_cgroups_uncounted(const struct snp_cgroups *groups, const char *cmdline);

/* The host has swap. table: /proc/swaps. */
bool snp_swap_is_on(const char *table);

/* Memory and CPU time are counted, so that processes need not be examined. */
static inline bool snp_cgroups_count(const struct snp_cgroups *groups)
{
    return snp_cgroups_has(groups, SNP_CGROUP_MEMORY) &&
           (groups->slot[SNP_CGROUP_MEMORY].version == 2 ||
            snp_cgroups_has(groups, SNP_CGROUP_CPUACCT));
}

/*
 * Make the groups of one sandbox, without limits yet. name: a file name. On failure nothing is
 * left.
 */
int snp_cgroup_create(const struct snp_cgroups *groups,
                      const char *name,
                      struct snp_err *err) SNP_NODISCARD;

/* Set the limits of a sandbox's groups. */
int snp_cgroup_limit(const struct snp_cgroups *groups,
                     const char *name,
                     const struct snp_cgroup_limits *limits,
                     struct snp_err *err) SNP_NODISCARD;

/* Change one limit of a sandbox's groups; 0 if there is no such group, -1 on failure. */
int snp_cgroup_set_processes(const struct snp_cgroups *groups,
                             const char *name,
                             uint64_t processes) SNP_NODISCARD;
int snp_cgroup_set_memory(const struct snp_cgroups *groups,
                          const char *name,
                          uint64_t bytes) SNP_NODISCARD;
int snp_cgroup_set_cpus(const struct snp_cgroups *groups,
                        const char *name,
                        uint64_t cpus_milli) SNP_NODISCARD;

/*
 * Put a process into the groups of one version. Sometimes slow (tens of milliseconds): the kernel
 * waits until no process is forking or ending.
 */
int snp_cgroup_attach(const struct snp_cgroups *groups,
                      const char *name,
                      pid_t pid,
                      int version,
                      struct snp_err *err) SNP_NODISCARD;

/*
 * For groups of version 1: files by which a process with one thread enters them itself, by writing
 * "0" to each; then the kernel need not wait (since Linux 5.6). ret_fds has room for SNP_CGROUP_N;
 * the caller owns *ret_n of them.
 */
int snp_cgroup_doors(const struct snp_cgroups *groups,
                     const char *name,
                     int *ret_fds,
                     unsigned *ret_n,
                     struct snp_err *err) SNP_NODISCARD;

/* The process is in all of them. Only for groups with few processes. */
bool snp_cgroup_contains(const struct snp_cgroups *groups, const char *name, pid_t pid);

/* Remove the groups; false while a process is still in one (try again later). */
bool snp_cgroup_remove(const struct snp_cgroups *groups, const char *name);

#endif
