/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_CONTEXT_H
#define SNP_TIER_DOCKER_CONTEXT_H

/*
 * What an image of a workspace is built from: its files as a tar, without secrets and what is
 * not source.
 */

#include <stdint.h>

#include "base/err.h"

#define SNP_DOCKERFILE ".snipara-sandbox.Dockerfile"

/* *ret_fd: a file without a name, of *ret_bytes. What cannot be read is left out. */
int snp_docker_context(const char *path,
                       const char *dockerfile,
                       int *ret_fd,
                       uint64_t *ret_bytes,
                       struct snp_err *err) SNP_NODISCARD;

#endif
