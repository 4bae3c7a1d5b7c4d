/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_GUEST_H
#define SNP_WIRE_GUEST_H

/* The guest protocol: heads of the frames between supervisor and driver. */

#include "base/wire/record.h"

/* clang-format off */
#define SNP_GUEST_CELL_HEAD(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number of the cell") \
    F(S, INT,  code_len,  MUST,   0, 0, "bytes of code; standard input follows") \
    F(S, BOOL, stdin,     MUST,   0, 0, "standard input was given") \
    F(S, STR,  cwd,       MUST,   0, 0, "working folder") \
    F(S, BOOL, calls,     MUST,   0, 0, "the cell may make calls") \
    F(S, ARR,  argv,      OPT,    0, NULL, "sys.argv; absent: unchanged")
#define SNP_GUEST_ANSWER_HEAD(F, S) \
    F(S, INT,  call,      MUST,   0, 0, "number of the call in the cell") \
    F(S, BOOL, ok,        MUST,   0, 0, "false: the code gets an exception")
#define SNP_GUEST_SAVE_HEAD(F, S) \
    F(S, BOOL, final,     MUST,   0, 0, "this process is a copy, and ends afterwards") \
    F(S, INT,  budget_ms, MUST,   0, 0, "time limit") \
    F(S, INT,  processes, MUST,   0, 0, "number of background processes") \
    F(S, STRS, detached,  OPT,    0, NULL, "number and command of the detached processes that run") \
    F(S, BOOL, image,     OPT,    0, 0, "write an image of the memory instead of variables, through the pipes in the passed socket") \
    F(S, BOOL, keep,      OPT,    0, 0, "write an image of the memory into the part before the variables, if possible") \
    F(S, STR,  no_image,  OPT,    0, 0, "why no image is requested, although one is wanted")
#define SNP_GUEST_LOAD_HEAD(F, S) \
    F(S, STR,  step,      MUST,   0, 0, "`restore`; for an image: `thaw` (through the pipes in the socket) or `wake` (from the pipe), then `move`") \
    F(S, STR,  cwd,       OPT,    0, 0, "working folder") \
    F(S, INT,  budget_ms, OPT,    0, 0, "time limit") \
    F(S, NUM,  room,      NIL,    0, 0, "maximum bytes of memory for variables; null: unlimited")

#define SNP_GUEST_RECORDS(R) \
    R(snp_guest_cell, "CELL", SNP_GUEST_CELL_HEAD) \
    R(snp_guest_answer, "ANSWER", SNP_GUEST_ANSWER_HEAD) \
    R(snp_guest_save, "SAVE", SNP_GUEST_SAVE_HEAD) \
    R(snp_guest_load, "LOAD", SNP_GUEST_LOAD_HEAD)
SNP_GUEST_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

#endif
