/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_SESSION_POLICY_H
#define SNP_BASE_SESSION_POLICY_H

/* Settings of new sessions, from the configuration and the command line. */

#include "base/cli/cli.h"
#include "base/config/config.h"
#include "base/err.h"
#include "base/json.h"

/* SNP_E_INVALID: the configured template does not exist, or its name is invalid. */
int snp_cli_template_check(const struct snp_config *config, struct snp_err *err) SNP_NODISCARD;

/*
 * The folder shown if no option names one; NULL = none. In the docker tier the docker_ keys decide;
 * else it is usual.
 */
const char *snp_cli_workspace(const struct snp_config *config, const char *tier, const char *usual);

/* SNP_E_INVALID: --recover (NULL = not given) has a value that the daemon does not accept. */
int snp_cli_recover_check(const char *word, struct snp_err *err) SNP_NODISCARD;

/*
 * `defaults` of an exec request: limits, tier, the template if one is named, and which of these are
 * configured; in the docker tier the image, which is pulled or built first if may_get. tier: NULL =
 * of unnamed sessions. *ret: new reference.
 */
int snp_cli_session_defaults(const struct snp_config *config,
                             const char *tier,
                             bool may_get,
                             json_t **ret,
                             struct snp_err *err) SNP_NODISCARD;
/* The same for unnamed sessions, after a check of the configured tier and template. */
int snp_cli_session_settings(const struct snp_config *config,
                             json_t **ret,
                             struct snp_err *err) SNP_NODISCARD;

/*
 * Name the workspace image of these defaults again, in a server that outlives changes of the files
 * that name dependencies. It is neither built nor looked for.
 */
int snp_cli_session_renew(const struct snp_config *config,
                          json_t *defaults,
                          struct snp_err *err) SNP_NODISCARD;

/*
 * Warn of each configured setting that the open session does not use (`not_applied` of a result);
 * true: the tier is one of them.
 */
bool snp_cli_not_applied(const struct snp_cli *cli,
                         const struct snp_config *config,
                         const char *session,
                         const json_t *not_applied);

#endif
