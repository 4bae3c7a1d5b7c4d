/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_TIER_H
#define SNP_CLI_TIER_H

/* Which isolation tier is asked for, and what has to be said about it. */

#include "base/err.h"
#include "cli/cli.h"

struct snp_config;

/* SNP_E_UNSUPPORTED, naming where it comes from: a tier that this version does not have. */
int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err) SNP_NODISCARD;

/*
 * Something ran in the local tier because that was asked for. Where native works as well,
 * say so on stderr, once for each user: the state folder holds a mark.
 */
void snp_cli_tier_notice(const struct snp_cli *cli, const struct snp_config *config);

#endif
