/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PUT_H
#define SNP_CONTEXT_PUT_H

/* Add files to the index, and remove them. */

#include "context/index.h"
#include "context/language.h"

/* Data of a file besides its text. */
struct snp_put {
    const char *path;
    int64_t id; /* 0 = new */
    int64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns;
    int64_t inode;
    int64_t read_ns; /* when reading it began */
    unsigned char hash[32];
    enum snp_language language;
    enum snp_index_state state;
};

/* Delete the chunks and the text of a file. */
int snp_put_clear(struct snp_index *index, int64_t file, const char *path, struct snp_err *err)
    SNP_NODISCARD;
/* Delete all of a file. */
int snp_put_remove(struct snp_index *index, int64_t file, const char *path, struct snp_err *err)
    SNP_NODISCARD;
/* Write the row alone; *ret (may be NULL) is its id. */
int snp_put_file(struct snp_index *index,
                 const struct snp_put *put,
                 int64_t *ret,
                 struct snp_err *err) SNP_NODISCARD;
/* Write the row, text and chunks, replacing the previous ones. */
int snp_put(struct snp_index *index,
            const struct snp_put *put,
            const char *text,
            size_t n,
            const struct snp_chunks *chunks,
            struct snp_err *err) SNP_NODISCARD;

#endif
