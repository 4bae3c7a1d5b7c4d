/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_ERR_H
#define SNP_BASE_ERR_H

/*
 * Failure reports.
 *
 * A function that can fail for more than one reason returns int: 0 on success,
 * a negative code on failure, and fills *err. The record has a fixed size and
 * holds no pointer, so it can be dropped at any time, used after fork(), and sent
 * over a pipe. On success *err is not touched.
 */

#include "base/macro.h"

enum snp_code {
    SNP_OK = 0,
    SNP_E_INVALID = -1, /* the caller's input is wrong; the message says how */
    SNP_E_NOT_FOUND = -2,
    SNP_E_LIMIT = -3,  /* a declared limit was reached */
    SNP_E_DENIED = -4, /* policy forbids it */
    SNP_E_UNSUPPORTED = -5,
    SNP_E_TIMEOUT = -6,
    SNP_E_NOMEM = -7,
    SNP_E_SYS = -8,  /* a system call failed; sys_errno holds errno */
    SNP_E_PEER = -9, /* the other side broke its protocol or went away */
    SNP_E_INTERNAL = -10,
    SNP_CODE_MIN = SNP_E_INTERNAL,
};

struct snp_err {
    enum snp_code code;
    int sys_errno;  /* 0 unless code is SNP_E_SYS */
    char where[48]; /* "function:line" of the first report */
    char msg[456];  /* NUL-terminated, one line, no secrets */
};

_Static_assert(sizeof(struct snp_err) == 512, "sent as it is between our processes");

/*
 * Fill *err and return code, so that a caller can write
 * `return snp_fail(err, SNP_E_LIMIT, "...")`. errno is kept. The text of errno is
 * appended by snp_fail_sys: "open /x: Permission denied".
 */
#define snp_fail(err, code, ...) snp_err_set((err), (code), 0, __func__, __LINE__, __VA_ARGS__)
#define snp_fail_sys(err, eno, ...) \
    snp_err_set((err), SNP_E_SYS, (eno), __func__, __LINE__, __VA_ARGS__)

int snp_err_set(struct snp_err *err,
                enum snp_code code,
                int sys_errno,
                const char *func,
                int line,
                const char *fmt,
                ...) SNP_PRINTF(6, 7);

/* Put "context: " before the message; returns the code. Long text is cut. */
int snp_err_wrap(struct snp_err *err, const char *fmt, ...) SNP_PRINTF(2, 3);

/* The stable, lower-case name of a code ("not_found"). Never NULL. */
const char *snp_code_name(int code);

/* The code whose name this is; SNP_E_INTERNAL if there is none. */
enum snp_code snp_code_from_name(const char *name);

/* Exit status of a command line tool for a code: 2 for SNP_E_INVALID, else 1; 0 for SNP_OK. */
int snp_code_exit(int code);

#endif
