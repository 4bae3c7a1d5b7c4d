/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_USERTOOL_PROGRAM_H
#define SNP_USERTOOL_PROGRAM_H

/* Tools of the program that started a run: it receives a call, and answers at any time. */

#include "usertool/toolbox.h"

struct snp_program_tools {
    /* Send it a call. */
    void (*call)(void *ctx, uint32_t number, const char *tool, const char *arguments, size_t n);
    void *ctx;
    /* Private. */
    uint32_t last;
    struct {
        uint32_t number;
        struct snp_usercall *call; /* NULL = none */
    } open[SNP_USERTOOL_PARALLEL_MAX];
};

/*
 * [{"name", "description"?, "parameters"?, "timeout_ms"?}]. program: borrowed until the toolbox
 * is closed.
 */
int snp_toolbox_add_program(struct snp_toolbox *box,
                            const json_t *tools,
                            struct snp_program_tools *program,
                            struct snp_err *err) SNP_NODISCARD;

/* The answer of a call; ok false: it failed. False: no such pending call. */
bool snp_program_answer(
    struct snp_program_tools *program, uint64_t number, bool ok, const char *bytes, size_t n);

#endif
