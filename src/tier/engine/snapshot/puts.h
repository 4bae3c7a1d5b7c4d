/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_PUTS_H
#define SNP_TIER_ENGINE_SNAPSHOT_PUTS_H

/*
 * Files put into a session while a cell ran. Undoing the cell restores the previous workspace
 * without them; since their puts were acknowledged, they are repeated.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "tier/engine/record.h"

struct snp_sandbox;

/* raw: of a PUT. The cell's result lists puts that do not fit. */
void snp_puts_add(struct snp_sandbox *s, const struct snp_buf *raw);

/* Repeat the puts one by one, then call cb, at once or later, unless the session ends first. */
void snp_puts_again(struct snp_sandbox *s, snp_puts_cb cb);

void snp_puts_forget(struct snp_sandbox *s);

#endif
