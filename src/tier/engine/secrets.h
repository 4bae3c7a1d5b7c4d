/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SECRETS_H
#define SNP_TIER_ENGINE_SECRETS_H

/*
 * Secrets in a project folder: files to hide from the code. Found before the sandbox starts, by
 * name, or by content for private keys. Git configurations are shown as a copy without credentials.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum {
    SNP_SECRETS_ENTRIES_MAX = 400000, /* files and folders looked at */
    SNP_SECRETS_DEPTH_MAX = 64,
};

/*
 * Walk the folder dir_fd (borrowed), following no links. Appends mask records
 * (guest/spec.h) to mask and the hidden paths to the array *paths. SNP_E_LIMIT: too large
 * to be searched, so it must not be shown. Blocking; safe on a worker thread.
 */
int snp_secrets_scan(int dir_fd, struct snp_buf *mask, json_t *paths, struct snp_err *err)
    SNP_NODISCARD;

/*
 * A copy of a git configuration without passwords in URLs, extra headers, credential stores and
 * sections of other programs; caller frees. *ret_changed: whether anything was cut. NULL when out
 * of memory.
 */
char *snp_secrets_clean_git_config(const char *text, bool *ret_changed);

#endif
