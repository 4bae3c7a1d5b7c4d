/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader gets pieces of any length and keeps only a head, never contents: bytes of an item are
 * passed to the sink from the input.
 *
 * Invariants: at most one item is open; left is the number of its missing bytes; n_gathered is
 * below the size of the frame's header and head, or raw_left bytes of the frame are still to be
 * passed on.
 */
#include "store/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    NAMES_FIRST = 1024, /* a power of two */
    KIND_SEED_LOST = 1,
    KIND_SEED_IMAGE = 2,
};

static const char *const kinds[SNP_ITEM_N] = {"vars",     "file", "dir",  "link",
                                              "whiteout", "lost", "image"};
static const char *const parts[] = {"vars", "files"};

int snp_stream_in_init(struct snp_stream_in *in,
                       const struct snp_stream_sink *sink,
                       uint64_t bytes_max,
                       struct snp_err *err)
{
    *in = (struct snp_stream_in){.sink = *sink, .bytes_max = bytes_max};
    in->names_max = NAMES_FIRST;
    in->names = calloc(in->names_max, sizeof(*in->names));
    in->gathered = malloc(SNP_STREAM_HEADER_LEN + SNP_STREAM_HEAD_MAX);
    if (in->names == NULL || in->gathered == NULL) {
        snp_stream_in_done(in);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    /* Without the seed, colliding names cannot be chosen. */
    if (getrandom(&in->seed, sizeof(in->seed), 0) != (ssize_t)sizeof(in->seed)) {
        in->seed = (uint64_t)(uintptr_t)in->gathered;
    }
    return 0;
}

void snp_stream_in_done(struct snp_stream_in *in)
{
    free(SNP_TAKE_PTR(in->names));
    free(SNP_TAKE_PTR(in->gathered));
}

/* Names --------------------------------------------------------------------------------- */

static bool names_put(uint64_t *names, size_t max, uint64_t hash)
{
    size_t at = (size_t)hash & (max - 1);

    while (names[at] != 0 && names[at] != hash) {
        at = (at + 1) & (max - 1);
    }
    if (names[at] == hash) {
        return false;
    }
    names[at] = hash;
    return true;
}

/*
 * Losses have a separate set of names: a variable may be saved in part. An image's names are
 * numbers.
 */
static int name_add(struct snp_stream_in *in,
                    const struct snp_stream_item *item,
                    struct snp_err *err)
{
    uint64_t seed = in->seed + (item->kind == SNP_ITEM_LOST    ? KIND_SEED_LOST
                                : item->kind == SNP_ITEM_IMAGE ? KIND_SEED_IMAGE
                                                               : 0);
    uint64_t hash = XXH3_64bits_withSeed(item->name, strlen(item->name), seed);

    hash = hash == 0 ? 1 : hash;
    if (in->n_names * 2 >= in->names_max) {
        uint64_t *more = calloc(in->names_max * 2, sizeof(*more));

        SNP_TRY_MEMORY(more, err);
        for (size_t i = 0; i < in->names_max; i++) {
            if (in->names[i] != 0) {
                (void)names_put(more, in->names_max * 2, in->names[i]);
            }
        }
        free(in->names);
        in->names = more;
        in->names_max *= 2;
    }
    if (!names_put(in->names, in->names_max, hash)) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint contains an item twice");
    }
    in->n_names++;
    return 0;
}

/* The path is below a folder. */
static bool is_path(const char *name)
{
    unsigned depth = 0;

    for (const char *at = name;; at++) {
        size_t n = strcspn(at, "/");

        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.') ||
            ++depth > SNP_STREAM_DEPTH_MAX) {
            return false;
        }
        at += n;
        if (*at == '\0') {
            return true;
        }
    }
}

static bool is_key(const char *key)
{
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:._-";
    size_t n = strspn(key, letters);

    return n <= SNP_STREAM_KEY_MAX && key[n] == '\0';
}

/* Heads --------------------------------------------------------------------------------- */

/* A member that must be a text without NUL. */
static const char *text_of(const json_t *head, const char *name)
{
    const json_t *value = json_object_get(head, name);
    const char *text = json_string_value(value);

    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool kind_of(const json_t *head, enum snp_stream_part part, enum snp_item_kind *ret)
{
    const char *name = text_of(head, "kind");

    for (int i = 0; name != NULL && i < SNP_ITEM_N; i++) {
        if (strcmp(name, kinds[i]) == 0) {
            *ret = (enum snp_item_kind)i;
            return i == SNP_ITEM_LOST ||
                   (i == SNP_ITEM_VARS || i == SNP_ITEM_IMAGE) == (part == SNP_STREAM_VARS);
        }
    }
    return false;
}

static bool has_content(enum snp_item_kind kind)
{
    return kind == SNP_ITEM_VARS || kind == SNP_ITEM_FILE || kind == SNP_ITEM_IMAGE;
}

static int item_check(const struct snp_stream_in *in,
                      const struct snp_stream_item *item,
                      struct snp_err *err)
{
    if (item->name[0] == '\0' || strlen(item->name) > SNP_STREAM_NAME_MAX ||
        (item->part == SNP_STREAM_FILES && !is_path(item->name))) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has an item with an invalid name");
    }
    if (!is_key(item->key) || (has_content(item->kind) && item->key[0] == '\0')) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has an item with an invalid key");
    }
    if (!has_content(item->kind) && (item->size != 0 || item->is_same)) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has a %s with content", kinds[item->kind]);
    }
    if (!json_is_object(item->meta)) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has an item without meta");
    }
    if (item->size > in->bytes_max - in->bytes) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the checkpoint is larger than %llu bytes; keep less in the session, "
                        "or raise its limits",
                        (unsigned long long)in->bytes_max);
    }
    return 0;
}

static int item_begin(struct snp_stream_in *in,
                      const json_t *head,
                      uint32_t n_raw,
                      struct snp_err *err)
{
    struct snp_stream_item item = {
        .part = in->part,
        .name = text_of(head, "name"),
        .key = text_of(head, "key"),
        .is_same = json_is_true(json_object_get(head, "same")),
        .meta = json_object_get(head, "meta"),
    };
    const json_t *size = json_object_get(head, "size");

    if (!kind_of(head, in->part, &item.kind) || !json_is_integer(size) ||
        json_integer_value(size) < 0 || item.name == NULL || item.key == NULL) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has an incomplete item");
    }
    item.size = (uint64_t)json_integer_value(size);
    if (in->items >= SNP_STREAM_ITEMS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the checkpoint has more than %d items",
                        SNP_STREAM_ITEMS_MAX);
    }
    SNP_TRY(item_check(in, &item, err));
    SNP_TRY(name_add(in, &item, err));
    in->items++;
    in->bytes += item.size;
    in->left = item.is_same ? 0 : item.size;
    if (n_raw > in->left) {
        return snp_fail(err, SNP_E_PEER,
                        "an item of the checkpoint is longer than its declared size");
    }
    in->has_item = true;
    return in->sink.item(in->sink.arg, &item, err);
}

static int part_end(struct snp_stream_in *in,
                    const json_t *head,
                    uint32_t n_raw,
                    struct snp_err *err)
{
    const char *part = text_of(head, "part");
    const json_t *items = json_object_get(head, "items");

    if (part == NULL || strcmp(part, parts[in->part]) != 0 || !json_is_integer(items) ||
        json_integer_value(items) != (json_int_t)in->items || n_raw != 0) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has an invalid end of a part");
    }
    in->part++;
    in->items = 0;
    in->n_names = 0;
    memset(in->names, 0, in->names_max * sizeof(*in->names));
    return 0;
}

/* End the item once it is complete, including one without contents. */
static int item_settle(struct snp_stream_in *in, struct snp_err *err)
{
    if (!in->has_item || in->left > 0) {
        return 0;
    }
    in->has_item = false;
    return in->sink.item_end(in->sink.arg, err);
}

/* Frames -------------------------------------------------------------------------------- */

static uint32_t u32_at(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int header_take(struct snp_stream_in *in, struct snp_err *err)
{
    const char *h = in->gathered;
    uint32_t body_len = u32_at(h);
    uint32_t head_len = u32_at(h + 8);
    uint8_t type = (uint8_t)h[12];

    if (type < SNP_STREAM_ITEM || type > SNP_STREAM_END || h[13] != 0 || h[14] != 0 || h[15] != 0 ||
        head_len > SNP_STREAM_HEAD_MAX || head_len > body_len ||
        body_len - head_len > SNP_STREAM_RAW_MAX) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint has an invalid frame");
    }
    in->head_len = head_len;
    in->raw_left = body_len - head_len;
    in->type = type;
    in->heads += head_len;
    if (in->heads > SNP_STREAM_HEADS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the checkpoint has more than %d bytes of heads",
                        SNP_STREAM_HEADS_MAX);
    }
    return 0;
}

static int head_take(struct snp_stream_in *in, struct snp_err *err)
{
    snp_autojson json_t *head = NULL;

    if (in->type == SNP_STREAM_DATA) {
        return in->head_len != 0 || in->raw_left == 0 || in->raw_left > in->left
                   ? snp_fail(err, SNP_E_PEER, "the checkpoint has data that belongs to no item")
                   : 0;
    }
    if (in->has_item) {
        return snp_fail(err, SNP_E_PEER,
                        "an item of the checkpoint is shorter than its declared size");
    }
    if (snp_json_parse(in->gathered + SNP_STREAM_HEADER_LEN, in->head_len, &head, err) < 0) {
        err->code = SNP_E_PEER;
        return snp_err_wrap(err, "a head of the checkpoint");
    }
    SNP_TRY(in->type == SNP_STREAM_ITEM ? item_begin(in, head, in->raw_left, err)
                                        : part_end(in, head, in->raw_left, err));
    return item_settle(in, err);
}

/* Collect header and head, which are needed complete: *ret_n bytes are taken. */
static int gather(
    struct snp_stream_in *in, const char *bytes, size_t n, size_t *ret_n, struct snp_err *err)
{
    bool has_header = in->n_gathered >= SNP_STREAM_HEADER_LEN;
    size_t need = SNP_STREAM_HEADER_LEN + (has_header ? in->head_len : 0);
    size_t step = need - in->n_gathered < n ? need - in->n_gathered : n;
    int r = 0;

    memcpy(in->gathered + in->n_gathered, bytes, step);
    in->n_gathered += step;
    *ret_n = step;
    if (in->n_gathered < need) {
        return 0;
    }
    if (!has_header) {
        r = header_take(in, err);
        if (r < 0 || in->head_len > 0) {
            return r;
        }
    }
    in->n_gathered = 0;
    return head_take(in, err);
}

static int pass(
    struct snp_stream_in *in, const char *bytes, size_t n, size_t *ret_n, struct snp_err *err)
{
    size_t step = n < in->raw_left ? n : in->raw_left;
    int r = in->sink.data(in->sink.arg, bytes, step, err);

    in->raw_left -= (uint32_t)step;
    in->left -= step;
    *ret_n = step;
    return r < 0 ? r : item_settle(in, err);
}

int snp_stream_feed(struct snp_stream_in *in, const void *bytes, size_t n, struct snp_err *err)
{
    const char *at = bytes;
    int r = 0;

    SNP_ASSERT(!in->is_broken);
    while (r == 0 && n > 0) {
        size_t step = 0;

        if (in->part == SNP_STREAM_OVER) {
            r = snp_fail(err, SNP_E_PEER, "the checkpoint continues after its end");
        } else if (in->n_gathered == 0 && in->raw_left > 0) {
            r = pass(in, at, n, &step, err);
        } else {
            r = gather(in, at, n, &step, err);
        }
        at += step;
        n -= step;
    }
    in->is_broken = r < 0;
    return r;
}

/* Writing ------------------------------------------------------------------------------- */

static int put_header(
    struct snp_buf *buf, uint8_t type, size_t n_head, size_t n_raw, struct snp_err *err)
{
    uint32_t body = (uint32_t)(n_head + n_raw);
    uint32_t head = (uint32_t)n_head;
    unsigned char h[SNP_STREAM_HEADER_LEN] = {0};

    for (unsigned i = 0; i < 4; i++) {
        h[i] = (unsigned char)(body >> (8 * i));
        h[8 + i] = (unsigned char)(head >> (8 * i));
    }
    h[12] = type;
    return snp_buf_add(buf, h, sizeof(h)) < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

int snp_stream_put_item(struct snp_buf *buf,
                        const struct snp_journal_item *item,
                        size_t n_raw,
                        struct snp_err *err)
{
    snp_autojson json_t *name = json_stringn(item->name.data, item->name.n);
    snp_autofree char *text = name == NULL ? NULL : json_dumps(name, JSON_ENCODE_ANY);
    snp_autobuf struct snp_buf head = {0};
    int r;

    if (text == NULL) {
        return snp_fail(err, SNP_E_INTERNAL, "the name of an item is not valid text");
    }
    snp_buf_init(&head, SNP_STREAM_HEAD_MAX);
    r = snp_buf_addf(&head,
                     "{\"kind\":\"%s\",\"name\":%s,\"key\":\"%s\",\"size\":%llu,"
                     "\"same\":false,\"meta\":",
                     kinds[item->kind], text, item->key, (unsigned long long)item->size);
    SNP_THEN(r, snp_buf_adds(&head, item->meta));
    SNP_THEN(r, snp_buf_adds(&head, "}"));
    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "an item's head is too large");
    }
    SNP_TRY(put_header(buf, SNP_STREAM_ITEM, head.len, n_raw, err));
    SNP_TRY_MEMORY(snp_buf_add(buf, snp_buf_bytes(&head), head.len) >= 0, err);
    return 0;
}

int snp_stream_put_data(struct snp_buf *buf, size_t n_raw, struct snp_err *err)
{
    return put_header(buf, SNP_STREAM_DATA, 0, n_raw, err);
}

int snp_stream_put_end(struct snp_buf *buf,
                       enum snp_stream_part part,
                       uint64_t items,
                       struct snp_err *err)
{
    snp_autobuf struct snp_buf head = {0};

    snp_buf_init(&head, SNP_STREAM_HEAD_MAX);
    SNP_TRY(snp_buf_addf(&head, "{\"part\":\"%s\",\"items\":%llu}", parts[part],
                         (unsigned long long)items));
    SNP_TRY(put_header(buf, SNP_STREAM_END, head.len, 0, err));
    SNP_TRY_MEMORY(snp_buf_add(buf, snp_buf_bytes(&head), head.len) >= 0, err);
    return 0;
}
