/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_PROCS_H
#define SNP_TIER_HOST_PROCS_H

/*
 * Processes of a sandbox that has no pid namespace, seen from outside: what descends from
 * its first process, which adopts orphans. (Its user id is no mark: another daemon may have
 * given the same to a sandbox.) A pid read in /proc may be another's a moment later, so
 * signals go through a pidfd that was compared.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snp_copies_usage;
struct snp_spared;

/* Whom to look for. Plain values. */
struct snp_family {
    pid_t top;                       /* the first process; -1 = gone */
    const struct snp_spared *spared; /* not ended by a sweep; borrowed; NULL = nobody */
    pid_t keeper;                    /* with top gone: who adopted its children; 0 = nobody */
    const pid_t *others;             /* other children of the keeper, n_others; borrowed */
    size_t n_others;
};

struct snp_proc {
    pid_t pid;
    pid_t parent;
    pid_t group;
    char state;
    uint64_t start;  /* ticks since boot: tells a process from a later one of the same number */
    uint64_t cpu_us; /* its own and that of children it has waited for */
};

struct snp_procs {
    struct snp_proc *at; /* owned */
    size_t n;
    size_t cap;
};

void snp_procs_done(struct snp_procs *procs);

/* One process; false if it is gone. */
bool snp_proc_read(pid_t pid, struct snp_proc *ret);

/* The number a process has in its own pid namespace; -1 if it is gone. */
pid_t snp_proc_inner(pid_t pid);

/*
 * The same of the process that a pidfd is for, or whose thread it is for, if that is proven to be
 * in the pid namespace of a second one. Else -EBADF (no pidfd), -ESRCH (gone) or -EPERM.
 */
pid_t snp_pidfd_inner(int pidfd, int peer_pidfd);

/*
 * The number under which the kernel shows the memory of a process: of a living thread where the
 * first has ended. 0 = it has none.
 */
pid_t snp_proc_shown(pid_t pid);

/* The number that a process has here which a pidfd is for; -EBADF (no pidfd), -ESRCH (gone). */
pid_t snp_pidfd_number(int pidfd);

/* The process a thread belongs to; -1 if it is gone. */
pid_t snp_proc_leader(pid_t tid);

/* The only child of a process; -1 if there is none. */
pid_t snp_proc_first_child(pid_t pid);

/*
 * What descends from top (not itself), through the kernel's lists of children. Cheap; may miss what
 * forks meanwhile.
 */
void snp_procs_below(pid_t top, struct snp_procs *ret);

/*
 * Kill the whole family but top and who is spared, and with it what is forked meanwhile: all are
 * stopped before any is killed. 0, or EAGAIN when some were left after ms. Blocks: for a worker.
 */
int snp_family_sweep(const struct snp_family *family, unsigned ms);

/* Send number to the process p, if it still is that. 0 or errno. */
int snp_proc_signal(const struct snp_proc *p, int number);

struct snp_family_usage {
    uint64_t cpu_us;
    /* page tables, anonymous and shared, pages of several divided when near to the limit */
    uint64_t memory_bytes;
    size_t processes;
};

/* Of top and all below. limit: of memory, 0 = do not look at memory. */
void snp_family_usage(pid_t top, uint64_t limit, struct snp_family_usage *ret);

/*
 * Memory that only this process has: bytes of inner, as its own pid namespace numbers it,
 * below top. UINT64_MAX if it cannot be told.
 */
uint64_t snp_proc_own_memory(pid_t top, pid_t inner);

/*
 * What the family below top takes, with pages that several share counted once, and what of it only
 * these n copies have (numbered by their own pid namespace): about, for what is shared with others
 * outside, and by several besides them, is not told apart. A process that may not be looked into
 * counts in full.
 */
void snp_copies_usage(pid_t top, const pid_t *inner, size_t n, struct snp_copies_usage *ret);

/* Processes and threads of a user on this host; 0 if that cannot be seen. */
unsigned snp_procs_of_user(uid_t uid);

#endif
