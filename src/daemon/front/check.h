/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_CHECK_H
#define SNP_DAEMON_FRONT_CHECK_H

/* The form of records from outside: which members, of which types, how large. */

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_T_STR = 1 << 0, /* no NUL inside */
    SNP_T_INT = 1 << 1, /* 0 or more */
    SNP_T_BOOL = 1 << 2,
    SNP_T_OBJ = 1 << 3,
    SNP_T_ARR = 1 << 4,
    SNP_T_NULL = 1 << 5,
    SNP_T_OPT = 1 << 6,  /* may be absent */
    SNP_T_NEG = 1 << 7,  /* with INT: may be negative */
    SNP_T_TEXT = 1 << 8, /* a string that may hold anything */
    SNP_T_REAL = 1 << 9,
};

struct snp_field {
    const char *name;
    unsigned types; /* SNP_T_* */
    uint64_t
        max; /* INT: largest value; STR, TEXT: bytes; ARR: elements; 0 = any that fits a frame */
};

struct snp_record {
    const char *what; /* in messages: "exec", "the tier's result" */
    const struct snp_field *fields;
    size_t n_fields;
    bool allow_more; /* other members may be there, and are not looked at */
};

#define SNP_RECORD(what_, fields_)                        \
    {                                                     \
        (what_), (fields_), SNP_ARRAY_LEN(fields_), false \
    }

/*
 * object must be an object with the record's members and no other. SNP_E_INVALID names
 * the record, the member and what is wrong, and suggests a near name for an unknown one.
 */
int snp_record_check(json_t *object,
                     const struct snp_record *record,
                     struct snp_err *err) SNP_NODISCARD;

#endif
