/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TESTS_CRASH_FAULT_H
#define SNP_TESTS_CRASH_FAULT_H

/*
 * Fault points of builds with -Dfaults=true. Besides the places that src/base/fault.h is for, every
 * write, sync, rename, unlink, send and receive of the daemon and of the tiers is one (fault_io.c),
 * those of SQLite and libuv as well. Points count how often they are reached, per program, so that
 * tests need no list of them.
 *
 * What happens where is said by the environment, when the program starts:
 *   SNP_FAULT=[PROGRAM/]NAME:N:ACTION[,...]   PROGRAM is daemon, tier-native or tier-local;
 *       NAME may end with '*'; the N-th time, counted from 1; ACTION is kill (SIGKILL of
 *       itself), torn (half of what is written, then kill), stop (SIGSTOP of itself, once),
 *       fail=ERRNO (the call fails, once), full=ERRNO (from then on every time)
 *   SNP_FAULT_FILE=PATH   a file shared by all programs, of struct snp_fault_file: orders
 *       can be given there while programs run, and the counts are found there
 * A child that was forked and not executed passes all points.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SNP_FAULT_MAGIC = 0x54465053, /* SPFT */
    SNP_FAULT_ORDERS = 8,
    SNP_FAULT_POINTS = 1024,
    SNP_FAULT_IO_AT = 128 << 10, /* where the record of writes begins */
};

enum snp_fault_action {
    SNP_FAULT_NONE = 0,
    SNP_FAULT_KILL,
    SNP_FAULT_TORN,
    SNP_FAULT_STOP,
    SNP_FAULT_FAIL,
    SNP_FAULT_FULL,
};

/* An order; complete before action is written, which goes back to NONE when it was obeyed. */
struct snp_fault_order {
    char program[16]; /* empty: any */
    char name[72];
    uint64_t nth;
    uint64_t seen;
    uint32_t action;
    int32_t eno;
    uint32_t obeyed; /* how often */
    uint32_t unused;
};

struct snp_fault_point {
    char program[16];
    char name[72];
    uint64_t count;
};

struct snp_fault_file {
    uint32_t magic;
    uint32_t n_points;      /* may exceed SNP_FAULT_POINTS: the rest was not counted */
    int64_t wall_offset_us; /* added to what the programs believe the time to be */
    uint64_t io_len;        /* bytes of the record of writes; beyond io_max it was cut */
    uint64_t io_max;        /* 0: none is kept */
    struct snp_fault_order orders[SNP_FAULT_ORDERS];
    struct snp_fault_point points[SNP_FAULT_POINTS];
};

_Static_assert(sizeof(struct snp_fault_file) <= SNP_FAULT_IO_AT, "the record is behind the table");

/* Count a point and obey: NONE, or what the caller must do: TORN, or FAIL with *ret_eno. */
enum snp_fault_action snp_fault_hit(const char *name, int *ret_eno);

/* Whether anything is counted in this process. */
bool snp_fault_is_on(void);

/* NULL without SNP_FAULT_FILE. */
struct snp_fault_file *snp_fault_shared(void);

/* SIGKILL for this process. */
void snp_fault_die(void);

#endif
