/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_BLOB_H
#define SNP_STORE_BLOB_H

/*
 * Blobs: bytes named by the SHA-256 of their content, stored once, compressed where it pays,
 * kept as long as a row refers to them. Up to SNP_STORE_INLINE_MAX bytes live in the
 * database, larger ones in DIR/journal/blobs/ab/HASH.
 *
 * A blob is on disk before the row that refers to it. What is read is checked; what turns
 * out to be damaged is set aside, and every checkpoint that needs it becomes unusable.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

struct snp_blob_info {
    char hash[SNP_STORE_HASH_LEN + 1];
    uint64_t size;   /* bytes of content */
    uint64_t stored; /* bytes on disk */
};

/*
 * Append length bytes from offset (less at the end) to buf. In a job. SNP_E_NOT_FOUND: no such
 * blob, or it is damaged. SNP_E_LIMIT: buf is too small. ret may be NULL.
 */
int snp_blob_read(struct snp_tx *tx,
                  const char *hash,
                  uint64_t offset,
                  uint64_t length,
                  struct snp_buf *buf,
                  struct snp_blob_info *ret,
                  struct snp_err *err) SNP_NODISCARD;

#endif
