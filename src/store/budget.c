/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction's changes are first in the log and later in the database, so a new page takes its
 * space twice for a while: a transaction may add half of the remaining space.
 */
#include "store/budget.h"

#include <stdio.h>
#include <sys/stat.h>

#include "store/state.h"

enum {
    PAGE = 4096,
    FILES_SHARE = 16, /* this part is not for files: cells can still be recorded */
    SOFT_SHARE = 8,
};

static uint64_t file_bytes(const char *path, const char *more)
{
    char name[4200];
    struct stat st;

    (void)snprintf(name, sizeof(name), "%s%s", path, more);
    return stat(name, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

uint64_t snp_budget_used(struct snp_store *store)
{
    return atomic_load(&store->use.bytes) + file_bytes(store->db_path, "") +
           file_bytes(store->db_path, "-wal") + file_bytes(store->dir, "/reserve");
}

uint64_t snp_budget_soft(const struct snp_store *store)
{
    return store->budget - store->budget / SOFT_SHARE;
}

bool snp_budget_has(struct snp_store *store, uint64_t bytes)
{
    return store->budget == 0 || snp_budget_used(store) + bytes <= store->budget;
}

int snp_budget_set(struct snp_store *store, struct snp_err *err)
{
    uint64_t used;
    uint64_t left;
    uint64_t files;
    int64_t pages = 0;
    char text[64];

    if (store->budget == 0) {
        return 0;
    }
    used = snp_budget_used(store);
    left = used < store->budget ? store->budget - used : 0;
    files = left > store->budget / FILES_SHARE ? left - store->budget / FILES_SHARE : 0;
    atomic_store(&store->use.most, atomic_load(&store->use.bytes) + files);
    SNP_TRY(snp_db_number(&store->db, 0, &pages, err, "PRAGMA page_count", ""));
    /* 0 would leave the limit unchanged. */
    (void)snprintf(text, sizeof(text), "PRAGMA max_page_count = %llu",
                   (unsigned long long)pages + left / 2 / PAGE + (pages == 0 ? 1 : 0));
    store->db.bound_by = "journal_budget";
    return snp_db_exec(&store->db, text, err);
}
