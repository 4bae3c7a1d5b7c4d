/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_USERTOOL_PROGRAM_H
#define SNP_USERTOOL_PROGRAM_H

/* Tools of the program that a run is for: it is told of a call, and answers when it likes. */

#include "usertool/toolbox.h"

struct snp_program_tools {
    /* Tell it of a call. */
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

/* The answer of a call; ok false: it failed. False: it is not waited for. */
bool snp_program_answer(
    struct snp_program_tools *program, uint64_t number, bool ok, const char *bytes, size_t n);

#endif
