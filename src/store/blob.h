/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_BLOB_H
#define SNP_STORE_BLOB_H

/*
 * Blobs: bytes named by the SHA-256 of their content (sealed ones: by what seal.h makes of that),
 * stored once, compressed if that helps, kept while a row refers to them. Up to
 * SNP_STORE_INLINE_MAX bytes are in the database, larger ones in DIR/journal/blobs/ab/HASH.
 *
 * A blob is on disk before the row that refers to it. All reads are checked; a damaged blob is
 * moved to quarantine, and every checkpoint that needs it becomes unusable.
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
    SNP_BLOB_CHUNK = 256 << 10, /* content bytes compressed and checked together */
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

/* Where blobs are stored: the folder blobs/, open. It has folders of two hex digits and tmp/. */
struct snp_blob_place {
    int fd;                      /* owned by the store */
    const char *dir;             /* its path, for messages; borrowed */
    struct snp_blob_use *use;    /* owned by the store */
    const struct snp_seal *seal; /* owned by the store; NULL = contents are not sealed */
};

/* Disk space of the files. Counted where a file is made or removed. */
struct snp_blob_use {
    atomic_uint_least64_t bytes;
    atomic_uint_least64_t most; /* limit: files that exceed it are refused */
};

/* A written blob, or one small enough to stay in memory. */
struct snp_blob_made {
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    uint64_t size;
    uint64_t stored;
    const void *data; /* inline content, borrowed from the writer until its next begin; or NULL */
    char tmp[40];     /* else: its file in tmp/, complete, not synced */
    int fd;           /* of that file, owned by the holder of this struct; -1 = none */
};

struct snp_blob_writer;

/* *ret is freed by snp_blob_writer_free. The place must outlive it. */
int snp_blob_writer_new(const struct snp_blob_place *place,
                        struct snp_blob_writer **ret,
                        struct snp_err *err) SNP_NODISCARD;
/* Uncommitted contents are removed. NULL is allowed. */
void snp_blob_writer_free(struct snp_blob_writer *writer);
SNP_DEFINE_CLEANUP(struct snp_blob_writer *, snp_blob_writer_free)

/*
 * Hash further contents in a thread while they are written: added bytes must stay unchanged until
 * the commit, or until snp_blob_wait of a later mark.
 */
void snp_blob_use_thread(struct snp_blob_writer *writer);
uint64_t snp_blob_mark(const struct snp_blob_writer *writer);
void snp_blob_wait(struct snp_blob_writer *writer, uint64_t mark);

/* Drop unfinished content, and begin a new one. */
int snp_blob_begin(struct snp_blob_writer *writer, struct snp_err *err) SNP_NODISCARD;
/* SNP_E_LIMIT: the disk is full; the message names the folder and the bytes needed. */
int snp_blob_add(struct snp_blob_writer *writer, const void *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;
int snp_blob_commit(struct snp_blob_writer *writer,
                    struct snp_blob_made *ret,
                    struct snp_err *err) SNP_NODISCARD;

/* Sync the content of a made file. Any thread. */
int snp_blob_sync(const struct snp_blob_place *place,
                  const struct snp_blob_made *made,
                  struct snp_err *err) SNP_NODISCARD;
/* Give a made file its name (its folder is made if needed). */
int snp_blob_rename(const struct snp_blob_place *place,
                    const struct snp_blob_made *made,
                    struct snp_err *err) SNP_NODISCARD;
/* Remove a made file; its descriptor is closed. Keeps errno. */
void snp_blob_discard(const struct snp_blob_place *place, struct snp_blob_made *made);
/* A file of this name and content exists, judging by its header. */
bool snp_blob_is_there(const struct snp_blob_place *place, const uint8_t hash[SNP_BLOB_HASH_BYTES]);
/* Sync the names in a folder (the first byte of hashes), and the folder's name. */
int snp_blob_sync_folder(const struct snp_blob_place *place,
                         unsigned first,
                         struct snp_err *err) SNP_NODISCARD;
int snp_blob_unlink(const struct snp_blob_place *place, const uint8_t hash[SNP_BLOB_HASH_BYTES]);
/* Count the existing files: once, before anything is written. */
void snp_blob_count(const struct snp_blob_place *place);
/* Move a damaged file to quarantine/, if it exists. */
void snp_blob_quarantine(const struct snp_blob_place *place,
                         const uint8_t hash[SNP_BLOB_HASH_BYTES]);

/*
 * Reading a file from the chunk that contains `offset`. Content is checked chunk by chunk, and the
 * name against the header. Damage is SNP_E_NOT_FOUND: the message describes it.
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
 * The next bytes, to the end of a chunk: *ret_n of them, 0 at the end. Borrowed until the next
 * call.
 */
int snp_blob_next(struct snp_blob_reader *reader,
                  const void **ret_bytes,
                  size_t *ret_n,
                  struct snp_err *err) SNP_NODISCARD;

/*
 * Check content against its name. For content in the database there is no other check. seal: or
 * NULL.
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
