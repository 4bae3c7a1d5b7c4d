/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: jobs read pages of rows, the transfer's thread reads the contents of files. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/checkpoint/transfer.h"
#include "store/journal_priv.h"

enum {
    PAGE_ITEMS = 256,     /* of one job */
    PAGE_BYTES = 1 << 20, /* of their texts and small contents, about */
};

struct checkpoint_row {
    struct snp_journal_item item;
    enum snp_stream_part part;
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    const void *data; /* inline content; NULL: none, or a file */
    bool has_blob;
};

struct page {
    struct snp_transfer *t;
    enum snp_stream_part part;
    int64_t after; /* row */
    unsigned n;
    struct checkpoint_row rows[PAGE_ITEMS];
    struct snp_buf texts; /* target of the rows' pointers, as offsets until it is complete */
};

static int load_begin(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct snp_journal_checkpoint row;

    SNP_TRY(snp_journal_checkpoint_get(tx, t->report.checkpoint, &row, err));
    if (!row.is_usable) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "checkpoint %llu needs a blob that is damaged or missing",
                        (unsigned long long)row.id);
    }
    t->report.cell = row.cell;
    t->report.items = row.items;
    t->report.bytes = row.bytes;
    snp_transfer_busy(t, row.id, 0);
    return 0;
}

/* Append bytes of a row to the page; *ret: their offset. */
static int page_keep(
    struct page *page, const void *bytes, size_t n, size_t *ret, struct snp_err *err)
{
    *ret = page->texts.len;
    if ((n > 0 && snp_buf_add(&page->texts, bytes, n) < 0) ||
        snp_buf_add(&page->texts, "", 1) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/* Offsets of one row in texts, until these no longer move. */
struct offsets {
    size_t name;
    size_t key;
    size_t meta;
    size_t data;
    bool has_data;
};

static int page_row(struct page *page,
                    struct snp_rows *rows,
                    struct offsets *at,
                    struct snp_err *err)
{
    struct checkpoint_row *row = &page->rows[page->n];
    const char *texts[3] = {snp_col_text(rows, 2), snp_col_text(rows, 3), snp_col_text(rows, 5)};
    size_t *places[3] = {&at->name, &at->key, &at->meta};
    const void *bytes;
    size_t n = 0;
    int r = 0;

    page->after = (int64_t)snp_col_u64(rows, 0);
    *row = (struct checkpoint_row){.part = page->part};
    if (snp_col_u64(rows, 1) >= SNP_ITEM_N) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "the checkpoint has an item of unknown kind");
    }
    row->item.kind = (enum snp_item_kind)snp_col_u64(rows, 1);
    row->item.size = snp_col_u64(rows, 4);
    for (int i = 0; r == 0 && i < 3; i++) {
        const char *text = texts[i] == NULL ? "" : texts[i];

        r = page_keep(page, text, strlen(text), places[i], err);
    }
    bytes = snp_col_bytes(rows, 6, &n);
    row->has_blob = n == sizeof(row->hash);
    if (row->has_blob) {
        memcpy(row->hash, bytes, n);
    }
    row->item.is_damaged = snp_col_u64(rows, 7) != 0;
    at->has_data = !snp_col_null(rows, 8);
    if (r == 0 && at->has_data) {
        bytes = snp_col_bytes(rows, 8, &n);
        row->item.is_damaged = row->item.is_damaged || n != row->item.size;
        r = page_keep(page, bytes, n, &at->data, err);
    }
    page->n++;
    return r;
}

static int page_job(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct page *page = arg;
    struct offsets at[PAGE_ITEMS] = {0};
    snp_autorows struct snp_rows rows = {0};
    int64_t after = page->after;
    const char *base;
    int r;

    page->n = 0;
    snp_buf_clear(&page->texts);
    r = snp_db_ask(tx->db, &rows, err,
                   "SELECT items.row, kind, name, key, items.size, meta, hash, damaged, data"
                   " FROM items LEFT JOIN blobs ON blobs.row = items.blob"
                   " WHERE checkpoint = ? AND part = ? AND items.row > ?"
                   " ORDER BY items.row LIMIT ?",
                   "iiii", (int64_t)page->t->busy.checkpoint, (int64_t)page->part, after,
                   (int64_t)PAGE_ITEMS);
    while (r == 0 && page->n < PAGE_ITEMS && page->texts.len < PAGE_BYTES &&
           (r = snp_db_step(&rows, err)) > 0) {
        r = page_row(page, &rows, &at[page->n], err);
    }
    if (r < 0) {
        page->after = after; /* this job may run again */
        return r;
    }
    base = snp_buf_bytes(&page->texts);
    for (unsigned i = 0; i < page->n; i++) {
        struct checkpoint_row *row = &page->rows[i];

        row->item.name.data = base + at[i].name;
        row->item.name.n = strlen(base + at[i].name);
        row->item.key = base + at[i].key;
        row->item.meta = base + at[i].meta;
        row->data = at[i].has_data ? base + at[i].data : NULL;
    }
    return 0;
}

/* arg: a hash. The blob is marked after the job. */
static int suspect_job(struct snp_tx *tx, void *arg, struct snp_err *err SNP_UNUSED)
{
    snp_blob_suspect(tx->store, arg);
    return 0;
}

/*
 * Append the head of the following bytes. Those of an image have none: its reader cannot parse
 * frames while it restores an image.
 */
static int put_head(struct snp_buf *head,
                    const struct checkpoint_row *row,
                    size_t n,
                    bool is_first,
                    struct snp_err *err)
{
    return row->item.kind == SNP_ITEM_IMAGE ? 0
           : is_first                       ? snp_stream_put_item(head, &row->item, n, err)
                                            : snp_stream_put_data(head, n, err);
}

/* Send the content of a file, as the first bytes of its item and frames of data. */
static int file_send(struct snp_transfer *t,
                     struct snp_blob_reader *reader,
                     const struct checkpoint_row *row,
                     struct snp_buf *head,
                     struct snp_err *err)
{
    bool is_first = true;
    int r = snp_blob_open(reader, row->hash, row->item.size, 0, err);

    while (r == 0) {
        const void *bytes = NULL;
        size_t n = 0;

        r = snp_blob_next(reader, &bytes, &n, err);
        if (r < 0 || (n == 0 && !is_first)) {
            break;
        }
        r = put_head(head, row, n, is_first, err);
        SNP_THEN(r, snp_transfer_write(t, head, bytes, n, err));
        is_first = false;
    }
    return r;
}

static int row_send(struct snp_transfer *t,
                    struct snp_blob_reader *reader,
                    struct checkpoint_row *row,
                    struct snp_buf *head,
                    struct snp_err *err)
{
    bool wants = row->item.kind == SNP_ITEM_VARS || row->item.kind == SNP_ITEM_FILE ||
                 row->item.kind == SNP_ITEM_IMAGE;
    size_t n = row->data == NULL ? 0 : (size_t)row->item.size;
    struct snp_err ignored;
    int r;

    if (wants &&
        (!row->has_blob || row->item.is_damaged ||
         (row->data != NULL && !snp_blob_is(t->store->place.seal, row->data, n, row->hash)))) {
        r = snp_fail(err, SNP_E_NOT_FOUND, "a blob of the checkpoint is damaged or missing");
    } else if (wants && row->data == NULL) {
        r = file_send(t, reader, row, head, err);
    } else {
        r = put_head(head, row, n, true, err);
        if (r == 0 && (n > 0 || head->len >= SNP_TRANSFER_READ)) {
            r = snp_transfer_write(t, head, row->data, n, err);
        }
    }
    if (r == SNP_E_NOT_FOUND && row->has_blob &&
        snp_store_call(t->store, suspect_job, row->hash, SNP_DURABILITY_PROCESS, &ignored) < 0) {
        snp_log(SNP_LOG_WARN, "journal-mark", "why=\"%s\"", ignored.msg);
    }
    return r;
}

/* An image replaces the part of the variables. */
static bool is_left_out(const struct snp_transfer *t, const struct checkpoint_row *row)
{
    return row->part == SNP_STREAM_VARS && (row->item.kind == SNP_ITEM_IMAGE) != t->wants_image;
}

static int part_send(struct snp_transfer *t,
                     struct page *page,
                     struct snp_blob_reader *reader,
                     struct snp_buf *head,
                     uint64_t *total,
                     struct snp_err *err)
{
    uint64_t items = 0;
    int r;

    page->after = 0;
    do {
        r = snp_store_call(t->store, page_job, page, SNP_DURABILITY_PROCESS, err);
        for (unsigned i = 0; r == 0 && i < page->n; i++) {
            (*total)++;
            if (*total == 1 && t->wants_image && is_left_out(t, &page->rows[i])) {
                return snp_fail(err, SNP_E_UNSUPPORTED,
                                "the sandbox ended before an image was saved, or the session was "
                                "imported");
            }
            if (!is_left_out(t, &page->rows[i])) {
                r = row_send(t, reader, &page->rows[i], head, err);
                items++;
            }
        }
    } while (r == 0 && page->n > 0);
    if (r == 0 && !(t->wants_image && page->part == SNP_STREAM_VARS)) {
        r = snp_stream_put_end(head, page->part, items, err);
    }
    SNP_THEN(r, snp_transfer_write(t, head, NULL, 0, err));
    return r;
}

static int parts_send(struct snp_transfer *t,
                      struct page *page,
                      struct snp_blob_reader *reader,
                      struct snp_buf *head,
                      struct snp_err *err)
{
    uint64_t total = 0;

    page->part = t->files_first ? SNP_STREAM_FILES : SNP_STREAM_VARS;
    SNP_TRY(part_send(t, page, reader, head, &total, err));
    page->part = t->files_first ? SNP_STREAM_VARS : SNP_STREAM_FILES;
    SNP_TRY(part_send(t, page, reader, head, &total, err));
    return total == t->report.items
               ? 0
               : snp_fail(err, SNP_E_NOT_FOUND, "checkpoint %llu is missing some of its items",
                          (unsigned long long)t->report.checkpoint);
}

int snp_transfer_load(struct snp_transfer *t, struct snp_err *err)
{
    snp_cleanup(snp_blob_reader_freep) struct snp_blob_reader *reader = NULL;
    snp_autofree struct page *page = calloc(1, sizeof(*page));
    snp_autobuf struct snp_buf head = {0};
    int r;

    SNP_TRY_MEMORY(page, err);
    snp_buf_init(&head, (size_t)SNP_TRANSFER_READ * 2);
    page->t = t;
    snp_buf_init(&page->texts, (size_t)PAGE_BYTES * 2);
    r = snp_store_call(t->store, load_begin, t, SNP_DURABILITY_PROCESS, err);
    SNP_THEN(r, snp_blob_reader_new(&t->store->place, &reader, err));
    SNP_THEN(r, parts_send(t, page, reader, &head, err));
    snp_transfer_idle(t);
    snp_buf_done(&page->texts);
    return r;
}
