/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_BLOB_H
#define SNP_STORE_BLOB_H

/*
 * Blobs: bytes named by the SHA-256 of their content (sealed ones: by what seal.h makes of that),
 * stored once, compressed where it pays, kept as long as a row refers to them. Up to
 * SNP_STORE_INLINE_MAX bytes live in the database, larger ones in DIR/journal/blobs/ab/HASH.
 *
 * A blob is on disk before the row that refers to it. What is read is checked; what turns
 * out to be damaged is set aside, and every checkpoint that needs it becomes unusable.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/job.h"

struct snp_seal;

enum {
    SNP_BLOB_HASH_BYTES = 32,
    SNP_BLOB_CHUNK = 256 << 10, /* bytes of content that are compressed and checked as one */
};

struct snp_blob_info {
    char hash[SNP_STORE_HASH_LEN + 1];
    uint64_t size;   /* bytes of content */
    uint64_t stored; /* bytes on disk */
};

struct snp_blob_range {
    const char *hash;
    uint64_t offset;
    uint64_t length;
};

/*
 * Append length bytes from offset (less at the end) to buf. In a job. SNP_E_NOT_FOUND: no such
 * blob, or it is damaged. SNP_E_LIMIT: buf is too small. ret may be NULL.
 */
int snp_blob_read(struct snp_tx *tx,
                  const struct snp_blob_range *range,
                  struct snp_buf *buf,
                  struct snp_blob_info *ret,
                  struct snp_err *err) SNP_NODISCARD;

/* Files: within src/store, any thread ---------------------------------------------------- */

/* Where blobs are: the folder blobs/, open. Folders of two hex digits and tmp/ are below it. */
struct snp_blob_place {
    int fd;                      /* owned by the store */
    const char *dir;             /* its path, for messages; borrowed */
    struct snp_blob_use *use;    /* owned by the store */
    const struct snp_seal *seal; /* owned by the store; NULL = contents are written as they are */
};

/* What files take. Counted by whoever makes or removes one. */
struct snp_blob_use {
    atomic_uint_least64_t bytes;
    atomic_uint_least64_t most; /* files that would need more are refused */
};

/* A blob that was written, or is small enough to stay in memory. */
struct snp_blob_made {
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    uint64_t size;
    uint64_t stored;
    const void *data; /* inline content, borrowed from the writer until its next begin; or NULL */
    char tmp[40];     /* else: its file in tmp/, complete, not synced */
    int fd;           /* of that file, owned by whoever got this; -1 = none */
};

struct snp_blob_writer;

/* *ret is freed by snp_blob_writer_free. The place must outlive it. */
int snp_blob_writer_new(const struct snp_blob_place *place,
                        struct snp_blob_writer **ret,
                        struct snp_err *err) SNP_NODISCARD;
/* What was begun and not committed is removed. NULL is fine. */
void snp_blob_writer_free(struct snp_blob_writer *writer);
SNP_DEFINE_CLEANUP(struct snp_blob_writer *, snp_blob_writer_free)

/*
 * From now on contents are hashed by a thread, beside being written: bytes that were added must
 * stay as they are until the commit, or until snp_blob_wait of a mark that was taken since.
 */
void snp_blob_use_thread(struct snp_blob_writer *writer);
uint64_t snp_blob_mark(const struct snp_blob_writer *writer);
void snp_blob_wait(struct snp_blob_writer *writer, uint64_t mark);

/* Forget what was begun, and begin. */
int snp_blob_begin(struct snp_blob_writer *writer, struct snp_err *err) SNP_NODISCARD;
/* SNP_E_LIMIT: the disk is full; the message names the folder and what was needed. */
int snp_blob_add(struct snp_blob_writer *writer, const void *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;
int snp_blob_commit(struct snp_blob_writer *writer,
                    struct snp_blob_made *ret,
                    struct snp_err *err) SNP_NODISCARD;

/* Put the content of a made file on disk. Any thread. */
int snp_blob_sync(const struct snp_blob_place *place,
                  const struct snp_blob_made *made,
                  struct snp_err *err) SNP_NODISCARD;
/* Give a made file its name (made before if need be its folder). */
int snp_blob_rename(const struct snp_blob_place *place,
                    const struct snp_blob_made *made,
                    struct snp_err *err) SNP_NODISCARD;
/* Remove a made file; its descriptor is closed. Keeps errno. */
void snp_blob_discard(const struct snp_blob_place *place, struct snp_blob_made *made);
/* Whether a file of this name and content is there, by its header. */
bool snp_blob_is_there(const struct snp_blob_place *place, const uint8_t hash[SNP_BLOB_HASH_BYTES]);
/* Put the names in a folder (the first byte of hashes) on disk, and the folder's own. */
int snp_blob_sync_folder(const struct snp_blob_place *place,
                         unsigned first,
                         struct snp_err *err) SNP_NODISCARD;
int snp_blob_unlink(const struct snp_blob_place *place, const uint8_t hash[SNP_BLOB_HASH_BYTES]);
/* Count what is there: once, before anything is written. */
void snp_blob_count(const struct snp_blob_place *place);
/* Move a damaged file to quarantine/, if it is there. */
void snp_blob_quarantine(const struct snp_blob_place *place,
                         const uint8_t hash[SNP_BLOB_HASH_BYTES]);

/*
 * Reading a file: chunks from the one that holds `offset` on. Content is checked chunk by chunk,
 * and the name against the header. Damage is SNP_E_NOT_FOUND: the message says what is wrong.
 */
struct snp_blob_reader;
int snp_blob_reader_new(const struct snp_blob_place *place,
                        struct snp_blob_reader **ret,
                        struct snp_err *err) SNP_NODISCARD;
void snp_blob_reader_free(struct snp_blob_reader *reader);
SNP_DEFINE_CLEANUP(struct snp_blob_reader *, snp_blob_reader_free)
int snp_blob_open(struct snp_blob_reader *reader,
                  const uint8_t hash[SNP_BLOB_HASH_BYTES],
                  uint64_t size,
                  uint64_t offset,
                  struct snp_err *err) SNP_NODISCARD;
/*
 * The next bytes, until the end of a chunk: *ret_n of them, 0 at the end. Borrowed until the
 * next call.
 */
int snp_blob_next(struct snp_blob_reader *reader,
                  const void **ret_bytes,
                  size_t *ret_n,
                  struct snp_err *err) SNP_NODISCARD;

/*
 * Is that the content of this name? Of one in the database nobody else would notice. seal: or NULL.
 */
bool snp_blob_is(const struct snp_seal *seal,
                 const void *bytes,
                 size_t n,
                 const uint8_t hash[SNP_BLOB_HASH_BYTES]);

/* out: SNP_STORE_HASH_LEN hex digits and NUL. */
void snp_blob_hex(const uint8_t hash[SNP_BLOB_HASH_BYTES], char out[SNP_STORE_HASH_LEN + 1]);
/* -1: text is no hash of 64 lower-case hex digits. */
int snp_blob_unhex(const char *text, uint8_t hash[SNP_BLOB_HASH_BYTES]) SNP_NODISCARD;

#endif
