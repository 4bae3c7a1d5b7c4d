/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema, and the migration of older databases.
 *
 * A released version is never edited: changes are a new row at the end of the table. PRAGMA
 * user_version has a database's version; it is committed together with the change.
 *
 * Triggers maintain blobs.refs, so that no removal of a row can omit it. An incomplete checkpoint
 * is being written or removed: no reader sees it.
 */
#include "store/schema.h"

static const char v1[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value);"
    "CREATE TABLE sessions("
    "  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT UNIQUE,"
    "  spec TEXT NOT NULL, state TEXT NOT NULL, epoch INTEGER NOT NULL, cells INTEGER NOT NULL,"
    "  created_us INTEGER NOT NULL, used_us INTEGER NOT NULL, head_snapshot TEXT,"
    "  disk_bytes INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE cells("
    "  row INTEGER PRIMARY KEY,"
    "  session INTEGER NOT NULL REFERENCES sessions(row) ON DELETE CASCADE,"
    "  cell INTEGER NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL, argv TEXT, spec TEXT,"
    "  status TEXT NOT NULL, state TEXT, started_us INTEGER NOT NULL,"
    "  wall_us INTEGER NOT NULL DEFAULT 0, first_line TEXT NOT NULL,"
    "  stdin_bytes INTEGER NOT NULL DEFAULT 0,"
    "  UNIQUE(session, cell));"
    "CREATE TABLE blobs("
    "  row INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL,"
    "  stored INTEGER NOT NULL, refs INTEGER NOT NULL DEFAULT 0,"
    "  damaged INTEGER NOT NULL DEFAULT 0, created_us INTEGER NOT NULL,"
    "  data BLOB);" /* NULL: in a file */
    "CREATE INDEX blobs_unused ON blobs(row) WHERE refs = 0;"
    "CREATE TABLE parts("
    "  row INTEGER PRIMARY KEY,"
    "  cell INTEGER NOT NULL REFERENCES cells(row) ON DELETE CASCADE,"
    "  part INTEGER NOT NULL, size INTEGER NOT NULL, data BLOB, blob INTEGER,"
    "  UNIQUE(cell, part));"
    "CREATE TABLE checkpoints("
    "  row INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  session INTEGER NOT NULL REFERENCES sessions(row) ON DELETE CASCADE,"
    "  cell INTEGER NOT NULL, epoch INTEGER NOT NULL, created_us INTEGER NOT NULL,"
    "  items INTEGER NOT NULL DEFAULT 0, same_items INTEGER NOT NULL DEFAULT 0,"
    "  bytes INTEGER NOT NULL DEFAULT 0, written_bytes INTEGER NOT NULL DEFAULT 0,"
    "  complete INTEGER NOT NULL DEFAULT 0, damaged INTEGER NOT NULL DEFAULT 0, lost TEXT);"
    "CREATE INDEX checkpoints_session ON checkpoints(session, row);"
    "CREATE TABLE items("
    "  row INTEGER PRIMARY KEY,"
    "  checkpoint INTEGER NOT NULL REFERENCES checkpoints(row) ON DELETE CASCADE,"
    "  part INTEGER NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, "
    "size INTEGER NOT NULL,"
    "  meta TEXT NOT NULL, blob INTEGER);"
    "CREATE INDEX items_checkpoint ON items(checkpoint);"
    "CREATE INDEX items_key ON items(checkpoint, key) WHERE blob IS NOT NULL;"
    "CREATE INDEX items_blob ON items(blob) WHERE blob IS NOT NULL;"
    "CREATE TABLE snapshots("
    "  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT,"
    "  session INTEGER NOT NULL REFERENCES sessions(row) ON DELETE CASCADE,"
    "  parent TEXT, cell INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    "  created_us INTEGER NOT NULL,"
    "  checkpoint INTEGER REFERENCES checkpoints(row) ON DELETE SET NULL,"
    "  UNIQUE(session, name));"
    "CREATE INDEX snapshots_checkpoint ON snapshots(checkpoint) WHERE checkpoint IS NOT NULL;"
    "CREATE TABLE files("
    "  row INTEGER PRIMARY KEY,"
    "  cell INTEGER NOT NULL REFERENCES cells(row) ON DELETE CASCADE,"
    "  path TEXT NOT NULL, change TEXT NOT NULL);"
    "CREATE INDEX files_cell ON files(cell);"
    "CREATE TABLE effects("
    "  row INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  session INTEGER NOT NULL REFERENCES sessions(row) ON DELETE CASCADE,"
    "  cell INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL, at_us INTEGER NOT "
    "NULL);"
    "CREATE INDEX effects_session ON effects(session);"
    "CREATE TABLE events("
    "  row INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, kind TEXT NOT NULL,"
    "  text TEXT NOT NULL);"
    "CREATE TRIGGER parts_added AFTER INSERT ON parts WHEN NEW.blob IS NOT NULL BEGIN"
    "  UPDATE blobs SET refs = refs + 1 WHERE row = NEW.blob; END;"
    "CREATE TRIGGER parts_removed AFTER DELETE ON parts WHEN OLD.blob IS NOT NULL BEGIN"
    "  UPDATE blobs SET refs = refs - 1 WHERE row = OLD.blob; END;"
    "CREATE TRIGGER items_added AFTER INSERT ON items WHEN NEW.blob IS NOT NULL BEGIN"
    "  UPDATE blobs SET refs = refs + 1 WHERE row = NEW.blob; END;"
    "CREATE TRIGGER items_removed AFTER DELETE ON items WHEN OLD.blob IS NOT NULL BEGIN"
    "  UPDATE blobs SET refs = refs - 1 WHERE row = OLD.blob; END;";

/* Data removed by gc is reported; running cells and garbage are found at once. */
static const char v2[] =
    "ALTER TABLE cells ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE events ADD COLUMN session TEXT;"
    "CREATE INDEX cells_running ON cells(row) WHERE status = 'running';"
    "CREATE INDEX checkpoints_incomplete ON checkpoints(row) WHERE complete = 0;";

/* A checkpoint records the effects before it; for older ones they follow from the time. */
static const char v3[] =
    "ALTER TABLE checkpoints ADD COLUMN effect INTEGER NOT NULL DEFAULT 0;"
    "UPDATE checkpoints SET effect = IFNULL((SELECT MAX(row) FROM effects"
    "  WHERE session = checkpoints.session AND at_us <= checkpoints.created_us), 0);"
    "UPDATE effects SET kind = 'puts_forgiven', detail = '{}' WHERE kind = 'saved'"
    "  AND (detail LIKE '%\"checkpoint\":0}' OR detail LIKE '%\"checkpoint\": 0}');"
    "DELETE FROM effects WHERE kind IN ('save', 'saved');";

/* A checkpoint may have an image, which version 3 of the program would take for variables. */
static const char v4[] = "";

/* The n-th row migrates version n to n + 1. */
static const char *const migrations[] = {v1, v2, v3, v4};
_Static_assert(SNP_ARRAY_LEN(migrations) == SNP_STORE_VERSION, "one row per version");

const char *const snp_schema_v1 = v1;

static int migrate_from(struct snp_db *db, int64_t version, struct snp_err *err)
{
    /* A pragma takes no bound value. */
    static const char *const marks[] = {"PRAGMA user_version = 1", "PRAGMA user_version = 2",
                                        "PRAGMA user_version = 3", "PRAGMA user_version = 4"};
    int r = 0;

    _Static_assert(SNP_ARRAY_LEN(marks) == SNP_ARRAY_LEN(migrations), "one per version");
    for (; r == 0 && version < SNP_STORE_VERSION; version++) {
        r = snp_db_exec(db, migrations[version], err);
        SNP_THEN(r, snp_db_exec(db, marks[version], err));
    }
    return r;
}

int snp_schema_migrate(struct snp_db *db, struct snp_err *err)
{
    int64_t version = 0;
    int r = snp_db_number(db, 0, &version, err, "PRAGMA user_version", "");

    if (r < 0 || version == SNP_STORE_VERSION) {
        return r;
    }
    SNP_ASSERT(version >= 0 && version < SNP_STORE_VERSION); /* opening refuses newer ones */
    SNP_TRY(snp_db_set_full(db, true, err));
    SNP_TRY(snp_db_exec(db, "BEGIN IMMEDIATE", err));
    r = migrate_from(db, version, err);
    SNP_THEN(r, snp_db_exec(db, "COMMIT", err));
    if (r < 0 && sqlite3_get_autocommit(db->sqlite) == 0) {
        (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    }
    return r;
}
