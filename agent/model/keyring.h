/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_KEYRING_H
#define SNP_MODEL_KEYRING_H

/*
 * API keys: read on first use, from a variable, a file or a command's output, and dropped with the
 * keyring. They go only into one header of one request.
 */

#include <uv.h>

#include "model/route.h"

struct snp_keyring;
struct snp_key_wait;

/* *ret is the caller's: snp_keyring_free(). */
int snp_keyring_new(uv_loop_t *loop, struct snp_keyring **ret, struct snp_err *err) SNP_NODISCARD;
/* Waits end silently; a running command is killed. Not from a callback. */
void snp_keyring_free(struct snp_keyring *keyring);

/* A request for a key. */
struct snp_key_ask {
    const struct snp_model_target *target; /* borrowed during the call */
    void (*on_key)(void *ctx, const char *key, const struct snp_err *err);
    void *ctx;
};

/*
 * The key of a target, at once or when its command has ended: then *ret_wait is set, and on_key
 * comes once. key: borrowed until the keyring goes or the key is dropped; NULL = the target has
 * none. SNP_E_INVALID, SNP_E_NOT_FOUND, SNP_E_SYS: the file or command gives no key.
 */
int snp_keyring_get(struct snp_keyring *keyring,
                    const struct snp_key_ask *ask,
                    const char **ret_key,
                    struct snp_key_wait **ret_wait,
                    struct snp_err *err) SNP_NODISCARD;
void snp_key_wait_cancel(struct snp_key_wait *wait);

/*
 * The key was refused: one from a file or command is read again the next time. True if it may
 * differ.
 */
bool snp_keyring_drop(struct snp_keyring *keyring, const struct snp_model_target *target);

#endif
