/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_FILE_H
#define SNP_BASE_WIRE_FILE_H

/* Requests about files of sessions, kept output and contents, and their answers. */

#include "base/policy/session_name.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"

#define SNP_FILE_OFFSET_MAX (1LL << 50)

/* clang-format off */
#define SNP_FILE_PLACE(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_NAME_MAX, 0, "id or name") \
    F(S, STR,  path,      MUST,   SNP_CAP_PATH, 0, "path below /workspace; `.` and repeated slashes are ignored")
#define SNP_FILE_RANGE(F, S) \
    F(S, INT,  offset,    MUST,   SNP_FILE_OFFSET_MAX, 0, "first byte") \
    F(S, INT,  length,    MUST,   SNP_FILE_CHUNK_MAX, 0, "maximum number of bytes")

#define SNP_PUT_REQUEST(F, S) \
    SNP_FILE_PLACE(F, S) \
    F(S, INT,  offset,    MUST,   SNP_FILE_OFFSET_MAX, 0, "position at which the bytes are written") \
    F(S, BOOL, truncate,  OPT,    0, 0, "end the file after these bytes") \
    F(S, INT,  mode,      OPT,    07777, 0, "permissions; 0: mode 0644") \
    F(S, BOOL, more,      OPT,    0, 0, "more requests follow; the session is saved with the last one")
#define SNP_PUT_ANSWER(F, S) \
    F(S, INT,  size,      MUST,   0, 0, "size of the file")
#define SNP_GET_REQUEST(F, S) \
    SNP_FILE_PLACE(F, S) \
    SNP_FILE_RANGE(F, S) \
    F(S, BOOL, holes,     OPT,    0, 0, "zeros may be reported as a hole")
#define SNP_GET_ANSWER(F, S) \
    F(S, INT,  size,      MUST,   0, 0, "size of the file") \
    F(S, INT,  mode,      MUST,   07777, 0, "permissions") \
    F(S, BOOL, eof,       MUST,   0, 0, "this is the end") \
    F(S, NUM,  hole,      OPT,    0, 0, "with `holes`: number of zero bytes from `offset` on, which are not sent") \
    F(S, NUM,  room,      OPT,    0, 0, "with `holes`: maximum total size of the files of the session") \
    F(S, BOOL, project,   OPT,    0, 0, "with `holes`: the session has a project, whose files are not included in `room`")
#define SNP_LS_REQUEST(F, S) \
    SNP_FILE_PLACE(F, S)
#define SNP_LS_ENTRY(F, S) \
    F(S, TEXT, name,      MUST,   0, 0, "name of the entry") \
    F(S, STR,  type,      MUST,   8, 0, "`file`, `dir`, `link`, `other`") \
    F(S, INT,  size,      MUST,   0, 0, "size in bytes") \
    F(S, REAL, mtime,     NIL,    0, 0, "time of modification, unix seconds")
#define SNP_LS_ANSWER(F, S) \
    F(S, ARR,  entries,   MUST,   0, &snp_ls_entry_form, "entries of the folder") \
    F(S, BOOL, truncated, MUST,   0, 0, "the list is incomplete")

#define SNP_OUTPUT_REQUEST(F, S) \
    F(S, STR,  handle,    MUST,   SNP_CAP_HANDLE, 0, "`output.handle` of a result") \
    F(S, STR,  stream,    MUST,   8, 0, "`stdout`, `stderr`") \
    SNP_FILE_RANGE(F, S)
#define SNP_OUTPUT_ANSWER(F, S) \
    F(S, INT,  size,      MUST,   0, 0, "bytes stored") \
    F(S, BOOL, eof,       MUST,   0, 0, "this is the end") \
    F(S, BOOL, truncated, SAID,   0, 0, "the cell printed more than is stored")

#define SNP_BLOB_REQUEST(F, S) \
    F(S, STR,  hash,      MUST,   SNP_CAP_HASH, 0, "64 hex digits") \
    SNP_FILE_RANGE(F, S)
#define SNP_BLOB_ANSWER(F, S) \
    F(S, INT,  size,      MUST,   0, 0, "size of the contents") \
    F(S, BOOL, eof,       MUST,   0, 0, "this is the end")

#define SNP_FILE_RECORDS(R) \
    R(snp_put_request, "put", SNP_PUT_REQUEST, .tag = "method") \
    R(snp_put_answer, "put", SNP_PUT_ANSWER) \
    R(snp_get_request, "get", SNP_GET_REQUEST, .tag = "method") \
    R(snp_get_answer, "get", SNP_GET_ANSWER) \
    R(snp_ls_request, "ls", SNP_LS_REQUEST, .tag = "method") \
    R(snp_ls_entry, "ls.entries", SNP_LS_ENTRY) \
    R(snp_ls_answer, "ls", SNP_LS_ANSWER) \
    R(snp_output_request, "output", SNP_OUTPUT_REQUEST, .tag = "method") \
    R(snp_output_answer, "output", SNP_OUTPUT_ANSWER) \
    R(snp_blob_request, "blob", SNP_BLOB_REQUEST, .tag = "method") \
    R(snp_blob_answer, "blob", SNP_BLOB_ANSWER)
SNP_FILE_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

#endif
