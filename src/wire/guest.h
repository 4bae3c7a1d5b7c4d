/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_GUEST_H
#define SNP_WIRE_GUEST_H

/* The guest protocol: heads of the frames between supervisor and driver. */

#include "wire/record.h"

/* clang-format off */
#define SNP_GUEST_CELL_HEAD(F, S) \
    F(S, INT,  cell,      MUST,   0, 0, "number") \
    F(S, INT,  code_len,  MUST,   0, 0, "bytes of code; what follows them is standard input") \
    F(S, BOOL, stdin,     MUST,   0, 0, "standard input was given") \
    F(S, STR,  cwd,       MUST,   0, 0, "working folder") \
    F(S, BOOL, calls,     MUST,   0, 0, "it may make calls") \
    F(S, ARR,  argv,      OPT,    0, NULL, "sys.argv; absent: as it is")
#define SNP_GUEST_ANSWER_HEAD(F, S) \
    F(S, INT,  call,      MUST,   0, 0, "its number in the cell") \
    F(S, BOOL, ok,        MUST,   0, 0, "false: the code gets an exception")
#define SNP_GUEST_SAVE_HEAD(F, S) \
    F(S, BOOL, final,     MUST,   0, 0, "the process asked is a copy, and ends") \
    F(S, INT,  budget_ms, MUST,   0, 0, "time it has") \
    F(S, INT,  processes, MUST,   0, 0, "that run in the background") \
    F(S, BOOL, image,     OPT,    0, 0, "not variables: its memory, by the pipes in the socket that was passed") \
    F(S, BOOL, keep,      OPT,    0, 0, "begin the part with its memory, as items, if possible") \
    F(S, STR,  no_image,  OPT,    0, 0, "why its memory is not requested, although it is wanted")
#define SNP_GUEST_LOAD_HEAD(F, S) \
    F(S, STR,  step,      MUST,   0, 0, "read, restore; of an image: thaw (by the pipes in the socket) or wake (from the pipe), and move") \
    F(S, STR,  cwd,       OPT,    0, 0, "working folder") \
    F(S, INT,  budget_ms, OPT,    0, 0, "time it has") \
    F(S, NUM,  room,      NIL,    0, 0, "bytes for variables; null: unlimited")

#define SNP_GUEST_RECORDS(R) \
    R(snp_guest_cell, "CELL", SNP_GUEST_CELL_HEAD) \
    R(snp_guest_answer, "ANSWER", SNP_GUEST_ANSWER_HEAD) \
    R(snp_guest_save, "SAVE", SNP_GUEST_SAVE_HEAD) \
    R(snp_guest_load, "LOAD", SNP_GUEST_LOAD_HEAD)
SNP_GUEST_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

#endif
