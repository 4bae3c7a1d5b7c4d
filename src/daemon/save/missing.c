/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell is missing if it ran after the checkpoint and had an effect; a file, if it was put after
 * the last effect in the checkpoint; a rollback, if it was made after the checkpoint.
 */
#include "daemon/save/missing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/wire/session.h"
#include "daemon/session/missing_cells.h"
#include "store/journal.h"

enum {
    PUTS_MAX = 1000,  /* files; the last ones are named */
    CELLS_TOLD = 100, /* in JSON */
    FILES_TOLD = 20,  /* in JSON */
    CELLS_NAMED = 10, /* in a message */
    CELLS_TEXT = 120, /* bytes */
    FILES_TEXT = 96,  /* bytes */
    BACK_TEXT = 64,   /* bytes */
    WHAT_TEXT = CELLS_TEXT + FILES_TEXT + BACK_TEXT,
    ORIGIN_TEXT = 64, /* bytes */
};

void snp_missing_place(const struct snp_session *session, struct snp_missing_place *ret)
{
    memcpy(ret->id, session->id, sizeof(ret->id));
    memcpy(ret->name, session->name, sizeof(ret->name));
    ret->after = snp_session_floor(session);
    ret->checkpoint = session->durable.checkpoint;
    ret->checkpoint_cell = session->durable.checkpoint_cell;
}

static void puts_drop(struct snp_missing *missing)
{
    while (missing->n_puts > 0) {
        free(missing->puts[--missing->n_puts]);
    }
}

void snp_missing_done(struct snp_missing *missing)
{
    puts_drop(missing);
    free(missing->puts);
    free(missing->cells);
    *missing = (struct snp_missing){0};
}

bool snp_missing_any(const struct snp_missing *missing)
{
    return missing->n_cells > 0 || missing->n_puts > 0 || missing->has_rollback;
}

/* Finding ------------------------------------------------------------------------------------ */

static bool is_unknown(const char *status)
{
    return strcmp(status, "unknown") == 0 || strcmp(status, "running") == 0;
}

/*
 * A replay with an unknown end may have ended the daemon, or been cut off by it: that adds one
 * failure. A replay that lost the session adds two.
 */
static void note_replay(struct snp_missing *missing,
                        uint64_t cell,
                        const struct snp_journal_cell *row)
{
    for (size_t i = 0; i < missing->n_cells; i++) {
        struct snp_missing_cell *at = &missing->cells[i];

        if (at->cell != cell) {
            continue;
        }
        if (snp_streq(row->state, "lost") || snp_streq(row->state, "restored_from_checkpoint")) {
            at->failed += SNP_MISSING_DEADLY;
        } else if (is_unknown(row->status)) {
            at->failed++;
        } else if (at->failed == 0 && !is_unknown(at->status) &&
                   strcmp(at->status, row->status) != 0) {
            at->failed = 1;
        }
        return;
    }
}

static int note_cell(const struct snp_journal_cell *row, void *arg, struct snp_err *err)
{
    struct snp_missing *missing = arg;
    snp_autojson json_t *spec = row->spec == NULL ? NULL : json_loads(row->spec, 0, NULL);
    uint64_t replay_of = (uint64_t)snp_json_int(spec, "replay_of", 0);
    struct snp_missing_cell *at;

    /* Replays had no effects; a replay is noted for the cell that it repeats. */
    if (replay_of != 0) {
        note_replay(missing, replay_of, row);
        return 0;
    }
    if (strcmp(row->status, "refused") == 0 || snp_streq(row->state, "rolled_back") ||
        snp_streq(row->state, "undone") || snp_streq(row->state, "restored_from_checkpoint")) {
        return 0;
    }
    if (missing->n_cells == SNP_MISSING_CELLS_MAX) {
        missing->n_beyond++;
        return 0;
    }
    if (missing->cells == NULL) {
        missing->cells = calloc(SNP_MISSING_CELLS_MAX, sizeof(*missing->cells));
    }
    SNP_TRY_MEMORY(missing->cells, err);
    at = &missing->cells[missing->n_cells++];
    at->cell = row->cell;
    at->failed = 0;
    (void)snprintf(at->status, sizeof(at->status), "%s", row->status);
    return 0;
}

/* Files put after this effect. */
struct put_search {
    struct snp_missing *missing;
    uint64_t after;
};

static int note_effect(const struct snp_journal_effect *row, void *arg, struct snp_err *err)
{
    struct put_search *search = arg;
    struct snp_missing *missing = search->missing;
    snp_autojson json_t *detail = row->detail == NULL ? NULL : json_loads(row->detail, 0, NULL);
    const char *path = snp_json_str(detail, "path", "?");

    if (strcmp(row->kind, "puts_forgiven") == 0) {
        puts_drop(missing);
        missing->has_rollback = false;
    }
    if (strcmp(row->kind, "rolled_back") == 0 && row->id > search->after) {
        missing->has_rollback = true;
        missing->rollback_cell = (uint64_t)snp_json_int(detail, "cell", 0);
    }
    if (strcmp(row->kind, "put") != 0 || row->id <= search->after || missing->n_puts == PUTS_MAX ||
        (missing->n_puts > 0 && strcmp(missing->puts[missing->n_puts - 1], path) == 0)) {
        return 0;
    }
    if (missing->puts == NULL) {
        missing->puts = calloc(PUTS_MAX, sizeof(*missing->puts));
    }
    SNP_TRY_MEMORY(missing->puts, err);
    missing->puts[missing->n_puts] = strdup(path);
    SNP_TRY_MEMORY(missing->puts[missing->n_puts], err);
    missing->n_puts++;
    return 0;
}

static int find_puts(struct snp_tx *tx,
                     const struct snp_missing_place *place,
                     struct snp_missing *ret,
                     struct snp_err *err)
{
    struct put_search search = {.missing = ret};
    struct snp_journal_checkpoint row;
    int r =
        place->checkpoint == 0 ? 0 : snp_journal_checkpoint_get(tx, place->checkpoint, &row, err);

    if (r < 0 && r != SNP_E_NOT_FOUND) {
        return r;
    }
    search.after = place->checkpoint == 0 || r < 0 ? 0 : row.effect;
    return snp_journal_effect_each(tx, place->id, note_effect, &search, err);
}

int snp_missing_find(struct snp_tx *tx,
                     const struct snp_missing_place *place,
                     struct snp_missing *ret,
                     struct snp_err *err)
{
    snp_missing_done(ret);
    SNP_TRY(snp_journal_cell_after(tx, place->id, place->after, note_cell, ret, err));
    return find_puts(tx, place, ret, err);
}

/* Telling ------------------------------------------------------------------------------------ */

/* "cells 3, 4" */
static void cells_text(const struct snp_missing *missing, char *out, size_t out_len)
{
    const struct snp_missing_cell *last = &missing->cells[missing->n_cells - 1];
    size_t used = (size_t)snprintf(out, out_len, "cell%s", missing->n_cells > 1 ? "s" : "");

    for (size_t i = 0; i < missing->n_cells && i < CELLS_NAMED; i++) {
        int n = snprintf(out + used, out_len - used, "%s%llu", i > 0 ? ", " : " ",
                         (unsigned long long)missing->cells[i].cell);

        used += n > 0 && (size_t)n < out_len - used ? (size_t)n : 0;
    }
    (void)snprintf(out + used, out_len - used, "%s%s",
                   missing->n_cells > CELLS_NAMED ? ", ..." : "",
                   is_unknown(last->status) ? " (how the last ended is unknown)" : "");
}

/* "cells 3, 4, and 1 file put into it (a.txt), and the rollback to cell 2" */
static void what_text(const struct snp_missing *missing, char out[WHAT_TEXT])
{
    char cells[CELLS_TEXT] = "";
    char files[FILES_TEXT] = "";
    char back[BACK_TEXT] = "";

    if (missing->n_cells > 0) {
        cells_text(missing, cells, sizeof(cells));
    }
    if (missing->n_puts > 0) {
        (void)snprintf(files, sizeof(files), "%s%zu file%s put into it (%.30s%s)",
                       missing->n_cells > 0 ? ", and " : "", missing->n_puts,
                       missing->n_puts > 1 ? "s" : "", missing->puts[0],
                       missing->n_puts > 1 ? ", ..." : "");
    }
    if (missing->has_rollback) {
        (void)snprintf(back, sizeof(back), "%sthe rollback to cell %llu",
                       missing->n_cells + missing->n_puts > 0 ? ", and " : "",
                       (unsigned long long)missing->rollback_cell);
    }
    (void)snprintf(out, WHAT_TEXT, "%s%s%s", cells, files, back);
}

/* The remedies that can still work: those known to fail are not offered again. */
static int64_t ways_out(const struct snp_missing *missing)
{
    if (missing->n_beyond > 0) {
        return SNP_WAY_CHECKPOINT; /* too many to replay */
    }
    return snp_missing_deadly(missing) != NULL ? SNP_WAY_SKIP | SNP_WAY_CHECKPOINT
                                               : SNP_WAY_REPLAY | SNP_WAY_CHECKPOINT;
}

int snp_missing_fail(const struct snp_missing *missing,
                     const struct snp_missing_place *place,
                     struct snp_err *err)
{
    const char *name = place->name[0] == '\0' ? place->id : place->name;
    char what[WHAT_TEXT];
    char origin[ORIGIN_TEXT] = "never saved";

    what_text(missing, what);
    if (place->checkpoint != 0) {
        (void)snprintf(origin, sizeof(origin), "last saved after cell %llu",
                       (unsigned long long)place->checkpoint_cell);
    }
    (void)snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_RECOVER, NULL, ways_out(missing),
                        "session %.64s was %s; missing: %s", name, origin, what);
    snp_err_about(err, name);
    return err->code;
}

const struct snp_missing_cell *snp_missing_deadly(const struct snp_missing *missing)
{
    for (size_t i = 0; i < missing->n_cells; i++) {
        if (missing->cells[i].failed >= SNP_MISSING_DEADLY) {
            return &missing->cells[i];
        }
    }
    return NULL;
}

json_t *snp_missing_leave_out(struct snp_missing *missing)
{
    json_t *left_out = json_array();
    size_t n = 0;

    for (size_t i = 0; i < missing->n_cells; i++) {
        const struct snp_missing_cell *at = &missing->cells[i];

        if (at->failed > 0) {
            (void)json_array_append_new(left_out, json_integer((json_int_t)at->cell));
        } else {
            missing->cells[n++] = *at;
        }
    }
    missing->n_cells = n;
    return left_out;
}

int snp_missing_check(struct snp_tx *tx, const struct snp_missing_place *place, struct snp_err *err)
{
    struct snp_missing missing = {0};
    int r = snp_missing_find(tx, place, &missing, err);

    if (r == 0 && snp_missing_any(&missing)) {
        r = snp_missing_fail(&missing, place, err);
    }
    snp_missing_done(&missing);
    return r;
}

json_t *snp_missing_to_json(const struct snp_missing *missing)
{
    snp_autojson json_t *cells = json_array();
    snp_autojson json_t *files = json_array();
    snp_autojson json_t *text = NULL;
    snp_autojson json_t *ways = NULL;
    uint64_t n = missing->n_cells + missing->n_beyond;
    char what[WHAT_TEXT];

    what_text(missing, what);
    for (size_t i = 0; i < missing->n_cells && i < CELLS_TOLD; i++) {
        if (json_array_append_new(cells, json_integer((json_int_t)missing->cells[i].cell)) < 0) {
            return NULL;
        }
    }
    for (size_t i = 0; i < missing->n_puts && i < FILES_TOLD; i++) {
        if (json_array_append_new(files,
                                  snp_json_bytes(missing->puts[i], strlen(missing->puts[i]))) < 0) {
            return NULL;
        }
    }
    text = snp_json_bytes(what, strlen(what));
    ways = snp_json_from_ways(ways_out(missing));
    return SNP_WRITE(
        snp_missing_row, .cells = cells, .n_cells = n, .files = files, .n_files = missing->n_puts,
        .rollback = missing->has_rollback ? (int64_t)missing->rollback_cell : SNP_NO_NUMBER,
        .text = text, .recover = ways);
}
