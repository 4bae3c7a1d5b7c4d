/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encoded text of a definition is short: the words of its names, the start of its
 * documentation, and the words of its parameters. A vector is stored as 8-bit numbers, which
 * changes likeness by less than 0.01. An endpoint's vectors are kept by the hash of their text, so
 * a changed file sends only its new texts.
 */
#include "context/meaning.h"

#include <errno.h>
#include <math.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "context/words.h"
#include "model/embed.h"

enum {
    LIMIT_MS = 60000, /* default for an endpoint */
    DOC_BYTES = 160,
    SIGNATURE_BYTES = 200,
    TEXT_BYTES = 800,
    OF_FILE_MAX = 2000,  /* vectors of one file */
    COMMIT_US = 1000000, /* unwritten vectors are lost on interruption */
    QUANTUM = 127,
    BYTES_MAX = 16 << 20, /* vectors of one file */
    HASH_LEN = 16,
    BLOCK = 64,        /* numbers */
    AHEAD_MAX = 64,    /* files */
    KNOWN_MORE = 1000, /* texts kept in addition to twice as many as the index has */
};

/* As stored in the index, in this machine's format; its numbers follow, a byte each. */
struct vector {
    int64_t chunk;
    float scale;
    uint32_t unused;
};

/* Encodings ---------------------------------------------------------------------------- */

_Static_assert((int)SNP_ENCODE_TEXTS_MAX <= (int)SNP_EMBED_TEXTS_MAX, "as many texts at a time");

int snp_encoding_open(const char *name,
                      const struct snp_config *config,
                      struct snp_encoding *ret,
                      struct snp_err *err)
{
    int r;

    *ret = (struct snp_encoding){.name = strdup(name), .limit_ms = LIMIT_MS};
    if (snp_streq(name, SNP_ENCODING_LOCAL)) {
        ret->numbers = calloc(SNP_ENCODE_TEXTS_MAX, sizeof(*ret->numbers));
        r = ret->numbers == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                 : snp_encoder_open(&ret->encoder, err);
    } else {
        r = snp_embedder_open(config, name, &ret->embedder, err);
    }
    if (r == 0 && ret->name == NULL) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (r < 0) {
        snp_encoding_done(ret);
    }
    return r;
}

void snp_encoding_done(struct snp_encoding *encoding)
{
    free(encoding->name);
    free(encoding->numbers);
    if (encoding->encoder != NULL) {
        snp_encoder_close(encoding->encoder);
    }
    snp_embedder_close(encoding->embedder);
    *encoding = (struct snp_encoding){0};
}

int snp_encoding_make(struct snp_encoding *encoding,
                      const char *const *texts,
                      size_t n,
                      const float **ret,
                      size_t *ret_len,
                      struct snp_err *err)
{
    if (encoding->encoder == NULL) {
        return snp_embed(encoding->embedder, &(struct snp_embed_ask){texts, n, encoding->limit_ms},
                         ret, ret_len, err);
    }
    snp_encode(encoding->encoder, texts, n, encoding->numbers);
    *ret = encoding->numbers[0];
    *ret_len = SNP_VECTOR_LEN;
    return 0;
}

/* Text --------------------------------------------------------------------------------- */

/* Names as words: "parseHTTPHeader" is "parse http header". */
struct plain {
    struct snp_buf *out;
    const char *text;
    size_t whole[2]; /* a word that may have parts; [1] = 0: there is none */
};

static int plain_add(struct plain *plain, size_t start, size_t end)
{
    SNP_TRY(plain->out->len == 0 ? 0 : snp_buf_adds(plain->out, " "));
    for (size_t i = start; i < end; i++) {
        char c = plain->text[i];
        char lower = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);

        SNP_TRY(snp_buf_add(plain->out, &lower, 1));
    }
    return 0;
}

static int plain_flush(struct plain *plain)
{
    size_t end = plain->whole[1];

    plain->whole[1] = 0;
    return end == 0 ? 0 : plain_add(plain, plain->whole[0], end);
}

static int plain_word(void *arg,
                      const char *word SNP_UNUSED,
                      size_t n SNP_UNUSED,
                      size_t start,
                      size_t end,
                      bool is_part)
{
    struct plain *plain = arg;

    if (is_part) {
        plain->whole[1] = 0;
        return plain_add(plain, start, end);
    }
    SNP_TRY(plain_flush(plain));
    plain->whole[0] = start;
    plain->whole[1] = end;
    return 0;
}

static int words_add(struct snp_buf *out,
                     const char *text,
                     struct snp_parse_range range,
                     size_t max)
{
    size_t n = range.end > range.start ? range.end - range.start : 0;
    struct plain plain = {.out = out, .text = text + range.start};

    SNP_TRY(snp_words(plain.text, n < max ? n : max, plain_word, &plain));
    return plain_flush(&plain);
}

/* The text to encode for a chunk. */
static int text_make(const struct snp_chunks *chunks,
                     size_t i,
                     const char *text,
                     struct snp_buf *out)
{
    const struct snp_chunk *chunk = &chunks->items[i];
    const struct snp_chunk *parent = &chunks->items[chunk->parent];
    struct snp_parse_range parameters = {chunk->name.end, chunk->signature.end};

    snp_buf_clear(out);
    if (chunk->kind == SNP_CHUNK_SECTION) {
        return words_add(out, text, chunk->all, DOC_BYTES);
    }
    SNP_TRY(words_add(out, text, chunk->name, SIGNATURE_BYTES));
    SNP_TRY(words_add(out, text, chunk->doc, DOC_BYTES));
    SNP_TRY(words_add(out, text, parent->name, SIGNATURE_BYTES));
    return words_add(out, text, parameters, SIGNATURE_BYTES);
}

/* Making ------------------------------------------------------------------------------- */

/* Append a vector to out. */
static int pack(const float *numbers, size_t len, int64_t chunk, struct snp_buf *out)
{
    struct vector vector = {.chunk = chunk};
    float most = 0;
    char *to;

    for (size_t i = 0; i < len; i++) {
        most = fmaxf(most, fabsf(numbers[i]));
    }
    vector.scale = most / QUANTUM;
    SNP_TRY(snp_buf_reserve(out, sizeof(vector) + len, &to));
    memcpy(to, &vector, sizeof(vector));
    for (size_t i = 0; i < len; i++) {
        to[sizeof(vector) + i] = most > 0 ? (char)lrintf(numbers[i] / vector.scale) : 0;
    }
    snp_buf_commit(out, sizeof(vector) + len);
    return 0;
}

/* The chunks of one file until their vectors are written to its row. */
struct file_vectors {
    struct snp_encoding *encoding;
    struct snp_buf texts[SNP_ENCODE_TEXTS_MAX];
    int64_t ids[SNP_ENCODE_TEXTS_MAX];
    size_t n;
    struct snp_buf vectors;
    size_t n_vectors;
    bool is_ahead;   /* fills `known` for several files, not the row of one file */
    bool is_flushed; /* since this file was begun */
    size_t n_ahead;  /* files whose texts have been sent ahead */
    uint64_t committed_us;
};

static void making_free(struct file_vectors *m)
{
    for (size_t i = 0; m != NULL && i < SNP_ENCODE_TEXTS_MAX; i++) {
        snp_buf_done(&m->texts[i]);
    }
    if (m != NULL) {
        snp_buf_done(&m->vectors);
    }
    free(m);
}
SNP_DEFINE_CLEANUP(struct file_vectors *, making_free)

static void hash_of(const char *text, unsigned char ret[SHA256_DIGEST_LENGTH])
{
    (void)SHA256((const unsigned char *)text, strlen(text), ret);
}

/* Reuse the vector that was made earlier of the same text. 1: there is none. */
static int known_find(struct snp_index *index,
                      struct file_vectors *m,
                      int64_t chunk,
                      struct snp_err *err)
{
    const char *text = snp_buf_cstr(&m->texts[m->n]);
    snp_autorows struct snp_rows rows = {0};
    unsigned char hash[SHA256_DIGEST_LENGTH];
    struct vector vector;
    const char *bytes;
    size_t n = 0;
    int r;

    if (m->encoding->encoder != NULL) {
        return 1; /* the local encoder makes a vector as quickly as the index finds it */
    }
    SNP_TRY_MEMORY(text, err);
    hash_of(text, hash);
    r = snp_db_row(&index->db, &rows, err, "SELECT bytes FROM known WHERE hash = ?", "b", hash,
                   (size_t)HASH_LEN);
    bytes = r > 0 ? snp_col_bytes(&rows, 0, &n) : NULL;
    if (r < 0 || n <= sizeof(vector)) {
        return r < 0 ? r : 1;
    }
    memcpy(&vector, bytes, sizeof(vector));
    vector.chunk = chunk;
    r = snp_buf_add(&m->vectors, &vector, sizeof(vector));
    r = r < 0 ? r : snp_buf_add(&m->vectors, bytes + sizeof(vector), n - sizeof(vector));
    m->n_vectors++;
    return r < 0 ? snp_fail(err, (enum snp_code)r, "out of memory") : 0;
}

static int known_add(struct snp_index *index,
                     const struct file_vectors *m,
                     const char *text,
                     size_t len,
                     struct snp_err *err)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    size_t n = sizeof(struct vector) + len;

    if (m->encoding->encoder != NULL) {
        return 0;
    }
    hash_of(text, hash);
    return snp_db_run(&index->db, NULL, err,
                      "INSERT OR REPLACE INTO known(hash, bytes) VALUES(?, ?)", "bb", hash,
                      (size_t)HASH_LEN, snp_buf_bytes(&m->vectors) + (m->vectors.len - n), n);
}

/* All vectors have as many numbers as the first one. */
static int len_settle(struct snp_index *index,
                      const struct snp_encoding *encoding,
                      size_t len,
                      struct snp_err *err)
{
    int64_t known = 0;

    SNP_TRY(snp_db_number(&index->db, 0, &known, err, "SELECT len FROM encoding", ""));
    if (known != 0 && (uint64_t)known != len) {
        return snp_fail(err, SNP_E_PEER,
                        "%s: vectors have %zu numbers, those in the index %lld; `context index "
                        "--rebuild` makes all of them again",
                        encoding->name, len, (long long)known);
    }
    return known != 0 ? 0
                      : snp_db_run(&index->db, NULL, err, "UPDATE encoding SET len = ?", "i",
                                   (int64_t)len);
}

static int flush(struct snp_index *index, struct file_vectors *m, struct snp_err *err)
{
    const char *texts[SNP_ENCODE_TEXTS_MAX];
    const float *numbers = NULL;
    size_t len = 0;
    size_t n = m->n;

    for (size_t i = 0; i < n; i++) {
        texts[i] = snp_buf_cstr(&m->texts[i]);
        SNP_TRY_MEMORY(texts[i], err);
    }
    m->n = 0;
    if (n == 0) {
        return 0;
    }
    m->is_flushed = true;
    SNP_TRY(snp_encoding_make(m->encoding, texts, n, &numbers, &len, err));
    SNP_TRY(len_settle(index, m->encoding, len, err));
    for (size_t i = 0; i < n; i++) {
        SNP_TRY_MEMORY(pack(numbers + i * len, len, m->ids[i], &m->vectors) == 0, err);
        SNP_TRY(known_add(index, m, texts[i], len, err));
        m->n_vectors++;
    }
    return 0;
}

/* Send equal texts to an endpoint only once. */
static bool is_asked(const struct file_vectors *m)
{
    const struct snp_buf *next = &m->texts[m->n];

    for (size_t i = 0; m->is_ahead && i < m->n; i++) {
        if (m->texts[i].len == next->len &&
            memcmp(snp_buf_bytes(&m->texts[i]), snp_buf_bytes(next), next->len) == 0) {
            return true;
        }
    }
    return false;
}

/* Queue the texts of a file for the next flush; flush now if there is no more room. */
static int file_add(struct snp_index *index,
                    struct file_vectors *m,
                    int64_t file,
                    struct snp_err *err)
{
    snp_cleanup(snp_chunks_done) struct snp_chunks chunks = {0};
    snp_autofree char *text = NULL;
    int64_t first = 0;
    size_t n;

    SNP_TRY(snp_index_chunks(index, file, &chunks, err));
    SNP_TRY(snp_index_text(index, file, &text, &n, err));
    SNP_TRY(snp_db_number(&index->db, 0, &first, err,
                          "SELECT id FROM chunk WHERE file = ? AND ordinal = 0", "i", file));
    m->n_vectors = 0;
    snp_buf_clear(&m->vectors);
    for (size_t i = 1; i < chunks.n && m->n_vectors + m->n < OF_FILE_MAX; i++) {
        int r = text_make(&chunks, i, text, &m->texts[m->n]);

        if (r < 0 && r != SNP_E_LIMIT) { /* its beginning is enough */
            return snp_fail(err, (enum snp_code)r, "out of memory");
        }
        m->ids[m->n] = first + (int64_t)i;
        r = m->texts[m->n].len == 0 || is_asked(m) ? 0 : known_find(index, m, m->ids[m->n], err);
        SNP_TRY(r);
        m->n += r == 1;
        SNP_TRY(m->n == SNP_ENCODE_TEXTS_MAX ? flush(index, m, err) : 0);
    }
    return 0;
}

static int file_encode(struct snp_index *index,
                       struct file_vectors *m,
                       int64_t file,
                       struct snp_err *err)
{
    m->is_ahead = false;
    m->n = 0;
    SNP_TRY(file_add(index, m, file, err));
    SNP_TRY(flush(index, m, err));
    return snp_db_run(&index->db, NULL, err,
                      "INSERT OR REPLACE INTO vector(file, bytes) VALUES(?, ?)", "ib", file,
                      m->vectors.len == 0 ? "" : snp_buf_bytes(&m->vectors), m->vectors.len);
}

#define MISSING "FROM file WHERE state < 3 AND id NOT IN (SELECT file FROM vector)"

static int transaction(struct snp_index *index, const char *word, struct snp_err *err)
{
    bool is_open = sqlite3_get_autocommit(index->db.sqlite) == 0;

    return is_open == snp_streq(word, "COMMIT") ? snp_db_exec(&index->db, word, err) : 0;
}

/* Drop the vectors of another encoding: they cannot be compared. */
static int encoding_settle(struct snp_index *index,
                           const struct snp_encoding *encoding,
                           struct snp_err *err)
{
    int64_t n = 0;

    SNP_TRY(snp_db_number(&index->db, 0, &n, err, "SELECT count(*) FROM encoding WHERE name = ?",
                          "t", encoding->name));
    if (n == 1) {
        return 0;
    }
    SNP_TRY(transaction(index, "BEGIN IMMEDIATE", err));
    SNP_TRY(snp_db_exec(&index->db, "DELETE FROM vector; DELETE FROM known; DELETE FROM encoding;",
                        err));
    return snp_db_run(&index->db, NULL, err, "INSERT INTO encoding(name, len) VALUES(?, 0)", "t",
                      encoding->name);
}

/* Limit the kept vectors of texts that no file has any more. */
static int known_forget(struct snp_index *index, struct snp_err *err)
{
    int64_t n = 0;
    int64_t chunks = 0;

    SNP_TRY(snp_db_number(&index->db, 0, &n, err, "SELECT count(*) FROM known", ""));
    SNP_TRY(n < KNOWN_MORE
                ? 0
                : snp_db_number(&index->db, 0, &chunks, err, "SELECT count(*) FROM chunk", ""));
    return n < 2 * chunks + KNOWN_MORE ? 0 : snp_db_exec(&index->db, "DELETE FROM known", err);
}

/* Send the texts of many small files in one request; their vectors are then known. */
static int look_ahead(struct snp_index *index, struct file_vectors *m, struct snp_err *err)
{
    int64_t files[AHEAD_MAX];
    size_t n = 0;
    int r;

    {
        snp_autorows struct snp_rows rows = {0};

        r = snp_db_ask(&index->db, &rows, err, "SELECT id " MISSING " LIMIT ?", "i",
                       (int64_t)AHEAD_MAX);
        while (r == 0 && n < AHEAD_MAX && (r = snp_db_step(&rows, err)) > 0) {
            files[n++] = (int64_t)snp_col_u64(&rows, 0);
            r = 0;
        }
        SNP_TRY(r);
    }
    m->is_ahead = true;
    m->n = 0;
    m->n_ahead = 0;
    m->is_flushed = false;
    for (size_t i = 0; i < n && !m->is_flushed; i++) {
        SNP_TRY(file_add(index, m, files[i], err));
        m->n_ahead += !m->is_flushed; /* else the next request has the rest of its texts */
    }
    return m->is_flushed ? 0 : flush(index, m, err);
}

static int next_encode(struct snp_index *index,
                       struct file_vectors *m,
                       struct snp_meaning_report *ret,
                       struct snp_err *err)
{
    int64_t file = 0;

    SNP_TRY(transaction(index, "BEGIN IMMEDIATE", err));
    if (m->encoding->encoder == NULL && m->n_ahead == 0) {
        SNP_TRY(look_ahead(index, m, err));
    }
    m->n_ahead -= m->n_ahead > 0;
    SNP_TRY(snp_db_number(&index->db, 0, &file, err, "SELECT id " MISSING " LIMIT 1", ""));
    SNP_TRY(file_encode(index, m, file, err));
    ret->files++;
    ret->pending--;
    if (snp_now_us() - m->committed_us < COMMIT_US) {
        return 0;
    }
    m->committed_us = snp_now_us();
    return transaction(index, "COMMIT", err);
}

static int update(struct snp_index *index,
                  struct file_vectors *m,
                  uint64_t limit_us,
                  snp_meaning_progress_fn progress,
                  struct snp_meaning_report *ret,
                  struct snp_err *err)
{
    uint64_t began = snp_now_us();
    int64_t all = 0;

    SNP_TRY(encoding_settle(index, m->encoding, err));
    SNP_TRY(snp_db_number(&index->db, 0, &all, err, "SELECT count(*) " MISSING, ""));
    ret->pending = (uint64_t)all;
    for (uint64_t now = began; ret->pending > 0 && (limit_us == 0 || now - began < limit_us);
         now = snp_now_us()) {
        SNP_TRY(next_encode(index, m, ret, err));
        if (progress != NULL) {
            progress(ret->files, (uint64_t)all);
        }
    }
    SNP_TRY(ret->files > 0 ? known_forget(index, err) : 0);
    return transaction(index, "COMMIT", err);
}

int snp_meaning_update(struct snp_index *index,
                       struct snp_encoding *encoding,
                       uint64_t limit_us,
                       snp_meaning_progress_fn progress,
                       struct snp_meaning_report *ret,
                       struct snp_err *err)
{
    snp_cleanup(making_freep) struct file_vectors *m = calloc(1, sizeof(*m));
    int r;

    *ret = (struct snp_meaning_report){0};
    SNP_TRY_MEMORY(m, err);
    m->encoding = encoding;
    m->committed_us = snp_now_us();
    m->vectors = (struct snp_buf)SNP_BUF(BYTES_MAX);
    for (size_t i = 0; i < SNP_ENCODE_TEXTS_MAX; i++) {
        m->texts[i] = (struct snp_buf)SNP_BUF(TEXT_BYTES);
    }
    if (SNP_RETRY(flock(index->lock_fd, limit_us == 0 ? LOCK_EX : LOCK_EX | LOCK_NB)) < 0) {
        ret->is_busy = errno == EWOULDBLOCK;
        return ret->is_busy ? 0 : snp_fail_sys(err, errno, "lock the index");
    }
    r = update(index, m, limit_us, progress, ret, err);
    /* an endpoint's vectors may have cost money */
    for (size_t i = 0; i < 2 && sqlite3_get_autocommit(index->db.sqlite) == 0; i++) {
        (void)sqlite3_exec(index->db.sqlite, i == 0 ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    }
    (void)flock(index->lock_fd, LOCK_UN);
    return r;
}

/* Searching ---------------------------------------------------------------------------- */

static int32_t product(const char *a, const char *b, size_t len)
{
    const int8_t *x = (const int8_t *)a;
    const int8_t *y = (const int8_t *)b;
    int32_t sum = 0;
    size_t i = 0;

    for (; i + BLOCK <= len; i += BLOCK) { /* compilers vectorize a loop with a fixed count */
        for (size_t k = 0; k < BLOCK; k++) {
            sum += (int16_t)x[i + k] * (int16_t)y[i + k];
        }
    }
    for (; i < len; i++) {
        sum += (int16_t)x[i] * (int16_t)y[i];
    }
    return sum;
}

/* Insert it into its place among the best so far. */
static void keep(struct snp_meants *best, struct snp_meant found)
{
    size_t at = best->n;

    if (at == SNP_MEANT_MAX && found.likeness <= best->items[at - 1].likeness) {
        return;
    }
    if (at == SNP_MEANT_MAX) {
        at--;
    } else {
        best->n++;
    }
    for (; at > 0 && best->items[at - 1].likeness < found.likeness; at--) {
        best->items[at] = best->items[at - 1];
    }
    best->items[at] = found;
}

/* The vectors of one file. */
static void file_search(struct snp_meants *best,
                        const char *wanted,
                        size_t len,
                        int64_t file,
                        const char *bytes,
                        size_t n)
{
    struct vector question;
    struct vector one;

    memcpy(&question, wanted, sizeof(question));
    for (size_t i = 0; i + sizeof(one) + len <= n; i += sizeof(one) + len) {
        memcpy(&one, bytes + i, sizeof(one));
        keep(best, (struct snp_meant){
                       one.chunk, file,
                       (float)product(wanted + sizeof(question), bytes + i + sizeof(one), len) *
                           question.scale * one.scale});
    }
}

int snp_meaning_search(struct snp_index *index,
                       struct snp_encoding *encoding,
                       const char *text,
                       struct snp_meants *ret,
                       struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    snp_autobuf struct snp_buf wanted = SNP_BUF(BYTES_MAX);
    const float *numbers = NULL;
    int64_t kept = 0;
    size_t len = 0;
    int r;

    ret->n = 0;
    SNP_TRY(snp_db_number(&index->db, 0, &kept, err, "SELECT len FROM encoding WHERE name = ?", "t",
                          encoding->name));
    if (kept == 0) {
        return 0;
    }
    SNP_TRY(snp_encoding_make(encoding, &text, 1, &numbers, &len, err));
    SNP_TRY(len_settle(index, encoding, len, err));
    SNP_TRY_MEMORY(pack(numbers, len, 0, &wanted) == 0, err);
    r = snp_db_ask(&index->db, &rows, err, "SELECT file, bytes FROM vector", "");
    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        size_t n;
        const char *bytes = snp_col_bytes(&rows, 1, &n);

        file_search(ret, snp_buf_bytes(&wanted), len, (int64_t)snp_col_u64(&rows, 0), bytes, n);
        r = 0;
    }
    return r;
}
