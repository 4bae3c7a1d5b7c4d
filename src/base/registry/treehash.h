/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_REGISTRY_TREEHASH_H
#define SNP_BASE_REGISTRY_TREEHASH_H

/* One hash for all files of a folder: names, kinds, the execute bit, contents, link targets. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_TREE_HASH_LEN = 71, /* "sha256:" and 64 hex digits */
    SNP_TREE_FILES_MAX = 400000,
    SNP_TREE_DEPTH_MAX = 64,
};
#define SNP_TREE_BYTES_MAX (32ULL << 30)

struct snp_tree_digest {
    /* The request. */
    bool skip_bytecode;  /* skip folders __pycache__: their owner's Python writes them */
    bool must_be_public; /* every file must be readable for all users */
    /* The result. */
    uint64_t files;
    uint64_t bytes;
    char hash[SNP_TREE_HASH_LEN + 1];
};

/* SHA-256 of one file's content, "sha256:..." as above. */
int snp_file_hash(const char *path,
                  char out[SNP_TREE_HASH_LEN + 1],
                  struct snp_err *err) SNP_NODISCARD;

/* The same for bytes in memory. */
int snp_bytes_hash(const void *bytes,
                   size_t n,
                   char out[SNP_TREE_HASH_LEN + 1],
                   struct snp_err *err) SNP_NODISCARD;

/*
 * Read every file below path. Links are not followed; their target is hashed. SNP_E_LIMIT: more
 * than the limits above; SNP_E_INVALID: a device, socket or FIFO; SNP_E_DENIED: a file that others
 * cannot read, although must_be_public. The message names the file.
 */
int snp_tree_hash(const char *path,
                  struct snp_tree_digest *tree,
                  struct snp_err *err) SNP_NODISCARD;

#endif
