/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing checkpoints by their items.
 *
 * Variables that share objects are one item, so a change of one of them is a change of all. Names,
 * types and metadata are the sandbox's claims: they are only compared and passed on.
 */
#include "daemon/snapshot/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/wire/snapshot.h"
#include "store/journal.h"

enum {
    KEY_MAX = 64,
    TYPE_MAX = 200,
    ROWS_MAX = 20000,
    ROWS_BYTES_MAX = 3 << 20, /* all names, types and targets: an answer's head has 4 MiB */
    ROW_BYTES = 200,          /* the rest of a row */
    GROW = 256,
};

/* A variable or a file of one checkpoint. */
struct compared_item {
    char *name; /* owned, name_len bytes and a NUL */
    size_t name_len;
    enum snp_item_kind kind;
    char key[KEY_MAX + 1];
    char hash[SNP_STORE_HASH_LEN + 1]; /* "" = no content */
    char *detail;                      /* owned: a variable's type, a link's target; or NULL */
    uint64_t size;
    unsigned mode;
    bool is_opaque; /* a folder that hides the project's content */
};

struct compared_side {
    struct compared_item *entries; /* owned */
    size_t n;
    size_t room;
};

struct sides {
    struct compared_side variables;
    struct compared_side files;
};

static void side_done(struct compared_side *side)
{
    for (size_t i = 0; i < side->n; i++) {
        free(side->entries[i].name);
        free(side->entries[i].detail);
    }
    free(side->entries);
}

static void sides_done(struct sides *sides)
{
    side_done(&sides->variables);
    side_done(&sides->files);
}

/* Add an item, zeroed except for its name; NULL when out of memory. */
static struct compared_item *side_add(struct compared_side *side, const void *name, size_t n)
{
    struct compared_item *entry;

    if (side->n == side->room) {
        size_t room = side->room == 0 ? GROW : side->room * 2;
        struct compared_item *grown = reallocarray(side->entries, room, sizeof(*grown));

        if (grown == NULL) {
            return NULL;
        }
        side->entries = grown;
        side->room = room;
    }
    entry = &side->entries[side->n];
    *entry = (struct compared_item){.name = strndup(name, n), .name_len = n};
    if (entry->name == NULL) {
        return NULL;
    }
    side->n++;
    return entry;
}

/* Reading ------------------------------------------------------------------------------------ */

/* ":interpreter" and similar names are no variables. */
static int variables_read(struct compared_side *side,
                          const struct snp_journal_item *item,
                          const json_t *meta,
                          struct snp_err *err)
{
    json_t *names = json_object_get(meta, "names");
    const char *name;
    json_t *type;

    json_object_foreach(names, name, type)
    {
        struct compared_item *entry = side_add(side, name, strlen(name));

        SNP_TRY_MEMORY(entry, err);
        entry->kind = SNP_ITEM_VARS;
        (void)snprintf(entry->key, sizeof(entry->key), "%s", item->key == NULL ? "" : item->key);
        (void)snprintf(entry->hash, sizeof(entry->hash), "%s",
                       item->hash == NULL ? "" : item->hash);
        entry->detail = strndup(json_is_string(type) ? json_string_value(type) : "?", TYPE_MAX);
        SNP_TRY_MEMORY(entry->detail, err);
    }
    return 0;
}

static int file_read(struct compared_side *side,
                     const struct snp_journal_item *item,
                     const json_t *meta,
                     struct snp_err *err)
{
    struct compared_item *entry = side_add(side, item->name.data, item->name.n);
    const char *target = snp_json_str(meta, "target", NULL);

    SNP_TRY_MEMORY(entry, err);
    entry->kind = item->kind;
    entry->size = (uint64_t)snp_json_int(meta, "length", (int64_t)item->size);
    entry->mode = (unsigned)snp_json_int(meta, "mode", 0) & 07777U;
    entry->is_opaque = snp_json_bool(meta, "opaque", false);
    (void)snprintf(entry->key, sizeof(entry->key), "%s", item->key == NULL ? "" : item->key);
    (void)snprintf(entry->hash, sizeof(entry->hash), "%s", item->hash == NULL ? "" : item->hash);
    if (item->kind == SNP_ITEM_LINK && target != NULL) {
        entry->detail = strdup(target);
        SNP_TRY_MEMORY(entry->detail, err);
    }
    return 0;
}

static int item_read(const struct snp_journal_item *item, void *arg, struct snp_err *err)
{
    struct sides *sides = arg;
    snp_autojson json_t *meta = NULL;

    if (item->kind == SNP_ITEM_LOST || item->kind == SNP_ITEM_IMAGE) {
        return 0;
    }
    if (item->meta != NULL && snp_json_parse(item->meta, strlen(item->meta), &meta, err) < 0) {
        return err->code;
    }
    return item->kind == SNP_ITEM_VARS ? variables_read(&sides->variables, item, meta, err)
                                       : file_read(&sides->files, item, meta, err);
}

static int entry_order(const void *a, const void *b)
{
    const struct compared_item *x = a;
    const struct compared_item *y = b;
    size_t least = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, least);

    return order != 0 ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static void side_sort(struct compared_side *side)
{
    if (side->n > 1) {
        qsort(side->entries, side->n, sizeof(*side->entries), entry_order);
    }
}

static int sides_read(struct snp_tx *tx,
                      uint64_t checkpoint,
                      struct sides *sides,
                      struct snp_err *err)
{
    int r = checkpoint == 0 ? 0 : snp_journal_item_each(tx, checkpoint, item_read, sides, err);

    side_sort(&sides->variables);
    side_sort(&sides->files);
    return r;
}

/* Comparing ---------------------------------------------------------------------------------- */

struct rows {
    json_t *list; /* borrowed */
    size_t bytes; /* of all rows so far, about; shared */
    bool is_truncated;
};

typedef json_t *row_fn(const char *change,
                       const struct compared_item *a,
                       const struct compared_item *b);

static const char *const kind_names[SNP_ITEM_N] = {
    [SNP_ITEM_FILE] = "file",
    [SNP_ITEM_DIR] = "dir",
    [SNP_ITEM_LINK] = "link",
    [SNP_ITEM_WHITEOUT] = "deleted",
};

static const char *detail_of(const struct compared_item *entry)
{
    return entry == NULL ? NULL : entry->detail;
}

static json_t *variable_row(const char *change,
                            const struct compared_item *a,
                            const struct compared_item *b)
{
    const struct compared_item *any = a != NULL ? a : b;

    snp_autojson json_t *name = snp_json_bytes(any->name, any->name_len);

    return SNP_WRITE(snp_diff_variable, .name = name, .change = change, .type_a = detail_of(a),
                     .type_b = detail_of(b));
}

/*
 * The bytes of a path. In a bundle, bytes that are not UTF-8 are characters U+EF80 to U+EFFF, one
 * per byte from 0x80. Caller frees; *ret_len: their number.
 */
static char *path_bytes(const struct compared_item *entry, size_t *ret_len)
{
    const unsigned char *name = (const unsigned char *)entry->name;
    char *bytes = calloc(entry->name_len + 1, 1);
    size_t n = 0;

    for (size_t i = 0; bytes != NULL && i < entry->name_len; i++) {
        /* U+EF80 is ee be 80, U+EFFF is ee bf bf. */
        if (i + 2 < entry->name_len && name[i] == 0xee && (name[i + 1] & 0xfeU) == 0xbe) {
            bytes[n++] = (char)(0x80U | (name[i + 1] & 1U) << 6U | (name[i + 2] & 0x3fU));
            i += 2;
        } else {
            bytes[n++] = (char)name[i];
        }
    }
    *ret_len = n;
    return bytes;
}

/* The caller frees. */
static char *hex_of(const char *bytes, size_t n)
{
    char *hex = calloc(2 * n + 1, 1);

    if (hex != NULL) {
        snp_hex(bytes, n, hex);
    }
    return hex;
}

static const char *hash_of(const struct compared_item *entry)
{
    return entry == NULL || entry->hash[0] == '\0' ? NULL : entry->hash;
}

static json_t *target_of(const struct compared_item *entry)
{
    return entry == NULL || entry->detail == NULL
               ? NULL
               : snp_json_bytes(entry->detail, strlen(entry->detail));
}

/* A path that is not UTF-8 is also in `path_hex`, without loss. */
static json_t *file_row(const char *change,
                        const struct compared_item *a,
                        const struct compared_item *b)
{
    size_t n = 0;
    snp_autofree char *bytes = path_bytes(a != NULL ? a : b, &n);
    bool is_odd = bytes != NULL && !snp_utf8_valid(bytes, n);
    snp_autofree char *hex = is_odd ? hex_of(bytes, n) : NULL;
    snp_autojson json_t *path = bytes == NULL ? NULL : snp_json_bytes(bytes, n);
    snp_autojson json_t *target_a = target_of(a);
    snp_autojson json_t *target_b = target_of(b);

    if (is_odd && hex == NULL) {
        return NULL;
    }
    return SNP_WRITE(snp_diff_file, .change = change, .path = path, .path_hex = hex,
                     .a = hash_of(a), .type_a = a == NULL ? NULL : kind_names[a->kind],
                     .size_a = a == NULL ? SNP_NO_NUMBER : (int64_t)a->size,
                     .mode_a = a == NULL ? SNP_NO_NUMBER : (int64_t)a->mode, .target_a = target_a,
                     .b = hash_of(b), .type_b = b == NULL ? NULL : kind_names[b->kind],
                     .size_b = b == NULL ? SNP_NO_NUMBER : (int64_t)b->size,
                     .mode_b = b == NULL ? SNP_NO_NUMBER : (int64_t)b->mode, .target_b = target_b,
                     .opaque_b = b != NULL && b->is_opaque);
}

/* Keys are claims of one sandbox and cannot be compared between two; hashes are the store's. */
static bool is_same(const struct compared_item *a, const struct compared_item *b)
{
    bool has_hashes = a->hash[0] != '\0' && b->hash[0] != '\0';

    return a->kind == b->kind && a->mode == b->mode && snp_streq(a->detail, b->detail) &&
           (has_hashes ? strcmp(a->hash, b->hash) == 0 : strcmp(a->key, b->key) == 0);
}

static int row_add(struct rows *rows,
                   row_fn *make,
                   const struct compared_item *a,
                   const struct compared_item *b,
                   struct snp_err *err)
{
    const char *change = a == NULL ? "added" : b == NULL ? "removed" : "changed";
    const struct compared_item *any = a != NULL ? a : b;

    SNP_ASSERT(any != NULL);

    rows->bytes += ROW_BYTES + any->name_len * 3 +
                   (a == NULL || a->detail == NULL ? 0 : strlen(a->detail)) +
                   (b == NULL || b->detail == NULL ? 0 : strlen(b->detail));
    if (rows->bytes > ROWS_BYTES_MAX || json_array_size(rows->list) >= ROWS_MAX) {
        rows->is_truncated = true;
        return 0;
    }
    return json_array_append_new(rows->list, make(change, a, b)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

/* Both are sorted, so one pass is enough. */
static int sides_merge(struct rows *rows,
                       row_fn *make,
                       const struct compared_side *a,
                       const struct compared_side *b,
                       struct snp_err *err)
{
    size_t i = 0;
    size_t j = 0;
    int r = 0;

    while (r == 0 && (i < a->n || j < b->n)) {
        const struct compared_item *x = i < a->n ? &a->entries[i] : NULL;
        const struct compared_item *y = j < b->n ? &b->entries[j] : NULL;
        int order = x == NULL ? 1 : y == NULL ? -1 : entry_order(x, y);

        i += order <= 0 ? 1 : 0;
        j += order >= 0 ? 1 : 0;
        if (order != 0) {
            r = row_add(rows, make, order < 0 ? x : NULL, order < 0 ? NULL : y, err);
        } else if (!is_same(x, y)) {
            r = row_add(rows, make, x, y, err);
        }
    }
    return r;
}

int snp_compare(
    struct snp_tx *tx, uint64_t a, uint64_t b, struct snp_diff_answer *ret, struct snp_err *err)
{
    struct sides left = {0};
    struct sides right = {0};
    struct rows rows = {0};
    snp_autojson json_t *variables = json_array();
    snp_autojson json_t *files = json_array();
    int r = sides_read(tx, a, &left, err);

    SNP_THEN(r, sides_read(tx, b, &right, err));
    if (r == 0) {
        rows.list = variables;
        r = sides_merge(&rows, variable_row, &left.variables, &right.variables, err);
    }
    if (r == 0) {
        rows.list = files;
        r = sides_merge(&rows, file_row, &left.files, &right.files, err);
    }
    sides_done(&left);
    sides_done(&right);
    SNP_TRY(r);
    ret->variables = SNP_TAKE_PTR(variables);
    ret->files = SNP_TAKE_PTR(files);
    ret->truncated = rows.is_truncated;
    return 0;
}
