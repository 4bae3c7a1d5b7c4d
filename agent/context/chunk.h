/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_CHUNK_H
#define SNP_CONTEXT_CHUNK_H

/*
 * A file as chunks: the file itself, then its definitions, or the sections of plain text, sorted by
 * start. A chunk is never cut. If a chunk lies in another, that one is its parent.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "context/parsed.h"

enum snp_chunk_kind {
    SNP_CHUNK_FILE = 0,
    SNP_CHUNK_SECTION,
    SNP_CHUNK_METHOD,
    SNP_CHUNK_FUNCTION,
    SNP_CHUNK_CLASS,
    SNP_CHUNK_INTERFACE,
    SNP_CHUNK_TYPE,
    SNP_CHUNK_CONSTANT,
    SNP_CHUNK_MODULE,
    SNP_CHUNK_MACRO,
    SNP_CHUNK_KINDS,
};

struct snp_chunk {
    enum snp_chunk_kind kind;
    uint32_t parent;   /* index in the chunks; 0 for the file itself */
    uint32_t lines[2]; /* first and last, from 1 */
    struct snp_parse_range all;
    struct snp_parse_range name; /* empty for the file */
    struct snp_parse_range signature;
    struct snp_parse_range doc;
};

/* A name that a chunk uses, or that the file imports (chunk 0). */
struct snp_mention {
    struct snp_parse_range name;
    uint32_t chunk;
};

struct snp_chunks {
    struct snp_chunk *items; /* owned */
    size_t n;
    struct snp_mention *references; /* owned */
    size_t n_references;
    struct snp_mention *imports; /* owned */
    size_t n_imports;
};

void snp_chunks_done(struct snp_chunks *chunks);

/* items as returned by snp_parse_items; NULL: plain text. The text is UTF-8. SNP_E_NOMEM. */
int snp_chunks_make(const char *text,
                    size_t n,
                    const struct snp_parse_item *items,
                    size_t n_items,
                    struct snp_chunks *ret) SNP_NODISCARD;

/* "function". */
const char *snp_chunk_kind_name(enum snp_chunk_kind kind);

/* Append the name with those of its parents: "Session.close"; for the file, nothing. */
int snp_chunk_qualified(const struct snp_chunks *chunks,
                        size_t i,
                        const char *text,
                        struct snp_buf *out) SNP_NODISCARD;

/* Append the text of a chunk without its documentation and without the chunks in it. */
int snp_chunk_body(const struct snp_chunks *chunks, size_t i, const char *text, struct snp_buf *out)
    SNP_NODISCARD;

#endif
