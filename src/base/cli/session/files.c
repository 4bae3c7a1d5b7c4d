/* SPDX-License-Identifier: Apache-2.0 */
/* The content of files, in pieces of at most SNP_FILE_CHUNK_MAX. */
#include "base/cli/session/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/fd.h"
#include "base/wire/file.h"
#include "base/wire/rpc.h"

enum {
    BLOCK = 4096,        /* block size of file systems */
    HOLE_MIN = 16 << 10, /* a shorter one is sent as zeros */
};

/* Limit of files copied at once, holes included; a larger workspace raises it. */
#define FILES_BYTES_MAX ((uint64_t)16 << 30)

/* put --------------------------------------------------------------------------------------- */

static int put_chunk(const struct snp_remote_file *transfer,
                     uint64_t offset,
                     bool truncate,
                     const char *bytes,
                     size_t n,
                     struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(
        snp_put_request, .session = transfer->session, .path = transfer->path, .offset = offset,
        .truncate = truncate, .mode = transfer->mode, .more = transfer->has_more);
    snp_autoreply struct snp_reply reply = {0};
    const struct snp_call call = {.head = head, .raw = bytes, .raw_len = n};
    int r = head == NULL ? snp_fail(err, SNP_E_INVALID, "the path is not UTF-8")
                         : snp_remote_send(transfer->cli, &call, &reply, err);

    if (r == SNP_E_UNSUPPORTED && transfer->has_more && head != NULL) {
        (void)json_object_del(head, "more"); /* a daemon older than this program */
        r = snp_remote_send(transfer->cli, &call, &reply, err);
    }
    return r;
}

/* End of the data at offset: at a hole large enough for a separate call, or after a chunk. */
static uint64_t source_end(int fd, uint64_t offset)
{
    uint64_t most = offset + SNP_FILE_CHUNK_MAX;
    off_t end = (off_t)offset;

    for (off_t data = end; data - end < HOLE_MIN && (uint64_t)data < most;) {
        end = lseek(fd, data, SEEK_HOLE);
        data = end < 0 ? -1 : lseek(fd, end, SEEK_DATA);
        if (data < 0) { /* the last bytes; or a file system without holes */
            break;
        }
    }
    return end > (off_t)offset && (uint64_t)end < most ? (uint64_t)end : most;
}

/* Read the next data at or after offset and move *offset to it; 0 = none, -1 with errno. */
static ssize_t source_next(int fd, bool is_stream, uint64_t *offset, char *chunk)
{
    off_t data = is_stream ? 0 : lseek(fd, (off_t)*offset, SEEK_DATA);
    struct stat st;
    uint64_t end;

    if (is_stream) {
        return snp_read_all(fd, chunk, SNP_FILE_CHUNK_MAX);
    }
    if (data < 0 && errno == ENXIO) { /* a hole to the end, or the end */
        if (fstat(fd, &st) < 0) {
            return -1;
        }
        *offset = (uint64_t)st.st_size > *offset ? (uint64_t)st.st_size : *offset;
        return 0;
    }
    *offset = data > 0 && (uint64_t)data > *offset ? (uint64_t)data : *offset;
    end = source_end(fd, *offset);
    return lseek(fd, (off_t)*offset, SEEK_SET) < 0
               ? -1
               : snp_read_all(fd, chunk, (size_t)(end - *offset));
}

int snp_file_put(const struct snp_remote_file *to, int fd, uint64_t *ret_size, struct snp_err *err)
{
    snp_autofree char *chunk = snp_need(malloc(SNP_FILE_CHUNK_MAX));
    uint64_t offset = 0;
    uint64_t sent = 0; /* end of the data sent */
    struct stat st;
    /* A pipe, a device, or a file read by another process before. */
    bool is_stream = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || lseek(fd, 0, SEEK_CUR) != 0;
    bool is_first = true;
    bool is_open = false; /* the session is not yet saved with the sent data */
    struct snp_remote_file part = *to;
    ssize_t n;

    do {
        int r = 0;

        n = source_next(fd, is_stream, &offset, chunk);
        if (n < 0) {
            return snp_fail_sys(err, errno, "read the file");
        }
        part.has_more =
            to->last != NULL ||
            (n > 0 && (is_stream ? n == SNP_FILE_CHUNK_MAX : (off_t)offset + n < st.st_size));
        /* Truncate to the start of the data: the file is new, or ends in a hole. */
        if (n > 0 || is_first || offset > sent || is_open) {
            r = put_chunk(&part, offset, is_first || (n == 0 && offset > sent), chunk, (size_t)n,
                          err);
        }
        if (r < 0) {
            return r;
        }
        is_first = false;
        is_open = to->last == NULL && (part.has_more || n == SNP_FILE_CHUNK_MAX);
        sent = offset += (uint64_t)n;
    } while (n > 0);
    *ret_size = offset;
    return 0;
}

int snp_file_put_end(const struct snp_remote_file *to, struct snp_err *err)
{
    return put_chunk(to, 0, false, "", 0, err);
}

/* get --------------------------------------------------------------------------------------- */

/*
 * A file being received. The session's code may change it during the copy, so written bytes are
 * counted here.
 */
struct receiving {
    struct snp_moved *moved; /* borrowed; includes earlier files */
    uint64_t offset;
    uint64_t room; /* limit of written bytes, for all files */
    int fd;
    bool has_holes; /* a new file: parts not written are holes */
};

static bool is_hole(const char *bytes, size_t n)
{
    return bytes[0] == '\0' && memcmp(bytes, bytes + 1, n - 1) == 0;
}

static size_t block_len(uint64_t offset, size_t n)
{
    size_t left = BLOCK - (size_t)(offset % BLOCK);

    return left < n ? left : n;
}

/* Write n bytes at the offset and advance it. */
static int receive_bytes(struct receiving *to, const char *bytes, size_t n, struct snp_err *err)
{
    /* File systems allocate whole blocks. */
    to->moved->stored += to->has_holes ? (n + BLOCK - 1) / BLOCK * BLOCK : n;
    if (to->moved->stored > to->room) {
        return snp_fail(err, SNP_E_LIMIT,
                        "received more data than the session can hold: its code is changing the "
                        "files%s",
                        to->has_holes ? ""
                                      : ", or they are sparse, and only a regular file can "
                                        "keep holes");
    }
    if ((to->has_holes && lseek(to->fd, (off_t)to->offset, SEEK_SET) < 0) ||
        snp_write_all(to->fd, bytes, n) < 0) {
        return snp_fail_sys(err, errno, "write");
    }
    to->offset += n;
    return 0;
}

static int receive_zeros(struct receiving *to, uint64_t n, struct snp_err *err)
{
    static const char zeros[64 << 10];
    int r = 0;

    if (to->has_holes) {
        to->offset += n;
        return 0;
    }
    while (r == 0 && n > 0) {
        size_t step = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);

        r = receive_bytes(to, zeros, step, err);
        n -= step;
    }
    return r;
}

/* Zeros received as bytes become holes too, so the copy takes no more space than the original. */
static int receive(struct receiving *to, const char *bytes, size_t n, struct snp_err *err)
{
    int r = 0;

    while (r == 0 && n > 0) {
        size_t step = block_len(to->offset, n);
        bool is_zeros = is_hole(bytes, step);

        while (step < n) {
            size_t next = block_len(to->offset + step, n - step);

            if (is_hole(bytes + step, next) != is_zeros) {
                break;
            }
            step += next;
        }
        r = is_zeros ? receive_zeros(to, step, err) : receive_bytes(to, bytes, step, err);
        bytes += step;
        n -= step;
    }
    return r;
}

static bool is_new_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
           lseek(fd, 0, SEEK_CUR) == 0 && ((unsigned)fcntl(fd, F_GETFL) & O_APPEND) == 0;
}

/* Handle one answer to "get". *ret_end: it was the last. */
static int take_piece(struct snp_remote_file *from,
                      struct receiving *to,
                      const struct snp_reply *reply,
                      bool *ret_end,
                      struct snp_err *err)
{
    SNP_READ(snp_get_answer, piece, reply->head);
    uint64_t hole = piece.hole > 0 ? (uint64_t)piece.hole : 0;
    uint64_t most = piece.room > 0 ? (uint64_t)piece.room : 0;
    bool is_mixed = !from->is_written && piece.project;
    int r;

    to->room = is_mixed || most == 0 ? FILES_BYTES_MAX : most;
    most = most > FILES_BYTES_MAX ? most : FILES_BYTES_MAX;
    most -= to->moved->bytes < most ? to->moved->bytes : most;
    if (to->offset > most || hole > most - to->offset ||
        reply->raw_len > most - to->offset - hole) {
        return snp_fail(err, SNP_E_LIMIT, "the files are larger than may be copied at once");
    }
    *ret_end = piece.eof;
    from->mode = (unsigned)piece.mode;
    if (!piece.eof && reply->raw_len == 0 && hole == 0) {
        return snp_fail(err, SNP_E_PEER, "the file ended early");
    }
    r = receive_zeros(to, hole, err);
    return r < 0 ? r : receive(to, reply->raw, reply->raw_len, err);
}

int snp_file_get(struct snp_remote_file *from, int fd, struct snp_moved *moved, struct snp_err *err)
{
    struct receiving to = {.moved = moved, .fd = fd, .has_holes = is_new_file(fd)};
    bool at_end = false;

    while (!at_end) {
        snp_autoreply struct snp_reply reply = {0};
        int r = snp_remote_call(from->cli,
                                SNP_WRITE(snp_get_request, .session = from->session,
                                          .path = from->path, .offset = to.offset,
                                          .length = SNP_FILE_CHUNK_MAX, .holes = true),
                                &reply, err);

        r = r < 0 ? r : take_piece(from, &to, &reply, &at_end, err);
        if (r < 0) {
            return r;
        }
    }
    if (to.has_holes &&
        (ftruncate(fd, (off_t)to.offset) < 0 || lseek(fd, (off_t)to.offset, SEEK_SET) < 0)) {
        return snp_fail_sys(err, errno, "write");
    }
    moved->bytes += to.offset;
    return 0;
}
