/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_HEAP_H
#define SNP_GUEST_MODULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * For a template, before it is forked. From here to snp_heap_end() snp_heap_arena() has memory
 * that lies together; NULL when there is no more of it, or none at all. What it gave goes back
 * with snp_heap_arena_free(), also after the end; false: it was not from here. The end puts the
 * memory of this process into large pages, as far as there are any (Linux 6.1): a fork then
 * copies one entry where it would copy hundreds, and its end undoes as few. A little of the
 * block is left for the forks' own arenas.
 */
void snp_heap_begin(void);
void *snp_heap_arena(size_t n);
bool snp_heap_arena_free(void *arena, size_t n);
void snp_heap_end(void);

/*
 * Whether an address lies in that block, or in what was the interpreter's own memory before it.
 * Arenas there are not unmapped when they are given back.
 */
bool snp_heap_has(uintptr_t address);

#endif
