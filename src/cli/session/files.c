/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `put`, `get`, `ls` of a session's files, and `output`, the full text of what a cell printed.
 *
 * Bytes travel in pieces of at most SNP_FILE_CHUNK_MAX. A file here appears under its name
 * only when all of it has come.
 */
#include "cli/session/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/show/human.h"
#include "cli/show/term.h"
#include "policy/session_name.h"
#include "wire/file.h"
#include "wire/rpc.h"

enum {
    LS_COLUMNS = 4,
    CELL_MAX = 32,
    CREATED_MODE = 0644,
    BLOCK = 4096,                 /* as file systems keep them */
    HOLE_MIN = 16 << 10,          /* a shorter one is sent as zeros */
    OUTPUT_MAX_BYTES = 128 << 20, /* a stream that is kept has at most 64 MiB */
};

/* Of files copied at once, holes included; more only for a workspace that is larger. */
#define FILES_BYTES_MAX ((uint64_t)16 << 30)

/* A file or folder of a session, and the way to it. */
struct place {
    struct snp_client *client; /* owned */
    char *session;             /* owned */
    char *path;                /* owned */
};

static void place_done(struct place *place)
{
    snp_client_free(place->client);
    free(place->session);
    free(place->path);
}
#define autoplace snp_cleanup(place_done)

/*
 * "SESSION:PATH", or with --session PATH; without it a plain word is a session. A missing path is path_default, or
 * refused if that is NULL.
 */
static int place_find(const struct snp_opts *opts,
                      const char *word,
                      const char *path_default,
                      struct place *ret,
                      struct snp_err *err)
{
    snp_autofree char *session = NULL;
    const char *path = NULL;
    int r = snp_remote_split(opts, word, ':', &session, &path, err);

    if (r == 0 && session == NULL && word != NULL) {
        path = NULL;
        session = strdup(word);
        r = session == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                            : snp_session_name_check(session, err);
        r = r < 0 ? snp_err_wrap(err, "'%.80s'", word) : 0;
    }
    if (r < 0) {
        return r;
    }
    path = path == NULL ? path_default : path;
    if (path == NULL) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be SESSION:PATH",
                        word == NULL ? session == NULL ? "" : session : word);
    }
    ret->path = strdup(path);
    if (ret->path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_remote_connect(false, &ret->client, err);
    return r < 0 ? r : snp_remote_session(ret->client, session, &ret->session, err);
}

/* A path's last part; "" if it ends with a slash. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* put --------------------------------------------------------------------------------------- */

static int source_open(const char *path,
                       int *ret_fd,
                       struct stat *ret_stat,
                       struct snp_err *err)
{
    /* Not blocking, so that a FIFO is refused and not waited for. */
    snp_autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT) {
        return snp_fail(err, SNP_E_NOT_FOUND, "there is no file %s", path);
    }
    if (fd < 0 || fstat(fd, ret_stat) < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    if (!S_ISREG(ret_stat->st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "%s is not a regular file%s", path,
                        S_ISDIR(ret_stat->st_mode) ? "; -r copies a folder" : "");
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

static int put_chunk(const struct snp_remote_file *transfer,
                     uint64_t offset,
                     bool truncate,
                     const char *bytes,
                     size_t n,
                     struct snp_err *err)
{
    snp_autojson json_t *head =
        SNP_WRITE(snp_put_request, .session = transfer->session, .path = transfer->path,
                  .offset = offset, .truncate = truncate, .mode = transfer->mode);
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call call = {.head = head, .raw = bytes, .raw_len = n};

    if (head == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the path is not UTF-8");
    }
    return snp_client_call(transfer->client, &call, &reply, err);
}

/* Where the bytes at offset end: at a hole that is worth a call of its own, or after a chunk. */
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

/* The next bytes from offset on that the file has, *offset moved to them; 0 = none, -1 with errno. */
static ssize_t source_next(int fd, uint64_t *offset, char *chunk)
{
    off_t data = lseek(fd, (off_t)*offset, SEEK_DATA);
    struct stat st;
    uint64_t end;

    if (data < 0 && errno == ENXIO) { /* a hole up to the end, or the end */
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

int snp_file_put(const struct snp_remote_file *to,
                 int fd,
                 uint64_t *ret_size,
                 struct snp_err *err)
{
    snp_autofree char *chunk = malloc(SNP_FILE_CHUNK_MAX);
    uint64_t offset = 0;
    uint64_t sent = 0; /* up to here the session has it */
    bool is_first = true;
    ssize_t n;

    if (chunk == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    do {
        int r = 0;

        n = source_next(fd, &offset, chunk);
        if (n < 0) {
            return snp_fail_sys(err, errno, "read the file");
        }
        /* Cut to where the bytes begin: so it is new, or ends in a hole. */
        if (n > 0 || is_first || offset > sent) {
            r = put_chunk(to, offset, is_first || (n == 0 && offset > sent), chunk, (size_t)n,
                          err);
        }
        if (r < 0) {
            return r;
        }
        is_first = false;
        sent = offset += (uint64_t)n;
    } while (n > 0);
    *ret_size = offset;
    return 0;
}

/* One file or folder that went over. */
struct copied {
    char *from;    /* owned; as it was given */
    char *to;      /* owned */
    char *session; /* owned */
    char *path;    /* owned; in the session */
    struct snp_moved moved;
    bool is_tree;
    bool is_put;
};

static void copied_done(struct copied *copied)
{
    free(copied->from);
    free(copied->to);
    free(copied->session);
    free(copied->path);
}
#define autocopied snp_cleanup(copied_done)

static int copied_print(const struct copied *copied)
{
    const char *here = copied->is_put ? copied->from : copied->to;
    snp_autojson json_t *answer = json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:I}", "session", copied->session, "path", copied->path,
        copied->is_put ? "source" : "destination", snp_cli_path_json(here), "files",
        (json_int_t)copied->moved.files, "bytes", (json_int_t)copied->moved.bytes, "left_out",
        (json_int_t)copied->moved.skipped);

    return answer == NULL ? SNP_EXIT_FAILED : snp_cli_print_json(answer);
}

/* "from -> to (3 files, 5 KiB)" */
static void copied_tell(const struct copied *copied)
{
    const struct snp_moved *moved = &copied->moved;
    char text[CELL_MAX];
    char files[CELL_MAX] = "";

    if (copied->is_tree) {
        (void)snprintf(files, sizeof(files), "%llu file%s, ", (unsigned long long)moved->files,
                       moved->files == 1 ? "" : "s");
    }
    (void)fprintf(stderr, "%s -> %s (%s%s)\n", copied->from, copied->to, files,
                  snp_format_bytes(moved->bytes, text, sizeof(text)));
    if (moved->skipped > 0) {
        (void)fprintf(stderr, "Skipped %llu links, sockets or other special files.\n",
                      (unsigned long long)moved->skipped);
    }
}

/* The end of `put` and `get`: r < 0 is why it failed. */
static int copied_end(const struct snp_cli *cli,
                      const struct snp_opts *opts,
                      const struct copied *copied,
                      int r,
                      const struct snp_err *err)
{
    if (r < 0) {
        return snp_cli_fail(cli, err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return copied_print(copied);
    }
    if (copied->to != NULL) { /* else it went to standard output */
        copied_tell(copied);
    }
    return SNP_EXIT_OK;
}

/* Without the slashes at its end; owned, NULL when out of memory. */
static char *trimmed(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    return strndup(path, n);
}

static int put_tree(const struct snp_opts *opts, struct copied *copied, struct snp_err *err)
{
    const char *source = snp_opts_arg(opts, 0);
    snp_autofree char *from = trimmed(source);
    snp_autofree char *real = realpath(source, NULL);
    autoplace struct place place = {0};
    snp_autofree char *whole = NULL;
    struct snp_remote_file to;
    int r;

    if (from == NULL || real == NULL) {
        return snp_fail(err, SNP_E_NOT_FOUND, "there is no folder %s", source);
    }
    r = place_find(opts, snp_opts_arg(opts, 1), base_name(real), &place, err);
    if (r < 0) {
        return r;
    }
    SNP_ASSERT(place.path != NULL);
    whole = base_name(place.path)[0] == '\0' ? snp_format("%s%s", place.path, base_name(real))
                                             : strdup(place.path);
    copied->to = snp_format("%s:%s", place.session, whole == NULL ? "" : whole);
    to = (struct snp_remote_file){place.client, place.session, whole, 0, false};
    r = whole == NULL || copied->to == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                            : snp_tree_put(&to, from, &copied->moved, err);
    copied->from = SNP_TAKE_PTR(from);
    copied->session = SNP_TAKE_PTR(place.session);
    copied->path = SNP_TAKE_PTR(whole);
    return r;
}

static int put(const struct snp_opts *opts, struct copied *copied, struct snp_err *err)
{
    const char *source = snp_opts_arg(opts, 0);
    autoplace struct place place = {0};
    snp_autofree char *whole = NULL;
    snp_autoclose int fd = -1;
    struct stat st = {0};
    struct snp_remote_file transfer = {0};
    int r = source_open(source, &fd, &st, err);

    r = r < 0 ? r : place_find(opts, snp_opts_arg(opts, 1), base_name(source), &place, err);
    if (r < 0) {
        return r;
    }
    SNP_ASSERT(place.path != NULL);
    /* "s:dir/" keeps the file's own name. */
    whole = base_name(place.path)[0] == '\0' ? snp_format("%s%s", place.path, base_name(source))
                                             : SNP_TAKE_PTR(place.path);
    copied->from = strdup(source);
    copied->to = whole == NULL ? NULL : snp_format("%s:%s", place.session, whole);
    if (copied->from == NULL || copied->to == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    transfer =
        (struct snp_remote_file){place.client, place.session, whole, st.st_mode & 0777, false};
    r = snp_file_put(&transfer, fd, &copied->moved.bytes, err);
    copied->moved.files = 1;
    copied->session = SNP_TAKE_PTR(place.session);
    copied->path = SNP_TAKE_PTR(whole);
    return r;
}

static int run_put(struct snp_cli *cli, const struct snp_opts *opts)
{
    bool recursive = snp_opts_flag(opts, "recursive", false);
    autocopied struct copied copied = {.is_tree = recursive, .is_put = true};
    struct snp_err err;
    int r = recursive ? put_tree(opts, &copied, &err) : put(opts, &copied, &err);

    return copied_end(cli, opts, &copied, r, &err);
}

/* get and output ------------------------------------------------------------------------------ */

/* A file being received: a temporary beside its place, a device, or standard output (path NULL). */
struct target {
    char *path;      /* owned */
    char *temporary; /* owned; removed unless taken into place; NULL = written into directly */
    int fd;          /* owned unless standard output */
};

static void target_done(struct target *target)
{
    if (target->temporary != NULL) {
        (void)unlink(target->temporary);
    }
    if (target->path != NULL) {
        snp_closep(&target->fd);
    }
    free(target->path);
    free(target->temporary);
}

int snp_place_open(const char *path, int *ret_fd, struct snp_err *err)
{
    struct stat st;
    snp_autoclose int fd = -1;

    *ret_fd = -1;
    if (lstat(path, &st) < 0) {
        return errno == ENOENT ? 0 : snp_fail_sys(err, errno, "look at %s", path);
    }
    if (S_ISREG(st.st_mode)) {
        return 0;
    }
    /* A link to such a thing (/dev/stdout) is as good as the thing. */
    if (stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode))) {
        fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
            return snp_fail_sys(err, errno, "open %s", path);
        }
    }
    if (fd < 0 || (!S_ISCHR(st.st_mode) && !S_ISFIFO(st.st_mode))) {
        return snp_fail(err, SNP_E_INVALID,
                        "%.100s is no regular file, and is not replaced; name another, or - "
                        "for standard output",
                        path);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

static int target_open(const char *path, struct target *target, struct snp_err *err)
{
    char id[33];
    int special = -1;
    int r = snp_place_open(path, &special, err);

    if (r < 0) {
        return r;
    }
    if (special >= 0) {
        target->fd = special;
        target->path = strdup(path);
        return target->path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    if (snp_random_id(id) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    target->path = strdup(path);
    target->temporary = snp_format("%.*s.%s.part", (int)strlen(path), path, id);
    if (target->path == NULL || target->temporary == NULL) {
        free(SNP_TAKE_PTR(target->temporary));
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    target->fd =
        open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (target->fd < 0) {
        int eno = errno;

        free(SNP_TAKE_PTR(target->temporary)); /* not ours to remove */
        return snp_fail_sys(err, eno, "create %s", path);
    }
    return 0;
}

static int target_commit(struct target *target, unsigned mode, struct snp_err *err)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    if (target->temporary == NULL) {
        return 0; /* written into a device or FIFO */
    }
    if (fchmod(target->fd, (mode & 0777) & ~mask) < 0 || fsync(target->fd) < 0 ||
        rename(target->temporary, target->path) < 0) {
        return snp_fail_sys(err, errno, "write %s", target->path);
    }
    free(SNP_TAKE_PTR(target->temporary));
    return 0;
}

/*
 * A file on its way here. The session's code may change it meanwhile, so what is written here is
 * counted here.
 */
struct receiving {
    struct snp_moved *moved; /* borrowed; with all files before it */
    uint64_t offset;
    uint64_t room; /* for what is written, of all files */
    int fd;
    bool has_holes; /* a new file: what is not written is a hole */
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

/* n bytes at the offset, which moves on. */
static int receive_bytes(struct receiving *to, const char *bytes, size_t n, struct snp_err *err)
{
    /* A file system gives whole blocks. */
    to->moved->stored += to->has_holes ? (n + BLOCK - 1) / BLOCK * BLOCK : n;
    if (to->moved->stored > to->room) {
        return snp_fail(err, SNP_E_LIMIT,
                        "more came than the session has room for: its code changes the files "
                        "meanwhile%s",
                        to->has_holes ? "" : ", or they are holes, which only a file can keep");
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

/* Zeros that came as bytes become holes too: what lands here is never more than what is there. */
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

/* One answer to "get". *ret_end: it was the last. */
static int take_piece(struct snp_remote_file *from,
                      struct receiving *to,
                      const struct snp_reply *reply,
                      bool *ret_end,
                      struct snp_err *err)
{
    const json_t *head = reply->head;
    uint64_t hole = (uint64_t)snp_json_int(head, "hole", 0);
    bool is_mixed = !from->is_written && snp_json_bool(head, "project", false);
    uint64_t most = (uint64_t)snp_json_int(head, "room", 0);
    int r;

    to->room = is_mixed || most == 0 ? FILES_BYTES_MAX : most;
    most = most > FILES_BYTES_MAX ? most : FILES_BYTES_MAX;
    most -= to->moved->bytes < most ? to->moved->bytes : most;
    if (to->offset > most || hole > most - to->offset ||
        reply->raw_len > most - to->offset - hole) {
        return snp_fail(err, SNP_E_LIMIT, "the files are larger than may be copied at once");
    }
    *ret_end = snp_json_bool(head, "eof", true);
    from->mode = (unsigned)snp_json_int(head, "mode", CREATED_MODE);
    if (!*ret_end && reply->raw_len == 0 && hole == 0) {
        return snp_fail(err, SNP_E_PEER, "the file ended early");
    }
    r = receive_zeros(to, hole, err);
    return r < 0 ? r : receive(to, reply->raw, reply->raw_len, err);
}

int snp_file_get(struct snp_remote_file *from,
                 int fd,
                 struct snp_moved *moved,
                 struct snp_err *err)
{
    struct receiving to = {.moved = moved, .fd = fd, .has_holes = is_new_file(fd)};
    bool at_end = false;

    while (!at_end) {
        snp_autoreply struct snp_reply reply = {0};
        int r = snp_remote_call(from->client,
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

/* Where `get` writes: DEST, or DEST/NAME if that is a folder, or ./NAME. NULL: out of memory. */
static char *destination(const char *dest, const char *path)
{
    struct stat st;

    if (dest == NULL) {
        return strdup(base_name(path));
    }
    if (stat(dest, &st) == 0 && S_ISDIR(st.st_mode)) {
        return snp_format("%s/%s", dest, base_name(path));
    }
    return strdup(dest);
}

static int get(const struct snp_opts *opts, struct copied *copied, struct snp_err *err)
{
    const char *dest = snp_opts_arg(opts, 1);
    autoplace struct place place = {0};
    snp_autofree char *to = NULL;
    struct snp_remote_file from;
    struct target target = {.fd = STDOUT_FILENO};
    int r = place_find(opts, snp_opts_arg(opts, 0), NULL, &place, err);

    if (r < 0) {
        return r;
    }
    SNP_ASSERT(place.path != NULL);
    if (base_name(place.path)[0] == '\0') {
        return snp_fail_with(err, SNP_E_INVALID, SNP_REMEDY_RECURSE, NULL, 0,
                             "'%s' names a folder", snp_opts_arg(opts, 0));
    }
    to = destination(dest, place.path);
    if (to == NULL || !snp_utf8_valid(place.path, strlen(place.path))) {
        return snp_fail(err, SNP_E_INVALID, "the path is not UTF-8");
    }
    if (!snp_streq(dest, "-")) {
        r = target_open(to, &target, err);
    }
    if (r == 0) {
        from = (struct snp_remote_file){place.client, place.session, place.path, CREATED_MODE,
                                        false};
        r = snp_file_get(&from, target.fd, &copied->moved, err);
    }
    if (r == 0 && target.path != NULL) {
        r = target_commit(&target, from.mode, err);
        copied->to = SNP_TAKE_PTR(to);
    }
    target_done(&target);
    copied->moved.files = 1;
    copied->from = snp_format("%s:%s", place.session, place.path);
    copied->session = SNP_TAKE_PTR(place.session);
    copied->path = SNP_TAKE_PTR(place.path);
    return r == 0 && copied->from == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : r;
}

static int get_tree(const struct snp_opts *opts, struct copied *copied, struct snp_err *err)
{
    const char *dest = snp_opts_arg(opts, 1);
    autoplace struct place place = {0};
    snp_autofree char *path = NULL;
    snp_autofree char *to = NULL;
    struct snp_remote_file from;
    int r = place_find(opts, snp_opts_arg(opts, 0), ".", &place, err);

    if (r < 0) {
        return r;
    }
    SNP_ASSERT(place.path != NULL);
    path = trimmed(place.path);
    if (path != NULL && !snp_utf8_valid(path, strlen(path))) {
        return snp_fail(err, SNP_E_INVALID, "the path is not UTF-8");
    }
    /* All of a session is called as it is. */
    to = path == NULL ? NULL : destination(dest, strcmp(path, ".") == 0 ? place.session : path);
    copied->from = snp_format("%s:%s", place.session, path == NULL ? "" : path);
    if (to == NULL || copied->from == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    from = (struct snp_remote_file){place.client, place.session, path, 0, false};
    r = snp_tree_get(&from, to, &copied->moved, err);
    copied->to = SNP_TAKE_PTR(to);
    copied->session = SNP_TAKE_PTR(place.session);
    copied->path = SNP_TAKE_PTR(path);
    return r;
}

static int run_get(struct snp_cli *cli, const struct snp_opts *opts)
{
    bool recursive = snp_opts_flag(opts, "recursive", false);
    autocopied struct copied copied = {.is_tree = recursive};
    struct snp_err err;
    int r;

    if (snp_streq(snp_opts_arg(opts, 1), "-") && snp_opts_flag(opts, "json", false)) {
        return snp_cli_usage(cli, "--json and - both want standard output; name a file");
    }
    r = recursive ? get_tree(opts, &copied, &err) : get(opts, &copied, &err);
    return copied_end(cli, opts, &copied, r, &err);
}

/* What a cell printed, on its way to standard output. */
struct output {
    struct snp_buf *kept; /* for JSON; NULL = print each piece, on a terminal escaped */
    bool is_cut;
};

static int output_piece(struct output *output,
                        const struct snp_reply *reply,
                        struct snp_err *err)
{
    if (output->kept != NULL) {
        return snp_buf_add(output->kept, reply->raw, reply->raw_len) < 0
                   ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                   : 0;
    }
    if (snp_term_write(stdout, reply->raw, reply->raw_len) < 0 || fflush(stdout) != 0) {
        return snp_fail_sys(err, errno, "write");
    }
    return 0;
}

static int output_read(struct snp_client *client,
                       const struct snp_output_request *asked,
                       struct output *output,
                       struct snp_err *err)
{
    struct snp_output_request piece = *asked;
    bool at_end = false;

    while (!at_end) {
        snp_autoreply struct snp_reply reply = {0};
        int r;

        r = snp_remote_call(client, snp_record_write(&snp_output_request_form, &piece), &reply,
                            err);
        r = r < 0 ? r : output_piece(output, &reply, err);
        if (r < 0) {
            return r;
        }
        piece.offset += reply.raw_len;
        at_end = snp_json_bool(reply.head, "eof", true) || reply.raw_len == 0;
        output->is_cut = snp_json_bool(reply.head, "truncated", false);
    }
    return 0;
}

/* Bytes that are no text come as base64. */
static int output_json(const struct snp_output_request *asked,
                       const struct output *output,
                       struct snp_err *err)
{
    const char *bytes = output->kept->len == 0 ? "" : snp_buf_bytes(output->kept);
    size_t n = output->kept->len;
    bool is_text = snp_utf8_valid(bytes, n);
    snp_autofree char *coded = is_text ? NULL : snp_base64(bytes, n);
    snp_autojson json_t *answer = json_pack(
        "{s:s, s:s, s:I, s:b, s:o}", "handle", asked->handle, "stream", asked->stream, "bytes",
        (json_int_t)n, "truncated", output->is_cut, is_text ? "text" : "base64",
        is_text ? json_stringn(bytes, n) : json_string(coded));

    if (answer == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_cli_print_json(answer) == SNP_EXIT_OK ? 0 : snp_fail_sys(err, errno, "write");
}

static int run_output(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    const struct snp_output_request asked = {
        .handle = snp_opts_arg(opts, 0),
        .stream = snp_opts_flag(opts, "stderr", false) ? "stderr" : "stdout",
        .length = SNP_FILE_CHUNK_MAX,
    };
    snp_autobuf struct snp_buf kept = {0};
    struct output output = {.kept = snp_opts_flag(opts, "json", false) ? &kept : NULL};
    struct snp_err err;
    int r = snp_utf8_valid(asked.handle, strlen(asked.handle))
                ? snp_remote_connect(false, &client, &err)
                : snp_fail(&err, SNP_E_INVALID, "the handle is not UTF-8");

    snp_buf_init(&kept, OUTPUT_MAX_BYTES);
    if (r == 0) {
        r = output_read(client, &asked, &output, &err);
    }
    if (r == 0 && output.kept != NULL) {
        r = output_json(&asked, &output, &err);
    }
    if (r == 0 && output.kept == NULL && output.is_cut) {
        (void)fputs("truncated: the rest was not stored (limit 64 MiB a stream, if the disk of "
                    "the state folder has room)\n",
                    stderr);
    }
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

/* ls ------------------------------------------------------------------------------------------- */

struct ls_row {
    char size[CELL_MAX];
    char time[CELL_MAX];
};

static void row_fill(const json_t *entry, struct ls_row *row, const char **cells)
{
    (void)snp_format_bytes((uint64_t)snp_json_int(entry, "size", 0), row->size,
                           sizeof(row->size));
    if (snp_json_number(entry, "mtime") > 0) {
        (void)snp_human_when(snp_json_number(entry, "mtime"), row->time, sizeof(row->time));
    }
    cells[0] = snp_json_str(entry, "name", "?");
    cells[1] = snp_json_str(entry, "type", "?");
    cells[2] = row->size;
    cells[3] = row->time;
}

static int entries_print(const json_t *head, struct snp_err *err)
{
    static const char *const heads[LS_COLUMNS] = {"Name", "Type", "Size", "Modified"};
    const json_t *entries = json_object_get(head, "entries");
    size_t n = json_array_size(entries);
    snp_autofree struct ls_row *rows = calloc(n + 1, sizeof(*rows));
    snp_autofree const char **cells = calloc((n + 1) * LS_COLUMNS, sizeof(*cells));
    struct snp_table table = {.heads = heads, .n_cols = LS_COLUMNS, .n_rows = n};

    if (rows == NULL || cells == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        row_fill(json_array_get(entries, i), &rows[i], &cells[i * LS_COLUMNS]);
    }
    table.cells = cells;
    if (n == 0) {
        (void)puts("no files");
    } else {
        snp_table_print(stdout, &table);
    }
    if (snp_json_bool(head, "truncated", false)) {
        (void)fputs("... and more\n", stderr);
    }
    return 0;
}

static int run_ls(struct snp_cli *cli, const struct snp_opts *opts)
{
    autoplace struct place place = {0};
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    int r = place_find(opts, snp_opts_arg(opts, 0), ".", &place, &err);

    if (r == 0) {
        r = snp_remote_call(
            place.client,
            SNP_WRITE(snp_ls_request, .session = place.session, .path = place.path), &reply,
            &err);
    }
    if (r == 0 && snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    if (r == 0) {
        r = entries_print(reply.head, &err);
    }
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

/* Verbs ---------------------------------------------------------------------------------------- */

static const struct snp_opt_arg put_args[] = {
    {"SRC",          "a regular file; with -r a folder",                        1, 1},
    {"SESSION:PATH", "where it goes, below /workspace; 'NAME:' keeps its name", 0, 1},
};
static const struct snp_opt_arg get_args[] = {
    {"SESSION:PATH", "a file of the session; with -r a folder",                               0, 1},
    {"DEST",         "file or folder here, - for standard output (default: the file's name)", 0, 1},
};
static const struct snp_opt_arg ls_args[] = {
    {"SESSION[:PATH]", "a folder of the session (default: /workspace)", 0, 1},
};
static const struct snp_opt_arg output_args[] = {
    {"HANDLE", "`output.handle` of a result", 1, 1},
};
static const struct snp_opt put_options[] = {
    {"recursive", 'r', SNP_OPT_FLAG, NULL, "copy a folder; links in it are skipped", 0},
    SNP_CLI_OPT_SESSION_OF_PATH,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt get_options[] = {
    {"recursive", 'r', SNP_OPT_FLAG, NULL,
     "copy a folder to a new one; links in it are skipped",                             0},
    SNP_CLI_OPT_SESSION_OF_PATH,
    {"json",      0,   SNP_OPT_FLAG, NULL, "print as JSON what was copied; not with -", 0},
};
static const struct snp_opt ls_options[] = {SNP_CLI_OPT_SESSION_OF_PATH, SNP_CLI_OPT_JSON};
static const struct snp_opt output_options[] = {
    {"stderr", 0, SNP_OPT_FLAG, NULL, "standard error instead of standard output", 0},
    SNP_CLI_OPT_JSON,
};

const struct snp_verb snp_verb_put = {
    .name = "put",
    .summary = "copy a file or folder into a session",
    .spec = {put_options, SNP_ARRAY_LEN(put_options), put_args, SNP_ARRAY_LEN(put_args), false},
    .examples = "put data.csv work:data.csv\nput -r data work:\nput data.csv -s work",
    .run = run_put,
};
const struct snp_verb snp_verb_get = {
    .name = "get",
    .summary = "copy a file or folder out of a session",
    .spec = {get_options, SNP_ARRAY_LEN(get_options), get_args, SNP_ARRAY_LEN(get_args), false},
    .examples = "get work:plot.png\nget work:report.txt -\nget -r work:results",
    .run = run_get,
};
const struct snp_verb snp_verb_ls = {
    .name = "ls",
    .summary = "list a session's files",
    .spec = {ls_options, SNP_ARRAY_LEN(ls_options), ls_args, SNP_ARRAY_LEN(ls_args), false},
    .examples = "ls work\nls work:results --json",
    .run = run_ls,
};
const struct snp_verb snp_verb_output = {
    .name = "output",
    .summary = "print the full text of a cell's cut output",
    .spec = {output_options, SNP_ARRAY_LEN(output_options), output_args,
             SNP_ARRAY_LEN(output_args), false},
    .run = run_output,
};
