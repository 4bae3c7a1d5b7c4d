/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_METHODS_H
#define SNP_BASE_WIRE_METHODS_H

/* The methods of the client protocol: their requests and answers. */

#include "base/wire/record.h"

enum snp_method_id {
    SNP_METHOD_HELLO,
    SNP_METHOD_EXEC,
    SNP_METHOD_INTERRUPT,
    SNP_METHOD_ANSWER,
    SNP_METHOD_SESSIONS_LIST,
    SNP_METHOD_SESSIONS_SHOW,
    SNP_METHOD_SESSIONS_DESTROY,
    SNP_METHOD_SESSIONS_CLEAR,
    SNP_METHOD_SESSIONS_MOVE,
    SNP_METHOD_SESSIONS_SET,
    SNP_METHOD_CHECKPOINT,
    SNP_METHOD_HIBERNATE,
    SNP_METHOD_HISTORY,
    SNP_METHOD_CELL_SHOW,
    SNP_METHOD_JOURNAL_EVENTS,
    SNP_METHOD_GC,
    SNP_METHOD_SNAPSHOT,
    SNP_METHOD_SNAPSHOTS_LIST,
    SNP_METHOD_SNAPSHOTS_REMOVE,
    SNP_METHOD_ROLLBACK,
    SNP_METHOD_FORK,
    SNP_METHOD_DIFF,
    SNP_METHOD_BLOB,
    SNP_METHOD_EXPORT,
    SNP_METHOD_IMPORT_BEGIN,
    SNP_METHOD_IMPORT_DATA,
    SNP_METHOD_IMPORT_END,
    SNP_METHOD_PUT,
    SNP_METHOD_GET,
    SNP_METHOD_LS,
    SNP_METHOD_OUTPUT,
    SNP_METHOD_PROCESS_LIST,
    SNP_METHOD_PROCESS_READ,
    SNP_METHOD_PROCESS_WRITE,
    SNP_METHOD_PROCESS_SIGNAL,
    SNP_METHOD_STATS,
    SNP_METHOD_PROBE,
    SNP_METHOD_SHUTDOWN,
    SNP_METHODS_N,
};

struct snp_method_form {
    const struct snp_record *request; /* its `what` is the method's name */
    const struct snp_record *answer;  /* NULL = an object without members */
    size_t raw_max;                   /* bytes after the request */
    const char *text;                 /* its description, for docs/wire.md */
};

/* The head of an ERROR, as snp_json_from_err (base/json.h) makes it. */
/* clang-format off */
#define SNP_ERROR_LIMIT(F, S) \
    F(S, STR,  name,      MUST,   0, 0, "key of the limit that was met") \
    F(S, NUM,  value,     OPT,    0, 0, "as a number")
#define SNP_ERROR_REMEDY(F, S) \
    F(S, STR,  kind,      MUST,   0, 0, "one of those below; later versions may add others") \
    F(S, STR,  name,      OPT,    0, 0, "see the kind") \
    F(S, NEG,  value,     OPT,    0, 0, "for `raise_limit`: a sufficient value; -1: none") \
    F(S, STRS, ways,      OPT,    0, NULL, "for `recover`: suitable values of `recover` in `exec`")

#define SNP_ERROR_RECORDS(R) \
    R(snp_error_limit, "error.limit", SNP_ERROR_LIMIT) \
    R(snp_error_remedy, "error.remedy", SNP_ERROR_REMEDY)
SNP_ERROR_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */
extern const struct snp_record snp_error_form; /* no struct: errno cannot be a member's name in C */

extern const struct snp_method_form snp_methods[SNP_METHODS_N];

#endif
