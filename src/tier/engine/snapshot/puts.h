/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_PUTS_H
#define SNP_TIER_ENGINE_SNAPSHOT_PUTS_H

/*
 * Files that were put into a session while a cell ran. If the cell is undone, its workspace goes
 * back to what it was before; whoever put a file has been told that it is there, so it is put
 * once more.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "tier/engine/record.h"

struct snp_sandbox;

/* raw: of a PUT. What there is no room for the cell's result names. */
void snp_puts_add(struct snp_sandbox *s, const struct snp_buf *raw);

/*
 * Put them again, one after the other; then cb, at once or later, unless the session ends before.
 */
void snp_puts_again(struct snp_sandbox *s, snp_puts_cb cb);

void snp_puts_forget(struct snp_sandbox *s);

#endif
