/* SPDX-License-Identifier: Apache-2.0 */
/* The hash chain of trajectories. */
#include "trajectory/chain.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const char before_hash[] = ",\"hash\":\"";
static const char after_hash[] = "\"}";
static const char before_mac[] = ",\"mac\":\"";
static const char after_mac[] = "\"";

enum {
    BEFORE_LEN = sizeof(before_hash) - 1,
    AFTER_LEN = sizeof(after_hash) - 1,
    TAIL_LEN = BEFORE_LEN + SNP_CHAIN_HEX + AFTER_LEN,
    MAC_BEFORE_LEN = sizeof(before_mac) - 1,
    MAC_AFTER_LEN = sizeof(after_mac) - 1,
    MAC_LEN = MAC_BEFORE_LEN + SNP_CHAIN_HEX + MAC_AFTER_LEN,
};

void snp_chain_init(struct snp_chain *chain)
{
    memset(chain->last, '0', SNP_CHAIN_HEX);
    chain->last[SNP_CHAIN_HEX] = '\0';
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
    snp_hex(hash, len, out);
    return 0;
}

int snp_chain_next(struct snp_chain *chain, const char *body, size_t n, char out[SNP_CHAIN_HEX + 1])
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

/* The MAC of a hash, in hex. */
static int mac_of(const unsigned char key[SNP_CHAIN_KEY],
                  const char hash[SNP_CHAIN_HEX + 1],
                  char out[SNP_CHAIN_HEX + 1])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (HMAC(EVP_sha256(), key, SNP_CHAIN_KEY, (const unsigned char *)hash, SNP_CHAIN_HEX, mac,
             &len) == NULL ||
        len * 2 != SNP_CHAIN_HEX) {
        return -1;
    }
    snp_hex(mac, len, out);
    return 0;
}

int snp_chain_mac(const struct snp_chain *chain,
                  const unsigned char key[SNP_CHAIN_KEY],
                  const char *body,
                  size_t n,
                  char out[SNP_CHAIN_HEX + 1])
{
    char hash[SNP_CHAIN_HEX + 1];

    return hash_of(chain, body, n, "", hash) < 0 ? -1 : mac_of(key, hash, out);
}

bool snp_chain_is_ours(const struct snp_chain *chain,
                       const unsigned char key[SNP_CHAIN_KEY],
                       const char *line,
                       size_t n)
{
    const char *tail = n > TAIL_LEN + MAC_LEN ? line + n - TAIL_LEN - MAC_LEN : NULL;
    char hash[SNP_CHAIN_HEX + 1];
    char expected[SNP_CHAIN_HEX + 1];

    return tail != NULL && memcmp(tail, before_mac, MAC_BEFORE_LEN) == 0 &&
           memcmp(tail + MAC_LEN - MAC_AFTER_LEN, after_mac, MAC_AFTER_LEN) == 0 &&
           hash_of(chain, line, n - TAIL_LEN - MAC_LEN, "}", hash) == 0 &&
           mac_of(key, hash, expected) == 0 &&
           CRYPTO_memcmp(expected, tail + MAC_BEFORE_LEN, SNP_CHAIN_HEX) == 0;
}
