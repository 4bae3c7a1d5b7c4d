/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/engine/cell/running.h"

#include "tier/engine/cell/guarantee.h"
#include "tier/engine/sandbox.h"

bool snp_cell_has_begun(const struct snp_sandbox *s)
{
    return s->cell != NULL && s->cell->pending == NULL;
}

bool snp_cell_may_lose_guarantee(const struct snp_sandbox *s)
{
    return s->cell != NULL && !s->cell->is_atomic && s->cell->phase <= SNP_CELL_STOPPING;
}

void snp_cell_lose_guarantee(struct snp_sandbox *s)
{
    if (s->cell != NULL) {
        s->cell->guarantee.interpreter = SNP_GUARANTEE_DROPPED;
        s->cell->guarantee.workspace = SNP_GUARANTEE_FILES_UNAVAILABLE;
    }
}

void snp_cell_note(struct snp_sandbox *s, const char *text)
{
    if (s->cell != NULL && s->cell->is_transactional) {
        snp_guarantee_note(&s->cell->guarantee, text);
    }
}
