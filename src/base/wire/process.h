/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_PROCESS_H
#define SNP_BASE_WIRE_PROCESS_H

/* Requests about the detached processes of a session, and their answers. */

#include "base/policy/session_name.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"

enum {
    SNP_PROCESS_WAIT_MAX_MS = 5000,
    SNP_PROCESS_WRITE_MAX = 64 << 10, /* bytes of one process.write */
};

extern const char *const snp_process_states[]; /* running, ended, unknown */

/* clang-format off */
#define SNP_PROCESS_SESSION(F, S) \
    F(S, STR,  session,   MUST,   SNP_SESSION_NAME_MAX, 0, "id or name")
#define SNP_PROCESS_NUMBER(F, S) \
    SNP_PROCESS_SESSION(F, S) \
    F(S, INT,  process,   MUST,   0, 0, "number of the process")
#define SNP_PROCESS_STATE(F, S) \
    F(S, WORD, state,     MUST,   0, snp_process_states, "`running` or `ended`; of a recorded cell also `unknown`: its sandbox ended first") \
    F(S, NEG,  exit_code, NIL,    0, 0, "exit code; null: running, or ended by a signal") \
    F(S, STR,  signal,    NIL,    32, 0, "name of the signal that ended it")

#define SNP_PROCESS_ROW(F, S) \
    F(S, INT,  process,   MUST,   0, 0, "number of the process: that of the cell that started it") \
    F(S, STRS, argv,      MUST,   SNP_CAP_ARGV, NULL, "program and arguments; `...` replaces those after 4 KiB") \
    F(S, REAL, started,   MUST,   0, 0, "start, unix seconds") \
    SNP_PROCESS_STATE(F, S) \
    F(S, BOOL, stdin,     SAID,   0, 0, "its standard input is open for `process.write`") \
    F(S, INT,  stdout_bytes, MUST, 0, 0, "bytes written to standard output so far") \
    F(S, INT,  stderr_bytes, MUST, 0, 0, "bytes written to standard error so far")

#define SNP_PROCESS_LIST_ANSWER(F, S) \
    F(S, ARR,  processes, MUST,   0, &snp_process_row_form, "running and ended processes, oldest first")

#define SNP_PROCESS_READ_REQUEST(F, S) \
    SNP_PROCESS_NUMBER(F, S) \
    F(S, INT,  stdout,    MUST,   INT64_MAX, 0, "position in standard output from which to read") \
    F(S, INT,  stderr,    MUST,   INT64_MAX, 0, "position in standard error from which to read") \
    F(S, INT,  length,    MUST,   SNP_FILE_CHUNK_MAX, 0, "maximum number of bytes of both together; 0: only wait for the end") \
    F(S, INT,  wait_ms,   OPT,    SNP_PROCESS_WAIT_MAX_MS, 0, "time to wait for output or the end of the process, if there is none to read")
#define SNP_PROCESS_READ_ANSWER(F, S) \
    SNP_PROCESS_STATE(F, S) \
    F(S, INT,  stdout,    MUST,   0, 0, "position of the first returned byte; larger than requested if the earlier bytes are no longer stored") \
    F(S, INT,  stdout_len, MUST,  0, 0, "bytes of standard output in raw") \
    F(S, INT,  stderr,    MUST,   0, 0, "position of the first returned byte") \
    F(S, INT,  stderr_len, MUST,  0, 0, "bytes of standard error in raw") \
    F(S, BOOL, eof,       MUST,   0, 0, "the process has ended, and no output follows")

#define SNP_PROCESS_WRITE_REQUEST(F, S) \
    SNP_PROCESS_NUMBER(F, S) \
    F(S, BOOL, close,     OPT,    0, 0, "then close standard input, if all bytes were taken") \
    F(S, INT,  wait_ms,   OPT,    SNP_PROCESS_WAIT_MAX_MS, 0, "time to wait for room, if no byte can be taken now; nothing is written after the wait")
#define SNP_PROCESS_WRITE_ANSWER(F, S) \
    F(S, INT,  written,   MUST,   0, 0, "bytes taken; the caller sends the rest again")

#define SNP_PROCESS_SIGNAL_REQUEST(F, S) \
    SNP_PROCESS_NUMBER(F, S) \
    F(S, INT,  signal,    MUST,   64, 0, "number of the signal, sent to the process group")
#define SNP_PROCESS_SIGNAL_ANSWER(F, S) \
    F(S, BOOL, sent,      MUST,   0, 0, "false: the process had ended, and left no process in its group")

#define SNP_PROCESS_RECORDS(R) \
    R(snp_process_state, "history.cells.process", SNP_PROCESS_STATE) \
    R(snp_process_row, "process.list.processes", SNP_PROCESS_ROW) \
    R(snp_process_list_request, "process.list", SNP_PROCESS_SESSION, .tag = "method") \
    R(snp_process_list_answer, "process.list", SNP_PROCESS_LIST_ANSWER) \
    R(snp_process_read_request, "process.read", SNP_PROCESS_READ_REQUEST, .tag = "method") \
    R(snp_process_read_answer, "process.read", SNP_PROCESS_READ_ANSWER) \
    R(snp_process_write_request, "process.write", SNP_PROCESS_WRITE_REQUEST, .tag = "method") \
    R(snp_process_write_answer, "process.write", SNP_PROCESS_WRITE_ANSWER) \
    R(snp_process_signal_request, "process.signal", SNP_PROCESS_SIGNAL_REQUEST, .tag = "method") \
    R(snp_process_signal_answer, "process.signal", SNP_PROCESS_SIGNAL_ANSWER)
SNP_PROCESS_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

#endif
