/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads are JSON, of which only what a bundle needs is understood: one object whose values are
 * texts, whole numbers, true, false, null, or such an object once more. Texts are decoded in
 * place, because they only become shorter.
 */
#include "guest/files/bundle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/files/tree.h"

enum {
    HEADER_LEN = 16,
    FLUSH_LEN = 256 << 10,
    NESTING_MAX = 4,
    FIRST_ESCAPE = 0xef80, /* stands for byte 0x80 */
    LAST_ESCAPE = 0xefff,
};

static const char *const kinds[SNP_BUNDLE_KINDS] = {
    [SNP_BUNDLE_VARS] = "vars", [SNP_BUNDLE_FILE] = "file",         [SNP_BUNDLE_DIR] = "dir",
    [SNP_BUNDLE_LINK] = "link", [SNP_BUNDLE_WHITEOUT] = "whiteout", [SNP_BUNDLE_LOST] = "lost",
};

/* Paths ------------------------------------------------------------------------------------- */

/* Bytes of the character that begins with this one; 0 if none does. */
static size_t utf8_len(unsigned char first)
{
    static const struct {
        unsigned char below;
        unsigned char len;
    } rows[] = {
        {0x80, 1},
        {0xc2, 0},
        {0xe0, 2},
        {0xf0, 3},
        {0xf5, 4},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (first < rows[i].below) {
            return rows[i].len;
        }
    }
    return 0;
}

/* The character at text and its length; 0 if it is not UTF-8. */
static size_t decode_utf8(const char *text, size_t n, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t len = n == 0 ? 0 : utf8_len(s[0]);
    uint32_t c;

    if (len == 0 || len > n) {
        return 0;
    }
    c = len == 1 ? s[0] : s[0] & (0x7fU >> len);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0U) != 0x80) {
            return 0;
        }
        c = c << 6U | (s[i] & 0x3fU);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 0;
    }
    *ret = c;
    return len;
}

static size_t encode_utf8(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0U | c >> 6U);
        to[1] = (char)(0x80U | (c & 0x3fU));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0U | c >> 12U);
        to[1] = (char)(0x80U | (c >> 6U & 0x3fU));
        to[2] = (char)(0x80U | (c & 0x3fU));
        return 3;
    }
    to[0] = (char)(0xf0U | c >> 18U);
    to[1] = (char)(0x80U | (c >> 12U & 0x3fU));
    to[2] = (char)(0x80U | (c >> 6U & 0x3fU));
    to[3] = (char)(0x80U | (c & 0x3fU));
    return 4;
}

static bool is_escape(uint32_t c)
{
    return c >= FIRST_ESCAPE && c <= LAST_ESCAPE;
}

int snp_bundle_from_path(const char *path, char text[SNP_BUNDLE_NAME_LEN])
{
    size_t n = strlen(path);
    size_t out = 0;

    if (n >= SNP_BUNDLE_PATH_LEN) {
        return -1;
    }
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t len = decode_utf8(path + at, n - at, &c);
        if (len > 0 && !is_escape(c)) {
            memcpy(text + out, path + at, len);
            out += len;
            at += len;
        } else {
            out += encode_utf8(FIRST_ESCAPE + (unsigned char)path[at] - 0x80U, text + out);
            at++;
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
        uint32_t c;
        size_t len = decode_utf8(text + at, n - at, &c);
        if (len == 0 || out + len >= SNP_BUNDLE_PATH_LEN) {
            return -1;
        }
        if (is_escape(c)) {
            path[out++] = (char)(c - FIRST_ESCAPE + 0x80U);
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

static void put_frame(struct snp_bundle_out *out,
                      uint8_t type,
                      const struct snp_buf *head,
                      const void *bytes,
                      size_t n)
{
    char header[HEADER_LEN] = {0};
    uint32_t head_len = head == NULL ? 0 : (uint32_t)head->len;
    uint32_t body_len = head_len + (uint32_t)n;

    if (n > SNP_BUNDLE_RAW_MAX || head_len > SNP_BUNDLE_HEAD_MAX) {
        out_fail(out, EMSGSIZE);
        return;
    }
    memcpy(header, &body_len, 4);
    memcpy(header + 8, &head_len, 4);
    header[12] = (char)type;
    if (snp_buf_add(&out->buf, header, sizeof(header)) < 0 ||
        (head_len > 0 && snp_buf_add(&out->buf, snp_buf_bytes(head), head_len) < 0) ||
        (n > 0 && snp_buf_add(&out->buf, bytes, n) < 0)) {
        out_fail(out, ENOMEM);
    }
    if (out->buf.len >= FLUSH_LEN) {
        flush(out);
    }
}

/* A text in quotes; what is not UTF-8 cannot be in it (from_path has seen to that). */
static int add_text(struct snp_buf *head, const char *name, const char *text)
{
    int r = snp_buf_addf(head, "%s\"%s\":\"", head->len > 1 ? "," : "", name);

    for (const char *at = text; r == 0 && *at != '\0';) {
        size_t n = 0;
        while ((unsigned char)at[n] >= 0x20 && at[n] != '"' && at[n] != '\\') {
            n++;
        }
        r = n > 0 ? snp_buf_add(head, at, n)
                  : snp_buf_addf(head, "\\u%04x", (unsigned)(unsigned char)at[0]);
        at += n > 0 ? n : 1;
    }
    return r < 0 ? r : snp_buf_add(head, "\"", 1);
}

static int add_meta(struct snp_buf *head, const struct snp_bundle_item *item)
{
    snp_autobuf struct snp_buf meta = {0};
    int r;

    snp_buf_init(&meta, SNP_BUNDLE_HEAD_MAX);
    r = snp_buf_add(&meta, "{", 1);
    if (r == 0 && (item->kind == SNP_BUNDLE_FILE || item->kind == SNP_BUNDLE_DIR)) {
        r = snp_buf_addf(&meta, "\"mode\":%u", item->mode);
    }
    if (r == 0 && (item->kind == SNP_BUNDLE_FILE || item->kind == SNP_BUNDLE_DIR ||
                   item->kind == SNP_BUNDLE_LINK)) {
        r = snp_buf_addf(&meta, "%s\"mtime_ns\":%lld", meta.len > 1 ? "," : "",
                         (long long)item->mtime_ns);
    }
    if (r == 0 && item->is_sparse) {
        r = snp_buf_addf(&meta, ",\"length\":%llu", (unsigned long long)item->length);
    }
    if (r == 0 && item->linked != NULL && item->linked[0] != '\0') {
        r = add_text(&meta, "linked", item->linked);
    }
    if (r == 0 && item->is_opaque) {
        r = snp_buf_adds(&meta, ",\"opaque\":true");
    }
    if (r == 0 && item->kind == SNP_BUNDLE_LINK) {
        r = add_text(&meta, "target", item->target);
    }
    if (r == 0 && item->kind == SNP_BUNDLE_LOST) {
        r = add_text(&meta, "type", item->type);
        r = r < 0 ? r : add_text(&meta, "reason", item->reason);
    }
    r = r < 0 ? r : snp_buf_addf(head, ",\"meta\":%.*s}", (int)meta.len, snp_buf_bytes(&meta));
    return r;
}

void snp_bundle_put(struct snp_bundle_out *out,
                    const struct snp_bundle_item *item,
                    const void *bytes,
                    size_t n)
{
    snp_autobuf struct snp_buf head = {0};
    int r;

    snp_buf_init(&head, SNP_BUNDLE_HEAD_MAX);
    r = snp_buf_adds(&head, "{");
    r = r < 0 ? r : add_text(&head, "kind", kinds[item->kind]);
    r = r < 0 ? r : add_text(&head, "name", item->name);
    r = r < 0 ? r : add_text(&head, "key", item->key);
    r = r < 0 ? r
              : snp_buf_addf(&head, ",\"size\":%llu,\"same\":%s",
                             (unsigned long long)item->size, item->is_same ? "true" : "false");
    r = r < 0 ? r : add_meta(&head, item);
    r = r < 0 ? r : snp_buf_add(&head, "}", 1);
    if (r < 0) {
        out_fail(out, EMSGSIZE);
        return;
    }
    out->items++;
    put_frame(out, SNP_BUNDLE_ITEM, &head, bytes, n);
}

void snp_bundle_put_data(struct snp_bundle_out *out, const void *bytes, size_t n)
{
    put_frame(out, SNP_BUNDLE_DATA, NULL, bytes, n);
}

int snp_bundle_finish(struct snp_bundle_out *out, const char *part)
{
    snp_autobuf struct snp_buf head = {0};

    snp_buf_init(&head, SNP_BUNDLE_HEAD_MAX);
    if (snp_buf_addf(&head, "{\"part\":\"%s\",\"items\":%llu}", part,
                     (unsigned long long)out->items) < 0) {
        out_fail(out, ENOMEM);
    }
    put_frame(out, SNP_BUNDLE_END, &head, NULL, 0);
    flush(out);
    return out->eno;
}

/* Heads ------------------------------------------------------------------------------------- */

struct text {
    char *at;
    char *end;
    bool is_bad;
};

/* All that a head may say; numbers of members seen, so that none comes twice. */
struct head {
    struct snp_bundle_item item;
    const char *kind;
    const char *part;
    uint64_t items;
    unsigned seen;
};

static char peek(struct text *t)
{
    while (t->at < t->end &&
           (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r')) {
        t->at++;
    }
    return t->at < t->end ? *t->at : '\0';
}

static bool eat(struct text *t, char c)
{
    if (peek(t) != c || t->at >= t->end) {
        t->is_bad = true;
        return false;
    }
    t->at++;
    return true;
}

static uint32_t hex4(struct text *t)
{
    uint32_t c = 0;

    for (int i = 0; i < 4; i++) {
        char d = t->at < t->end ? *t->at++ : '\0';
        bool is_digit = d >= '0' && d <= '9';
        char lower = (char)(d | 0x20);
        if (!is_digit && (lower < 'a' || lower > 'f')) {
            t->is_bad = true;
            return 0;
        }
        c = c * 16 + (uint32_t)(is_digit ? d - '0' : lower - 'a' + 10);
    }
    return c;
}

/* Behind "\": the bytes it stands for go to *to. */
static char *unescape(struct text *t, char *to)
{
    static const char from[] = "\"\\/bfnrt";
    static const char is[] = "\"\\/\b\f\n\r\t";
    char d = t->at < t->end ? *t->at++ : '\0';
    const char *known = d == '\0' ? NULL : strchr(from, d);
    uint32_t c;

    if (known != NULL) {
        *to = is[known - from];
        return to + 1;
    }
    if (d != 'u') {
        t->is_bad = true;
        return to;
    }
    c = hex4(t);
    if (c >= 0xd800 && c <= 0xdbff && t->end - t->at >= 6 && t->at[0] == '\\' &&
        t->at[1] == 'u') {
        t->at += 2;
        uint32_t low = hex4(t);
        t->is_bad |= low < 0xdc00 || low > 0xdfff;
        c = 0x10000 + ((c - 0xd800) << 10U) + (low - 0xdc00);
    } else {
        t->is_bad |= c == 0 || (c >= 0xd800 && c <= 0xdfff);
    }
    return t->is_bad ? to : to + encode_utf8(c, to);
}

/* A text, decoded in place and ended with NUL. */
static const char *take_string(struct text *t)
{
    char *begin;
    char *to;

    if (!eat(t, '"')) {
        return "";
    }
    begin = to = t->at;
    while (!t->is_bad && t->at < t->end && *t->at != '"') {
        uint32_t c;
        size_t n;
        if (*t->at == '\\') {
            t->at++;
            to = unescape(t, to);
            continue;
        }
        n = decode_utf8(t->at, (size_t)(t->end - t->at), &c);
        if (n == 0 || c < 0x20) {
            t->is_bad = true;
            break;
        }
        memmove(to, t->at, n);
        to += n;
        t->at += n;
    }
    if (t->is_bad || t->at >= t->end) {
        t->is_bad = true;
        return "";
    }
    t->at++;
    *to = '\0'; /* in the place of the quote at the latest */
    return begin;
}

static bool take_digits(struct text *t, uint64_t *ret)
{
    const char *begin = t->at;
    uint64_t value = 0;

    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        uint64_t digit = (uint64_t)(*t->at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret = value;
    return t->at > begin;
}

static uint64_t take_unsigned(struct text *t)
{
    uint64_t value = 0;

    (void)peek(t);
    t->is_bad |= !take_digits(t, &value) || value > INT64_MAX;
    return value;
}

static int64_t take_signed(struct text *t)
{
    bool is_negative = peek(t) == '-';
    uint64_t value;

    t->at += is_negative ? 1 : 0;
    value = take_unsigned(t);
    return t->is_bad ? 0 : is_negative ? -(int64_t)value : (int64_t)value;
}

static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);

    (void)peek(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0) {
        return false;
    }
    t->at += n;
    return true;
}

static bool take_bool(struct text *t)
{
    bool is_true = take_word(t, "true");

    t->is_bad |= !is_true && !take_word(t, "false");
    return is_true;
}

/* A value that means nothing to us. */
static void skip_value(struct text *t, unsigned nesting)
{
    char c = peek(t);
    char end = c == '{' ? '}' : ']';

    if (c == '"') {
        (void)take_string(t);
    } else if ((c == '{' || c == '[') && nesting < NESTING_MAX) {
        t->at++;
        for (bool is_first = true; !t->is_bad && peek(t) != end; is_first = false) {
            if ((is_first || eat(t, ',')) && c == '{') {
                (void)take_string(t);
                (void)eat(t, ':');
            }
            skip_value(t, nesting + 1);
        }
        (void)eat(t, end);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        while (t->at < t->end && strchr("+-.0123456789eE", *t->at) != NULL) {
            t->at++;
        }
    } else if (!take_word(t, "true") && !take_word(t, "false") && !take_word(t, "null")) {
        t->is_bad = true;
    }
}

static void take_object(struct text *t, struct head *h, bool is_meta);

static void take_kind(struct text *t, struct head *h)
{
    h->kind = take_string(t);
}
static void take_name(struct text *t, struct head *h)
{
    h->item.name = take_string(t);
}
static void take_key(struct text *t, struct head *h)
{
    h->item.key = take_string(t);
}
static void take_size(struct text *t, struct head *h)
{
    h->item.size = take_unsigned(t);
}
static void take_same(struct text *t, struct head *h)
{
    h->item.is_same = take_bool(t);
}
static void take_part(struct text *t, struct head *h)
{
    h->part = take_string(t);
}
static void take_items(struct text *t, struct head *h)
{
    h->items = take_unsigned(t);
}
static void take_meta(struct text *t, struct head *h)
{
    take_object(t, h, true);
}
static void take_mtime(struct text *t, struct head *h)
{
    h->item.mtime_ns = take_signed(t);
}
static void take_length(struct text *t, struct head *h)
{
    h->item.length = take_unsigned(t);
    h->item.is_sparse = true;
}
static void take_target(struct text *t, struct head *h)
{
    h->item.target = take_string(t);
}
static void take_opaque(struct text *t, struct head *h)
{
    h->item.is_opaque = take_bool(t);
}
static void take_linked(struct text *t, struct head *h)
{
    h->item.linked = take_string(t);
}
static void take_type(struct text *t, struct head *h)
{
    h->item.type = take_string(t);
}
static void take_reason(struct text *t, struct head *h)
{
    h->item.reason = take_string(t);
}

static void take_mode(struct text *t, struct head *h)
{
    uint64_t mode = take_unsigned(t);

    t->is_bad |= mode > 07777;
    h->item.mode = (uint32_t)mode;
}

static const struct {
    const char *name;
    bool is_meta;
    void (*take)(struct text *, struct head *);
} members[] = {
    {"kind",     false, take_kind  },
    {"name",     false, take_name  },
    {"key",      false, take_key   },
    {"size",     false, take_size  },
    {"same",     false, take_same  },
    {"part",     false, take_part  },
    {"items",    false, take_items },
    {"meta",     false, take_meta  },
    {"mode",     true,  take_mode  },
    {"mtime_ns", true,  take_mtime },
    {"length",   true,  take_length},
    {"linked",   true,  take_linked},
    {"target",   true,  take_target},
    {"opaque",   true,  take_opaque},
    {"type",     true,  take_type  },
    {"reason",   true,  take_reason},
};

static void take_member(struct text *t, struct head *h, bool is_meta)
{
    const char *name = take_string(t);

    if (!eat(t, ':')) {
        return;
    }
    for (unsigned i = 0; i < SNP_ARRAY_LEN(members); i++) {
        if (members[i].is_meta == is_meta && strcmp(members[i].name, name) == 0) {
            t->is_bad |= (h->seen & 1U << i) != 0;
            h->seen |= 1U << i;
            members[i].take(t, h);
            return;
        }
    }
    skip_value(t, is_meta ? 2 : 1);
}

static void take_object(struct text *t, struct head *h, bool is_meta)
{
    if (!eat(t, '{')) {
        return;
    }
    for (bool is_first = true; !t->is_bad && peek(t) != '}'; is_first = false) {
        if (is_first || eat(t, ',')) {
            take_member(t, h, is_meta);
        }
    }
    (void)eat(t, '}');
}

static bool is_key(const char *key)
{
    size_t n =
        strspn(key, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:._-");

    return n <= SNP_BUNDLE_KEY_LEN && key[n] == '\0';
}

static bool take_head(char *bytes, size_t n, struct head *ret)
{
    struct text t = {.at = bytes, .end = bytes + n};

    *ret = (struct head){.kind = "", .part = ""};
    ret->item = (struct snp_bundle_item){.kind = SNP_BUNDLE_KINDS,
                                         .name = "",
                                         .key = "",
                                         .target = "",
                                         .linked = "",
                                         .type = "",
                                         .reason = ""};
    take_object(&t, ret, false);
    (void)peek(&t);
    for (unsigned i = 0; i < SNP_BUNDLE_KINDS; i++) {
        ret->item.kind =
            strcmp(ret->kind, kinds[i]) == 0 ? (enum snp_bundle_kind)i : ret->item.kind;
    }
    return !t.is_bad && t.at == t.end && is_key(ret->item.key);
}

/* Reading ----------------------------------------------------------------------------------- */

int snp_bundle_in_init(struct snp_bundle_in *in, int fd)
{
    *in = (struct snp_bundle_in){.fd = fd,
                                 .body = malloc(SNP_BUNDLE_HEAD_MAX + SNP_BUNDLE_RAW_MAX)};
    return in->body == NULL ? -1 : 0;
}

void snp_bundle_in_done(struct snp_bundle_in *in)
{
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

static int take_item(struct snp_bundle_in *in, struct snp_bundle_frame *f, struct head *h)
{
    f->item = h->item;
    if (in->left > 0 || in->items >= SNP_BUNDLE_ITEMS || h->item.kind == SNP_BUNDLE_KINDS ||
        h->item.name[0] == '\0') {
        return EBADMSG;
    }
    in->items++;
    in->left = h->item.is_same ? 0 : h->item.size;
    return 0;
}

static int take_end(struct snp_bundle_in *in, const char *part, const struct head *h)
{
    in->is_at_end = true;
    return in->left > 0 || strcmp(h->part, part) != 0 || h->items != in->items ? EBADMSG : 0;
}

int snp_bundle_next(struct snp_bundle_in *in, const char *part, struct snp_bundle_frame *ret)
{
    static const char zeros[3];
    char header[HEADER_LEN];
    uint32_t body_len;
    uint32_t head_len;
    struct head head = {0};
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
    if (ret->type == SNP_BUNDLE_DATA) {
        r = head_len > 0 || ret->n == 0 ? EBADMSG : 0;
    } else if (!take_head(in->body, head_len, &head)) {
        r = EBADMSG;
    } else if (ret->type == SNP_BUNDLE_ITEM) {
        r = take_item(in, ret, &head);
    } else {
        r = ret->type == SNP_BUNDLE_END ? take_end(in, part, &head) : EBADMSG;
    }
    if (r == 0 && ret->n > in->left) {
        return EBADMSG;
    }
    in->left -= r == 0 ? ret->n : 0;
    return r;
}
