/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SECRETS_H
#define SNP_TIER_ENGINE_SECRETS_H

/*
 * Secrets in a project folder: which files the code must not see. Found by name, and by content
 * where that is a private key, before the sandbox starts; credentials in configurations of git are
 * cut out of a copy.
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
 * what other programs keep in it; caller frees. *ret_changed: whether anything was cut. NULL when
 * out of memory.
 */
char *snp_secrets_clean_git_config(const char *text, bool *ret_changed);

#endif
