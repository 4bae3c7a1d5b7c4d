/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by OpenSSL. */
#include "store/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/str.h"

struct snp_digest {
    EVP_MD_CTX *sha; /* owned */
};

struct snp_digest *snp_digest_new(void)
{
    struct snp_digest *digest = calloc(1, sizeof(*digest));

    if (digest == NULL) {
        return NULL;
    }
    digest->sha = EVP_MD_CTX_new();
    if (digest->sha == NULL || EVP_DigestInit_ex(digest->sha, EVP_sha256(), NULL) != 1) {
        snp_digest_free(digest);
        return NULL;
    }
    return digest;
}

void snp_digest_free(struct snp_digest *digest)
{
    if (digest != NULL) {
        EVP_MD_CTX_free(digest->sha);
        free(digest);
    }
}

int snp_digest_add(struct snp_digest *digest, const void *bytes, size_t n, struct snp_err *err)
{
    return EVP_DigestUpdate(digest->sha, bytes, n) == 1
               ? 0
               : snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed");
}

int snp_digest_end(struct snp_digest *digest, char hex[SNP_DIGEST_HEX + 1], struct snp_err *err)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_DigestFinal_ex(digest->sha, hash, &len) != 1 || len != SNP_DIGEST_HEX / 2) {
        return snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed");
    }
    snp_hex(hash, len, hex);
    return 0;
}
