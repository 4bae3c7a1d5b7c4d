/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_HEAP_H
#define SNP_GUEST_MODULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * For a template, before it is forked. Until snp_heap_end(), snp_heap_arena() returns memory from
 * one block; NULL if that is full or missing. Free it with snp_heap_arena_free(), also after the
 * end; false: it is not of the block. The end puts the memory of this process into huge pages, if
 * available (Linux 6.1): a fork then copies one page table entry instead of hundreds, and undoes as
 * few at its end. Some of the block is left for arenas of forks.
 */
void snp_heap_begin(void);
void *snp_heap_arena(size_t n);
bool snp_heap_arena_free(void *arena, size_t n);
void snp_heap_end(void);

/*
 * Is the address in that block, or in the interpreter's memory from before it? Arenas there are not
 * unmapped when they are freed.
 */
bool snp_heap_has(uintptr_t address);

#endif
