/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_INDEX_H
#define SNP_CONTEXT_INDEX_H

/*
 * The index of a project: a database in STATE/context, named by the hash of the project's real
 * path. It holds the text of the files, so answers are consistent. If it is removed, it is rebuilt
 * from the files.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/db/db.h"
#include "base/err.h"
#include "context/chunk.h"
#include "context/walk.h"

enum {
    SNP_INDEX_FILE_MAX = 1 << 20, /* bytes; of a larger file the index has only the name */
};

/* How a file was indexed. */
enum snp_index_state {
    SNP_INDEX_TEXT = 0, /* plain text: an unknown language, or its parser is missing */
    SNP_INDEX_CODE,
    SNP_INDEX_UNPARSED, /* plain text: the parser failed or took too long */
    SNP_INDEX_BINARY,   /* from here on the index has only the name */
    SNP_INDEX_LARGE,
    SNP_INDEX_SECRET, /* contains a private key */
    SNP_INDEX_UNREADABLE,
    SNP_INDEX_STATES,
};

struct snp_index {
    struct snp_db db;
    char *root;  /* owned: the project's real path */
    int root_fd; /* owned */
    int lock_fd; /* owned: the holder of its lock may change the index */
};

struct snp_index_report {
    uint64_t files;
    uint64_t changed; /* read and indexed again */
    uint64_t removed;
    uint64_t bytes; /* of the files read */
    bool is_busy;   /* another process is changing the index, so nothing was done */
    bool is_plain;  /* code was indexed as plain text: this build has no parser */
    struct snp_walk_left left;
};

/* Called from time to time with the number of files walked so far. */
typedef void (*snp_index_progress_fn)(void *arg, uint64_t files);

/*
 * dir: any path of the folder. rebuild: discard the old content. SNP_E_NOT_FOUND; SNP_E_DENIED from
 * the state folder.
 */
int snp_index_open(const char *dir, bool rebuild, struct snp_index *ret, struct snp_err *err)
    SNP_NODISCARD;
void snp_index_close(struct snp_index *index);
#define SNP_INDEX_NONE               \
    {                                \
        .root_fd = -1, .lock_fd = -1 \
    }

/*
 * Bring the index up to date. An interrupted refresh keeps its finished batches. If another process
 * is changing the index: waits for it with `waits`, and while the index is built for the first
 * time; else *ret_report says that the index is busy. progress may be NULL.
 */
int snp_index_refresh(struct snp_index *index,
                      bool waits,
                      snp_index_progress_fn progress,
                      void *arg,
                      struct snp_index_report *ret_report,
                      struct snp_err *err) SNP_NODISCARD;

/*
 * The text of a file, and its chunks; the caller owns both. SNP_E_NOT_FOUND: the index does not
 * have the text.
 */
int snp_index_text(struct snp_index *index,
                   int64_t file,
                   char **ret,
                   size_t *ret_n,
                   struct snp_err *err) SNP_NODISCARD;
int snp_index_chunks(struct snp_index *index,
                     int64_t file,
                     struct snp_chunks *ret,
                     struct snp_err *err) SNP_NODISCARD;

/* The id of a file by its path from the project. SNP_E_NOT_FOUND names the nearest path. */
int snp_index_file(struct snp_index *index, const char *path, int64_t *ret, struct snp_err *err)
    SNP_NODISCARD;

/* "binary". */
const char *snp_index_state_name(enum snp_index_state state);

#endif
