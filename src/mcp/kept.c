/* SPDX-License-Identifier: Apache-2.0 */
/* Kept items, oldest first. */
#include "mcp/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/caps.h"

enum {
    ITEMS_MAX = 256,
};

static void oldest_drop(struct snp_mcp_kept *kept)
{
    kept->bytes -= kept->items[0].n;
    free(kept->items[0].bytes);
    kept->n_items--;
    memmove(kept->items, kept->items + 1, kept->n_items * sizeof(*kept->items));
}

void snp_mcp_kept_done(struct snp_mcp_kept *kept)
{
    while (kept->n_items > 0) {
        oldest_drop(kept);
    }
    free(kept->items);
    *kept = (struct snp_mcp_kept){0};
}

uint64_t snp_mcp_kept_add(struct snp_mcp_kept *kept, const char *mime, const char *bytes, size_t n)
{
    struct snp_mcp_kept_item item = {.n = n};

    if (n == 0 || n > SNP_MCP_KEPT_MAX) {
        return 0;
    }
    if (kept->items == NULL) {
        kept->items = calloc(ITEMS_MAX, sizeof(*kept->items));
    }
    item.bytes = malloc(n);
    if (kept->items == NULL || item.bytes == NULL) {
        free(item.bytes);
        return 0;
    }
    while (kept->n_items == ITEMS_MAX || kept->bytes + n > SNP_MCP_KEPT_MAX) {
        oldest_drop(kept);
    }
    memcpy(item.bytes, bytes, n);
    (void)snprintf(item.mime, sizeof(item.mime), "%s", mime);
    item.number = ++kept->last;
    kept->bytes += n;
    kept->items[kept->n_items++] = item;
    return item.number;
}

const struct snp_mcp_kept_item *snp_mcp_kept_find(const struct snp_mcp_kept *kept, uint64_t number)
{
    for (size_t i = 0; i < kept->n_items; i++) {
        if (kept->items[i].number == number) {
            return &kept->items[i];
        }
    }
    return NULL;
}
