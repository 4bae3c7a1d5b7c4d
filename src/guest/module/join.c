/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker lays a library out as constants, code, constants, relocated constants, and data, side
 * by side, in the file's order. The kernel merges neighbours with the same protection into one
 * mapping. Constants get the protection of the code beside them; relocated ones, before the data,
 * get that of the data.
 */
#include "guest/module/join.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "guest/module/maps.h"

enum {
    MAPS_MAX = 4096
};

static bool are_neighbours(const struct snp_map *a, const struct snp_map *b)
{
    return a->end == b->start && a->file != 0 && a->file == b->file;
}

/* The new protection of a mapping of constants; its current one: no change. */
static int rights_for(const struct snp_map *before,
                      const struct snp_map *map,
                      const struct snp_map *after)
{
    const int code = PROT_READ | PROT_EXEC;
    const int data = PROT_READ | PROT_WRITE;

    if (map->prot != PROT_READ || map->is_shared) {
        return map->prot;
    }
    if (after != NULL && after->prot == data && are_neighbours(map, after)) {
        return data;
    }
    if ((after != NULL && after->prot == code && are_neighbours(map, after)) ||
        (before != NULL && before->prot == code && are_neighbours(before, map))) {
        return code;
    }
    return map->prot;
}

void snp_join_libraries(void)
{
    struct snp_map *list = calloc(MAPS_MAX, sizeof(*list));
    struct snp_maps maps;
    size_t n = 0;

    if (list == NULL) {
        return;
    }
    snp_maps_open(&maps);
    while (n < MAPS_MAX && snp_maps_next(&maps, &list[n])) {
        n++;
    }
    snp_maps_close(&maps);
    for (size_t i = 0; i < n; i++) {
        int prot =
            rights_for(i == 0 ? NULL : &list[i - 1], &list[i], i + 1 == n ? NULL : &list[i + 1]);

        if (prot != list[i].prot) {
            (void)mprotect(snp_maps_at(list[i].start), list[i].end - list[i].start, prot);
        }
    }
    free(list);
}
