/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CONTEXT_CONTEXT_H
#define SNP_CLI_CONTEXT_CONTEXT_H

/*
 * `context` and the verbs below it. Their tables are in the suite, for help and completion; the
 * program `context`, which links SQLite, runs them.
 */

#include "main/verbs.h"

/* In the order of --help. */
#define SNP_CONTEXT_VERBS(F) \
    F(index)                 \
    F(query) F(search) F(read) F(map) F(skeleton) F(sections) F(standards) F(stats) F(call)

#define SNP_CONTEXT_DECLARE(name)                         \
    extern const struct snp_verb snp_verb_context_##name; \
    int snp_context_##name(struct snp_cli *cli, const struct snp_opts *opts);
SNP_CONTEXT_VERBS(SNP_CONTEXT_DECLARE)

/* The verbs of the program context, set by its main(): `call` runs one of them. */
extern const struct snp_verb *const *snp_context_verbs;
/* Set by `call`, which labels the text for its caller. */
extern bool snp_context_is_call;

#endif
