/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record is a file STATE/trusted/HASH-OF-THE-PATH.json, so that two programs can trust two files
 * at once without conflict. The path is the real folder plus the name in it: a link to a trusted
 * file is not trusted.
 */
#include "base/config/trust.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    RECORD_MAX = 64 << 10,
    SOURCE_MAX = 1 << 20,
    DIR_MODE = 0700,
    FILE_MODE = 0600,
};

static bool is_ours(uid_t owner)
{
    return owner == geteuid() || owner == 0;
}

static int hash_bytes(const void *bytes,
                      size_t n,
                      char hex[SNP_SOURCE_HEX + 1],
                      struct snp_err *err)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_Digest(bytes, n, hash, &len, EVP_sha256(), NULL) != 1 || len != SNP_SOURCE_HEX / 2) {
        return snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed");
    }
    snp_hex(hash, len, hex);
    return 0;
}

/* ---- files ---- */

static int foreign(const char *path, uid_t owner, bool *is_foreign, struct snp_err *err)
{
    *is_foreign = true;
    return snp_fail(err, SNP_E_DENIED, "%s belongs to uid %u, not to you or root; it was not read",
                    path, (unsigned)owner);
}

/* A link's owner is checked, too: its creator chose the file to read. */
static int check_owners(int fd, const char *path, bool *is_foreign, struct snp_err *err)
{
    struct stat named;
    struct stat opened;

    if (lstat(path, &named) < 0 || fstat(fd, &opened) < 0) {
        return snp_fail_sys(err, errno, "stat %s", path);
    }
    if (!is_ours(named.st_uid) || !is_ours(opened.st_uid)) {
        return foreign(path, is_ours(named.st_uid) ? opened.st_uid : named.st_uid, is_foreign, err);
    }
    if (!S_ISLNK(named.st_mode) &&
        (named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)) {
        return snp_fail(err, SNP_E_DENIED, "%s was exchanged while it was opened", path);
    }
    return 0;
}

int snp_source_read(const char *path,
                    size_t max,
                    struct snp_config_text *ret,
                    bool *is_foreign,
                    struct snp_err *err)
{
    struct snp_config_text source = {0};
    struct stat st;
    snp_autoclose int fd = -1;

    /* A stranger's file that we cannot open is still reported as a stranger's. */
    if (is_foreign != NULL && lstat(path, &st) == 0 && !is_ours(st.st_uid)) {
        return foreign(path, st.st_uid, is_foreign, err);
    }
    int r = snp_file_open(path, &fd, err);
    r = r < 0 || is_foreign == NULL ? r : check_owners(fd, path, is_foreign, err);
    if (r == 0 && fstat(fd, &st) < 0) {
        r = snp_fail_sys(err, errno, "stat %s", path);
    }
    r = r < 0 ? r : snp_file_read_fd(fd, path, max, &source.text, &source.len, err);
    r = r < 0 ? r : hash_bytes(source.text, source.len, source.hash, err);
    if (r < 0) {
        snp_source_done(&source);
        return r;
    }
    source.owner = st.st_uid;
    *ret = source;
    return 0;
}

void snp_source_done(struct snp_config_text *source)
{
    free(source->text);
    *source = (struct snp_config_text){0};
}

/* ---- records ---- */

/* The real folder and the name in it; a missing folder stays as written. */
static char *real_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    snp_autofree char *folder =
        slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    snp_autofree char *real = folder == NULL ? NULL : realpath(folder, NULL);

    if (folder == NULL) {
        return NULL;
    }
    if (real == NULL) {
        return strdup(path);
    }
    return snp_format("%s/%s", snp_streq(real, "/") ? "" : real, name);
}

/* *ret_real and *ret_record are the caller's (free). */
static int find_record(const char *path, char **ret_real, char **ret_record, struct snp_err *err)
{
    char hex[SNP_SOURCE_HEX + 1];
    snp_autofree char *state = NULL;
    snp_autofree char *real = real_path(path);

    if (real == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    int r = snp_state_dir(&state, err);
    r = r < 0 ? r : hash_bytes(real, strlen(real), hex, err);
    if (r < 0) {
        return r;
    }
    *ret_record = snp_format("%s/trusted/%s.json", state, hex);
    *ret_real = SNP_TAKE_PTR(real);
    return *ret_record == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static int read_record(const char *path, json_t **ret, struct snp_err *err)
{
    snp_autofree char *text = NULL;
    size_t n = 0;
    int r = snp_file_read(path, RECORD_MAX, &text, &n, err);

    return r < 0 ? r : snp_json_parse(text, n, ret, err);
}

static enum snp_trust compare(const json_t *record, const struct snp_config_text *source)
{
    bool is_same = snp_streq(snp_json_str(record, "sha256", NULL), source->hash) &&
                   snp_json_int(record, "owner", -1) == (int64_t)source->owner;

    return is_same ? SNP_TRUST_GIVEN : SNP_TRUST_CHANGED;
}

enum snp_trust snp_trust_of(const char *path, const struct snp_config_text *source)
{
    snp_autofree char *real = NULL;
    snp_autofree char *record_path = NULL;
    snp_autojson json_t *record = NULL;
    struct snp_err err;

    if (find_record(path, &real, &record_path, &err) < 0 ||
        read_record(record_path, &record, &err) < 0) {
        return SNP_TRUST_NONE;
    }
    return compare(record, source);
}

int snp_trust_add(const char *path,
                  const struct snp_config_text *source,
                  const char *by,
                  struct snp_err *err)
{
    snp_autofree char *real = NULL;
    snp_autofree char *record_path = NULL;
    snp_autofree char *folder = NULL;
    snp_autofree char *text = NULL;
    snp_autojson json_t *record = NULL;
    int r = find_record(path, &real, &record_path, err);

    if (r < 0) {
        return r;
    }
    SNP_ASSERT(record_path != NULL);
    record = json_pack("{s:o, s:I, s:s, s:s, s:I}", "path", snp_json_bytes(real, strlen(real)),
                       "owner", (json_int_t)source->owner, "sha256", source->hash, "by", by, "at",
                       (json_int_t)time(NULL));
    text = record == NULL ? NULL : snp_json_text(record);
    folder = strndup(record_path, (size_t)(strrchr(record_path, '/') - record_path));
    if (text == NULL || folder == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_mkdir_p(folder, DIR_MODE, err);
    return r < 0 ? r : snp_file_write_atomic(record_path, text, strlen(text), FILE_MODE, err);
}

int snp_trust_add_own(
    const char *path, const void *bytes, size_t n, const char *by, struct snp_err *err)
{
    struct snp_config_text source = {.owner = geteuid()};
    int r = hash_bytes(bytes, n, source.hash, err);

    return r < 0 ? r : snp_trust_add(path, &source, by, err);
}

int snp_trust_revoke(const char *path, struct snp_err *err)
{
    snp_autofree char *real = NULL;
    snp_autofree char *record_path = NULL;
    int r = find_record(path, &real, &record_path, err);

    SNP_ASSERT(r < 0 || record_path != NULL);
    if (r == 0 && unlink(record_path) < 0) {
        r = errno == ENOENT ? snp_fail(err, SNP_E_NOT_FOUND, "%s was not trusted", path)
                            : snp_fail_sys(err, errno, "remove %s", record_path);
    }
    return r;
}

/* ---- the list ---- */

static const char *state_of(const json_t *record)
{
    struct snp_config_text source = {0};
    struct snp_err err;
    bool is_foreign = false;

    if (snp_source_read(snp_json_str(record, "path", ""), SOURCE_MAX, &source, &is_foreign, &err) <
        0) {
        return is_foreign ? "foreign" : "gone";
    }
    bool is_same = compare(record, &source) == SNP_TRUST_GIVEN;
    snp_source_done(&source);
    return is_same ? "trusted" : "changed";
}

static int list_one(const char *folder, const char *name, json_t *list)
{
    snp_autofree char *path = snp_format("%s/%s", folder, name);
    snp_autojson json_t *record = NULL;
    struct snp_err err;

    if (path == NULL) {
        return -1;
    }
    if (read_record(path, &record, &err) < 0 || snp_json_str(record, "path", NULL) == NULL) {
        return 0; /* damaged: it makes no file trusted */
    }
    return json_object_set_new(record, "state", json_string(state_of(record))) < 0 ||
                   json_array_append(list, record) < 0
               ? -1
               : 0;
}

static bool is_record_name(const char *name)
{
    return strlen(name) == SNP_SOURCE_HEX + strlen(".json") &&
           strspn(name, "0123456789abcdef") == SNP_SOURCE_HEX;
}

int snp_trust_list(json_t **ret, struct snp_err *err)
{
    snp_autofree char *state = NULL;
    snp_autojson json_t *list = json_array();
    int r = snp_state_dir(&state, err);
    snp_autofree char *folder = r < 0 ? NULL : snp_format("%s/trusted", state);
    DIR *dir = folder == NULL ? NULL : opendir(folder);
    const struct dirent *entry;

    while (dir != NULL && r == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): our own stream */
        if (is_record_name(entry->d_name) && list_one(folder, entry->d_name, list) < 0) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(list);
    }
    return r;
}
