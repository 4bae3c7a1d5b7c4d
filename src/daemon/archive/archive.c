/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives are frames (base/wire/frame.h) in a file, after a mark of 16 bytes:
 *
 *   MANIFEST  head: format, version, program, name, cell, spec, lost
 *   CELL      head: a cell's row and the lengths of its parts; raw: code, input, result, shown
 *   ...       the bundle of the checkpoint, read and checked by the store
 *   SUM       the hash of all before it (daemon/archive/sum.h)
 *
 * The reader works by offsets and holds one frame at a time.
 */
#include "daemon/archive/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/policy/template_name.h"
#include "base/str.h"
#include "base/wire/exec.h"
#include "base/wire/frame.h"
#include "base/wire/record.h"
#include "base/wire/rpc.h"
#include "daemon/caps.h"
#include "daemon/session/result.h"
#include "daemon/snapshot/source.h"
#include "store/journal.h"

enum {
    MARK_LEN = 16,
    TYPE_MANIFEST = 88,
    TYPE_CELL = 89,
    TYPE_BUNDLE_FIRST = 80,
    TYPE_BUNDLE_END = 82,
    WORD_MAX = 32,
};

static const char mark[MARK_LEN + 1] = "snipara-session\n";

int snp_archive_file(const char *folder, int *ret_fd, struct snp_err *err)
{
    snp_autofree char *path = NULL;
    int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        path = snp_format("%s/archive-XXXXXX", folder);
        SNP_TRY_MEMORY(path, err);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0) {
            (void)unlink(path);
        }
    }
    if (fd < 0) {
        return snp_fail_sys(err, errno, "make a temporary file in %s", folder);
    }
    *ret_fd = fd;
    return 0;
}

/* Writing -------------------------------------------------------------------------------------- */

static int frame_put(
    int fd, uint8_t type, const json_t *head, const struct snp_buf *raw, struct snp_err *err)
{
    snp_autobuf struct snp_buf out = {0};
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);
    struct snp_frame frame = {.type = type, .head = text};
    int r;

    SNP_TRY_MEMORY(text, err);
    frame.head_len = strlen(text);
    if (raw != NULL) {
        frame.raw = snp_buf_bytes(raw);
        frame.raw_len = raw->len;
    }
    snp_buf_init(&out, SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX);
    r = snp_frame_write(&out, &frame);
    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "a record is larger than the file format allows");
    }
    return snp_write_all(fd, snp_buf_bytes(&out), out.len) < 0
               ? snp_fail_sys(err, errno, "write the temporary file")
               : 0;
}

int snp_archive_write_empty(int fd, struct snp_err *err)
{
    static const char *const parts[] = {"vars", "files"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        snp_autojson json_t *head = json_pack("{s:s, s:i}", "part", parts[i], "items", 0);

        SNP_TRY(frame_put(fd, TYPE_BUNDLE_END, head, NULL, err));
    }
    return 0;
}

static int manifest_put(int fd, const struct snp_source *source, struct snp_err *err)
{
    json_t *spec = NULL;
    snp_autojson json_t *head = NULL;

    SNP_TRY(snp_json_parse(source->spec, strlen(source->spec), &spec, err));
    head = json_pack("{s:s, s:i, s:s, s:s, s:I, s:o, s:O}", "format", "snipara-sandbox-session",
                     "version", SNP_ARCHIVE_VERSION, "program", SNP_VERSION, "name",
                     source->session_name, "cell", (json_int_t)source->cell, "spec", spec, "lost",
                     source->lost);
    return frame_put(fd, TYPE_MANIFEST, head, NULL, err);
}

/* Numbers of the cells up to the source, oldest first. */
struct numbers {
    uint64_t *list; /* owned */
    size_t n;
    uint64_t most;
};

static int number_note(const struct snp_journal_cell *row, void *arg, struct snp_err *err)
{
    struct numbers *numbers = arg;

    if (row->cell > numbers->most || row->state == NULL) {
        return 0;
    }
    if (numbers->n == SNP_ARCHIVE_CELLS_MAX) {
        memmove(numbers->list, numbers->list + 1, (numbers->n - 1) * sizeof(*numbers->list));
        numbers->n--;
    }
    if (numbers->list == NULL) {
        numbers->list = calloc(SNP_ARCHIVE_CELLS_MAX, sizeof(*numbers->list));
    }
    SNP_TRY_MEMORY(numbers->list, err);
    numbers->list[numbers->n++] = row->cell;
    return 0;
}

/* Add an optional part. Returns its length, 0 if it is missing. */
static int part_add(struct snp_tx *tx,
                    const struct snp_journal_cell *row,
                    enum snp_journal_part part,
                    struct snp_buf *raw,
                    json_int_t *ret_len,
                    struct snp_err *err)
{
    size_t before = raw->len;
    int r = snp_journal_cell_part(tx, row->session, row->cell, part, raw, err);

    *ret_len = (json_int_t)(raw->len - before);
    return r == SNP_E_NOT_FOUND ? 0 : r;
}

/* Append a cell's output and displays after its other parts; nothing if they are too large. */
static json_int_t shown_add(struct snp_tx *tx,
                            const struct snp_journal_cell *row,
                            struct snp_buf *raw)
{
    size_t before = raw->len;
    json_int_t len = 0;
    struct snp_err ignored;

    if (part_add(tx, row, SNP_PART_RAW, raw, &len, &ignored) < 0 || len > SNP_ARCHIVE_SHOWN_MAX) {
        raw->len = before;
        len = 0;
    }
    return len;
}

/* Space left in the archive. */
struct room {
    uint64_t left;
    uint64_t shown_from; /* first cell whose output and displays are written */
};

/* A result that does not fit is left out. */
static int cell_put(struct snp_tx *tx,
                    int fd,
                    const struct snp_journal_cell *row,
                    struct room *room,
                    struct snp_err *err)
{
    snp_autobuf struct snp_buf raw = {0};
    snp_autojson json_t *head = NULL;
    json_int_t code_len = 0;
    json_int_t input_len = 0;
    json_int_t result_len = 0;
    json_int_t shown_len = 0;
    struct snp_err ignored;
    size_t before;
    int r;

    snp_buf_init(&raw, SNP_FRAME_BODY_MAX - SNP_FRAME_HEAD_MAX);
    r = part_add(tx, row, SNP_PART_CODE, &raw, &code_len, err);
    SNP_THEN(r, part_add(tx, row, SNP_PART_STDIN, &raw, &input_len, err));
    before = raw.len;
    if (r == 0 && part_add(tx, row, SNP_PART_RESULT, &raw, &result_len, &ignored) < 0) {
        raw.len = before;
        result_len = 0;
    }
    if (r < 0 || raw.len > room->left) {
        return r; /* no room: leave this cell out */
    }
    room->left -= raw.len;
    if (row->cell >= room->shown_from) {
        shown_len = shown_add(tx, row, &raw);
    }
    head = json_pack("{s:I, s:I, s:s, s:s?, s:s?, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "cell",
                     (json_int_t)row->cell, "epoch", (json_int_t)row->epoch, "kind", row->kind,
                     "argv", row->argv, "spec", row->spec, "status", row->status, "state",
                     row->state, "started_us", (json_int_t)row->started_us, "wall_us",
                     (json_int_t)row->wall_us, "code_len", code_len, "input_len", input_len,
                     "result_len", result_len, "shown_len", shown_len);
    return frame_put(fd, TYPE_CELL, head, &raw, err);
}

/* Find the first cell whose output still fits; the newest cells have precedence. */
static int shown_find(struct snp_tx *tx,
                      const struct snp_source *source,
                      const struct numbers *numbers,
                      struct room *room,
                      struct snp_err *err)
{
    uint64_t total = 0;

    room->shown_from = numbers->most + 1;
    for (size_t i = numbers->n; i > 0; i--) {
        snp_autobuf struct snp_buf raw = {0};
        struct snp_journal_cell row;

        SNP_TRY(snp_journal_cell_get(tx, source->session, numbers->list[i - 1], &row, err));
        snp_buf_init(&raw, SNP_ARCHIVE_SHOWN_MAX);
        total += (uint64_t)shown_add(tx, &row, &raw);
        if (total > SNP_ARCHIVE_SHOWN_BYTES) {
            return 0;
        }
        room->shown_from = numbers->list[i - 1];
    }
    return 0;
}

static int cells_put(struct snp_tx *tx,
                     int fd,
                     const struct snp_source *source,
                     struct snp_err *err)
{
    struct numbers numbers = {.most = source->cell};
    struct room room = {.left = SNP_ARCHIVE_CELLS_BYTES};
    int r = snp_journal_cell_after(tx, source->session, 0, number_note, &numbers, err);

    SNP_THEN(r, shown_find(tx, source, &numbers, &room, err));
    for (size_t i = 0; r == 0 && i < numbers.n; i++) {
        struct snp_journal_cell row;

        r = snp_journal_cell_get(tx, source->session, numbers.list[i], &row, err);
        SNP_THEN(r, cell_put(tx, fd, &row, &room, err));
    }
    free(numbers.list);
    return r;
}

int snp_archive_write(struct snp_tx *tx,
                      int fd,
                      const struct snp_source *source,
                      struct snp_err *err)
{
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        snp_write_all(fd, mark, MARK_LEN) < 0) {
        return snp_fail_sys(err, errno, "write the temporary file");
    }
    SNP_TRY(manifest_put(fd, source, err));
    return cells_put(tx, fd, source, err);
}

/* Reading -------------------------------------------------------------------------------------- */

static int not_ours(struct snp_err *err)
{
    return snp_fail(err, SNP_E_INVALID,
                    "not the file of an exported session, or incomplete; export it again");
}

static int bytes_get(int fd, off_t at, void *out, size_t n, struct snp_err *err)
{
    size_t have = 0;

    while (have < n) {
        ssize_t got = SNP_RETRY(pread(fd, (char *)out + have, n - have, at + (off_t)have));

        if (got < 0) {
            return snp_fail_sys(err, errno, "read the file");
        }
        if (got == 0) {
            return not_ours(err);
        }
        have += (size_t)got;
    }
    return 0;
}

static uint32_t u32_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8U | (uint32_t)bytes[2] << 16U |
           (uint32_t)bytes[3] << 24U;
}

/* Read the frame at *at into buf and check its type; *at moves past it. */
static int frame_get(int fd,
                     off_t *at,
                     uint8_t type,
                     struct snp_buf *buf,
                     struct snp_frame *ret,
                     struct snp_err *err)
{
    unsigned char header[SNP_FRAME_HEADER_LEN];
    char *space = NULL;
    size_t size = 0;
    bool has = false;
    int r;

    SNP_TRY(bytes_get(fd, *at, header, sizeof(header), err));
    if (header[12] != type || u32_at(header) > SNP_FRAME_BODY_MAX) {
        return not_ours(err);
    }
    snp_buf_clear(buf);
    r = snp_buf_reserve(buf, sizeof(header) + u32_at(header), &space);
    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "out of memory");
    }
    SNP_TRY(bytes_get(fd, *at, space, sizeof(header) + u32_at(header), err));
    snp_buf_commit(buf, sizeof(header) + u32_at(header));
    if (snp_frame_peek(buf, SNP_FRAME_BODY_MAX, ret, &size, &has, err) < 0 || !has) {
        return not_ours(err);
    }
    *at += (off_t)size;
    return 0;
}

static const struct snp_field manifest_fields[] = {
    {"format", SNP_T_STR, 64},       {"version", SNP_T_INT, UINT32_MAX},
    {"program", SNP_T_STR, 64},      {"name", SNP_T_STR, SNP_SESSION_NAME_MAX},
    {"cell", SNP_T_INT, 1ULL << 50}, {"spec", SNP_T_OBJ, 0},
    {"lost", SNP_T_ARR, 0},
};
static const struct snp_record manifest_record = SNP_RECORD("the file's manifest", manifest_fields);

static int manifest_take(json_t *head, struct snp_archive *ret, struct snp_err *err)
{
    int64_t version = snp_json_int(head, "version", 0);
    const char *name;
    struct snp_err ignored;

    if (!snp_streq(snp_json_str(head, "format", NULL), "snipara-sandbox-session")) {
        return not_ours(err);
    }
    if (version < SNP_ARCHIVE_VERSION_OLDEST || version > SNP_ARCHIVE_VERSION) {
        return snp_fail(
            err, SNP_E_UNSUPPORTED,
            "the file has format version %lld, this program reads %d to %d; it was made by "
            "%.60s",
            (long long)version, SNP_ARCHIVE_VERSION_OLDEST, SNP_ARCHIVE_VERSION,
            snp_json_str(head, "program", "another one"));
    }
    SNP_TRY(snp_record_check(head, &manifest_record, err));
    name = snp_json_str(head, "name", "");
    if (!snp_session_is_id(name) && snp_session_name_check(name, &ignored) == 0) {
        (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    }
    ret->version = (unsigned)version;
    ret->cell = (uint64_t)snp_json_int(head, "cell", 0);
    ret->spec = json_incref(json_object_get(head, "spec"));
    ret->lost = json_incref(json_object_get(head, "lost"));
    return 0;
}

/* Skip the cells; only their sizes are needed. */
static int cells_skip(int fd, struct snp_archive *ret, struct snp_err *err)
{
    uint64_t total = 0;
    off_t at = ret->cells_at;

    for (;;) {
        unsigned char header[SNP_FRAME_HEADER_LEN];

        SNP_TRY(bytes_get(fd, at, header, sizeof(header), err));
        if (header[12] != TYPE_CELL) {
            ret->bundle_at = at;
            return header[12] >= TYPE_BUNDLE_FIRST && header[12] <= TYPE_BUNDLE_END ? 0
                                                                                    : not_ours(err);
        }
        total += u32_at(header);
        ret->n_cells++;
        if (u32_at(header) > SNP_FRAME_BODY_MAX || ret->n_cells > SNP_ARCHIVE_CELLS_MAX ||
            total > (uint64_t)2 * (SNP_ARCHIVE_CELLS_BYTES + SNP_ARCHIVE_SHOWN_BYTES)) {
            return snp_fail(err, SNP_E_LIMIT, "the file contains more cells than the limit");
        }
        at += (off_t)sizeof(header) + u32_at(header);
    }
}

void snp_archive_done(struct snp_archive *archive)
{
    json_decref(archive->spec);
    json_decref(archive->lost);
    *archive = (struct snp_archive){0};
}

int snp_archive_begins(uint64_t at, const char *bytes, size_t n, struct snp_err *err)
{
    size_t left = at < MARK_LEN ? MARK_LEN - (size_t)at : 0;

    n = n < left ? n : left;
    return n == 0 || memcmp(bytes, mark + at, n) == 0 ? 0 : not_ours(err);
}

int snp_archive_read(int fd, struct snp_archive *ret, struct snp_err *err)
{
    snp_autobuf struct snp_buf buf = {0};
    snp_autojson json_t *head = NULL;
    struct snp_archive read = {0};
    struct snp_frame frame = {0};
    char start[MARK_LEN];
    off_t at = MARK_LEN;
    int r = bytes_get(fd, 0, start, sizeof(start), err);

    snp_buf_init(&buf, SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX);
    if (r == 0 && memcmp(start, mark, MARK_LEN) != 0) {
        r = not_ours(err);
    }
    SNP_THEN(r, frame_get(fd, &at, TYPE_MANIFEST, &buf, &frame, err));
    SNP_THEN(r, snp_json_parse(frame.head, frame.head_len, &head, err));
    SNP_THEN(r, manifest_take(head, &read, err));
    read.cells_at = at;
    SNP_THEN(r, cells_skip(fd, &read, err));
    if (r < 0) {
        snp_archive_done(&read);
        return r;
    }
    *ret = read;
    return 0;
}

/* Cells ---------------------------------------------------------------------------------------- */

static const struct snp_field cell_fields[] = {
    {"cell", SNP_T_INT, 1ULL << 50},
    {"epoch", SNP_T_INT, 1ULL << 50},
    {"kind", SNP_T_STR, WORD_MAX},
    {"argv", SNP_T_STR | SNP_T_NULL, (uint64_t)2 * SNP_CAP_ARGV_BYTES},
    {"spec", SNP_T_STR | SNP_T_NULL, 4096},
    {"status", SNP_T_STR, WORD_MAX},
    {"state", SNP_T_STR, WORD_MAX},
    {"started_us", SNP_T_INT, 1ULL << 60},
    {"wall_us", SNP_T_INT, 1ULL << 60},
    {"code_len", SNP_T_INT, SNP_FRAME_BODY_MAX},
    {"input_len", SNP_T_INT, SNP_FRAME_BODY_MAX},
    {"result_len", SNP_T_INT, SNP_FRAME_BODY_MAX},
    {"shown_len", SNP_T_INT | SNP_T_OPT, SNP_ARCHIVE_SHOWN_MAX},
};
static const struct snp_record cell_record = SNP_RECORD("a cell of the file", cell_fields);

static bool is_word(const char *text)
{
    return text[0] != '\0' && strspn(text, "abcdefghijklmnopqrstuvwxyz_") == strlen(text);
}

/* Check that text is JSON of the given type. */
static bool is_json(const char *text, json_type type)
{
    snp_autojson json_t *value = NULL;
    struct snp_err ignored;

    return text == NULL || (snp_json_parse_any(text, strlen(text), &value, &ignored) == 0 &&
                            json_typeof(value) == type);
}

static int cell_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    const char *kind = snp_json_str(head, "kind", "");

    SNP_TRY(snp_record_check(head, &cell_record, err));
    if (snp_word_find(snp_exec_kinds, kind) < 0 || !is_word(snp_json_str(head, "status", "")) ||
        !is_word(snp_json_str(head, "state", "")) ||
        !is_json(snp_json_str(head, "argv", NULL), JSON_ARRAY) ||
        !is_json(snp_json_str(head, "spec", NULL), JSON_OBJECT) ||
        (uint64_t)snp_json_int(head, "code_len", 0) + (uint64_t)snp_json_int(head, "input_len", 0) +
                (uint64_t)snp_json_int(head, "result_len", 0) +
                (uint64_t)snp_json_int(head, "shown_len", 0) !=
            raw_len) {
        return snp_fail(err, SNP_E_INVALID, "the file has an invalid cell");
    }
    return 0;
}

/* Check a cell's output and displays with the checks for a tier's events. */
static int shown_check(const char *bytes, size_t n, uint64_t *ret_displays, struct snp_err *err)
{
    while (n > 0) {
        struct snp_buf rest = {.data = (char *)(uintptr_t)bytes, .len = n, .cap = n, .max = n};
        struct snp_frame frame = {0};
        snp_autojson json_t *head = NULL;
        size_t size = 0;
        bool has = false;

        SNP_TRY(snp_frame_peek(&rest, SNP_FRAME_BODY_MAX, &frame, &size, &has, err));
        if (!has || frame.type != SNP_RPC_EVENT) {
            return snp_fail(err, SNP_E_INVALID, "the file has a cell with invalid outputs");
        }
        SNP_TRY(snp_json_parse(frame.head, frame.head_len, &head, err));
        SNP_TRY(snp_event_check(head, frame.raw_len, err));
        *ret_displays += snp_streq(snp_json_str(head, "event", ""), "display") ? 1 : 0;
        bytes += size;
        n -= size;
    }
    return 0;
}

static int cell_enter(struct snp_tx *tx,
                      const char *session,
                      const struct snp_frame *frame,
                      struct snp_err *err)
{
    snp_autojson json_t *head = NULL;
    snp_autojson json_t *result = NULL;
    size_t code_len;
    size_t input_len;
    size_t result_len;
    size_t shown_len;
    uint64_t displays = 0;

    SNP_TRY(snp_json_parse(frame->head, frame->head_len, &head, err));
    SNP_TRY(cell_check(head, frame->raw_len, err));
    code_len = (size_t)snp_json_int(head, "code_len", 0);
    input_len = (size_t)snp_json_int(head, "input_len", 0);
    result_len = (size_t)snp_json_int(head, "result_len", 0);
    shown_len = (size_t)snp_json_int(head, "shown_len", 0);
    if (result_len > 0) {
        SNP_TRY(snp_json_parse(frame->raw + code_len + input_len, result_len, &result, err));
    }
    SNP_TRY(shown_check(frame->raw + code_len + input_len + result_len, shown_len, &displays, err));
    const struct snp_journal_cell row = {
        .session = session,
        .cell = (uint64_t)snp_json_int(head, "cell", 0),
        .epoch = 1, /* of the new session, independent of the file */
        .kind = snp_json_str(head, "kind", "python"),
        .argv = snp_json_str(head, "argv", NULL),
        .spec = snp_json_str(head, "spec", NULL),
        .started_us = (uint64_t)snp_json_int(head, "started_us", 0),
        .stdin_bytes = input_len,
    };
    const struct snp_journal_outcome outcome = {
        .status = snp_json_str(head, "status", "ok"),
        .state = snp_json_str(head, "state", "kept"),
        .wall_us = (uint64_t)snp_json_int(head, "wall_us", 0),
        .result = {frame->raw + code_len + input_len, result_len},
        .raw = {frame->raw + code_len + input_len + result_len, shown_len},
        .displays = displays,
    };
    SNP_TRY(snp_journal_cell_begin(tx, &row, (struct snp_bytes){frame->raw, code_len},
                                   (struct snp_bytes){frame->raw + code_len, input_len}, err));
    return snp_journal_cell_end(tx, session, row.cell, row.epoch, &outcome, err);
}

int snp_archive_cells(struct snp_tx *tx,
                      int fd,
                      const struct snp_archive *archive,
                      const char *session,
                      struct snp_err *err)
{
    snp_autobuf struct snp_buf buf = {0};
    off_t at = archive->cells_at;

    snp_buf_init(&buf, SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX);
    for (uint64_t i = 0; i < archive->n_cells; i++) {
        struct snp_frame frame = {0};

        SNP_TRY(frame_get(fd, &at, TYPE_CELL, &buf, &frame, err));
        SNP_TRY(cell_enter(tx, session, &frame, err));
    }
    return 0;
}

/* Policy --------------------------------------------------------------------------------------- */

static int note_add(json_t *notes, char *text, struct snp_err *err)
{
    int r = text == NULL ? -1 : json_array_append_new(notes, snp_json_bytes(text, strlen(text)));

    free(text);
    return r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

/* Each limit is the caller's if given, else the smaller one. */
static int limits_settle(json_t *spec,
                         const struct snp_archive_policy *policy,
                         json_t *notes,
                         struct snp_err *err)
{
    struct snp_limits limits;
    struct snp_limits wanted;

    snp_limits_default(&limits);
    SNP_TRY(snp_limits_from_json(json_object_get(spec, "limits"), &limits, err));
    wanted = limits;
    SNP_TRY(policy->given == NULL ? 0 : snp_limits_from_json(policy->given, &wanted, err));
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        enum snp_limit limit = (enum snp_limit)i;
        const uint64_t most = policy->limits.value[i]; /* at least the given limit */
        const uint64_t value = wanted.value[i] < most ? wanted.value[i] : most;
        char was[64];
        char is[64];

        if (value == limits.value[i]) {
            continue;
        }
        SNP_TRY(
            note_add(notes,
                     snp_format("%s is %s here, not %s as in the file", snp_limit_info(limit)->key,
                                snp_limit_format(limit, value, is, sizeof(is)),
                                snp_limit_format(limit, limits.value[i], was, sizeof(was))),
                     err));
        limits.value[i] = value;
    }
    return json_object_set_new(spec, "limits", snp_limits_to_json(&limits)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

/* Paths of another machine have no meaning here. */
static int paths_drop(json_t *spec, json_t *notes, struct snp_err *err)
{
    static const char *const members[] = {"project", "rootfs"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
        const char *path = snp_json_str(spec, members[i], NULL);

        SNP_TRY(path == NULL ? 0
                             : note_add(notes,
                                        snp_format("the %s %.200s is not shown here; files "
                                                   "changed in it are in the workspace",
                                                   members[i], path),
                                        err));
        SNP_TRY_MEMORY(json_object_set_new(spec, members[i], json_null()) == 0, err);
    }
    /* The reader of an archive need not grant the network it asks for. */
    SNP_TRY_MEMORY(json_object_set_new(spec, "network", json_false()) == 0, err);
    return 0;
}

static int env_look(const json_t *env, struct snp_err *err)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)env);
    size_t total = 0;
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach(copy, key, value)
    {
        const char *text = json_string_value(value);

        total += strlen(key) + json_string_length(value) + 2;
        if (key[0] == '\0' || strchr(key, '=') != NULL || text == NULL ||
            strlen(text) != json_string_length(value) || total > SNP_CAP_ENV_BYTES) {
            r = snp_fail(err, SNP_E_INVALID, "the file has invalid environment variables");
        }
    }
    json_decref(copy);
    return json_object_size(env) > SNP_CAP_ENV
               ? snp_fail(err, SNP_E_INVALID, "the file has more than %d environment variables",
                          SNP_CAP_ENV)
               : r;
}

int snp_archive_spec(const struct snp_archive *archive,
                     const struct snp_archive_policy *most,
                     json_t *notes,
                     char **ret_spec,
                     struct snp_err *err)
{
    snp_autojson json_t *spec = json_deep_copy(archive->spec);
    bool exact = most->require_exact || snp_json_bool(archive->spec, "require_exact", false);

    SNP_TRY_MEMORY(spec, err);
    if (!json_is_object(json_object_get(spec, "limits")) ||
        !json_is_object(json_object_get(spec, "env"))) {
        return snp_fail(err, SNP_E_INVALID, "the file has an invalid policy");
    }
    SNP_TRY(snp_template_name_check(snp_json_str(spec, "template", ""), err));
    SNP_TRY(env_look(json_object_get(spec, "env"), err));
    SNP_TRY(limits_settle(spec, most, notes, err));
    SNP_TRY(paths_drop(spec, notes, err));
    if ((json_object_set_new(spec, "tier", json_string(most->tier)) < 0 ||
         json_object_set_new(spec, "auto", json_boolean(most->is_auto)) < 0 ||
         json_object_set_new(spec, "allow_degraded", json_boolean(most->allow_degraded)) < 0 ||
         json_object_set_new(spec, "require_exact", json_boolean(exact)) < 0 ||
         json_object_set_new(spec, "accepted", json_integer(0)) < 0)) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret_spec = snp_json_text(spec);
    SNP_TRY_MEMORY(*ret_spec, err);
    return 0;
}
