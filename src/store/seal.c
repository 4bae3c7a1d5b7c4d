/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's key, and the keys derived from it.
 *
 * HMAC-SHA-256 of the store's salt under the user's key gives the key that all others are derived
 * from: one for names, one for contents, two for pages. A content's file has a random salt, which
 * gives a separate key for AES-256-GCM; the nonce is the number of the piece. Pages of the database
 * keep their length, so they use AES-256-XTS, like sectors of an encrypted disk: not authenticated.
 *
 * SQLite reads and writes the database and its log through two functions of ours, which replace
 * those of its VFS. It must use whole pages; other requests fail.
 */
#include "store/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "store/blob.h"

enum {
    KEY = 32, /* bytes of each key */
    HEX = 2 * KEY,
    MARK_LEN = sizeof(SNP_SEAL_MARK) - 1,
    PAGE = 4096,
    /*
     * Bytes of the first page that are not encrypted, so that an older program sees a newer
     * version.
     */
    PAGE_HEAD = 100,
    LOG_HEAD = 32,
    LOG_ENTRY = 24, /* before each page in the log */
};

static const char magic[] = "snpseal1";

struct snp_seal {
    sqlite3_vfs vfs; /* must be first */
    sqlite3_vfs *real;
    bool is_registered;
    bool is_new;
    char *record_path; /* owned */
    char *key_path;    /* owned */
    uint8_t salt[KEY];
    uint8_t check[KEY];
    uint8_t name_key[KEY];
    uint8_t content_key[KEY];
    EVP_CIPHER_CTX *pages[2]; /* owned; [0] decrypts, [1] encrypts */
};

struct snp_sealer {
    const struct snp_seal *seal;
    EVP_CIPHER_CTX *gcm; /* owned */
    uint8_t key[KEY];
};

/* Keys ---------------------------------------------------------------------------------- */

static bool derive(const uint8_t key[KEY], const void *text, size_t n, uint8_t ret[KEY])
{
    unsigned len = 0;

    return HMAC(EVP_sha256(), key, KEY, text, n, ret, &len) != NULL && len == KEY;
}

static bool keys_make(struct snp_seal *seal, const uint8_t user[KEY], uint8_t check[KEY])
{
    uint8_t root[KEY];
    uint8_t xts[2 * KEY];
    bool ok = derive(user, seal->salt, KEY, root) && derive(root, "check", 5, check) &&
              derive(root, "names", 5, seal->name_key) &&
              derive(root, "contents", 8, seal->content_key) && derive(root, "pages 1", 7, xts) &&
              derive(root, "pages 2", 7, xts + KEY);

    for (int i = 0; i < 2; i++) {
        seal->pages[i] = EVP_CIPHER_CTX_new();
        ok = ok && seal->pages[i] != NULL &&
             EVP_CipherInit_ex(seal->pages[i], EVP_aes_256_xts(), NULL, xts, NULL, i) == 1;
    }
    OPENSSL_cleanse(root, sizeof(root));
    OPENSSL_cleanse(xts, sizeof(xts));
    return ok;
}

static int key_read(const char *path, uint8_t ret[KEY], struct snp_err *err)
{
    snp_autoclose int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat st;

    if (path[0] != '/') {
        return snp_fail(err, SNP_E_INVALID, "the store key needs an absolute path, not '%s'", path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno,
                            "no store key; restore its file, or create a key for a new store with "
                            "(umask 077; head -c 32 /dev/urandom > FILE): %s",
                            path);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077) != 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "the store key %s must be a file that you own and that others cannot read; "
                        "run chmod 600 on it",
                        path);
    }
    if (st.st_size != KEY || snp_read_all(fd, ret, KEY) != KEY) {
        return snp_fail(err, SNP_E_INVALID,
                        "the store key %s has %lld bytes, not 32; make one with (umask 077; "
                        "head -c 32 /dev/urandom > FILE)",
                        path, (long long)st.st_size);
    }
    return 0;
}

/* The record ---------------------------------------------------------------------------- */

/* "snpseal1 SALT CHECK PATH\n" */
static int record_read(struct snp_seal *seal, char **ret_path, struct snp_err *err)
{
    snp_autofree char *text = NULL;
    size_t n = 0;
    size_t at = sizeof(magic) + (size_t)2 * (HEX + 1); /* of the path */
    bool is_right = false;
    int r = snp_file_read(seal->record_path, PATH_MAX + at, &text, &n, err);

    if (r == SNP_E_NOT_FOUND) {
        seal->is_new = true;
        return 0;
    }
    SNP_TRY(r);
    if (n >= at + 2 && strlen(text) == n && text[n - 1] == '\n') {
        text[sizeof(magic) - 1] = text[sizeof(magic) + HEX] = text[at - 1] = text[n - 1] = '\0';
        is_right = snp_streq(text, magic) &&
                   snp_blob_unhex(text + sizeof(magic), seal->salt) == 0 &&
                   snp_blob_unhex(text + sizeof(magic) + HEX + 1, seal->check) == 0;
    }
    if (!is_right) {
        return snp_fail(err, SNP_E_INVALID, "%s is damaged; restore it from a backup",
                        seal->record_path);
    }
    *ret_path = strdup(text + at);
    SNP_TRY_MEMORY(*ret_path, err);
    return 0;
}

static int record_write(const struct snp_seal *seal, struct snp_err *err)
{
    char hex[2][HEX + 1];
    snp_autofree char *text = NULL;

    snp_hex(seal->salt, KEY, hex[0]);
    snp_hex(seal->check, KEY, hex[1]);
    text = snp_format("%s %s %s %s\n", magic, hex[0], hex[1], seal->key_path);
    SNP_TRY_MEMORY(text, err);
    return snp_file_write_atomic(seal->record_path, text, strlen(text), 0600, err);
}

static int seal_make(struct snp_seal *seal, const char *dir, bool is_moved, struct snp_err *err)
{
    uint8_t user[KEY];
    uint8_t check[KEY];
    int r = key_read(seal->key_path, user, err);

    if (r == 0 && seal->is_new && getrandom(seal->salt, KEY, 0) != KEY) {
        r = snp_fail(err, SNP_E_SYS, "the kernel returned no random numbers");
    }
    if (r == 0 && !keys_make(seal, user, check)) {
        r = snp_fail(err, SNP_E_INTERNAL, "libcrypto has no AES-256-XTS or no HMAC");
    }
    OPENSSL_cleanse(user, sizeof(user));
    SNP_TRY(r);
    if (seal->is_new) {
        memcpy(seal->check, check, KEY);
        return 0;
    }
    if (CRYPTO_memcmp(check, seal->check, KEY) != 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "%s is not the key that encrypted %s; use the right key, or move that "
                        "folder away to start without its sessions",
                        seal->key_path, dir);
    }
    return is_moved ? record_write(seal, err) : 0;
}

int snp_seal_open(const char *dir, const char *key_path, struct snp_seal **ret, struct snp_err *err)
{
    struct snp_seal *seal = calloc(1, sizeof(*seal));
    snp_autofree char *known = NULL;
    int r;

    SNP_TRY_MEMORY(seal, err);
    seal->record_path = snp_format("%s/seal", dir);
    r = seal->record_path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                  : record_read(seal, &known, err);
    key_path = key_path == NULL ? known : key_path;
    if (r < 0 || key_path == NULL) {
        snp_seal_free(seal);
        *ret = r < 0 ? *ret : NULL;
        return r;
    }
    seal->key_path = strdup(key_path);
    r = seal->key_path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                               : seal_make(seal, dir, !snp_streq(key_path, known), err);
    if (r < 0) {
        snp_seal_free(seal);
        return r;
    }
    *ret = seal;
    return 0;
}

void snp_seal_free(struct snp_seal *seal)
{
    if (seal == NULL) {
        return;
    }
    if (seal->is_registered) {
        (void)sqlite3_vfs_unregister(&seal->vfs);
    }
    EVP_CIPHER_CTX_free(seal->pages[0]);
    EVP_CIPHER_CTX_free(seal->pages[1]);
    free(seal->record_path);
    free(seal->key_path);
    OPENSSL_cleanse(seal, sizeof(*seal));
    free(seal);
}

bool snp_seal_is_new(const struct snp_seal *seal)
{
    return seal->is_new;
}

/* Contents ------------------------------------------------------------------------------ */

bool snp_seal_name(const struct snp_seal *seal, uint8_t hash[SNP_SEAL_NAME])
{
    uint8_t name[KEY];

    if (seal == NULL || !derive(seal->name_key, hash, SNP_SEAL_NAME, name)) {
        return seal == NULL;
    }
    memcpy(hash, name, KEY - MARK_LEN);
    memcpy(hash + KEY - MARK_LEN, SNP_SEAL_MARK, MARK_LEN);
    return true;
}

bool snp_seal_is_name(const uint8_t hash[SNP_SEAL_NAME])
{
    return memcmp(hash + KEY - MARK_LEN, SNP_SEAL_MARK, MARK_LEN) == 0;
}

struct snp_sealer *snp_sealer_new(const struct snp_seal *seal)
{
    struct snp_sealer *sealer = calloc(1, sizeof(*sealer));

    if (sealer != NULL) {
        sealer->seal = seal;
        sealer->gcm = EVP_CIPHER_CTX_new();
    }
    if (sealer != NULL && sealer->gcm == NULL) {
        free(SNP_TAKE_PTR(sealer));
    }
    return sealer;
}

void snp_sealer_free(struct snp_sealer *sealer)
{
    if (sealer != NULL) {
        EVP_CIPHER_CTX_free(sealer->gcm);
        OPENSSL_cleanse(sealer->key, KEY);
        free(sealer);
    }
}

bool snp_sealer_salt(uint8_t ret_salt[SNP_SEAL_SALT])
{
    return getrandom(ret_salt, SNP_SEAL_SALT, 0) == SNP_SEAL_SALT;
}

bool snp_sealer_begin(struct snp_sealer *sealer, const uint8_t salt[SNP_SEAL_SALT])
{
    return derive(sealer->seal->content_key, salt, SNP_SEAL_SALT, sealer->key) &&
           EVP_CipherInit_ex(sealer->gcm, EVP_aes_256_gcm(), NULL, sealer->key, NULL, 1) == 1;
}

/* All but the tag. */
static bool piece_crypt(struct snp_sealer *sealer,
                        const struct snp_seal_piece *piece,
                        const void *from,
                        size_t n,
                        void *to,
                        int encrypt)
{
    uint8_t nonce[12] = {0};
    int len = 0;

    memcpy(nonce, &piece->number, sizeof(piece->number));
    return EVP_CipherInit_ex(sealer->gcm, NULL, NULL, NULL, nonce, encrypt) == 1 &&
           EVP_CipherUpdate(sealer->gcm, NULL, &len, piece->about, (int)piece->about_n) == 1 &&
           (n == 0 || EVP_CipherUpdate(sealer->gcm, to, &len, from, (int)n) == 1);
}

bool snp_sealer_put(struct snp_sealer *sealer,
                    const struct snp_seal_piece *piece,
                    const void *from,
                    size_t n,
                    void *to)
{
    uint8_t *tag = (uint8_t *)to + n;
    int len = 0;

    return piece_crypt(sealer, piece, from, n, to, 1) &&
           EVP_CipherFinal_ex(sealer->gcm, tag, &len) == 1 &&
           EVP_CIPHER_CTX_ctrl(sealer->gcm, EVP_CTRL_GCM_GET_TAG, SNP_SEAL_TAG, tag) == 1;
}

bool snp_sealer_get(struct snp_sealer *sealer,
                    const struct snp_seal_piece *piece,
                    void *bytes,
                    size_t n)
{
    uint8_t *tag = (uint8_t *)bytes + n;
    int len = 0;

    return piece_crypt(sealer, piece, bytes, n, bytes, 0) &&
           EVP_CIPHER_CTX_ctrl(sealer->gcm, EVP_CTRL_GCM_SET_TAG, SNP_SEAL_TAG, tag) == 1 &&
           EVP_CipherFinal_ex(sealer->gcm, tag, &len) == 1;
}

/* Pages --------------------------------------------------------------------------------- */

/* Stored beside SQLite's file: its functions, except our two. */
struct sealed_file {
    const sqlite3_io_methods *real;
    sqlite3_io_methods ours;
    const struct snp_seal *seal;
    bool is_log;
};

static struct sealed_file *extra_of(sqlite3_file *file, const struct snp_seal *seal)
{
    return (struct sealed_file *)(void *)((char *)file + seal->vfs.szOsFile -
                                          sizeof(struct sealed_file));
}

/* The function table is inside it. */
static const struct sealed_file *extra_found(const sqlite3_file *file)
{
    return (const struct sealed_file *)(const void *)((const char *)file->pMethods -
                                                      offsetof(struct sealed_file, ours));
}

static bool page_crypt(
    const struct snp_seal *seal, bool is_log, uint64_t at, uint8_t *bytes, size_t n, int encrypt)
{
    uint8_t tweak[16] = {0};
    int len = 0;

    memcpy(tweak, &at, sizeof(at));
    tweak[15] = is_log ? 1 : 0;
    return EVP_CipherInit_ex(seal->pages[encrypt], NULL, NULL, NULL, tweak, encrypt) == 1 &&
           EVP_CipherUpdate(seal->pages[encrypt], bytes, &len, bytes, (int)n) == 1 && len == (int)n;
}

/* Never written (the file was extended): it stays zeros, which are not a page's encrypted bytes. */
static bool is_hole(const uint8_t *bytes, size_t n)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/*
 * Encrypt or decrypt the page within n bytes at `at`: at most one, else it fails, also for a part
 * of one. Heads of the file, of the log and of its entries are no pages.
 */
static bool range_crypt(
    const struct sealed_file *extra, uint64_t at, uint8_t *bytes, size_t n, int encrypt)
{
    uint64_t step = extra->is_log ? PAGE + LOG_ENTRY : PAGE;
    uint64_t first = extra->is_log ? LOG_HEAD : 0;
    uint64_t start = at < first ? first : at - (at - first) % step; /* of at's entry */
    uint64_t from = extra->is_log ? start + LOG_ENTRY : start == 0 ? PAGE_HEAD : start;
    uint64_t to = start + step;

    if (at + n <= from) {
        return true;
    }
    if (at > from || at + n != to) {
        return false;
    }
    bytes += from - at;
    n = (size_t)(to - from);
    return (!encrypt && is_hole(bytes, n)) ||
           page_crypt(extra->seal, extra->is_log, from, bytes, n, encrypt);
}

static int on_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
    const struct sealed_file *extra = extra_found(file);
    int rc = extra->real->xRead(file, bytes, n, at);

    if (rc != SQLITE_OK) { /* beyond the end are zeros, and no whole page is before it */
        return rc;
    }
    return range_crypt(extra, (uint64_t)at, bytes, (size_t)n, 0) ? SQLITE_OK : SQLITE_IOERR_READ;
}

static int on_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    const struct sealed_file *extra = extra_found(file);
    uint8_t page[PAGE + LOG_ENTRY];

    if ((size_t)n > sizeof(page)) {
        return SQLITE_IOERR_WRITE;
    }
    memcpy(page, bytes, (size_t)n);
    return range_crypt(extra, (uint64_t)at, page, (size_t)n, 1)
               ? extra->real->xWrite(file, page, n, at)
               : SQLITE_IOERR_WRITE;
}

/*
 * SQLite keeps all else in memory (temp_store); the journal of a new database, before it has its
 * log, is empty.
 */
static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret)
{
    const struct snp_seal *seal = (const struct snp_seal *)(const void *)vfs;
    struct sealed_file *extra = extra_of(file, seal);
    int rc;

    if ((flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) == 0) {
        file->pMethods = NULL;
        return SQLITE_CANTOPEN;
    }
    rc = seal->real->xOpen(seal->real, name, file, flags, ret);
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_JOURNAL) == 0) {
        *extra =
            (struct sealed_file){.real = file->pMethods, .ours = *file->pMethods, .seal = seal};
        extra->is_log = (flags & SQLITE_OPEN_WAL) != 0;
        extra->ours.iVersion = 1; /* no memory mapping of the file */
        extra->ours.xRead = on_read;
        extra->ours.xWrite = on_write;
        file->pMethods = &extra->ours;
    }
    return rc;
}

static int fail_copy(const char *path, struct snp_err *err)
{
    return snp_fail_sys(err, errno, "seal %s; free space on that disk", path);
}

/* Make a sealed copy of a database that is not open and has no log. */
static int database_copy(const struct snp_seal *seal,
                         const char *path,
                         const char *to,
                         struct snp_err *err)
{
    const struct sealed_file extra = {.seal = seal};
    snp_autoclose int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    snp_autoclose int out = -1;
    uint8_t page[PAGE];
    ssize_t n = -1;

    if (in >= 0) {
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    for (uint64_t at = 0; out >= 0 && (n = snp_read_all(in, page, PAGE)) == PAGE; at += PAGE) {
        if ((!is_hole(page, PAGE) && !range_crypt(&extra, at, page, PAGE, 1)) ||
            snp_write_all(out, page, PAGE) < 0) {
            return fail_copy(path, err);
        }
    }
    return n != 0 || fsync(out) < 0 ? fail_copy(path, err) : 0;
}

/*
 * First a sealed copy beside it, then the record, then the copy replaces the original: after an
 * interruption the record says whether the copy is valid.
 */
int snp_seal_database(struct snp_seal *seal, const char *path, struct snp_err *err)
{
    snp_autofree char *copy = snp_format("%s.sealing", path);

    SNP_TRY_MEMORY(copy, err);
    if (seal->is_new) {
        (void)unlink(
            copy); /* left over by a failed attempt; otherwise it is missing or overwritten */
        if (access(path, F_OK) == 0 && database_copy(seal, path, copy, err) < 0) {
            (void)unlink(copy);
            return err->code;
        }
        SNP_TRY(record_write(seal, err));
        seal->is_new = false;
    }
    if (access(copy, F_OK) == 0 &&
        (rename(copy, path) < 0 || record_write(seal, err) < 0)) { /* syncs the folder */
        return fail_copy(path, err);
    }
    if (!seal->is_registered) {
        seal->real = sqlite3_vfs_find(NULL);
        SNP_ASSERT(seal->real != NULL);
        seal->vfs = *seal->real;
        seal->vfs.zName = "sealed";
        seal->vfs.pNext = NULL;
        seal->vfs.szOsFile = (seal->real->szOsFile + 7) / 8 * 8 + (int)sizeof(struct sealed_file);
        seal->vfs.xOpen = on_open;
        seal->is_registered = sqlite3_vfs_register(&seal->vfs, 1) == SQLITE_OK;
    }
    return seal->is_registered ? 0
                               : snp_fail(err, SNP_E_INTERNAL, "SQLite did not register the VFS");
}
