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
 * docker_workspace_setup it is an image with the workspace's dependencies, built if missing. If no
 * engine answers the image is only named: a server outlives that, and the tier reports the engine
 * or the missing image to a session that needs it.
 */
enum snp_cli_image_way {
    SNP_CLI_IMAGE_NAME = 0, /* does not ask the engine */
    SNP_CLI_IMAGE_FIND,     /* SNP_E_NOT_FOUND: not built yet */
    SNP_CLI_IMAGE_GET,      /* pulls or builds it */
};
int snp_cli_image(const struct snp_config *config,
                  enum snp_cli_image_way way,
                  char **ret,
                  struct snp_err *err) SNP_NODISCARD;

#endif
