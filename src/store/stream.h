/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_STREAM_H
#define SNP_STORE_STREAM_H

/*
 * The stream of a checkpoint (docs/wire.md, bundle), as read and written by the store: bytes to
 * items and back. The input comes from inside a sandbox: each length, name, number and order is
 * checked here, and the first violation ends the stream.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "store/rows.h"

enum {
    SNP_STREAM_ITEMS_MAX = 200000,
    SNP_STREAM_ITEM = 80,
    SNP_STREAM_DATA = 81,
    SNP_STREAM_END = 82,
    SNP_STREAM_HEADER_LEN = 16,
    SNP_STREAM_HEAD_MAX = 64 << 10,
    SNP_STREAM_RAW_MAX = 1 << 20,    /* of one frame */
    SNP_STREAM_HEADS_MAX = 64 << 20, /* bytes of all heads together */
    SNP_STREAM_KEY_MAX = 64,
    SNP_STREAM_NAME_MAX = 12 << 10, /* bytes */
    SNP_STREAM_DEPTH_MAX = 80,      /* folders in a path */
};

enum snp_stream_part {
    SNP_STREAM_VARS = 0,
    SNP_STREAM_FILES,
    SNP_STREAM_OVER, /* both have ended */
};

/* An item as its head describes it. Borrowed. */
struct snp_stream_item {
    enum snp_stream_part part;
    enum snp_item_kind kind;
    const char *name;
    const char *key; /* "" = none */
    uint64_t size;
    bool is_same;
    const json_t *meta; /* an object */
};

/* The receiver; a negative result ends the stream with *err. */
struct snp_stream_sink {
    int (*item)(void *arg, const struct snp_stream_item *item, struct snp_err *err);
    int (*data)(void *arg, const void *bytes, size_t n, struct snp_err *err);
    int (*item_end)(void *arg, struct snp_err *err); /* all of its data has arrived */
    void *arg;
};

struct snp_stream_in {
    struct snp_stream_sink sink;
    uint64_t bytes_max; /* of all contents */
    bool is_broken;     /* reading has ended */
    enum snp_stream_part part;
    uint64_t items; /* of this part */
    uint64_t bytes; /* of contents announced so far, including those that are `same` */
    uint64_t heads; /* bytes */
    bool has_item;  /* one is open */
    uint64_t left;  /* its missing bytes */
    /* The current frame. */
    char *gathered;    /* owned; header, then head */
    size_t n_gathered; /* of SNP_STREAM_HEADER_LEN, or + head_len */
    uint32_t head_len;
    uint32_t raw_left;
    uint8_t type;
    /* Names of this part, to refuse duplicates. */
    uint64_t *names; /* owned; open addressing; 0 = free */
    size_t names_max;
    size_t n_names;
    uint64_t seed;
};

/* SNP_E_NOMEM. bytes_max: as in the struct. */
int snp_stream_in_init(struct snp_stream_in *in,
                       const struct snp_stream_sink *sink,
                       uint64_t bytes_max,
                       struct snp_err *err) SNP_NODISCARD;
void snp_stream_in_done(struct snp_stream_in *in);
/*
 * Feed the next bytes, in pieces of any length. SNP_E_PEER: they break a rule; SNP_E_LIMIT: too
 * many items or bytes; or the sink's error. Then nothing more may be fed. Bytes after the end of
 * the second part break a rule.
 */
int snp_stream_feed(struct snp_stream_in *in, const void *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;
static inline bool snp_stream_is_over(const struct snp_stream_in *in)
{
    return in->part == SNP_STREAM_OVER;
}

/* Append the frame of an item; the caller writes the item's first n_raw bytes after it. */
int snp_stream_put_item(struct snp_buf *buf,
                        const struct snp_journal_item *item,
                        size_t n_raw,
                        struct snp_err *err) SNP_NODISCARD;
int snp_stream_put_data(struct snp_buf *buf, size_t n_raw, struct snp_err *err) SNP_NODISCARD;
int snp_stream_put_end(struct snp_buf *buf,
                       enum snp_stream_part part,
                       uint64_t items,
                       struct snp_err *err) SNP_NODISCARD;

#endif
