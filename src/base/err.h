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

#include <stdint.h>

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

/*
 * How to recover from a failure. The reporter names the remedy; each front end has its wording
 * (base/cli/remedy.c, mcp/server/remedy.c), so no message here names an option or an argument. The
 * comment gives the meaning of `name` and `value`, if the remedy has them.
 */
enum snp_remedy_kind {
    SNP_REMEDY_NONE = 0,
    SNP_REMEDY_RECOVER,        /* value: ways (snp_recover_way) to handle lost cells */
    SNP_REMEDY_RAISE_LIMIT,    /* name: the limit; value: a sufficient one, -1 = none, 0 =
                                * unknown */
    SNP_REMEDY_SET_LIMIT,      /* name: the limit of the session, value: the new value */
    SNP_REMEDY_NEAR_NAME,      /* name: the nearest existing one */
    SNP_REMEDY_OTHER_NAME,     /* choose a name that is free */
    SNP_REMEDY_FORCE,          /* confirm the request */
    SNP_REMEDY_RECURSE,        /* a folder: confirm that the whole folder is meant */
    SNP_REMEDY_CLEAR_SESSION,  /* name: the session to clear */
    SNP_REMEDY_END_SESSION,    /* end one to make room */
    SNP_REMEDY_NO_SESSION,     /* use no named session */
    SNP_REMEDY_TIER,           /* name: a tier that supports it */
    SNP_REMEDY_WEAKER_TIER,    /* name: a tier that supports it with weaker isolation */
    SNP_REMEDY_ALLOW_DEGRADED, /* run without the control */
    SNP_REMEDY_ALLOW_INEXACT,  /* run with controls that are approximate */
    SNP_REMEDY_ADD_TEMPLATE,   /* create a template of that name */
    SNP_REMEDY_RENEW_TEMPLATE, /* name: the template to rebuild */
    SNP_REMEDY_ALLOW_PYTHON,   /* name: path of the interpreter to allow */
    SNP_REMEDY_STATE_DIR,      /* keep the state in another folder */
    SNP_REMEDY_LOG_DIR,        /* confirm that records go there */
    SNP_REMEDY_LIST_SESSIONS,  /* list sessions, or create one */
    SNP_REMEDY_LIST_SNAPSHOTS, /* list snapshots */
    SNP_REMEDY_LIST_FILES,     /* list files */
    SNP_REMEDY_FINGERPRINTS,   /* write the tool fingerprint file, or rewrite it */
    SNP_REMEDY_DOCTOR,         /* see the report on this host */
    SNP_REMEDY_KINDS,
};

enum snp_recover_way {
    SNP_WAY_REPLAY = 1,     /* run the cells again */
    SNP_WAY_SKIP = 2,       /* run the others again */
    SNP_WAY_CHECKPOINT = 4, /* continue without them */
};

struct snp_remedy {
    enum snp_remedy_kind kind;
    int reserved;
    int64_t value;
    char name[136]; /* "" = none */
};

struct snp_err {
    enum snp_code code;
    int sys_errno;    /* 0 unless code is SNP_E_SYS */
    char where[48];   /* "function:line" of the first report */
    char msg[456];    /* NUL-terminated, one line, no secrets */
    char object[136]; /* the object of the failure; "" = none */
    char limit[24];   /* the limit that was met; "" = none */
    int64_t limit_value;
    struct snp_remedy remedy;
};

_Static_assert(sizeof(struct snp_err) == 832, "sent as it is between our processes");

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

/* Return the code of a call that fails; what the function owns is released by its cleanups. */
#define SNP_TRY(call)          \
    do {                       \
        int snp_try_ = (call); \
        if (snp_try_ < 0) {    \
            return snp_try_;   \
        }                      \
    } while (0)

/* Run the next step unless one has failed, for functions that clean up at the end. */
#define SNP_THEN(r, call) ((r) = (r) == 0 ? (call) : (r))

/* Return SNP_E_NOMEM if there was no memory: for a pointer that is NULL, or a condition. */
#define SNP_TRY_MEMORY(has, err)                                  \
    do {                                                          \
        if (!(has)) {                                             \
            return snp_fail((err), SNP_E_NOMEM, "out of memory"); \
        }                                                         \
    } while (0)

/* As snp_fail, with a remedy; name may be NULL. */
#define snp_fail_with(err, code, kind, name, value, ...) \
    snp_err_remedy((err), snp_fail((err), (code), __VA_ARGS__), (kind), (name), (value))

/* As snp_fail; "; did you mean 'NEAR'?" is appended if near is not NULL. */
#define snp_fail_near(err, code, near, ...) \
    snp_err_near((err), snp_fail((err), (code), __VA_ARGS__), (near))

/* Add a remedy to a report that was just made; returns code. */
int snp_err_remedy(
    struct snp_err *err, int code, enum snp_remedy_kind kind, const char *name, int64_t value);
int snp_err_near(struct snp_err *err, int code, const char *near);
void snp_err_about(struct snp_err *err, const char *object);
void snp_err_limit(struct snp_err *err, const char *limit, int64_t value);
/* Add the next step to the failure of a call about a session, SNP_E_PEER. */
void snp_err_lost(struct snp_err *err);

/*
 * The stable, lower-case name of a remedy ("raise_limit"), "" for none; and back, SNP_REMEDY_NONE
 * if unknown.
 */
const char *snp_remedy_name(enum snp_remedy_kind kind);
enum snp_remedy_kind snp_remedy_from_name(const char *name);
/*
 * The names of the ways, in the order of the bits: "replay", "skip", "checkpoint"; NULL after the
 * last.
 */
extern const char *const snp_recover_ways[];

/* Put "context: " before the message; returns the code. Long text is cut. */
int snp_err_wrap(struct snp_err *err, const char *fmt, ...) SNP_PRINTF(2, 3);

/* The stable, lower-case name of a code ("not_found"). Never NULL. */
const char *snp_code_name(int code);

/* The code with this name; SNP_E_INTERNAL if there is none. */
enum snp_code snp_code_from_name(const char *name);

/* Exit status of a command line tool for a code: 2 for SNP_E_INVALID, else 1; 0 for SNP_OK. */
int snp_code_exit(int code);

#endif
