/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_CHANGES_H
#define SNP_GUEST_PID1_CHANGES_H

/* Which files of the workspace changed since the last look. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct snp_layer_changes; /* what the written layer looked like at the last call */

/*
 * The layer is upper_fd (borrowed). is_whole: it is a folder among others that was filled
 * before, so what is in it now is the start. NULL when out of memory.
 */
struct snp_layer_changes *snp_changes_new(int upper_fd, bool is_whole);

/* What is there now is where the next report begins: it was put there by ourselves. */
void snp_changes_rebase(struct snp_layer_changes *changes);

/* The host wrote this file of the workspace itself: the next report is not to name it. */
void snp_changes_accept(struct snp_layer_changes *changes, const char *path);

/*
 * Append u8 flags (the given ones and those of full file systems), u64 cpu_us, u64 written
 * and the files that changed since the last call.
 */
int snp_changes_report(struct snp_layer_changes *changes,
                       uint64_t cpu_us,
                       uint8_t flags,
                       struct snp_buf *out);

#endif
