/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unigram tokenizer and a transformer of two layers, for inference only. The pieces of several
 * texts are multiplied with the matrices together, so that 19 MB of weights are read once for all
 * of them; attention stays within a text. The file stores a matrix as panels of PANEL columns, in
 * the order in which they are read.
 */
#include "context/encoder.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    PIECES = 8002, /* rows of the table of pieces; 8000 have a text */
    TEXTS = 8000,
    RESERVED = 6, /* first pieces, which have no text */
    UNKNOWN = 0,
    EMBED = 256,
    WIDE = 512,
    HIDDEN = 1536,
    HEADS = 4,
    LAYERS = 2,
    ROWS_MAX = 512, /* pieces of one batch, over all of its texts */
    PANEL = 16,
    STEP = 6, /* rows that are multiplied at a time */
    PIECE_BYTES = 32,
    SLOTS = 32768, /* of the hash table of texts; a power of two */
};

static const char mark[16] = "snipara-use-1";

/* The mark of a word's beginning in the vocabulary. */
#define BLANK   "\xe2\x96\x81"
#define BLANK_N 3

struct vocabulary_piece {
    float score;
    unsigned char n;
    char text[PIECE_BYTES - 5];
};

struct layer {
    size_t width; /* of the input */
    const float *scale, *bias, *qkv, *qkv_bias, *out, *out_bias;
    const float *scale2, *bias2, *up, *up_bias, *down, *down_bias;
};

struct snp_encoder {
    void *map;
    size_t size;
    const struct vocabulary_piece *pieces;
    uint16_t *slots; /* owned: number of a piece + 1, by the hash of its text */
    const float *table, *steps, *dense, *dense_bias, *top, *top_bias;
    struct layer layers[LAYERS];
    bool is_wide; /* the processor has AVX2 and FMA */
    float *work;  /* owned: the five below */
    float *x, *normed, *wide, *mixed, *sum;
};

/* The file ------------------------------------------------------------------------------- */

struct weights_cursor {
    const float *at;
    size_t n; /* taken */
};

static const float *take(struct weights_cursor *cursor, size_t n)
{
    const float *at = cursor->at + cursor->n;

    cursor->n += n;
    return at;
}

/* In the order in which tools/semantic writes them. */
static size_t weights_place(struct snp_encoder *e)
{
    struct weights_cursor c = {
        (const float *)(const void *)((const char *)e->map + sizeof(mark) +
                                      TEXTS * sizeof(struct vocabulary_piece)),
        0};

    e->table = take(&c, (size_t)PIECES * EMBED);
    e->steps = take(&c, EMBED / 2);
    e->dense = take(&c, (size_t)EMBED * WIDE);
    e->dense_bias = take(&c, WIDE);
    for (size_t i = 0; i < LAYERS; i++) {
        struct layer *l = &e->layers[i];

        l->width = i == 0 ? EMBED : WIDE;
        l->scale = take(&c, l->width);
        l->bias = take(&c, l->width);
        l->qkv = take(&c, l->width * 3 * l->width);
        l->qkv_bias = take(&c, 3 * l->width);
        l->out = take(&c, l->width * WIDE);
        l->out_bias = take(&c, WIDE);
        l->scale2 = take(&c, WIDE);
        l->bias2 = take(&c, WIDE);
        l->up = take(&c, (size_t)WIDE * HIDDEN);
        l->up_bias = take(&c, HIDDEN);
        l->down = take(&c, (size_t)HIDDEN * WIDE);
        l->down_bias = take(&c, WIDE);
    }
    e->top = take(&c, (size_t)WIDE * SNP_VECTOR_LEN);
    e->top_bias = take(&c, SNP_VECTOR_LEN);
    return sizeof(mark) + TEXTS * sizeof(struct vocabulary_piece) + c.n * sizeof(float);
}

static uint32_t slot_of(const char *text, size_t n)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 16777619U;
    }
    return hash & (SLOTS - 1);
}

static bool pieces_place(struct snp_encoder *e)
{
    e->pieces =
        (const struct vocabulary_piece *)(const void *)((const char *)e->map + sizeof(mark));
    for (size_t i = RESERVED; i < TEXTS; i++) {
        const struct vocabulary_piece *piece = &e->pieces[i];
        uint32_t slot;

        if (piece->n == 0 || piece->n > sizeof(piece->text)) {
            return false;
        }
        for (slot = slot_of(piece->text, piece->n); e->slots[slot] != 0;) {
            slot = (slot + 1) & (SLOTS - 1);
        }
        e->slots[slot] = (uint16_t)(i + 1);
    }
    return true;
}

/* The path of the file beside the program; the caller frees. */
static int file_find(char **ret, struct snp_err *err)
{
    snp_autofree char *program = NULL;
    char *slash;

    SNP_TRY(snp_own_program("context", &program, err));
    slash = strrchr(program, '/');
    *ret = snp_format("%.*s/encoder.bin", (int)(slash - program), program);
    SNP_TRY_MEMORY(*ret, err);
    return 0;
}

static int file_map(struct snp_encoder *e, const char *path, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_NOT_FOUND, "semantic search is not installed");
    }
    e->size = (size_t)st.st_size;
    e->map = e->size == 0 ? MAP_FAILED : mmap(NULL, e->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (e->map == MAP_FAILED || e->size < sizeof(mark) || memcmp(e->map, mark, sizeof(mark)) != 0 ||
        weights_place(e) != e->size || !pieces_place(e)) {
        return snp_fail(err, SNP_E_INVALID, "%.300s is not of this version", path);
    }
    return 0;
}

int snp_encoder_open(struct snp_encoder **ret, struct snp_err *err)
{
    snp_cleanup(snp_encoder_closep) struct snp_encoder *e = calloc(1, sizeof(*e));
    snp_autofree char *path = NULL;

    SNP_TRY_MEMORY(e, err);
    e->map = MAP_FAILED;
    e->slots = calloc(SLOTS, sizeof(*e->slots));
    e->work = calloc((size_t)ROWS_MAX * (WIDE + WIDE + HIDDEN + WIDE + WIDE), sizeof(float));
    SNP_TRY_MEMORY(e->slots != NULL && e->work != NULL, err);
    SNP_TRY(file_find(&path, err));
    SNP_TRY(file_map(e, path, err));
    e->x = e->work;
    e->normed = e->x + (size_t)ROWS_MAX * WIDE;
    e->wide = e->normed + (size_t)ROWS_MAX * WIDE;
    e->mixed = e->wide + (size_t)ROWS_MAX * HIDDEN;
    e->sum = e->mixed + (size_t)ROWS_MAX * WIDE;
#ifdef __x86_64__
    e->is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    *ret = SNP_TAKE_PTR(e);
    return 0;
}

void snp_encoder_close(struct snp_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    if (encoder->map != MAP_FAILED) {
        (void)munmap(encoder->map, encoder->size);
    }
    free(encoder->slots);
    free(encoder->work);
    free(encoder);
}

/* Pieces --------------------------------------------------------------------------------- */

static size_t char_len(char c)
{
    unsigned char byte = (unsigned char)c;

    return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

static int piece_find(const struct snp_encoder *e, const char *text, size_t n)
{
    for (uint32_t slot = slot_of(text, n); e->slots[slot] != 0; slot = (slot + 1) & (SLOTS - 1)) {
        const struct vocabulary_piece *piece = &e->pieces[e->slots[slot] - 1];

        if (piece->n == n && memcmp(piece->text, text, n) == 0) {
            return e->slots[slot] - 1;
        }
    }
    return -1;
}

struct spelling {
    char text[SNP_ENCODE_BYTES_MAX * BLANK_N + BLANK_N + 4];
    size_t n;
    struct {
        float score; /* of the best way from the start to here; NAN: no way */
        uint16_t piece;
        uint16_t n; /* of the last piece of that way */
    } best[SNP_ENCODE_BYTES_MAX * BLANK_N + BLANK_N + 5];
};

static void spell(struct spelling *s, const char *text)
{
    memcpy(s->text, BLANK, BLANK_N);
    s->n = BLANK_N;
    for (size_t i = 0; i < SNP_ENCODE_BYTES_MAX && text[i] != '\0'; i++) {
        if (text[i] == ' ') {
            memcpy(s->text + s->n, BLANK, BLANK_N);
            s->n += BLANK_N;
        } else {
            s->text[s->n++] = text[i];
        }
    }
    memset(s->text + s->n, 0, 4); /* a character that was cut off ends here */
    for (size_t i = 0; i <= s->n; i++) {
        s->best[i].score = i == 0 ? 0 : NAN;
    }
}

static void reach(struct spelling *s, size_t from, size_t n, float score, int piece)
{
    size_t to = from + n;

    if (isnan(s->best[to].score) || s->best[from].score + score >= s->best[to].score) {
        s->best[to].score = s->best[from].score + score;
        s->best[to].piece = (uint16_t)piece;
        s->best[to].n = (uint16_t)n;
    }
}

/* Find the best split of a text into pieces; return their number, at most SNP_ENCODE_PIECES_MAX. */
static size_t split(const struct snp_encoder *e, const char *text, uint16_t *ret)
{
    struct spelling s;
    size_t n = 0;

    spell(&s, text);
    for (size_t i = 0; i < s.n; i += char_len(s.text[i])) {
        size_t one = char_len(s.text[i]);
        bool is_known = false;

        if (i + one > s.n) {
            s.n = i;
            break;
        }
        for (size_t len = one; len < PIECE_BYTES && i + len <= s.n;
             len += char_len(s.text[i + len])) {
            int piece = piece_find(e, s.text + i, len);

            if (piece >= 0) {
                reach(&s, i, len, e->pieces[piece].score, piece);
                is_known = true;
            }
        }
        if (!is_known || isnan(s.best[i + one].score)) {
            reach(&s, i, one, 0, UNKNOWN);
        }
    }
    uint16_t back[sizeof(s.text)];
    for (size_t at = s.n; at > 0; at -= s.best[at].n) {
        if (n == 0 || back[n - 1] != UNKNOWN || s.best[at].piece != UNKNOWN) {
            back[n++] = s.best[at].piece;
        }
    }
    size_t kept = n < SNP_ENCODE_PIECES_MAX ? n : SNP_ENCODE_PIECES_MAX;
    for (size_t i = 0; i < kept; i++) {
        ret[i] = back[n - 1 - i];
    }
    return kept;
}

/* Matrices ------------------------------------------------------------------------------- */

typedef float lanes __attribute__((vector_size(32), aligned(4)));

struct product {
    const float *x; /* rows of `in` numbers */
    const float *panels;
    const float *bias;
    float *ret; /* rows of `out` numbers */
    size_t rows, in, out;
};

/* `rows` rows of one panel, at most STEP. */
static inline __attribute__((always_inline)) void block(const struct product *p,
                                                        size_t row,
                                                        size_t rows,
                                                        size_t panel)
{
    const float *weights = p->panels + panel * PANEL * p->in;
    const float *x = p->x + row * p->in;
    lanes sums[STEP][2];

    for (size_t r = 0; r < STEP; r++) {
        memcpy(sums[r], p->bias + panel * PANEL, sizeof(sums[r]));
    }
    for (size_t i = 0; i < p->in; i++) {
        lanes left;
        lanes right;

        memcpy(&left, weights + i * PANEL, sizeof(left));
        memcpy(&right, weights + i * PANEL + PANEL / 2, sizeof(right));
#pragma GCC unroll 6
        for (size_t r = 0; r < STEP; r++) {
            float one = x[(r < rows ? r : 0) * p->in + i];

            sums[r][0] += left * one;
            sums[r][1] += right * one;
        }
    }
    for (size_t r = 0; r < rows; r++) {
        memcpy(p->ret + (row + r) * p->out + panel * PANEL, sums[r], sizeof(sums[r]));
    }
}

static inline __attribute__((always_inline)) void panels(const struct product *p)
{
    for (size_t panel = 0; panel < p->out / PANEL; panel++) {
        size_t row = 0;

        for (; row + STEP <= p->rows; row += STEP) {
            block(p, row, STEP, panel);
        }
        if (row < p->rows) {
            block(p, row, p->rows - row, panel);
        }
    }
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void panels_wide(const struct product *p)
{
    panels(p);
}
#endif

static void multiply(const struct snp_encoder *e, struct product p)
{
#ifdef __x86_64__
    if (e->is_wide) {
        panels_wide(&p);
        return;
    }
#endif
    (void)e;
    panels(&p);
}

/* Layers --------------------------------------------------------------------------------- */

static void normalize(
    const float *x, size_t rows, size_t width, const float *scale, const float *bias, float *ret)
{
    for (size_t row = 0; row < rows; row++, x += width, ret += width) {
        double mean = 0;
        double spread = 0;
        float by;

        for (size_t i = 0; i < width; i++) {
            mean += (double)x[i];
        }
        mean /= (double)width;
        for (size_t i = 0; i < width; i++) {
            spread += ((double)x[i] - mean) * ((double)x[i] - mean);
        }
        by = 1 / sqrtf((float)(spread / (double)width) + 1e-6F);
        for (size_t i = 0; i < width; i++) {
            ret[i] = (x[i] - (float)mean) * by * scale[i] + bias[i];
        }
    }
}

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Attention of one piece of a text of n pieces, for one head; qkv are rows of 3 × width numbers. */
static void attend(const float *qkv, size_t at, size_t n, size_t width, float *ret)
{
    size_t size = width / HEADS;
    float shares[SNP_ENCODE_PIECES_MAX];
    float most = -INFINITY;
    float sum = 0;

    for (size_t i = 0; i < n; i++) {
        shares[i] =
            dot(qkv + at * 3 * width, qkv + i * 3 * width + width, size) / sqrtf((float)size);
        most = fmaxf(most, shares[i]);
    }
    for (size_t i = 0; i < n; i++) {
        shares[i] = expf(shares[i] - most);
        sum += shares[i];
    }
    memset(ret, 0, size * sizeof(*ret));
    for (size_t i = 0; i < n; i++) {
        const float *value = qkv + i * 3 * width + 2 * width;
        float share = shares[i] / sum;

        for (size_t k = 0; k < size; k++) {
            ret[k] += share * value[k];
        }
    }
}

/* A batch of texts: text i has the pieces from starts[i] to starts[i + 1]. */
struct text_batch {
    size_t n;
    size_t starts[SNP_ENCODE_TEXTS_MAX + 1];
    uint16_t pieces[ROWS_MAX];
};

static void layer(struct snp_encoder *e, const struct layer *l, const struct text_batch *batch)
{
    size_t rows = batch->starts[batch->n];
    size_t width = l->width;

    normalize(e->x, rows, width, l->scale, l->bias, e->normed);
    multiply(e, (struct product){e->normed, l->qkv, l->qkv_bias, e->wide, rows, width, 3 * width});
    for (size_t text = 0; text < batch->n; text++) {
        size_t start = batch->starts[text];
        size_t n = batch->starts[text + 1] - start;

        for (size_t head = 0; head < HEADS; head++) {
            size_t from = head * (width / HEADS);

            for (size_t i = 0; i < n; i++) {
                attend(e->wide + start * 3 * width + from, i, n, width,
                       e->mixed + (start + i) * width + from);
            }
        }
    }
    multiply(e, (struct product){e->mixed, l->out, l->out_bias, e->sum, rows, width, WIDE});
    if (width != WIDE) {
        memcpy(e->normed, e->x, rows * width * sizeof(*e->x));
        multiply(e, (struct product){e->normed, e->dense, e->dense_bias, e->x, rows, width, WIDE});
    }
    for (size_t i = 0; i < rows * WIDE; i++) {
        e->x[i] += e->sum[i];
    }
    normalize(e->x, rows, WIDE, l->scale2, l->bias2, e->normed);
    multiply(e, (struct product){e->normed, l->up, l->up_bias, e->wide, rows, WIDE, HIDDEN});
    for (size_t i = 0; i < rows * HIDDEN; i++) {
        e->wide[i] = e->wide[i] < 0 ? 0 : e->wide[i];
    }
    multiply(e, (struct product){e->wide, l->down, l->down_bias, e->sum, rows, HIDDEN, WIDE});
    for (size_t i = 0; i < rows * WIDE; i++) {
        e->x[i] += e->sum[i];
    }
}

/* Embeddings of the pieces, with their positions added as waves. */
static void embed(struct snp_encoder *e, const struct text_batch *batch)
{
    for (size_t text = 0; text < batch->n; text++) {
        for (size_t row = batch->starts[text]; row < batch->starts[text + 1]; row++) {
            const float *piece = e->table + (size_t)batch->pieces[row] * EMBED;
            float place = (float)(row - batch->starts[text]);
            float *x = e->x + row * EMBED;

            for (size_t i = 0; i < EMBED / 2; i++) {
                x[i] = 2 * piece[i] + sinf(place * e->steps[i]);
                x[i + EMBED / 2] = 2 * piece[i + EMBED / 2] + cosf(place * e->steps[i]);
            }
        }
    }
}

static void run(struct snp_encoder *e, const struct text_batch *batch, float (*ret)[SNP_VECTOR_LEN])
{
    embed(e, batch);
    for (size_t i = 0; i < LAYERS; i++) {
        layer(e, &e->layers[i], batch);
    }
    memset(e->sum, 0, batch->n * WIDE * sizeof(*e->sum));
    for (size_t text = 0; text < batch->n; text++) {
        size_t n = batch->starts[text + 1] - batch->starts[text];

        for (size_t row = batch->starts[text]; row < batch->starts[text + 1]; row++) {
            for (size_t i = 0; i < WIDE; i++) {
                e->sum[text * WIDE + i] += e->x[row * WIDE + i] / (float)n;
            }
        }
    }
    multiply(e,
             (struct product){e->sum, e->top, e->top_bias, ret[0], batch->n, WIDE, SNP_VECTOR_LEN});
    for (size_t text = 0; text < batch->n; text++) {
        float length;

        for (size_t i = 0; i < SNP_VECTOR_LEN; i++) {
            ret[text][i] = tanhf(ret[text][i]);
        }
        length = sqrtf(dot(ret[text], ret[text], SNP_VECTOR_LEN));
        for (size_t i = 0; i < SNP_VECTOR_LEN; i++) {
            ret[text][i] /= length;
        }
    }
}

void snp_encode(struct snp_encoder *encoder,
                const char *const *texts,
                size_t n,
                float (*ret)[SNP_VECTOR_LEN])
{
    struct text_batch batch = {0};
    size_t first = 0;

    for (size_t i = 0; i < n; i++) {
        size_t start = batch.starts[batch.n];

        batch.starts[++batch.n] = start + split(encoder, texts[i], batch.pieces + start);
        if (i + 1 == n || batch.n == SNP_ENCODE_TEXTS_MAX ||
            batch.starts[batch.n] + SNP_ENCODE_PIECES_MAX > ROWS_MAX) {
            run(encoder, &batch, ret + first);
            first = i + 1;
            batch.n = 0;
        }
    }
}
