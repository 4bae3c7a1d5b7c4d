/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The full-text search keeps no copy of the texts: to delete a row, SQLite needs the values that it
 * was made of. So one function makes the four texts of a row, from the file's text, its path and
 * its chunks alone.
 */
#include "context/put.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
    TEXT_MAX = 16 << 20, /* bytes of one of them */
};

/* The texts by which a chunk is found. */
struct search_row {
    struct snp_buf name;
    struct snp_buf head;
    struct snp_buf body;
};

static void row_done(struct search_row *row)
{
    snp_buf_done(&row->name);
    snp_buf_done(&row->head);
    snp_buf_done(&row->body);
}

static int range_add(struct snp_buf *out, const char *text, struct snp_parse_range range)
{
    SNP_TRY(range.start < range.end ? snp_buf_add(out, text + range.start, range.end - range.start)
                                    : 0);
    return snp_buf_adds(out, "\n");
}

static int row_make(struct search_row *row,
                    const struct snp_chunks *chunks,
                    size_t i,
                    const char *text,
                    struct snp_err *err)
{
    int r;

    snp_buf_clear(&row->name);
    snp_buf_clear(&row->head);
    snp_buf_clear(&row->body);
    r = snp_chunk_qualified(chunks, i, text, &row->name);
    SNP_THEN(r, range_add(&row->head, text, chunks->items[i].signature));
    SNP_THEN(r, range_add(&row->head, text, chunks->items[i].doc));
    SNP_THEN(r, snp_chunk_body(chunks, i, text, &row->body));
    if (r == 0 && (snp_buf_cstr(&row->name) == NULL || snp_buf_cstr(&row->head) == NULL ||
                   snp_buf_cstr(&row->body) == NULL)) {
        r = SNP_E_NOMEM;
    }
    return r == 0 ? 0 : snp_fail(err, (enum snp_code)r, "out of memory");
}

#define ROW_NEW                                                                         \
    {                                                                                   \
        .name = SNP_BUF(TEXT_MAX), .head = SNP_BUF(TEXT_MAX), .body = SNP_BUF(TEXT_MAX) \
    }

static int64_t *chunk_ids(struct snp_index *index, int64_t file, size_t n, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t *ids = calloc(n + 1, sizeof(*ids));
    size_t found = 0;
    int r;

    if (ids == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        return NULL;
    }
    r = snp_db_ask(&index->db, &rows, err, "SELECT id FROM chunk WHERE file = ? ORDER BY ordinal",
                   "i", file);
    while (r == 0 && found < n && (r = snp_db_step(&rows, err)) > 0) {
        ids[found++] = (int64_t)snp_col_u64(&rows, 0);
        r = 0;
    }
    if (r < 0) {
        free(ids);
        return NULL;
    }
    return ids;
}

static int words_forget(struct snp_index *index,
                        int64_t file,
                        const char *path,
                        struct snp_err *err)
{
    snp_cleanup(snp_chunks_done) struct snp_chunks chunks = {0};
    snp_cleanup(row_done) struct search_row row = ROW_NEW;
    snp_autofree int64_t *ids = NULL;
    snp_autofree char *text = NULL;
    size_t n;

    SNP_TRY(snp_index_chunks(index, file, &chunks, err));
    if (chunks.n == 0) {
        return 0;
    }
    SNP_TRY(snp_index_text(index, file, &text, &n, err));
    ids = chunk_ids(index, file, chunks.n, err);
    if (ids == NULL) {
        return err->code;
    }
    for (size_t i = 0; i < chunks.n; i++) {
        SNP_TRY(row_make(&row, &chunks, i, text, err));
        SNP_TRY(snp_db_run(&index->db, NULL, err,
                           "INSERT INTO fts(fts, rowid, name, path, head, body)"
                           " VALUES('delete', ?, ?, ?, ?, ?)",
                           "itttt", ids[i], snp_buf_bytes(&row.name), path,
                           snp_buf_bytes(&row.head), snp_buf_bytes(&row.body)));
    }
    return 0;
}

int snp_put_clear(struct snp_index *index, int64_t file, const char *path, struct snp_err *err)
{
    SNP_TRY(words_forget(index, file, path, err));
    SNP_TRY(snp_db_run(&index->db, NULL, err, "DELETE FROM vector WHERE file = ?", "i", file));
    SNP_TRY(snp_db_run(&index->db, NULL, err, "DELETE FROM chunk WHERE file = ?", "i", file));
    SNP_TRY(snp_db_run(&index->db, NULL, err, "DELETE FROM reference WHERE file = ?", "i", file));
    SNP_TRY(snp_db_run(&index->db, NULL, err, "DELETE FROM import WHERE file = ?", "i", file));
    return snp_db_run(&index->db, NULL, err, "DELETE FROM content WHERE file = ?", "i", file);
}

int snp_put_remove(struct snp_index *index, int64_t file, const char *path, struct snp_err *err)
{
    SNP_TRY(snp_put_clear(index, file, path, err));
    SNP_TRY(snp_db_run(&index->db, NULL, err, "DELETE FROM changed WHERE file = ?", "i", file));
    return snp_db_run(&index->db, NULL, err, "DELETE FROM file WHERE id = ?", "i", file);
}

int snp_put_file(struct snp_index *index,
                 const struct snp_put *put,
                 int64_t *ret,
                 struct snp_err *err)
{
    int64_t id = put->id;

    if (id == 0) {
        SNP_TRY(
            snp_db_run(&index->db, NULL, err, "INSERT INTO file(path) VALUES(?)", "t", put->path));
        id = sqlite3_last_insert_rowid(index->db.sqlite);
    }
    if (ret != NULL) {
        *ret = id;
    }
    return snp_db_run(&index->db, NULL, err,
                      "UPDATE file SET size = ?, mtime = ?, ctime = ?, inode = ?, read = ?,"
                      " hash = ?, language = ?, state = ? WHERE id = ?",
                      "iiiiibiii", put->size, put->mtime_ns, put->ctime_ns, put->inode,
                      put->read_ns, put->hash, sizeof(put->hash), (int64_t)put->language,
                      (int64_t)put->state, id);
}

/* The file that chunks come from. */
struct chunk_source {
    int64_t file;
    const char *path;
    const char *text;
    const struct snp_chunks *chunks;
};

static int chunk_put(struct snp_index *index,
                     const struct chunk_source *source,
                     size_t i,
                     struct search_row *row,
                     struct snp_err *err)
{
    const struct snp_chunk *chunk = &source->chunks->items[i];
    const char *text = source->text;
    snp_autofree char *name =
        strndup(text + chunk->name.start, chunk->name.end - chunk->name.start);

    SNP_TRY_MEMORY(name, err);
    SNP_TRY(row_make(row, source->chunks, i, text, err));
    SNP_TRY(snp_db_run(
        &index->db, NULL, err,
        "INSERT INTO chunk(file, ordinal, kind, parent, first, last, start, end,"
        " name_start, name_end, sig_start, sig_end, doc_start, doc_end, name,"
        " qualified) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "iiiiiiiiiiiiiitt", source->file, (int64_t)i, (int64_t)chunk->kind, (int64_t)chunk->parent,
        (int64_t)chunk->lines[0], (int64_t)chunk->lines[1], (int64_t)chunk->all.start,
        (int64_t)chunk->all.end, (int64_t)chunk->name.start, (int64_t)chunk->name.end,
        (int64_t)chunk->signature.start, (int64_t)chunk->signature.end, (int64_t)chunk->doc.start,
        (int64_t)chunk->doc.end, name, snp_buf_bytes(&row->name)));
    return snp_db_run(&index->db, NULL, err,
                      "INSERT INTO fts(rowid, name, path, head, body) VALUES(?, ?, ?, ?, ?)",
                      "itttt", sqlite3_last_insert_rowid(index->db.sqlite),
                      snp_buf_bytes(&row->name), source->path, snp_buf_bytes(&row->head),
                      snp_buf_bytes(&row->body));
}

static int mentions_put(struct snp_index *index,
                        int64_t file,
                        int64_t first_chunk,
                        const struct snp_chunks *chunks,
                        const char *text,
                        struct snp_err *err)
{
    for (size_t i = 0; i < chunks->n_references; i++) {
        const struct snp_mention *m = &chunks->references[i];
        snp_autofree char *name = strndup(text + m->name.start, m->name.end - m->name.start);

        SNP_TRY_MEMORY(name, err);
        SNP_TRY(snp_db_run(&index->db, NULL, err,
                           "INSERT OR IGNORE INTO reference(name, chunk, file) VALUES(?, ?, ?)",
                           "tii", name, first_chunk + m->chunk, file));
    }
    for (size_t i = 0; i < chunks->n_imports; i++) {
        const struct snp_mention *m = &chunks->imports[i];
        snp_autofree char *name = strndup(text + m->name.start, m->name.end - m->name.start);

        SNP_TRY_MEMORY(name, err);
        SNP_TRY(snp_db_run(&index->db, NULL, err, "INSERT INTO import(file, name) VALUES(?, ?)",
                           "it", file, name));
    }
    return 0;
}

int snp_put(struct snp_index *index,
            const struct snp_put *put,
            const char *text,
            size_t n,
            const struct snp_chunks *chunks,
            struct snp_err *err)
{
    snp_cleanup(row_done) struct search_row row = ROW_NEW;
    int64_t file = put->id;
    int64_t first = 0;

    SNP_TRY(file == 0 ? 0 : snp_put_clear(index, file, put->path, err));
    SNP_TRY(snp_put_file(index, put, &file, err));
    SNP_TRY(snp_db_run(&index->db, NULL, err, "INSERT INTO content(file, text) VALUES(?, ?)", "ib",
                       file, text, n));
    SNP_TRY(snp_db_number(&index->db, 0, &first, err, "SELECT max(id) FROM chunk", ""));
    struct chunk_source source = {file, put->path, text, chunks};
    for (size_t i = 0; i < chunks->n; i++) {
        SNP_TRY(chunk_put(index, &source, i, &row, err));
    }
    return mentions_put(index, file, first + 1, chunks, text, err);
}
