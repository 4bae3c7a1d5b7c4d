/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sealed store. Whoever changes files here knows the format and mends its checksums; the same
 * changes to a plain file are believed, so it is the seal that refuses them.
 */
#include "store/seal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/blob.h"
#include "store/journal.h"
#include "store/salvage.h"
#include "unit/harness.h"
#include "unit/store_rig.h"

enum {
    CHUNK = SNP_BLOB_CHUNK,
    CONTENT = 3 * CHUNK + 1000,
    HEADER = 64,
    SUM_AT = 56, /* in the header; the hash is at 24 */
    SEAL = 32,
    CHUNK_HEAD = 16,
    FILE_MAX = CONTENT + 65536,
};

static const char sid[] = "0123456789abcdef0123456789abcdef";
static const char canary[] = "the canary that nobody may find on the disk";

struct file {
    char name[80];
    uint8_t bytes[FILE_MAX];
    size_t n;
};

static uint8_t content[2][CONTENT];
static char key_path[100];

static void noise_make(uint8_t *out, size_t n, uint64_t x)
{
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (uint8_t)x;
    }
}

static void key_write(const void *bytes, size_t n, mode_t mode)
{
    int fd;

    (void)unlink(key_path);
    fd = open(key_path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    (void)close(fd);
}

static void begin(struct rig *rig, bool has_key)
{
    noise_make(content[0], CONTENT, 88172645463325252ULL);
    noise_make(content[1], CONTENT, 12345ULL);
    for (int i = 0; i < 2; i++) { /* one of the chunks shrinks */
        memset(content[i] + CHUNK, 'a' + i, CHUNK);
        memcpy(content[i] + 100, canary, sizeof(canary));
    }
    rig_begin(rig);
    rig_close(rig);
    rig_remove(rig->dir);
    assert_int_equal(mkdir(rig->dir, 0700), 0);
    (void)snprintf(key_path, sizeof(key_path), "%s/key", rig->dir);
    key_write(content[0], SNP_SEAL_KEY, 0600);
    rig->key_path = has_key ? key_path : NULL;
    rig_open(rig);
}

static const char *path_of(const struct rig *rig, const char *name)
{
    static char path[200];

    (void)snprintf(path, sizeof(path), "%s/journal/%s", rig->dir, name);
    return path;
}

/* Contents ------------------------------------------------------------------------------ */

/* Content i becomes a file of the store. */
static void put(struct rig *rig, int i, uint8_t ret_hash[SNP_BLOB_HASH_BYTES])
{
    snp_cleanup(snp_blob_writer_freep) struct snp_blob_writer *writer = NULL;
    const struct snp_blob_place *place = &rig->store->place;
    struct snp_blob_made made = {.fd = -1};
    struct snp_err err;

    assert_int_equal(snp_blob_writer_new(place, &writer, &err), 0);
    assert_int_equal(snp_blob_begin(writer, &err), 0);
    assert_int_equal(snp_blob_add(writer, content[i], CONTENT, &err), 0);
    assert_int_equal(snp_blob_commit(writer, &made, &err), 0);
    assert_int_equal(snp_blob_rename(place, &made, &err), 0);
    (void)close(made.fd);
    memcpy(ret_hash, made.hash, SNP_BLOB_HASH_BYTES);
}

/*
 * The code of reading all of it from an offset on; what came is compared with content i, or i
 * is -1.
 */
static int get(struct rig *rig, const uint8_t *hash, uint64_t offset, int i)
{
    snp_cleanup(snp_blob_reader_freep) struct snp_blob_reader *reader = NULL;
    const void *bytes = NULL;
    struct snp_err err;
    size_t n = 1;
    int r = snp_blob_reader_new(&rig->store->place, &reader, &err);

    SNP_THEN(r, snp_blob_open(reader, hash, CONTENT, offset, &err));
    while (r == 0 && n > 0) {
        r = snp_blob_next(reader, &bytes, &n, &err);
        if (r == 0 && i >= 0) {
            assert_memory_equal(bytes, content[i] + offset, n);
        }
        offset += r == 0 ? n : 0;
    }
    assert_true(r < 0 || offset == CONTENT);
    return r;
}

static void file_take(const struct rig *rig, const uint8_t *hash, struct file *file)
{
    char hex[SNP_STORE_HASH_LEN + 1];
    int fd;

    snp_blob_hex(hash, hex);
    (void)snprintf(file->name, sizeof(file->name), "blobs/%.2s/%s", hex, hex);
    fd = open(path_of(rig, file->name), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    file->n = (size_t)snp_read_all(fd, file->bytes, FILE_MAX);
    assert_true(file->n > HEADER && file->n < FILE_MAX);
    (void)close(fd);
}

static void file_put(const struct rig *rig, const struct file *file)
{
    int fd = open(path_of(rig, file->name), O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, file->bytes, file->n), 0);
    (void)close(fd);
}

static size_t chunk_len(const struct file *file, size_t at, bool sealed)
{
    uint32_t len;

    memcpy(&len, file->bytes + at, sizeof(len));
    return CHUNK_HEAD + (len & 0x7fffffffU) + (sealed ? SNP_SEAL_TAG : 0);
}

/* Its length and all checksums, as who knows the format would. */
static void file_mend(struct file *file, bool sealed)
{
    uint64_t stored = file->n;
    uint64_t sum;
    size_t at = HEADER + (sealed ? SEAL : 0);

    memcpy(file->bytes + 16, &stored, sizeof(stored));
    sum = XXH3_64bits(file->bytes, SUM_AT);
    memcpy(file->bytes + SUM_AT, &sum, sizeof(sum));
    for (uint64_t i = 0; at + CHUNK_HEAD < file->n; i++) {
        size_t n = chunk_len(file, at, sealed);

        if (n > file->n - at) {
            return;
        }
        n -= CHUNK_HEAD + (sealed ? SNP_SEAL_TAG : 0);
        sum = XXH3_64bits_withSeed(file->bytes + at + CHUNK_HEAD, n, i);
        memcpy(file->bytes + at + 8, &sum, sizeof(sum));
        at += n + CHUNK_HEAD + (sealed ? SNP_SEAL_TAG : 0);
    }
}

/* How many bits, one of every so many bytes, can be turned without being seen. */
static unsigned flips_believed(struct rig *rig, const uint8_t *hash, bool sealed, size_t step)
{
    static struct file whole;
    static struct file file;
    unsigned believed = 0;

    file_take(rig, hash, &whole);
    for (size_t at = HEADER; at < whole.n; at += step) {
        file = whole;
        file.bytes[at] ^= 4;
        file_mend(&file, sealed);
        file_put(rig, &file);
        believed += get(rig, hash, 0, -1) == 0 ? 1 : 0;
    }
    file_put(rig, &whole);
    return believed;
}

/* Chunks 0 and 2, which are of the same length, change places. */
static int swapped(struct rig *rig, const uint8_t *hash, bool sealed)
{
    static struct file whole;
    static struct file file;
    size_t first = HEADER + (sealed ? SEAL : 0);
    size_t n;
    size_t third;
    int r;

    file_take(rig, hash, &whole);
    n = chunk_len(&whole, first, sealed);
    third = first + n + chunk_len(&whole, first + n, sealed);
    assert_int_equal(chunk_len(&whole, third, sealed), n);
    file = whole;
    memcpy(file.bytes + first, whole.bytes + third, n);
    memcpy(file.bytes + third, whole.bytes + first, n);
    file_mend(&file, sealed);
    file_put(rig, &file);
    r = get(rig, hash, 0, -1);
    file_put(rig, &whole);
    return r;
}

/* The whole file of one content under the other's name. */
static int passed_off(struct rig *rig, const uint8_t *hash, const uint8_t *other, bool sealed)
{
    static struct file whole;
    static struct file file;
    int r;

    file_take(rig, hash, &whole);
    file_take(rig, other, &file);
    memcpy(file.name, whole.name, sizeof(file.name));
    memcpy(file.bytes + 24, hash, SNP_BLOB_HASH_BYTES);
    file_mend(&file, sealed);
    file_put(rig, &file);
    r = get(rig, hash, 0, -1);
    file_put(rig, &whole);
    return r;
}

TEST(contents_come_back_from_any_offset_and_are_found_once)
{
    struct rig rig;
    uint8_t hash[2][SNP_BLOB_HASH_BYTES];
    static struct file file;

    begin(&rig, true);
    (void)rig_enter(&rig); /* files without rows stay as long as a job runs */
    put(&rig, 0, hash[0]);
    put(&rig, 0, hash[1]);
    assert_memory_equal(hash[0], hash[1], SNP_BLOB_HASH_BYTES);
    assert_true(snp_seal_is_name(hash[0]));
    assert_true(snp_blob_is(rig.store->seal, content[0], CONTENT, hash[0]));
    assert_false(snp_blob_is(rig.store->seal, content[1], CONTENT, hash[0]));
    assert_false(snp_blob_is(NULL, content[0], CONTENT, hash[0]));
    for (uint64_t offset = 0; offset < CONTENT; offset += CHUNK / 2 + 77) {
        assert_int_equal(get(&rig, hash[0], offset, 0), 0);
    }
    file_take(&rig, hash[0], &file);
    assert_null(memmem(file.bytes, file.n, canary, sizeof(canary)));
    rig_leave(&rig);
    rig_end(&rig);
}

TEST(what_was_changed_swapped_cut_or_passed_off_is_refused)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        struct rig rig;
        uint8_t hash[2][SNP_BLOB_HASH_BYTES];
        static struct file file;
        unsigned believed;

        begin(&rig, sealed != 0);
        (void)rig_enter(&rig); /* files without rows stay as long as a job runs */
        put(&rig, 0, hash[0]);
        put(&rig, 1, hash[1]);
        believed = flips_believed(&rig, hash[0], sealed != 0, sealed != 0 ? 4999 : 99991);
        file_take(&rig, hash[0], &file);
        if (sealed != 0) {
            assert_int_equal(believed, 0);
            assert_int_equal(flips_believed(&rig, hash[0], true, file.n - HEADER - 5),
                             0); /* a tag */
            assert_int_equal(swapped(&rig, hash[0], true), SNP_E_NOT_FOUND);
            assert_int_equal(passed_off(&rig, hash[0], hash[1], true), SNP_E_NOT_FOUND);
            file_take(&rig, hash[0], &file);
            file.n -= 1000 + CHUNK_HEAD + SNP_SEAL_TAG;
            file_mend(&file, true);
            file_put(&rig, &file);
            assert_int_equal(get(&rig, hash[0], 0, -1), SNP_E_NOT_FOUND);
        } else {
            assert_true(believed > 0);
            assert_int_equal(swapped(&rig, hash[0], false), 0);
            assert_int_equal(passed_off(&rig, hash[0], hash[1], false), 0);
        }
        rig_leave(&rig);
        rig_end(&rig);
    }
}

TEST(a_plain_file_does_not_pass_for_a_sealed_one)
{
    struct rig rig;
    struct rig plain;
    uint8_t hash[2][SNP_BLOB_HASH_BYTES];
    static struct file forged;
    static struct file file;

    begin(&plain, false);
    (void)rig_enter(&plain);
    put(&plain, 1, hash[1]);
    file_take(&plain, hash[1], &forged);
    rig_leave(&plain);
    rig_end(&plain);
    begin(&rig, true);
    (void)rig_enter(&rig); /* files without rows stay as long as a job runs */
    put(&rig, 0, hash[0]);
    file_take(&rig, hash[0], &file);
    memcpy(forged.name, file.name, sizeof(file.name));
    memcpy(forged.bytes + 24, hash[0], SNP_BLOB_HASH_BYTES);
    file_mend(&forged, false);
    file_put(&rig, &forged);
    assert_int_equal(get(&rig, hash[0], 0, -1), SNP_E_NOT_FOUND);
    rig_leave(&rig);
    rig_end(&rig);
}

/* The database -------------------------------------------------------------------------- */

struct cell {
    uint64_t number;
    int content;
};

static int add_session(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    struct snp_journal_session row = {.id = sid, .name = "work", .state = "idle", .epoch = 1};

    return snp_journal_session_add(tx, &row, err);
}

/* Code that is a row, output that is a file. */
static int add_cell(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct cell *cell = arg;
    struct snp_journal_cell row = {
        .session = sid, .cell = cell->number, .epoch = 1, .kind = "python", .started_us = 1};
    struct snp_journal_outcome outcome = {.status = "ok",
                                          .state = "kept",
                                          .result = {"{}", 2},
                                          .raw = {content[cell->content], CONTENT}};

    SNP_TRY(snp_journal_cell_begin(tx, &row, (struct snp_bytes){canary, sizeof(canary) - 1},
                                   (struct snp_bytes){0}, err));
    return snp_journal_cell_end(tx, sid, cell->number, 1, &outcome, err);
}

/* Whether code and output of a cell are as they were written. */
static bool has_cell(struct rig *rig, uint64_t number, int i)
{
    snp_autobuf struct snp_buf code = {0};
    snp_autobuf struct snp_buf raw = {0};
    struct snp_tx *tx = rig_enter(rig);
    struct snp_err err;
    bool is_there;

    snp_buf_init(&code, 1000);
    snp_buf_init(&raw, CONTENT);
    is_there = snp_journal_cell_part(tx, sid, number, SNP_PART_CODE, &code, &err) == 0 &&
               snp_journal_cell_part(tx, sid, number, SNP_PART_RAW, &raw, &err) == 0 &&
               strcmp(snp_buf_cstr(&code), canary) == 0 && raw.len == CONTENT &&
               memcmp(snp_buf_bytes(&raw), content[i], CONTENT) == 0;
    rig_leave(rig);
    return is_there;
}

static uint64_t count_unsealed(struct rig *rig)
{
    struct snp_tx *tx = rig_enter(rig);
    struct snp_err err;
    uint64_t n = UINT64_MAX;

    assert_int_equal(snp_journal_unsealed(tx, &n, &err), 0);
    rig_leave(rig);
    return n;
}

/* Is it in the database or its log, as they are on disk now? */
static bool is_readable(const struct rig *rig)
{
    static const char *const names[] = {"journal.db", "journal.db-wal"};
    static char bytes[8 << 20];
    bool found = false;

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        int fd = open(path_of(rig, names[i]), O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : snp_read_all(fd, bytes, sizeof(bytes));

        found = found || memmem(bytes, (size_t)n, canary, sizeof(canary) - 1) != NULL;
        (void)(fd < 0 ? 0 : close(fd));
    }
    return found;
}

TEST(a_store_from_before_the_key_is_read_and_what_is_new_is_sealed)
{
    struct rig rig;
    struct cell old = {1, 0};
    struct cell new = {2, 1};

    begin(&rig, false);
    rig_ok(&rig, add_session, NULL);
    rig_ok(&rig, add_cell, &old);
    assert_true(is_readable(&rig));
    assert_false(snp_store_is_sealed(rig.store));
    rig_close(&rig);
    rig.key_path = key_path;
    rig_open(&rig);
    assert_true(has_cell(&rig, 1, 0));
    assert_true(snp_store_is_sealed(rig.store));
    rig_ok(&rig, add_cell, &new);
    assert_false(is_readable(&rig));
    assert_int_equal(count_unsealed(&rig), 1);
    rig_reopen(&rig);
    assert_true(has_cell(&rig, 1, 0) && has_cell(&rig, 2, 1));
    assert_false(is_readable(&rig));
    rig_end(&rig);
}

TEST(the_store_remembers_where_its_key_is_and_fails_closed_without)
{
    static const struct {
        size_t n;
        mode_t mode;
        uint8_t first;
        int code;
        const char *says;
    } keys[] = {
        {0, 0600, 1, SNP_E_INVALID, "head -c 32"},
        {33, 0600, 1, SNP_E_INVALID, "has 33 bytes"},
        {SNP_SEAL_KEY, 0640, 1, SNP_E_DENIED, "chmod 600"},
        {SNP_SEAL_KEY, 0600, 1, SNP_E_DENIED, "use the right key"},
    };
    struct rig rig;
    struct cell cell = {1, 0};
    struct cell other = {2, 1};
    uint8_t bytes[64];

    begin(&rig, true);
    rig_ok(&rig, add_session, NULL);
    rig_ok(&rig, add_cell, &cell);
    rig_close(&rig);
    rig.key_path = NULL; /* of whoever starts the next daemon */
    for (size_t i = 0; i < SNP_ARRAY_LEN(keys); i++) {
        memset(bytes, keys[i].first, sizeof(bytes));
        key_write(bytes, keys[i].n, keys[i].mode);
        rig_open(&rig);
        assert_int_equal(rig_job(&rig, add_cell, &other), keys[i].code);
        assert_non_null(strstr(rig.last.msg, keys[i].says));
        rig_close(&rig);
    }
    (void)unlink(key_path);
    rig_open(&rig);
    assert_int_equal(rig_job(&rig, add_cell, &other), SNP_E_SYS);
    assert_non_null(strstr(rig.last.msg, key_path));
    rig_close(&rig);
    rig.key_path = "key";
    rig_open(&rig);
    assert_int_equal(rig_job(&rig, add_cell, &other), SNP_E_INVALID);
    rig_close(&rig);
    rig.key_path = NULL;
    key_write(content[0], SNP_SEAL_KEY, 0600);
    rig_open(&rig);
    assert_true(has_cell(&rig, 1, 0));
    assert_false(has_cell(&rig, 2, 1));
    assert_false(is_readable(&rig));
    rig_end(&rig);
}

TEST(sealing_that_was_broken_off_is_finished)
{
    struct rig rig;
    struct cell cell = {1, 0};
    char sealing[200];
    char plain[200];

    begin(&rig, false);
    rig_ok(&rig, add_session, NULL);
    rig_ok(&rig, add_cell, &cell);
    rig_close(&rig);
    (void)snprintf(sealing, sizeof(sealing), "%s", path_of(&rig, "journal.db.sealing"));
    (void)snprintf(plain, sizeof(plain), "%s", path_of(&rig, "plain"));
    assert_int_equal(link(path_of(&rig, "journal.db"), plain), 0);
    assert_int_equal(mkdir(sealing, 0700), 0); /* in the way: nothing is opened plain instead */
    rig.key_path = key_path;
    rig_open(&rig);
    assert_int_not_equal(rig_job(&rig, add_cell, &cell), SNP_OK);
    rig_close(&rig);
    assert_int_equal(access(path_of(&rig, "seal"), F_OK), -1);
    assert_int_equal(rmdir(sealing), 0);
    rig_open(&rig);
    assert_true(has_cell(&rig, 1, 0));
    rig_close(&rig);
    assert_int_equal(rename(path_of(&rig, "journal.db"), sealing), 0); /* as before the last step */
    assert_int_equal(rename(plain, path_of(&rig, "journal.db")), 0);
    rig_open(&rig);
    assert_true(has_cell(&rig, 1, 0));
    assert_false(is_readable(&rig));
    assert_int_equal(access(sealing, F_OK), -1);
    rig_end(&rig);
}

TEST(a_damaged_sealed_database_is_salvaged_and_stays_sealed)
{
    struct rig rig;
    static struct cell cells[40];
    unsigned left = 0;
    int fd;

    begin(&rig, true);
    rig_ok(&rig, add_session, NULL);
    for (uint64_t i = 0; i < 40; i++) {
        cells[i] = (struct cell){i + 1, (int)(i % 2)};
        rig_ok(&rig, add_cell, &cells[i]);
    }
    rig_close(&rig);
    fd = open(path_of(&rig, "journal.db"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, content[0], 100, 4096 * 2 + 8), 100);
    (void)close(fd);
    rig_open(&rig);
    for (uint64_t i = 0; i < 40; i++) {
        left += has_cell(&rig, i + 1, (int)(i % 2)) ? 1 : 0;
    }
    assert_true(snp_salvage_is_kept(path_of(&rig, "journal.db"), NULL)); /* it was seen */
    assert_true(left > 0);
    assert_false(is_readable(&rig));
    rig_end(&rig);
}

RUN(UNIT(contents_come_back_from_any_offset_and_are_found_once),
    UNIT(what_was_changed_swapped_cut_or_passed_off_is_refused),
    UNIT(a_plain_file_does_not_pass_for_a_sealed_one),
    UNIT(a_store_from_before_the_key_is_read_and_what_is_new_is_sealed),
    UNIT(the_store_remembers_where_its_key_is_and_fails_closed_without),
    UNIT(sealing_that_was_broken_off_is_finished),
    UNIT(a_damaged_sealed_database_is_salvaged_and_stays_sealed))
