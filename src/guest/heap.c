/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks are asked for from large to small until one comes from the heap's end: then there is
 * no hole of that size. What was taken is never given back; the list of it is in the chunks.
 */
#include "guest/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LARGEST = 64 << 10, /* below what the C library maps apart */
    SMALLEST = 24,      /* its smallest chunk */
    CHUNKS_MAX = 1 << 20
};

void snp_heap_fill(void)
{
#ifdef __GLIBC__
    static void **taken; /* the last chunk; each holds the address of the one before */
    const uintptr_t brk_end = (uintptr_t)sbrk(0);
    unsigned n = 0;

    if (brk_end == UINTPTR_MAX) {
        return;
    }
    const uintptr_t top = brk_end - mallinfo2().keepcost - LARGEST;
    for (size_t size = LARGEST; size >= SMALLEST; size -= size > 1024 ? size / 4 : 8) {
        for (; n < CHUNKS_MAX; n++) {
            void **chunk = malloc(size);
            if (chunk == NULL || (uintptr_t)chunk >= top) {
                free(chunk);
                break;
            }
            *chunk = taken;
            taken = chunk;
        }
    }
#endif
}
