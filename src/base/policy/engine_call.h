/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_ENGINE_CALL_H
#define SNP_BASE_POLICY_ENGINE_CALL_H

/*
 * A blocking request to a container engine. For programs without a loop; the tier has another
 * client (tier/docker/api.h).
 */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_ENGINE_VERSION_LEN = 16
};

struct snp_engine_call {
    const char *socket;
    const char *method;
    const char *path;                             /* below the version, with its query */
    int body_fd;                                  /* a file, sent from its beginning; -1 = none */
    uint64_t body_len;                            /* bytes */
    void (*line)(void *data, const json_t *said); /* each line of the answer that is an object */
    void *data;
};

/*
 * *ret_status of HTTP. SNP_E_PEER: the connection broke. SNP_E_INVALID: the path has spaces or
 * control characters.
 */
int snp_engine_call(const struct snp_engine_call *call,
                    int *ret_status,
                    struct snp_err *err) SNP_NODISCARD;

/*
 * The version, as a prefix of paths: "/v1.41", for which this program was written, or the oldest of
 * an engine that no longer has it. Unknown (""): no answer within seconds. SNP_E_UNSUPPORTED: the
 * engine is older; the message has both versions.
 */
int snp_engine_version(const char *socket,
                       char out[SNP_ENGINE_VERSION_LEN],
                       struct snp_err *err) SNP_NODISCARD;

/* The same, for a path: never "". */
const char *snp_engine_prefix(const char *version);

/* The engine's description of an image: *ret (new reference), NULL = no such image. */
int snp_engine_image(const char *socket, const char *image, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/* Check that it is an image's name, safe in paths and in a Dockerfile. */
int snp_engine_image_check(const char *image, struct snp_err *err) SNP_NODISCARD;

#endif
