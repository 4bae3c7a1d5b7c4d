/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_SESSION_IMAGE_H
#define SNP_BASE_SESSION_IMAGE_H

/* The image of new sessions in the docker tier, from the docker_ keys. */

#include <stdbool.h>

#include "base/config/config.h"
#include "base/err.h"

/*
 * Write the name of the image to *ret; the caller frees. docker_image is pulled if absent; if that
 * fails a line reports it, because an open session may not need the image. With
 * docker_workspace_setup it is an image with the workspace's dependencies, built if missing.
 * may_get: false neither pulls nor builds; then SNP_E_NOT_FOUND: not built yet. If no engine
 * answers the image is only named: a server outlives that, and the tier reports the engine or the
 * missing image to a session that needs it.
 */
int snp_cli_image(const struct snp_config *config, bool may_get, char **ret, struct snp_err *err)
    SNP_NODISCARD;

#endif
