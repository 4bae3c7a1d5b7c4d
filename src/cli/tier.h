/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_TIER_H
#define SNP_CLI_TIER_H

/* Which isolation tier is asked for, and what has to be said about it. */

#include "base/err.h"
#include "cli/cli.h"

struct snp_config;

/* The tiers of this version, NULL at the end. */
extern const char *const snp_cli_tiers[];

/*
 * The tier that code runs in as configured. docker and wasm are native in this version, so never
 * anything weaker; NULL: a tier that nothing here can stand in for.
 */
const char *snp_cli_tier(const struct snp_config *config);

/* SNP_E_UNSUPPORTED, naming where it comes from: a tier that this version does not have. */
int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err) SNP_NODISCARD;

/*
 * Something ran in the local tier because that was asked for. Where native works as well,
 * say so on stderr, once for each user: the state folder holds a mark. Where another tier
 * stands in for the one that was named, say that each time.
 */
void snp_cli_tier_notice(const struct snp_cli *cli, const struct snp_config *config);

/* The last of these alone. */
void snp_cli_tier_stand_in(const struct snp_cli *cli, const struct snp_config *config);

#endif
