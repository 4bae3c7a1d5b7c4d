/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_ENGINE_SOCKET_H
#define SNP_BASE_POLICY_ENGINE_SOCKET_H

/* Where a container engine (dockerd, podman's service) listens on this host. */

#include <stdbool.h>

#include "base/err.h"

/* The prefix of names of images built for a workspace. */
#define SNP_ENGINE_WORKSPACE_IMAGE "snipara-sandbox-workspace:"

enum {
    SNP_ENGINE_PATH_MAX = 107 /* bytes of a unix socket's path */
};

/*
 * The socket in DOCKER_HOST (its path; for tcp, ADDRESS:PORT), else the first of the usual ones
 * that answers, else the usual one. SNP_E_UNSUPPORTED: DOCKER_HOST is not on this host, or uses
 * TLS.
 */
int snp_engine_socket(char out[SNP_ENGINE_PATH_MAX + 1], struct snp_err *err) SNP_NODISCARD;

/*
 * Check for the form that snp_engine_socket writes: an absolute path, or a loopback ADDRESS:PORT.
 */
bool snp_engine_is_local(const char *socket);

/*
 * Connect to the engine. *ret_fd is a stream to it. SNP_E_UNSUPPORTED has the reason and the
 * remedy.
 */
int snp_engine_connect(const char *path, int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/* The host part of a URL. */
const char *snp_engine_host(const char *socket);

/* Find the socket and check that it answers; nothing stays open. */
int snp_engine_find(char out[SNP_ENGINE_PATH_MAX + 1], struct snp_err *err) SNP_NODISCARD;

#endif
