/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_SESSION_TIER_H
#define SNP_BASE_SESSION_TIER_H

/* The requested isolation tier, and notices about it. */

#include "base/cli/cli.h"
#include "base/err.h"
#include "base/policy/tier_file.h"

struct snp_config;

/*
 * The configured tier, borrowed from config or static. If the wasm tier is not installed, or no
 * container engine answers, native replaces it, never a weaker tier; NULL: no replacement here.
 */
const char *snp_cli_tier(const struct snp_config *config);

/*
 * The same for a named session, which would keep the replacement: native does not replace an
 * installed tier. The daemon reports why the configured tier cannot run.
 */
const char *snp_cli_tier_to_stay(const struct snp_config *config);
/* True: an option, a variable or a file names the tier, and named sessions get no replacement. */
bool snp_cli_tier_is_chosen(const struct snp_config *config);
/* The configured tier if named sessions get a replacement, borrowed from config; else NULL. */
const char *snp_cli_tier_missing(const struct snp_config *config);

/*
 * SNP_E_UNSUPPORTED, naming the source of the setting: no such tier. SNP_E_DENIED: a tier of the
 * user's folder, named by an untrusted file.
 */
int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err) SNP_NODISCARD;

/*
 * If the configured tier is weak: write the strongest installed one into out. False: it is not
 * weak, or no stronger one is installed.
 */
bool snp_cli_tier_stronger(const struct snp_config *config, char out[SNP_TIER_NAME_MAX + 1]);

/*
 * After code ran in the tier `used`, a weak one, on request: if a stronger one works too, say so on
 * stderr once for each user (a mark in the state folder). If another tier replaces the named one,
 * say so each time.
 */
void snp_cli_tier_notice(struct snp_cli *cli, const struct snp_config *config, const char *used);

/* Only the notice about a replacement. */
void snp_cli_tier_stand_in(const struct snp_cli *cli,
                           const struct snp_config *config,
                           const char *used);

/* The guarantees that the configuration requires: names. New reference. */
json_t *snp_cli_guarantees(const struct snp_config *config);

/* The names that --env takes, one a line. */
int snp_cli_tier_names(struct snp_err *err) SNP_NODISCARD;

#endif
