/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of a checkpoint as the store reads it, arriving in pieces: what comes from inside of a
 * sandbox. An item that is told has a name, a key and a size that keep the rules, and exactly
 * the bytes it announced; a stream that came to its end, written again, is read alike.
 *
 * Input: a byte for the length of the pieces, then the stream.
 */
#include <string.h>

#include "base/str.h"
#include "fuzz/target.h"
#include "store/stream.h"

enum {
    BYTES_MAX = 1 << 20,
    AGAIN_MAX = 8 << 20,
};

struct world {
    bool has_item;
    uint64_t left;
    uint64_t told;  /* bytes of contents, of those that are `same` too */
    uint64_t bytes; /* of those that come */
    uint64_t items; /* of the part at hand */
    uint64_t all;
    enum snp_stream_part part;
    struct snp_buf *again; /* NULL: this is the second reading */
};

static void end_parts(struct world *w, enum snp_stream_part until)
{
    struct snp_err err;

    for (; w->part < until; w->part++) {
        if (w->again != NULL) {
            SNP_ASSERT(snp_stream_put_end(w->again, w->part, w->items, &err) == 0);
        }
        w->items = 0;
    }
}

static void check_name(const struct snp_stream_item *item)
{
    SNP_ASSERT(item->name[0] != '\0' && strlen(item->name) <= SNP_STREAM_NAME_MAX);
    SNP_ASSERT(snp_utf8_valid(item->name, strlen(item->name)));
    if (item->part == SNP_STREAM_FILES) {
        SNP_ASSERT(item->name[0] != '/' && strcmp(item->name, "..") != 0);
        SNP_ASSERT(strstr(item->name, "/../") == NULL && strstr(item->name, "//") == NULL);
        SNP_ASSERT(!snp_has_prefix(item->name, "../") && !snp_has_suffix(item->name, "/.."));
    }
}

static int on_item(void *arg, const struct snp_stream_item *item, struct snp_err *err)
{
    struct world *w = arg;
    bool has_content = item->kind == SNP_ITEM_VARS || item->kind == SNP_ITEM_FILE;
    snp_autofree char *meta = snp_json_text(item->meta);

    SNP_ASSERT(!w->has_item && w->left == 0 && meta != NULL);
    SNP_ASSERT(item->kind == SNP_ITEM_LOST ||
               (item->kind == SNP_ITEM_VARS) == (item->part == SNP_STREAM_VARS));
    check_name(item);
    SNP_ASSERT(strlen(item->key) <= SNP_STREAM_KEY_MAX && strpbrk(item->key, "/ \n") == NULL);
    SNP_ASSERT(has_content ? item->key[0] != '\0' : item->size == 0 && !item->is_same);
    SNP_ASSERT(item->size <= BYTES_MAX - w->told);
    end_parts(w, item->part);
    w->has_item = true;
    w->items++;
    w->all++;
    w->told += item->size;
    w->left = item->is_same ? 0 : item->size;
    w->bytes += w->left;
    if (w->again != NULL) {
        struct snp_journal_item row = {.kind = item->kind,
                                       .name = {item->name, strlen(item->name)},
                                       .key = item->key,
                                       .size = w->left,
                                       .meta = meta};
        int r = snp_stream_put_item(w->again, &row, 0, err);

        SNP_ASSERT(r == 0 || r == SNP_E_LIMIT); /* escaped anew it may be longer */
        return r;
    }
    return 0;
}

static int on_data(void *arg, const void *bytes, size_t n, struct snp_err *err)
{
    struct world *w = arg;

    SNP_ASSERT(w->has_item && n > 0 && n <= w->left && bytes != NULL);
    w->left -= n;
    if (w->again == NULL) {
        return 0;
    }
    SNP_TRY(snp_stream_put_data(w->again, n, err));
    SNP_TRY_MEMORY(snp_buf_add(w->again, bytes, n) >= 0, err);
    return 0;
}

static int on_item_end(void *arg, struct snp_err *err SNP_UNUSED)
{
    struct world *w = arg;

    SNP_ASSERT(w->has_item);
    w->has_item = false;
    return 0;
}

static int feed(struct snp_stream_in *in, const char *bytes, size_t n, size_t piece)
{
    struct snp_err err = {0};
    int r = 0;

    for (size_t at = 0; r == 0 && at < n; at += piece) {
        r = snp_stream_feed(in, bytes + at, n - at < piece ? n - at : piece, &err);
        SNP_ASSERT(r == 0 || (r == (int)err.code && err.msg[0] != '\0'));
    }
    return r;
}

/* The same items, by number and by size. */
static void read_again(const struct world *first, struct snp_buf *bytes)
{
    struct world w = {0};
    const struct snp_stream_sink sink = {
        .item = on_item, .data = on_data, .item_end = on_item_end, .arg = &w};
    struct snp_stream_in in;
    struct snp_err err;

    SNP_ASSERT(snp_stream_in_init(&in, &sink, BYTES_MAX, &err) == 0);
    SNP_ASSERT(feed(&in, snp_buf_bytes(bytes), bytes->len, bytes->len) == 0);
    SNP_ASSERT(snp_stream_is_over(&in) && w.bytes == first->bytes && w.all == first->all);
    snp_stream_in_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    snp_autobuf struct snp_buf again = {0};
    struct world w = {.again = &again};
    const struct snp_stream_sink sink = {
        .item = on_item, .data = on_data, .item_end = on_item_end, .arg = &w};
    struct snp_stream_in in;
    struct snp_err err;

    if (n == 0) {
        return 0;
    }
    snp_buf_init(&again, AGAIN_MAX);
    SNP_ASSERT(snp_stream_in_init(&in, &sink, BYTES_MAX, &err) == 0);
    if (feed(&in, (const char *)bytes + 1, n - 1, 1 + (bytes[0] & 0x7fU) * 5) == 0 &&
        snp_stream_is_over(&in)) {
        SNP_ASSERT(!w.has_item && w.left == 0);
        end_parts(&w, SNP_STREAM_OVER);
        read_again(&w, &again);
    }
    snp_stream_in_done(&in);
    return 0;
}
