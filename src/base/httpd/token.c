/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token of HTTP clients. Two servers that start at once agree on one: a file is written
 * completely, then linked to its name, which fails if the name exists.
 */
#include "base/httpd/token.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    ID_LEN = 32, /* of snp_random_id */
};

static int token_make(const char *path, struct snp_err *err)
{
    char text[2 * ID_LEN + 2];
    char suffix[ID_LEN + 1];
    snp_autofree char *temporary = NULL;
    snp_autoclose int fd = -1;
    int r = 0;

    if (snp_random_id(text) < 0 || snp_random_id(text + ID_LEN) < 0 || snp_random_id(suffix) < 0) {
        return snp_fail_sys(err, errno, "random bytes");
    }
    (void)memcpy(text + 2 * (size_t)ID_LEN, "\n", 2);
    temporary = snp_format("%s.%s", path, suffix);
    if (temporary == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "create %s", temporary);
    }
    if (snp_write_all(fd, text, 2 * (size_t)ID_LEN + 1) < 0 || fsync(fd) < 0 ||
        (link(temporary, path) < 0 && errno != EEXIST)) {
        r = snp_fail_sys(err, errno, "write %s", path);
    }
    (void)unlink(temporary);
    OPENSSL_cleanse(text, sizeof(text));
    return r;
}

static int token_check(const char *path, int fd, struct snp_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077) != 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "the token file %s must be a file that you own and that only you can read: "
                        "run chmod 600 on it, or remove it to get a new token",
                        path);
    }
    return 0;
}

static int token_read(const char *path, int fd, char **ret, struct snp_err *err)
{
    char text[SNP_HTTPD_TOKEN_MAX + 2] = "";
    ssize_t got = snp_read_all(fd, text, sizeof(text) - 1);
    size_t n = got < 0 ? 0 : (size_t)got;
    int r = 0;

    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            n = 0;
        }
    }
    if (n < SNP_HTTPD_TOKEN_MIN || n > SNP_HTTPD_TOKEN_MAX) {
        r = snp_fail(err, SNP_E_INVALID,
                     "%s must contain one line of %d to %d visible characters; remove the file "
                     "to get a new token",
                     path, SNP_HTTPD_TOKEN_MIN, SNP_HTTPD_TOKEN_MAX);
    } else {
        *ret = strndup(text, n);
        r = *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    OPENSSL_cleanse(text, sizeof(text));
    return r;
}

int snp_httpd_token_load(const char *path, char **ret, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int r;

    if (fd < 0 && errno == ENOENT) {
        r = token_make(path, err);
        if (r < 0) {
            return r;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    if (fd < 0) {
        return snp_fail_sys(err, errno, "open the token %s", path);
    }
    r = token_check(path, fd, err);
    return r < 0 ? r : token_read(path, fd, ret, err);
}

void snp_httpd_token_free(char *token)
{
    if (token != NULL) {
        OPENSSL_cleanse(token, strlen(token));
        free(token);
    }
}

bool snp_httpd_token_equal(const char *token, const char *bytes, size_t n)
{
    /* Timing may reveal a wrong length: it is no secret. */
    return n == strlen(token) && CRYPTO_memcmp(token, bytes, n) == 0;
}

int snp_httpd_mac(const char *key, const char *text, char out[SNP_HTTPD_MAC_LEN + 1])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text, strlen(text), mac,
             &n) == NULL) {
        return -1;
    }
    snp_hex(mac, SNP_HTTPD_MAC_LEN / 2, out);
    return 0;
}
