/* SPDX-License-Identifier: Apache-2.0 */
/* The hash chain of trajectories. */
#include "trajectory/chain.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char before_hash[] = ",\"hash\":\"";
static const char after_hash[] = "\"}";

enum {
    BEFORE_LEN = sizeof(before_hash) - 1,
    AFTER_LEN = sizeof(after_hash) - 1,
    TAIL_LEN = BEFORE_LEN + SNP_CHAIN_HEX + AFTER_LEN,
};

void snp_chain_init(struct snp_chain *chain)
{
    memset(chain->last, '0', SNP_CHAIN_HEX);
    chain->last[SNP_CHAIN_HEX] = '\0';
}

static void hex_write(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4U];
        out[2 * i + 1] = digits[bytes[i] & 15U];
    }
    out[2 * n] = '\0';
}

/* The hash of a body that may lack its last byte, which is then given as end. */
static int hash_of(const struct snp_chain *chain,
                   const char *body,
                   size_t n,
                   const char *end,
                   char out[SNP_CHAIN_HEX + 1])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool is_made = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                   EVP_DigestUpdate(md, chain->last, SNP_CHAIN_HEX) == 1 &&
                   EVP_DigestUpdate(md, body, n) == 1 &&
                   EVP_DigestUpdate(md, end, strlen(end)) == 1 &&
                   EVP_DigestFinal_ex(md, hash, &len) == 1 && len * 2 == SNP_CHAIN_HEX;

    EVP_MD_CTX_free(md);
    if (!is_made) {
        return -1;
    }
    hex_write(hash, len, out);
    return 0;
}

int snp_chain_next(struct snp_chain *chain,
                   const char *body,
                   size_t n,
                   char out[SNP_CHAIN_HEX + 1])
{
    if (hash_of(chain, body, n, "", out) < 0) {
        return -1;
    }
    memcpy(chain->last, out, SNP_CHAIN_HEX + 1);
    return 0;
}

enum snp_chain_link snp_chain_check(struct snp_chain *chain, const char *line, size_t n)
{
    const char *tail = n > TAIL_LEN ? line + n - TAIL_LEN : NULL;
    const char *hash;
    char expected[SNP_CHAIN_HEX + 1];
    bool is_same;

    if (tail == NULL || memcmp(tail, before_hash, BEFORE_LEN) != 0 ||
        memcmp(line + n - AFTER_LEN, after_hash, AFTER_LEN) != 0) {
        return SNP_CHAIN_NONE;
    }
    hash = tail + BEFORE_LEN;
    is_same = hash_of(chain, line, n - TAIL_LEN, "}", expected) == 0 &&
              memcmp(expected, hash, SNP_CHAIN_HEX) == 0;
    memcpy(chain->last, hash, SNP_CHAIN_HEX);
    return is_same ? SNP_CHAIN_OK : SNP_CHAIN_BROKEN;
}
