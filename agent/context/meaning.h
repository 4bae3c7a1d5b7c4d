/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_MEANING_H
#define SNP_CONTEXT_MEANING_H

/*
 * Vectors of definitions and sections in the index: one row for each file. Making them takes longer
 * than the rest of an index, so an interrupted build is continued.
 */

#include "context/encoder.h"
#include "context/index.h"

enum {
    SNP_MEANT_MAX = 1000,
};

/* The maker of vectors: the encoder on this machine, or a model at an endpoint. */

struct snp_config;
struct snp_embedder;

#define SNP_ENCODING_LOCAL "local"
#define SNP_ENCODING_OFF   "off"

struct snp_encoding {
    char *name; /* owned: "local", "openai/NAME"; vectors of another name are replaced. NULL =
                 * none */
    uint64_t limit_ms;             /* of one answer of an endpoint */
    struct snp_encoder *encoder;   /* owned; NULL = at an endpoint */
    struct snp_embedder *embedder; /* owned */
    float (*numbers)[SNP_VECTOR_LEN];
};

/* name as above, except "off". SNP_E_NOT_FOUND: this build has no encoder. Opens no connection. */
int snp_encoding_open(const char *name,
                      const struct snp_config *config,
                      struct snp_encoding *ret,
                      struct snp_err *err) SNP_NODISCARD;
void snp_encoding_done(struct snp_encoding *encoding);

/*
 * Vectors of at most SNP_ENCODE_TEXTS_MAX texts, each of *ret_len numbers; borrowed until the
 * next call.
 */
int snp_encoding_make(struct snp_encoding *encoding,
                      const char *const *texts,
                      size_t n,
                      const float **ret,
                      size_t *ret_len,
                      struct snp_err *err) SNP_NODISCARD;

struct snp_meaning_report {
    uint64_t files;   /* whose vectors were made */
    uint64_t pending; /* files without vectors so far */
    bool is_busy;     /* another process is changing the index */
};

/* Called from time to time: files done, of all files that had no vectors. */
typedef void (*snp_meaning_progress_fn)(uint64_t done, uint64_t all);

/*
 * Make the missing vectors for at most limit_us (0 = until all are made). progress may be NULL.
 * Vectors of another encoding are deleted first. Finished vectors are kept if this fails.
 */
int snp_meaning_update(struct snp_index *index,
                       struct snp_encoding *encoding,
                       uint64_t limit_us,
                       snp_meaning_progress_fn progress,
                       struct snp_meaning_report *ret,
                       struct snp_err *err) SNP_NODISCARD;

struct snp_meant {
    int64_t chunk;
    int64_t file;
    float likeness; /* -1 to 1 */
};

/* Chunks near to a text, best first. */
struct snp_meants {
    struct snp_meant items[SNP_MEANT_MAX];
    size_t n;
};

/* The chunks nearest to a text; none while the vectors are of another encoding. */
int snp_meaning_search(struct snp_index *index,
                       struct snp_encoding *encoding,
                       const char *text,
                       struct snp_meants *ret,
                       struct snp_err *err) SNP_NODISCARD;

#endif
