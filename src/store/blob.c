/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of blobs.
 *
 * A file is a header and chunks. The header has size and hash of the content, the length of the
 * file and its checksum; a chunk has a length, a flag for "not compressed", and a checksum of its
 * bytes, seeded with its number. So a torn write, a flipped bit or a file under a wrong name is
 * detected whichever part is read, without hashing the whole file.
 *
 * In a sealed store (seal.h) each chunk is encrypted and followed by a tag, and the header has a
 * salt and a tag. A blob's name says whether its file must be sealed: a plain file is refused for
 * it.
 *
 * A file is written in tmp/, under a name that no other start of the program uses, synced, and only
 * then renamed. blobrow.c has the rows.
 */
#include "store/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fd.h"
#include "base/str.h"
#include "store/hasher.h"
#include "store/seal.h"

enum {
    LEVEL = 1,           /* of zstd: as fast as disks */
    SAMPLE = 4096,       /* bytes tried before a chunk is compressed */
    SAMPLES = 3,         /* per chunk */
    WRITEBACK = 4 << 20, /* begin to write to disk after this many bytes */
    BLOCK = 4096,        /* disk space beyond a file's length, at most */
    NAME_MAX_LEN = 2 + 1 + SNP_STORE_HASH_LEN + 1,
};

#define AS_IS 0x80000000U /* in a chunk's stored_len */

static const char magic[8] = "snpblob1";
static const char sealed_magic[8] = "snpblob2";

struct blob_header {
    char magic[8];
    uint64_t size;   /* of the content */
    uint64_t stored; /* of the file */
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    uint64_t sum; /* of the fields before it */
};
_Static_assert(sizeof(struct blob_header) == 64, "written as it is");

/* Follows the header of a sealed file. */
struct seal {
    uint8_t salt[SNP_SEAL_SALT];
    uint8_t tag[SNP_SEAL_TAG]; /* of the header */
};
_Static_assert(sizeof(struct seal) == 32, "written as it is");

#define HEADER_PIECE UINT64_MAX /* the header's number; chunks have theirs */

struct chunk {
    uint32_t stored_len; /* of the following bytes without their tag, perhaps with AS_IS */
    uint32_t len;        /* of the content: SNP_BLOB_CHUNK, or less in the last chunk */
    uint64_t sum;        /* of the following bytes without their tag */
};
_Static_assert(sizeof(struct chunk) == 16, "written as it is");

struct snp_blob_writer {
    struct snp_blob_place place;
    struct snp_hasher *hasher; /* owned */
    struct snp_sealer *sealer; /* owned; NULL = files are not sealed */
    ZSTD_CCtx *zstd;           /* owned */
    char *chunk;               /* owned; SNP_BLOB_CHUNK bytes: content not yet written */
    char *packed;              /* owned; packed_max bytes */
    size_t packed_max;
    size_t n; /* bytes in chunk */
    uint64_t size;
    uint64_t stored;
    uint64_t kicked; /* bytes whose writing to disk has begun */
    uint64_t chunks;
    bool is_dense; /* the previous chunk did not shrink */
    struct seal seal;
    int fd; /* -1: nothing written yet */
    char tmp[40];
};

struct snp_blob_reader {
    struct snp_blob_place place;
    struct snp_sealer *sealer; /* owned; NULL = no file is sealed */
    bool is_sealed;            /* this one is */
    ZSTD_DCtx *zstd;           /* owned */
    char *packed;              /* owned */
    size_t packed_max;
    char *content; /* owned; SNP_BLOB_CHUNK bytes */
    int fd;
    char hash[SNP_STORE_HASH_LEN + 1];
    uint64_t size;
    uint64_t at;     /* content offset of the next chunk */
    uint64_t skip;   /* content bytes to skip */
    uint64_t chunks; /* passed */
};

/* Names --------------------------------------------------------------------------------- */

bool snp_blob_is(const struct snp_seal *seal,
                 const void *bytes,
                 size_t n,
                 const uint8_t hash[SNP_BLOB_HASH_BYTES])
{
    uint8_t found[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    return EVP_Digest(bytes, n, found, &len, EVP_sha256(), NULL) == 1 &&
           len == SNP_BLOB_HASH_BYTES &&
           snp_seal_name(snp_seal_is_name(hash) ? seal : NULL, found) &&
           memcmp(found, hash, SNP_BLOB_HASH_BYTES) == 0;
}

void snp_blob_hex(const uint8_t hash[SNP_BLOB_HASH_BYTES], char out[SNP_STORE_HASH_LEN + 1])
{
    snp_hex(hash, SNP_BLOB_HASH_BYTES, out);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int snp_blob_unhex(const char *text, uint8_t hash[SNP_BLOB_HASH_BYTES])
{
    if (text == NULL || strlen(text) != SNP_STORE_HASH_LEN) {
        return -1;
    }
    for (size_t i = 0; i < SNP_BLOB_HASH_BYTES; i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return -1;
        }
        hash[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

/* "ab/HASH" */
static void name_of(const uint8_t hash[SNP_BLOB_HASH_BYTES], char out[NAME_MAX_LEN])
{
    snp_blob_hex(hash, out + 3);
    out[0] = out[3];
    out[1] = out[4];
    out[2] = '/';
}

static int fail_write(const struct snp_blob_place *place, uint64_t needed, struct snp_err *err)
{
    struct statvfs fs;
    char need[32];
    char have[32] = "little";
    int eno = errno;

    if (eno != ENOSPC && eno != EDQUOT && eno != EFBIG) {
        (void)snp_fail_sys(err, eno, "write to %s; make it writable", place->dir);
        return snp_err_remedy(err, SNP_E_SYS, SNP_REMEDY_STATE_DIR, NULL, 0);
    }
    if (statvfs(place->dir, &fs) == 0) {
        (void)snp_format_bytes((uint64_t)fs.f_bavail * fs.f_frsize, have, sizeof(have));
    }
    return snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_STATE_DIR, NULL, 0,
                         "%s needs %s more, but only %s are free; free space on that disk",
                         place->dir, snp_format_bytes(needed, need, sizeof(need)), have);
}

/* Disk space of files -------------------------------------------------------------------------- */

static void use_add(const struct snp_blob_place *place, uint64_t n)
{
    (void)atomic_fetch_add(&place->use->bytes, n);
}

static void use_sub(const struct snp_blob_place *place, uint64_t n)
{
    (void)atomic_fetch_sub(&place->use->bytes, n);
}

static int use_check(const struct snp_blob_place *place, uint64_t more, struct snp_err *err)
{
    if (atomic_load(&place->use->bytes) + more <= place->use->most) {
        return 0;
    }
    return snp_fail_budget(place->dir, err);
}

/* Remove a file of this length; 0: look the length up. */
static int remove_counted(const struct snp_blob_place *place, const char *name, uint64_t bytes)
{
    struct stat st;

    if (bytes == 0 && fstatat(place->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        bytes = (uint64_t)st.st_size;
    }
    if (unlinkat(place->fd, name, 0) < 0) {
        return -1;
    }
    use_sub(place, bytes + BLOCK);
    return 0;
}

static uint64_t folder_bytes(const struct snp_blob_place *place, const char *name)
{
    int fd = openat(place->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    uint64_t bytes = 0;
    struct stat st;

    if (dir == NULL) {
        snp_closep(&fd);
        return 0;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private stream */
    while ((entry = readdir(dir)) != NULL) {
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode)) {
            bytes += (uint64_t)st.st_size + BLOCK;
        }
    }
    (void)closedir(dir);
    return bytes;
}

void snp_blob_count(const struct snp_blob_place *place)
{
    uint64_t bytes = folder_bytes(place, "quarantine") + folder_bytes(place, "tmp");
    char name[3];

    for (unsigned i = 0; i < 256; i++) {
        (void)snprintf(name, sizeof(name), "%02x", i);
        bytes += folder_bytes(place, name);
    }
    atomic_store(&place->use->bytes, bytes);
}

/* Writing ------------------------------------------------------------------------------- */

int snp_blob_writer_new(const struct snp_blob_place *place,
                        struct snp_blob_writer **ret,
                        struct snp_err *err)
{
    snp_cleanup(snp_blob_writer_freep) struct snp_blob_writer *w = calloc(1, sizeof(*w));

    SNP_TRY_MEMORY(w, err);
    w->place = *place;
    w->fd = -1;
    w->packed_max = ZSTD_compressBound(SNP_BLOB_CHUNK);
    w->zstd = ZSTD_createCCtx();
    w->chunk = malloc(SNP_BLOB_CHUNK);
    w->packed = malloc(w->packed_max);
    if (place->seal != NULL) {
        w->sealer = snp_sealer_new(place->seal);
        SNP_TRY_MEMORY(w->sealer, err);
    }
    SNP_TRY_MEMORY(w->zstd != NULL && w->chunk != NULL && w->packed != NULL, err);
    if (snp_hasher_new(&w->hasher, err) < 0) {
        return err->code;
    }
    *ret = SNP_TAKE_PTR(w);
    return 0;
}

/* Remove the unfinished file. */
static void writer_drop(struct snp_blob_writer *w)
{
    if (w->fd >= 0) {
        (void)remove_counted(&w->place, w->tmp, w->stored); /* else the next start removes it */
    }
    snp_closep(&w->fd);
}

void snp_blob_writer_free(struct snp_blob_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    writer_drop(writer);
    snp_hasher_free(writer->hasher);
    snp_sealer_free(writer->sealer);
    (void)ZSTD_freeCCtx(writer->zstd);
    free(writer->chunk);
    free(writer->packed);
    free(writer);
}

void snp_blob_use_thread(struct snp_blob_writer *writer)
{
    snp_hasher_use_thread(writer->hasher);
}

uint64_t snp_blob_mark(const struct snp_blob_writer *writer)
{
    return snp_hasher_mark(writer->hasher);
}

void snp_blob_wait(struct snp_blob_writer *writer, uint64_t mark)
{
    snp_hasher_wait(writer->hasher, mark);
}

int snp_blob_begin(struct snp_blob_writer *writer, struct snp_err *err)
{
    writer_drop(writer);
    writer->n = 0;
    writer->size = 0;
    writer->stored =
        sizeof(struct blob_header) + (writer->sealer == NULL ? 0 : sizeof(struct seal));
    writer->kicked = 0;
    writer->chunks = 0;
    writer->is_dense = false;
    return snp_hasher_begin(writer->hasher, err);
}

static int fail_seal(struct snp_err *err)
{
    return snp_fail(err, SNP_E_INTERNAL, "libcrypto could not encrypt with AES-256-GCM");
}

/* Create a file under a name that no other writer and no other start of the program uses. */
static int file_open(struct snp_blob_writer *w, struct snp_err *err)
{
    static atomic_uint_least64_t count;

    if (w->sealer != NULL &&
        (!snp_sealer_salt(w->seal.salt) || !snp_sealer_begin(w->sealer, w->seal.salt))) {
        return fail_seal(err);
    }
    (void)snprintf(w->tmp, sizeof(w->tmp), "tmp/%d-%llu", (int)getpid(),
                   (unsigned long long)atomic_fetch_add(&count, 1));
    (void)unlinkat(w->place.fd, w->tmp, 0); /* left by an earlier process with the same id */
    w->fd = openat(w->place.fd, w->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->fd < 0) {
        return fail_write(&w->place, SNP_BLOB_CHUNK, err);
    }
    use_add(&w->place, w->stored + BLOCK);
    return 0;
}

/*
 * Test whether samples of a chunk shrink: all together, or after a chunk that did not shrink the
 * first one alone, because contents are mostly of one kind.
 */
static bool shrinks(struct snp_blob_writer *w, const char *bytes, size_t n)
{
    size_t samples = w->is_dense ? 1 : SAMPLES;
    size_t total = 0;

    if (n < (size_t)SAMPLE * SAMPLES * 2) {
        return true;
    }
    for (size_t i = 0; i < samples; i++) {
        size_t at = (n - SAMPLE) / (SAMPLES - 1) * i;
        size_t r = ZSTD_compressCCtx(w->zstd, w->packed, w->packed_max, bytes + at, SAMPLE, LEVEL);

        total += ZSTD_isError(r) != 0 ? SAMPLE : r;
    }
    w->is_dense = total >= (size_t)SAMPLE * samples * 15 / 16;
    return !w->is_dense;
}

/* Append a whole vector to the file. */
static int append(struct snp_blob_writer *w, struct iovec parts[2], struct snp_err *err)
{
    size_t needed = parts[0].iov_len + parts[1].iov_len;
    off_t at = (off_t)w->stored;

    SNP_TRY(use_check(&w->place, needed, err));
    for (size_t left = needed; left > 0;) {
        ssize_t done = SNP_RETRY(pwritev(w->fd, parts, 2, at));

        if (done < 0) {
            return fail_write(&w->place, needed, err);
        }
        left -= (size_t)done;
        at += done;
        for (int i = 0; i < 2; i++) {
            size_t step = (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;

            parts[i].iov_base = (char *)parts[i].iov_base + step;
            parts[i].iov_len -= step;
            done -= (ssize_t)step;
        }
    }
    w->stored += needed;
    use_add(&w->place, needed);
    /* The disk writes while the next bytes arrive. */
    if (w->stored - w->kicked >= WRITEBACK) {
        (void)sync_file_range(w->fd, (off_t)w->kicked, (off_t)(w->stored - w->kicked),
                              SYNC_FILE_RANGE_WRITE); /* only a hint */
        w->kicked = w->stored;
    }
    return 0;
}

static int chunk_write(struct snp_blob_writer *w, const char *bytes, size_t n, struct snp_err *err)
{
    struct chunk chunk = {.stored_len = (uint32_t)n | AS_IS, .len = (uint32_t)n};
    struct iovec parts[2] = {{&chunk, sizeof(chunk)}, {(void *)(uintptr_t)bytes, n}};

    SNP_TRY(w->fd >= 0 ? 0 : file_open(w, err));
    if (shrinks(w, bytes, n)) {
        size_t packed = ZSTD_compressCCtx(w->zstd, w->packed, w->packed_max, bytes, n, LEVEL);

        if (ZSTD_isError(packed) == 0 && packed < n - n / 16) {
            chunk.stored_len = (uint32_t)packed;
            parts[1] = (struct iovec){w->packed, packed};
        }
    }
    if (w->sealer != NULL) {
        struct snp_seal_piece piece = {w->chunks, &chunk, offsetof(struct chunk, sum)};

        if (!snp_sealer_put(w->sealer, &piece, parts[1].iov_base, parts[1].iov_len, w->packed)) {
            return fail_seal(err);
        }
        parts[1].iov_base = w->packed;
    }
    chunk.sum = XXH3_64bits_withSeed(parts[1].iov_base, parts[1].iov_len, w->chunks);
    parts[1].iov_len += w->sealer == NULL ? 0 : SNP_SEAL_TAG;
    w->chunks++;
    return append(w, parts, err);
}

int snp_blob_add(struct snp_blob_writer *writer, const void *bytes, size_t n, struct snp_err *err)
{
    const char *at = bytes;
    int r = snp_hasher_add(writer->hasher, bytes, n, err);

    writer->size += n;
    while (r == 0 && n > 0) {
        /* Whole chunks need no copy. */
        if (writer->n == 0 && n >= SNP_BLOB_CHUNK) {
            r = chunk_write(writer, at, SNP_BLOB_CHUNK, err);
            at += SNP_BLOB_CHUNK;
            n -= SNP_BLOB_CHUNK;
            continue;
        }
        size_t room = SNP_BLOB_CHUNK - writer->n;
        size_t step = n < room ? n : room;

        memcpy(writer->chunk + writer->n, at, step);
        writer->n += step;
        at += step;
        n -= step;
        if (writer->n == SNP_BLOB_CHUNK) {
            r = chunk_write(writer, writer->chunk, SNP_BLOB_CHUNK, err);
            writer->n = 0;
        }
    }
    return r;
}

static int header_write(struct snp_blob_writer *w, const uint8_t *hash, struct snp_err *err)
{
    struct blob_header header = {.size = w->size, .stored = w->stored};
    struct iovec parts[2] = {{&header, sizeof(header)}, {&w->seal, sizeof(w->seal)}};
    int n = w->sealer == NULL ? 1 : 2;

    memcpy(header.magic, n == 1 ? magic : sealed_magic, sizeof(magic));
    memcpy(header.hash, hash, sizeof(header.hash));
    header.sum = XXH3_64bits(&header, offsetof(struct blob_header, sum));
    if (n == 2) {
        struct snp_seal_piece piece = {HEADER_PIECE, &header, sizeof(header)};

        if (!snp_sealer_put(w->sealer, &piece, NULL, 0, w->seal.tag)) {
            return fail_seal(err);
        }
    }
    if (SNP_RETRY(pwritev(w->fd, parts, n, 0)) !=
        (ssize_t)(sizeof(header) + (n == 1 ? 0 : sizeof(w->seal)))) {
        return fail_write(&w->place, sizeof(header), err);
    }
    return 0;
}

int snp_blob_commit(struct snp_blob_writer *writer, struct snp_blob_made *ret, struct snp_err *err)
{
    struct snp_blob_made made = {.size = writer->size, .fd = -1};
    bool is_inline = writer->size <= SNP_STORE_INLINE_MAX;
    int r = 0;

    if (!is_inline && writer->n > 0) {
        r = chunk_write(writer, writer->chunk, writer->n, err);
    }
    SNP_THEN(r, snp_hasher_end(writer->hasher, made.hash, err));
    if (r == 0 && !snp_seal_name(writer->place.seal, made.hash)) {
        return fail_seal(err);
    }
    if (r == 0 && is_inline) {
        made.data = writer->chunk;
        made.stored = writer->size;
        *ret = made;
        return 0;
    }
    SNP_THEN(r, header_write(writer, made.hash, err));
    SNP_TRY(r);
    (void)sync_file_range(writer->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a hint */
    made.stored = writer->stored;
    memcpy(made.tmp, writer->tmp, sizeof(made.tmp));
    made.fd = SNP_TAKE_FD(writer->fd);
    *ret = made;
    return 0;
}

/* Made files ---------------------------------------------------------------------------- */

int snp_blob_sync(const struct snp_blob_place *place,
                  const struct snp_blob_made *made,
                  struct snp_err *err)
{
    if (fdatasync(made->fd) < 0) {
        return fail_write(place, made->stored, err);
    }
    return 0;
}

int snp_blob_rename(const struct snp_blob_place *place,
                    const struct snp_blob_made *made,
                    struct snp_err *err)
{
    char name[NAME_MAX_LEN];
    uint64_t replaced;
    struct stat st;

    name_of(made->hash, name);
    /* A damaged file, or one without a row, may be there already. */
    replaced =
        fstatat(place->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size + BLOCK : 0;
    if (renameat(place->fd, made->tmp, place->fd, name) == 0) {
        use_sub(place, replaced);
        return 0;
    }
    if (errno == ENOENT) {
        name[2] = '\0';
        if ((mkdirat(place->fd, name, 0700) < 0 && errno != EEXIST) || fsync(place->fd) < 0) {
            return fail_write(place, made->stored, err);
        }
        name[2] = '/';
        if (renameat(place->fd, made->tmp, place->fd, name) == 0) {
            return 0;
        }
    }
    return fail_write(place, made->stored, err);
}

void snp_blob_discard(const struct snp_blob_place *place, struct snp_blob_made *made)
{
    int eno = errno;

    if (made->fd >= 0) {
        (void)remove_counted(place, made->tmp, made->stored); /* else the next start removes it */
    }
    snp_closep(&made->fd);
    errno = eno;
}

static bool header_is_right(const struct blob_header *header,
                            const uint8_t hash[SNP_BLOB_HASH_BYTES],
                            int fd)
{
    struct stat st;

    return memcmp(header->magic, snp_seal_is_name(hash) ? sealed_magic : magic, sizeof(magic)) ==
               0 &&
           header->sum == XXH3_64bits(header, offsetof(struct blob_header, sum)) &&
           memcmp(header->hash, hash, SNP_BLOB_HASH_BYTES) == 0 && fstat(fd, &st) == 0 &&
           S_ISREG(st.st_mode) && (uint64_t)st.st_size == header->stored;
}

bool snp_blob_is_there(const struct snp_blob_place *place, const uint8_t hash[SNP_BLOB_HASH_BYTES])
{
    snp_autoclose int fd = -1;
    char name[NAME_MAX_LEN];
    struct blob_header header;

    name_of(hash, name);
    fd = openat(place->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd >= 0 && snp_read_all(fd, &header, sizeof(header)) == (ssize_t)sizeof(header) &&
           header_is_right(&header, hash, fd);
}

int snp_blob_sync_folder(const struct snp_blob_place *place, unsigned first, struct snp_err *err)
{
    snp_autoclose int fd = -1;
    char name[3];

    (void)snprintf(name, sizeof(name), "%02x", first & 0xff);
    fd = openat(place->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fsync(fd) < 0) {
        return fail_write(place, SNP_BLOB_CHUNK, err);
    }
    return 0;
}

int snp_blob_unlink(const struct snp_blob_place *place, const uint8_t hash[SNP_BLOB_HASH_BYTES])
{
    char name[NAME_MAX_LEN];

    name_of(hash, name);
    return remove_counted(place, name, 0);
}

void snp_blob_quarantine(const struct snp_blob_place *place,
                         const uint8_t hash[SNP_BLOB_HASH_BYTES])
{
    char from[NAME_MAX_LEN];
    char to[sizeof("quarantine/") + SNP_STORE_HASH_LEN];

    name_of(hash, from);
    (void)snprintf(to, sizeof(to), "quarantine/%s", from + 3);
    (void)mkdirat(place->fd, "quarantine", 0700); /* exists, or the rename fails */
    if (renameat(place->fd, from, place->fd, to) < 0 && errno != ENOENT) {
        (void)remove_counted(place, from, 0); /* then at least it is not read again */
    }
}

/* Reading ------------------------------------------------------------------------------- */

int snp_blob_reader_new(const struct snp_blob_place *place,
                        struct snp_blob_reader **ret,
                        struct snp_err *err)
{
    snp_cleanup(snp_blob_reader_freep) struct snp_blob_reader *reader = calloc(1, sizeof(*reader));

    SNP_TRY_MEMORY(reader, err);
    reader->place = *place;
    reader->fd = -1;
    reader->packed_max = SNP_BLOB_CHUNK;
    reader->zstd = ZSTD_createDCtx();
    reader->packed = malloc(reader->packed_max + SNP_SEAL_TAG);
    if (place->seal != NULL) {
        reader->sealer = snp_sealer_new(place->seal);
        SNP_TRY_MEMORY(reader->sealer, err);
    }
    reader->content = malloc(SNP_BLOB_CHUNK);
    SNP_TRY_MEMORY(reader->zstd != NULL && reader->packed != NULL && reader->content != NULL, err);
    *ret = SNP_TAKE_PTR(reader);
    return 0;
}

void snp_blob_reader_free(struct snp_blob_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    snp_closep(&reader->fd);
    snp_sealer_free(reader->sealer);
    (void)ZSTD_freeDCtx(reader->zstd);
    free(reader->packed);
    free(reader->content);
    free(reader);
}

static int fail_damaged(const struct snp_blob_reader *reader, const char *what, struct snp_err *err)
{
    return snp_fail(err, SNP_E_NOT_FOUND, "blob %s is damaged: %s", reader->hash, what);
}

/* Read and check the next chunk's header. */
static int chunk_head(struct snp_blob_reader *reader,
                      struct chunk *chunk,
                      size_t *ret_len,
                      struct snp_err *err)
{
    uint64_t left = reader->size - reader->at;
    uint64_t expected = left < SNP_BLOB_CHUNK ? left : SNP_BLOB_CHUNK;
    size_t len;

    if (snp_read_all(reader->fd, chunk, sizeof(*chunk)) != (ssize_t)sizeof(*chunk)) {
        return fail_damaged(reader, "it ends early", err);
    }
    len = chunk->stored_len & ~AS_IS;
    if (chunk->len != expected || len > reader->packed_max ||
        ((chunk->stored_len & AS_IS) != 0 && len != chunk->len)) {
        return fail_damaged(reader, "impossible lengths", err);
    }
    *ret_len = len;
    return 0;
}

/* Skip whole chunks before the offset. */
static int chunks_skip(struct snp_blob_reader *reader, uint64_t offset, struct snp_err *err)
{
    int r = 0;

    while (r == 0 && reader->at + SNP_BLOB_CHUNK <= offset) {
        struct chunk chunk;
        size_t len = 0;

        r = chunk_head(reader, &chunk, &len, err);
        len += reader->is_sealed ? SNP_SEAL_TAG : 0;
        if (r == 0 && lseek(reader->fd, (off_t)len, SEEK_CUR) < 0) {
            r = snp_fail_sys(err, errno, "read blob %s", reader->hash);
        }
        reader->at += SNP_BLOB_CHUNK;
        reader->chunks++;
    }
    reader->skip = offset - reader->at;
    return r;
}

/* Check that the header of a sealed file was written with our key and this salt. */
static int seal_check(struct snp_blob_reader *reader,
                      const struct blob_header *header,
                      struct snp_err *err)
{
    struct snp_seal_piece piece = {HEADER_PIECE, header, sizeof(*header)};
    struct seal seal;

    if (reader->sealer == NULL) { /* no damage: not moved to quarantine */
        return snp_fail(err, SNP_E_DENIED, "blob %s is encrypted with a store key, and none is set",
                        reader->hash);
    }
    if (snp_read_all(reader->fd, &seal, sizeof(seal)) != (ssize_t)sizeof(seal) ||
        !snp_sealer_begin(reader->sealer, seal.salt) ||
        !snp_sealer_get(reader->sealer, &piece, seal.tag, 0)) {
        return fail_damaged(reader, "its header was not encrypted with this store key", err);
    }
    return 0;
}

int snp_blob_open(struct snp_blob_reader *reader,
                  const uint8_t hash[SNP_BLOB_HASH_BYTES],
                  uint64_t size,
                  uint64_t offset,
                  struct snp_err *err)
{
    char name[NAME_MAX_LEN];
    struct blob_header header;

    snp_closep(&reader->fd);
    snp_blob_hex(hash, reader->hash);
    name_of(hash, name);
    reader->fd = openat(reader->place.fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (reader->fd < 0 && errno != ENOENT && errno != ELOOP) {
        return snp_fail_sys(err, errno, "open blob %s", reader->hash);
    }
    if (reader->fd < 0) {
        return fail_damaged(reader, "its file is missing", err);
    }
    if (snp_read_all(reader->fd, &header, sizeof(header)) != (ssize_t)sizeof(header) ||
        !header_is_right(&header, hash, reader->fd) || header.size != size) {
        return fail_damaged(reader, "its header or its length is wrong", err);
    }
    reader->is_sealed = snp_seal_is_name(hash);
    SNP_TRY(reader->is_sealed ? seal_check(reader, &header, err) : 0);
    reader->size = size;
    reader->at = 0;
    reader->chunks = 0;
    return chunks_skip(reader, offset < size ? offset : size, err);
}

int snp_blob_next(struct snp_blob_reader *reader,
                  const void **ret_bytes,
                  size_t *ret_n,
                  struct snp_err *err)
{
    struct snp_seal_piece piece = {reader->chunks, NULL, offsetof(struct chunk, sum)};
    struct chunk chunk;
    size_t len = 0;
    size_t tag = reader->is_sealed ? SNP_SEAL_TAG : 0;
    const char *bytes = reader->packed;

    *ret_n = 0;
    if (reader->at >= reader->size) {
        return 0;
    }
    SNP_TRY(chunk_head(reader, &chunk, &len, err));
    if (snp_read_all(reader->fd, reader->packed, len + tag) != (ssize_t)(len + tag)) {
        return fail_damaged(reader, "it ends early", err);
    }
    if (XXH3_64bits_withSeed(reader->packed, len, reader->chunks) != chunk.sum) {
        return fail_damaged(reader, "a checksum is wrong", err);
    }
    piece.about = &chunk;
    if (tag != 0 && !snp_sealer_get(reader->sealer, &piece, reader->packed, len)) {
        return fail_damaged(reader, "a chunk was not encrypted with this store key", err);
    }
    if ((chunk.stored_len & AS_IS) == 0) {
        if (ZSTD_decompressDCtx(reader->zstd, reader->content, SNP_BLOB_CHUNK, reader->packed,
                                len) != chunk.len) {
            return fail_damaged(reader, "it cannot be decompressed", err);
        }
        bytes = reader->content;
    }
    reader->at += chunk.len;
    reader->chunks++;
    *ret_bytes = bytes + reader->skip;
    *ret_n = (size_t)(chunk.len - reader->skip);
    reader->skip = 0;
    return 0;
}
