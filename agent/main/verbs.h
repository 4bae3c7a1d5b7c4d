/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MAIN_VERBS_H
#define SNP_MAIN_VERBS_H

/* The verbs of the suite. */

#include "base/cli/cli.h"

/* In the order of --help; src/base/cli/cli.c has the group titles. */
/* clang-format off */
#define SNP_SUITE_VERBS(F) \
    F(check) F(verify) F(apply) F(stats) F(context) \
    F(run) F(agent) F(resume) F(runs) F(logs) F(visualize) F(back) F(replay) F(eval) F(models) \
    F(mcp)
/* clang-format on */
SNP_SUITE_VERBS(SNP_VERB_DECLARE)

/* Started by programs with the library; not listed. */
SNP_VERB_DECLARE(serve_run)

#endif
