/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SETUP_IMAGE_H
#define SNP_CLI_SETUP_IMAGE_H

/* The image of new sessions in the docker tier, as the docker_ keys say it. */

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

/*
 * *ret is its name; the caller frees. docker_image is pulled if it is absent; where that fails a
 * line says why, for an open session may not need it. With docker_workspace_setup it is an image
 * with what the workspace needs, built if there is none yet. may_get: false neither pulls nor
 * builds, and SNP_E_NOT_FOUND: it is not built yet.
 */
int snp_cli_image(const struct snp_config *config, bool may_get, char **ret, struct snp_err *err)
    SNP_NODISCARD;

#endif
