/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_TIER_H
#define SNP_CLI_TIER_H

/* Which isolation tier is asked for, and what has to be said about it. */

#include "base/err.h"
#include "cli/cli.h"
#include "policy/tier_file.h"

struct snp_config;

/*
 * The tier that code runs in as configured, borrowed from config or static. Where there is no wasm
 * tier, or no container engine answers, native takes its place, so never anything weaker; NULL: a
 * tier that nothing here can stand in for.
 */
const char *snp_cli_tier(const struct snp_config *config);
/* True: an option, a variable or a file names the tier, and no other replaces it. */
bool snp_cli_tier_is_chosen(const struct snp_config *config);

/*
 * The same for a named session, which would stay in the replacement: native does not replace an
 * installed tier. The daemon reports why the configured tier cannot run.
 */
const char *snp_cli_tier_to_stay(const struct snp_config *config);

/*
 * SNP_E_UNSUPPORTED, naming where it comes from: there is no such tier. SNP_E_DENIED: one of the
 * user's folder, named by a file that nobody has trusted.
 */
int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err) SNP_NODISCARD;

/*
 * If the configured tier is weak: the strongest installed one, into out. False: it is not, or there
 * is none that is stronger.
 */
bool snp_cli_tier_stronger(const struct snp_config *config, char out[SNP_TIER_NAME_MAX + 1]);

/*
 * Something ran in a weak tier because that was asked for. Where a stronger one works as well,
 * say so on stderr, once for each user: the state folder holds a mark. Where another tier
 * stands in for the one that was named, say that each time.
 */
void snp_cli_tier_notice(struct snp_cli *cli, const struct snp_config *config);

/* The last of these alone. */
void snp_cli_tier_stand_in(const struct snp_cli *cli, const struct snp_config *config);

/* The guarantees that the configuration requires: names. New reference. */
json_t *snp_cli_guarantees(const struct snp_config *config);

/* The names that --env takes, one a line. */
int snp_cli_tier_names(struct snp_err *err) SNP_NODISCARD;

#endif
