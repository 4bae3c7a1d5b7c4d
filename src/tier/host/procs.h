/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_PROCS_H
#define SNP_TIER_HOST_PROCS_H

/*
 * Processes of a sandbox without a pid namespace, seen from outside: descendants of its first
 * process, which adopts orphans. (User ids do not identify them: another daemon may have given the
 * same id to a sandbox.) A pid read in /proc may be reused at any time, so signals go through a
 * pidfd that was checked.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snp_copies_usage;
struct snp_spared;

/* The processes to look for. Plain values. */
struct snp_family {
    pid_t top;                       /* the first process; -1 = ended */
    const struct snp_spared *spared; /* not ended by a sweep; borrowed; NULL = none */
    pid_t keeper;                    /* adopts the children of an ended top; 0 = none */
    const pid_t *others;             /* other children of the keeper, n_others; borrowed */
    size_t n_others;
};

struct snp_proc {
    pid_t pid;
    pid_t parent;
    pid_t group;
    char state;
    uint64_t start;  /* ticks since boot: distinguishes reused pids */
    uint64_t cpu_us; /* of the process and its reaped children */
};

struct snp_procs {
    struct snp_proc *at; /* owned */
    size_t n;
    size_t cap;
};

void snp_procs_done(struct snp_procs *procs);

/* Read one process; false if it is gone. */
bool snp_proc_read(pid_t pid, struct snp_proc *ret);

/* A process's pid in its own namespace; -1 if it is gone. */
pid_t snp_proc_inner(pid_t pid);

/*
 * The inner pid of a pidfd's process or thread, if that is proven to be in the same pid namespace
 * as peer_pidfd's. Else -EBADF (no pidfd), -ESRCH (gone) or -EPERM.
 */
pid_t snp_pidfd_inner(int pidfd, int peer_pidfd);

/*
 * The tid under which the kernel shows a process's memory: that of a live thread if the first
 * thread has ended. 0 = none.
 */
pid_t snp_proc_shown(pid_t pid);

/* The pid of a pidfd's process in our namespace; -EBADF (no pidfd), -ESRCH (gone). */
pid_t snp_pidfd_number(int pidfd);

/* The process a thread belongs to; -1 if it is gone. */
pid_t snp_proc_leader(pid_t tid);

/* The only child of a process; -1 if there is none. */
pid_t snp_proc_first_child(pid_t pid);

/*
 * The descendants of top, without top, from the kernel's lists of children. Cheap; may miss
 * processes forked at the same time.
 */
void snp_procs_below(pid_t top, struct snp_procs *ret);

/*
 * Kill the family except top and spared processes, including processes forked during the sweep: all
 * are stopped before any is killed. 0, or EAGAIN if some remain after ms. Blocks: for a worker.
 */
int snp_family_sweep(const struct snp_family *family, unsigned ms);

/* Send the signal number to the process p, unless its pid was reused. 0 or errno. */
int snp_proc_signal(const struct snp_proc *p, int number);

struct snp_family_usage {
    uint64_t cpu_us;
    /* page tables, anonymous and shared pages; near the limit, shared ones are divided */
    uint64_t memory_bytes;
    size_t processes;
};

/* Usage of top and its descendants. limit: of memory, 0 = skip memory. */
void snp_family_usage(pid_t top, uint64_t limit, struct snp_family_usage *ret);

/*
 * Memory of this process alone: bytes of inner (pid in its own namespace), below top. UINT64_MAX if
 * unknown.
 */
uint64_t snp_proc_own_memory(pid_t top, pid_t inner);

/*
 * Memory of the family below top, with shared pages counted once, and the part that only these n
 * copies have (pids of their own namespace). Approximate: sharing with processes outside, or among
 * several others, is not distinguished. A process that may not be inspected counts in full.
 */
void snp_copies_usage(pid_t top, const pid_t *inner, size_t n, struct snp_copies_usage *ret);

/* Processes and threads of a user on this host; 0 if unknown. */
unsigned snp_procs_of_user(uid_t uid);

#endif
