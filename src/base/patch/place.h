/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PATCH_PLACE_H
#define SNP_BASE_PATCH_PLACE_H

/*
 * The places in a project that a patch may change, by path and kind. Pure decisions: no file
 * access.
 */

#include "base/patch/patch.h"

/* Whether a path is plain: not absolute, no empty part, no "." or "..", not too long. */
bool snp_place_is_path(const char *path);

/* Whether a path equals the prefix or is below it. */
bool snp_place_is_below(const char *path, const char *prefix);

/* Set refusal and caution of a change, unless it has them. */
void snp_place_judge(struct snp_patch_file *file);

#endif
