/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_CELL_RESULT_H
#define SNP_TIER_ENGINE_CELL_RESULT_H

/* A cell's state, and the JSON of its result (docs/result.md). */

#include <uv.h>

#include "base/json.h"
#include "tier/engine/cell/running.h"

struct snp_supervisor;

/* The head of a CHANGES reply, before the files. */
struct snp_changes_head {
    uint8_t flags;
    uint64_t cpu_us;
    uint64_t written_bytes;
};

/* The result; new reference. Adds denials for exceeded limits. */
json_t *snp_result_json(struct snp_tier_cell *c);

/* Does the result report lost variables? */
bool snp_result_is_lost(const struct snp_tier_cell *c);

/* `files` when none is known; truncated = the list may be incomplete. New reference. */
json_t *snp_result_no_files(bool truncated);

/*
 * Read a CHANGES reply (after its errno) into docs/result.md's `files`; NULL if it is malformed.
 * project_fd: the project's folder, -1 = none. New reference.
 */
json_t *snp_result_files(const char *at, size_t n, int project_fd, struct snp_changes_head *ret);

/*
 * Read an LS reply (after its errno) into docs/wire.md's answer to `ls`, bounded to one frame.
 * New reference.
 */
json_t *snp_result_entries(const char *at, size_t n);

#endif
