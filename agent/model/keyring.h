/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_KEYRING_H
#define SNP_MODEL_KEYRING_H

/*
 * API keys: read on first use, from a variable, a file or a command's output, and dropped with the
 * keyring. A key is only used in one header of one request.
 */

#include <uv.h>

#include "model/route.h"

struct snp_keyring;
struct snp_key_wait;

/* *ret is the caller's: snp_keyring_free(). */
int snp_keyring_new(uv_loop_t *loop, struct snp_keyring **ret, struct snp_err *err) SNP_NODISCARD;
/* Waiting requests end silently; a running command is killed. Not from a callback. */
void snp_keyring_free(struct snp_keyring *keyring);

/* A pending request for a key. */
struct snp_key_ask {
    const struct snp_model_target *target; /* borrowed during the call */
    void (*on_key)(void *ctx, const char *key, const struct snp_err *err);
    void *ctx;
};

/*
 * The key of a target, at once or after its command has ended: then *ret_wait is set, and on_key is
 * called once. key: borrowed until the keyring is freed or the key is dropped; NULL = the target
 * has none. SNP_E_INVALID, SNP_E_NOT_FOUND, SNP_E_SYS: the file or command gave no key.
 */
int snp_keyring_get(struct snp_keyring *keyring,
                    const struct snp_key_ask *ask,
                    const char **ret_key,
                    struct snp_key_wait **ret_wait,
                    struct snp_err *err) SNP_NODISCARD;
void snp_key_wait_cancel(struct snp_key_wait *wait);

/*
 * The provider refused the key: a key from a file or command is read again the next time. True if
 * it may then differ.
 */
bool snp_keyring_drop(struct snp_keyring *keyring, const struct snp_model_target *target);

#endif
