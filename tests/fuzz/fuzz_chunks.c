/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code of a stranger, and the answers of a parser that it took over. The first byte names the
 * language; with 0x80 what follows is a length, what the parser wrote, and a text of that length.
 * Whatever they say: it ends soon, what does not lie in the text is refused, chunks lie in each
 * other, and skeletons are made of nothing else.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "context/chunk.h"
#include "context/language.h"
#include "context/parse.h"
#include "context/skeleton.h"
#include "fuzz/target.h"
#ifdef HAS_GRAMMARS
#    include "context/parser/extract.h"
#endif

enum {
    HOSTILE = 0x80,
    SHOWN_MAX = 50,   /* chunks */
    ENDS_S = 20,      /* of a processor, with sanitizers; the parser stops after 1 */
    LINE_ROOM = 1024, /* of a skeleton's line, indented */
};

static bool lies_in(struct snp_parse_range range, struct snp_parse_range outer)
{
    return range.start >= outer.start && range.start <= range.end && range.end <= outer.end;
}

static void chunk_check(const struct snp_chunks *chunks, size_t i, uint32_t n_lines)
{
    const struct snp_chunk *chunk = &chunks->items[i];
    const struct snp_chunk *parent = &chunks->items[chunk->parent];
    struct snp_parse_range whole = chunks->items[0].all;

    SNP_ASSERT(chunk->kind < SNP_CHUNK_KINDS && (i == 0 ? chunk->parent == 0 : chunk->parent < i));
    SNP_ASSERT(lies_in(chunk->all, parent->all) && lies_in(chunk->name, whole));
    SNP_ASSERT(lies_in(chunk->signature, whole) && lies_in(chunk->doc, whole));
    SNP_ASSERT(i == 0 || chunk->all.start >= chunks->items[i - 1].all.start);
    SNP_ASSERT(chunk->lines[0] >= 1 && chunk->lines[0] <= chunk->lines[1] &&
               chunk->lines[1] <= n_lines);
}

static void texts_check(const struct snp_chunks *chunks, size_t i, const char *text, size_t n)
{
    snp_autobuf struct snp_buf skeleton = SNP_BUF((size_t)LINE_ROOM * 2 * (chunks->n + 1));
    snp_autobuf struct snp_buf body = SNP_BUF(n);
    snp_autobuf struct snp_buf name = SNP_BUF(n * 21 + 21);

    SNP_ASSERT(snp_skeleton(chunks, i, text, true, &skeleton) == 0);
    SNP_ASSERT(snp_chunk_body(chunks, i, text, &body) == 0);
    SNP_ASSERT(snp_chunk_qualified(chunks, i, text, &name) == 0);
}

static void chunks_try(const char *text,
                       size_t n,
                       const struct snp_parse_item *items,
                       size_t n_items)
{
    struct snp_chunks chunks;
    uint32_t n_lines = 1;

    for (size_t i = 0; i < n; i++) {
        n_lines += text[i] == '\n';
    }
    SNP_ASSERT(snp_chunks_make(text, n, items, n_items, &chunks) == 0);
    SNP_ASSERT(chunks.n > 0 && chunks.items[0].all.end == n);
    for (size_t i = 0; i < chunks.n; i++) {
        chunk_check(&chunks, i, n_lines);
    }
    for (size_t i = 0; i < chunks.n && i < SHOWN_MAX; i++) {
        texts_check(&chunks, i, text, n);
    }
    for (size_t i = 0; i < chunks.n_references; i++) {
        SNP_ASSERT(chunks.references[i].chunk < chunks.n);
    }
    snp_chunks_done(&chunks);
}

/* The items that a parser which wrote these bytes has found in the text. */
static void answer_try(
    enum snp_language language, const uint8_t *bytes, size_t n_bytes, const char *text, size_t n)
{
    static struct snp_parse_item *room;
    /* no process: there is nothing to kill */
    struct snp_parse parse = {.pid = -1, .fd = -1};
    const struct snp_parse_item *items;
    size_t n_items;
    int ends[2];

    room = room == NULL ? malloc(SNP_PARSE_ITEMS_MAX * sizeof(*room)) : room;
    SNP_ASSERT(room != NULL && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    SNP_ASSERT(snp_write_all(ends[1], bytes, n_bytes) == 0 && close(ends[1]) == 0);
    parse.fd = ends[0];
    parse.items = room;
    if (snp_parse_items(&parse, language, n, &items, &n_items)) {
        chunks_try(text, n, items, n_items);
    } else {
        SNP_ASSERT(parse.failed[language] == 1 && n_items <= SNP_PARSE_ITEMS_MAX);
    }
    snp_closep(&parse.fd);
}

static void text_try(enum snp_language language, const char *text, size_t n)
{
    const struct snp_parse_item *items = NULL;
    uint32_t n_items = 0;

    chunks_try(text, n, NULL, 0); /* as plain text */
#ifdef HAS_GRAMMARS
    if (snp_extract(language, text, (uint32_t)n, &items, &n_items)) {
        chunks_try(text, n, items, n_items);
    }
#else
    (void)language, (void)items, (void)n_items;
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint64_t began = snp_cpu_us();
    bool is_hostile = n > 1 && (bytes[0] & HOSTILE) != 0;
    size_t n_text = !is_hostile ? n - (n > 0) : bytes[1] < n - 2 ? bytes[1] : n - 2;
    size_t n_clean;
    snp_autofree char *text = snp_utf8_clean((const char *)bytes + (n - n_text), n_text, &n_clean);
    enum snp_language language =
        n == 0 ? SNP_LANGUAGE_NONE : (enum snp_language)((bytes[0] & ~HOSTILE) % SNP_LANGUAGE_N);

    SNP_ASSERT(text != NULL);
    if (is_hostile) {
        answer_try(language, bytes + 2, n - 2 - n_text, text, n_clean);
    } else {
        text_try(language, text, n_clean);
    }
    SNP_ASSERT(snp_cpu_us() - began < ENDS_S * UINT64_C(1000000));
    return 0;
}
