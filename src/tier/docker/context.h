/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_CONTEXT_H
#define SNP_TIER_DOCKER_CONTEXT_H

/*
 * The build context of a workspace image: the workspace's files as a tar, without secrets and other
 * than source files.
 */

#include <stdint.h>

#include "base/err.h"

#define SNP_DOCKERFILE ".snipara-sandbox.Dockerfile"

/* *ret_fd: an unlinked file of *ret_bytes. Unreadable files are left out. */
int snp_docker_context(const char *path,
                       const char *dockerfile,
                       int *ret_fd,
                       uint64_t *ret_bytes,
                       struct snp_err *err) SNP_NODISCARD;

#endif
