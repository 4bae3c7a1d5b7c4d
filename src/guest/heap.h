/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_HEAP_H
#define SNP_GUEST_HEAP_H

/*
 * Fill the holes of the C library's heap, for good. A fork that allocates from a hole writes
 * to a page it shares and gets a copy of it; from fresh memory it gets an empty page, and what it
 * allocates lies together. For a template, before it is forked; does nothing where the C
 * library does not tell what is free.
 */
void snp_heap_fill(void);

#endif
