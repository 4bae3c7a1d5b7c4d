/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/bundle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/wire/record.h"
#include "guest/files/tree.h"

enum {
    HEADER_LEN = 16,
    FLUSH_LEN = 256 << 10,
};

static const char *const kinds[] = {
    [SNP_BUNDLE_VARS] = "vars", [SNP_BUNDLE_FILE] = "file",         [SNP_BUNDLE_DIR] = "dir",
    [SNP_BUNDLE_LINK] = "link", [SNP_BUNDLE_WHITEOUT] = "whiteout", [SNP_BUNDLE_LOST] = "lost",
    [SNP_BUNDLE_KINDS] = NULL,
};

/* Members of heads; others are ignored. */
/* clang-format off */
#define META_FIELDS(F, S) \
    F(S, NUM,  mode,     OPT,  07777, 0, "") \
    F(S, NEG,  mtime_ns, OPT,  0, 0, "") \
    F(S, NUM,  length,   OPT,  0, 0, "") \
    F(S, STR,  linked,   OPT,  0, 0, "") \
    F(S, BOOL, opaque,   OPT,  0, 0, "") \
    F(S, STR,  target,   OPT,  0, 0, "") \
    F(S, STR,  type,     OPT,  0, 0, "") \
    F(S, STR,  reason,   OPT,  0, 0, "")
#define ITEM_FIELDS(F, S) \
    F(S, WORD, kind,     MUST, 0, kinds, "") \
    F(S, STR,  name,     MUST, 0, 0, "") \
    F(S, STR,  key,      MUST, SNP_BUNDLE_KEY_LEN, 0, "") \
    F(S, INT,  size,     MUST, 0, 0, "") \
    F(S, BOOL, same,     SAID, 0, 0, "") \
    F(S, OBJ,  meta,     OPT,  0, &snp_head_meta_form, "")
#define END_FIELDS(F, S) \
    F(S, STR,  part,     MUST, 0, 0, "") \
    F(S, INT,  items,    MUST, 0, 0, "")
#define HEADS(R)                                                       \
    R(snp_head_meta, "meta", META_FIELDS, .allow_more = true)          \
    R(snp_head_item, "item", ITEM_FIELDS, .allow_more = true)          \
    R(snp_head_end, "end", END_FIELDS, .allow_more = true)
HEADS(SNP_RECORD_DECLARE)
HEADS(SNP_RECORD_DEFINE)
/* clang-format on */

/* Paths ------------------------------------------------------------------------------------- */

/* Length of the character at text; 0 if invalid. */
static size_t char_len(const char *text, size_t n)
{
    unsigned char first = (unsigned char)text[0];
    size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    return len <= n && snp_utf8_valid(text, len) ? len : 0;
}

/* U+EF80 to U+EFFF, which represent bytes: EE BE 80 to EE BF BF. */
static bool is_escape(const char *text, size_t len)
{
    return len == 3 && (unsigned char)text[0] == 0xee && ((unsigned char)text[1] & 0xfeU) == 0xbe;
}

int snp_bundle_from_path(const char *path, char text[SNP_BUNDLE_NAME_LEN])
{
    size_t n = strlen(path);
    size_t out = 0;

    if (n >= SNP_BUNDLE_PATH_LEN) {
        return -1;
    }
    for (size_t at = 0; at < n;) {
        size_t len = char_len(path + at, n - at);

        if (len > 0 && !is_escape(path + at, len)) {
            memcpy(text + out, path + at, len);
            out += len;
            at += len;
        } else {
            unsigned char byte = (unsigned char)path[at++];

            text[out++] = (char)0xee;
            text[out++] = (char)(byte >= 0xc0 ? 0xbf : 0xbe);
            text[out++] = (char)(0x80U | (byte & 0x3fU));
        }
    }
    text[out] = '\0';
    return 0;
}

int snp_bundle_to_path(const char *text, char path[SNP_BUNDLE_PATH_LEN])
{
    char again[SNP_BUNDLE_NAME_LEN];
    size_t n = strlen(text);
    size_t out = 0;

    for (size_t at = 0; at < n;) {
        size_t len = char_len(text + at, n - at);

        if (len == 0 || out + len >= SNP_BUNDLE_PATH_LEN) {
            return -1;
        }
        if (is_escape(text + at, len)) {
            path[out++] = (char)(0x80U | ((unsigned char)text[at + 1] & 1U) << 6U |
                                 ((unsigned char)text[at + 2] & 0x3fU));
        } else {
            memcpy(path + out, text + at, len);
            out += len;
        }
        at += len;
    }
    path[out] = '\0';
    return snp_bundle_from_path(path, again) == 0 && strcmp(again, text) == 0 ? 0 : -1;
}

bool snp_bundle_is_path(const char *path)
{
    unsigned depth = 0;

    if (strlen(path) >= SNP_BUNDLE_PATH_LEN) {
        return false;
    }
    for (const char *at = path;; at++) {
        size_t n = strcspn(at, "/");
        if (n == 0 || n > 255 || (n == 1 && at[0] == '.') ||
            (n == 2 && at[0] == '.' && at[1] == '.') || ++depth > SNP_TREE_DEPTH_MAX + 1) {
            return false;
        }
        at += n;
        if (*at == '\0') {
            return true;
        }
    }
}

void snp_bundle_key(const uint64_t key[2], char text[33])
{
    (void)snprintf(text, 33, "%016llx%016llx", (unsigned long long)key[0],
                   (unsigned long long)key[1]);
}

/* Writing ----------------------------------------------------------------------------------- */

void snp_bundle_out_init(struct snp_bundle_out *out, int fd)
{
    *out = (struct snp_bundle_out){.fd = fd};
    snp_buf_init(&out->buf, (size_t)4 << 20);
}

void snp_bundle_out_done(struct snp_bundle_out *out)
{
    snp_buf_done(&out->buf);
}

static void out_fail(struct snp_bundle_out *out, int eno)
{
    out->eno = out->eno == 0 ? eno : out->eno;
}

static void flush(struct snp_bundle_out *out)
{
    while (out->eno == 0 && out->buf.len > 0) {
        ssize_t n = SNP_RETRY(write(out->fd, snp_buf_bytes(&out->buf), out->buf.len));
        if (n > 0) {
            snp_buf_consume(&out->buf, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = out->fd, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
        } else {
            out_fail(out, n < 0 ? errno : EIO);
        }
    }
}

static void put_frame(
    struct snp_bundle_out *out, uint8_t type, const char *head, const void *bytes, size_t n)
{
    char header[HEADER_LEN] = {0};
    size_t head_len = strlen(head);
    uint32_t lens[3] = {(uint32_t)(head_len + n), 0, (uint32_t)head_len};

    if (n > SNP_BUNDLE_RAW_MAX || head_len > SNP_BUNDLE_HEAD_MAX) {
        out_fail(out, EMSGSIZE);
        return;
    }
    memcpy(header, lens, sizeof(lens));
    header[12] = (char)type;
    if (snp_buf_add(&out->buf, header, sizeof(header)) < 0 ||
        snp_buf_add(&out->buf, head, head_len) < 0 ||
        (n > 0 && snp_buf_add(&out->buf, bytes, n) < 0)) {
        out_fail(out, ENOMEM);
    }
    if (out->buf.len >= FLUSH_LEN) {
        flush(out);
    }
}

/* head: taken. NULL = out of memory. */
static void put_headed(
    struct snp_bundle_out *out, uint8_t type, json_t *head, const void *bytes, size_t n)
{
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);

    json_decref(head);
    if (text == NULL) {
        out_fail(out, ENOMEM);
    } else {
        put_frame(out, type, text, bytes, n);
    }
}

void snp_bundle_put(struct snp_bundle_out *out,
                    const struct snp_bundle_item *item,
                    const void *bytes,
                    size_t n)
{
    const bool has_mode = item->kind == SNP_BUNDLE_FILE || item->kind == SNP_BUNDLE_DIR;
    const bool has_time = has_mode || item->kind == SNP_BUNDLE_LINK;
    const bool is_lost = item->kind == SNP_BUNDLE_LOST;
    const bool is_linked = item->linked != NULL && item->linked[0] != '\0';
    snp_autojson json_t *meta =
        SNP_WRITE(snp_head_meta, .mode = has_mode ? (int64_t)item->mode : SNP_NO_NUMBER,
                  .mtime_ns = has_time ? item->mtime_ns : SNP_NO_NUMBER,
                  .length = item->is_sparse ? (int64_t)item->length : SNP_NO_NUMBER,
                  .linked = is_linked ? item->linked : NULL, .opaque = item->is_opaque,
                  .target = item->kind == SNP_BUNDLE_LINK ? item->target : NULL,
                  .type = is_lost ? item->type : NULL, .reason = is_lost ? item->reason : NULL);

    out->items++;
    put_headed(out, SNP_BUNDLE_ITEM,
               meta == NULL ? NULL
                            : SNP_WRITE(snp_head_item, .kind = kinds[item->kind],
                                        .name = item->name, .key = item->key, .size = item->size,
                                        .same = item->is_same, .meta = meta),
               bytes, n);
}

void snp_bundle_put_data(struct snp_bundle_out *out, const void *bytes, size_t n)
{
    put_frame(out, SNP_BUNDLE_DATA, "", bytes, n);
}

int snp_bundle_finish(struct snp_bundle_out *out, const char *part)
{
    put_headed(out, SNP_BUNDLE_END, SNP_WRITE(snp_head_end, .part = part, .items = out->items),
               NULL, 0);
    flush(out);
    return out->eno;
}

/* Reading ----------------------------------------------------------------------------------- */

static bool is_key(const char *key)
{
    return key[strspn(key, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:._-")] ==
           '\0';
}

int snp_bundle_in_init(struct snp_bundle_in *in, int fd)
{
    *in =
        (struct snp_bundle_in){.fd = fd, .body = malloc(SNP_BUNDLE_HEAD_MAX + SNP_BUNDLE_RAW_MAX)};
    return in->body == NULL ? -1 : 0;
}

void snp_bundle_in_done(struct snp_bundle_in *in)
{
    json_decref(SNP_TAKE_PTR(in->head));
    free(SNP_TAKE_PTR(in->body));
}

static int read_whole(int fd, char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t got = SNP_RETRY(read(fd, bytes, n));
        if (got < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            (void)poll(&wait, 1, -1);
            continue;
        }
        if (got <= 0) {
            return got < 0 ? errno : EBADMSG;
        }
        bytes += got;
        n -= (size_t)got;
    }
    return 0;
}

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static int take_item(struct snp_bundle_in *in, struct snp_bundle_item *ret)
{
    struct snp_head_item item;
    struct snp_head_meta meta;

    if (snp_record_check(in->head, &snp_head_item_form, NULL) < 0) {
        return EBADMSG;
    }
    snp_record_read(in->head, &snp_head_item_form, &item);
    snp_record_read(item.meta, &snp_head_meta_form, &meta);
    if (in->left > 0 || in->items >= SNP_BUNDLE_ITEMS || item.name[0] == '\0' ||
        !is_key(item.key)) {
        return EBADMSG;
    }
    *ret = (struct snp_bundle_item){
        .kind = (enum snp_bundle_kind)snp_word_find(kinds, item.kind),
        .name = item.name,
        .key = item.key,
        .target = text_or_empty(meta.target),
        .linked = text_or_empty(meta.linked),
        .size = item.size,
        .length = meta.length == SNP_NO_NUMBER ? 0 : (uint64_t)meta.length,
        .mtime_ns = meta.mtime_ns == SNP_NO_NUMBER ? 0 : meta.mtime_ns,
        .mode = meta.mode == SNP_NO_NUMBER ? 0 : (uint32_t)meta.mode,
        .is_same = item.same,
        .is_opaque = meta.opaque,
        .is_sparse = meta.length != SNP_NO_NUMBER,
    };
    in->items++;
    in->left = item.same ? 0 : item.size;
    return 0;
}

static int take_end(struct snp_bundle_in *in, const char *part)
{
    struct snp_head_end end;

    in->is_at_end = true;
    if (snp_record_check(in->head, &snp_head_end_form, NULL) < 0) {
        return EBADMSG;
    }
    snp_record_read(in->head, &snp_head_end_form, &end);
    return in->left > 0 || strcmp(end.part, part) != 0 || end.items != in->items ? EBADMSG : 0;
}

int snp_bundle_next(struct snp_bundle_in *in, const char *part, struct snp_bundle_frame *ret)
{
    static const char zeros[3];
    char header[HEADER_LEN];
    uint32_t body_len;
    uint32_t head_len;
    int r = in->is_at_end ? EBADMSG : read_whole(in->fd, header, sizeof(header));

    if (r != 0) {
        return r;
    }
    memcpy(&body_len, header, 4);
    memcpy(&head_len, header + 8, 4);
    *ret = (struct snp_bundle_frame){.type = (uint8_t)header[12]};
    if (head_len > SNP_BUNDLE_HEAD_MAX || head_len > body_len ||
        body_len - head_len > SNP_BUNDLE_RAW_MAX || memcmp(header + 13, zeros, 3) != 0) {
        return EBADMSG;
    }
    r = read_whole(in->fd, in->body, body_len);
    if (r != 0) {
        return r;
    }
    ret->bytes = in->body + head_len;
    ret->n = body_len - head_len;
    json_decref(SNP_TAKE_PTR(in->head));
    if (ret->type == SNP_BUNDLE_DATA) {
        r = head_len > 0 || ret->n == 0 ? EBADMSG : 0;
    } else if (snp_json_parse(in->body, head_len, &in->head, NULL) < 0) {
        r = EBADMSG;
    } else if (ret->type == SNP_BUNDLE_ITEM) {
        r = take_item(in, &ret->item);
    } else {
        r = ret->type == SNP_BUNDLE_END ? take_end(in, part) : EBADMSG;
    }
    if (r == 0 && ret->n > in->left) {
        return EBADMSG;
    }
    in->left -= r == 0 ? ret->n : 0;
    return r;
}
