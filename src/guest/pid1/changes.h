/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_CHANGES_H
#define SNP_GUEST_PID1_CHANGES_H

/* Changed files of the workspace since the previous report. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct snp_layer_changes; /* the state of the written layer at the last call */

/*
 * The layer is upper_fd (borrowed). is_whole: it is a shared folder that was filled before, so its
 * current files are the base. NULL when out of memory.
 */
struct snp_layer_changes *snp_changes_new(int upper_fd, bool is_whole);

/* Begin the next report with the current files: we put them there. */
void snp_changes_rebase(struct snp_layer_changes *changes);

/* The host wrote this file of the workspace: omit it from the next report. */
void snp_changes_accept(struct snp_layer_changes *changes, const char *path);

/*
 * Append u8 flags of full file systems, u64 cpu_us, u64 written and the files changed since the
 * last call.
 */
int snp_changes_report(struct snp_layer_changes *changes, uint64_t cpu_us, struct snp_buf *out);

#endif
