/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of pieces between the caller and the thread.
 *
 * Invariant: the digest belongs to the thread while done < added, else to the caller; so small
 * pieces, which the caller hashes, wait for the large ones before them.
 */
#include "store/hasher.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/thread.h"

enum {
    PIECES = 16,
    LARGE = 64 << 10, /* below that, waking a thread takes longer */
};

struct hash_piece {
    const void *bytes; /* borrowed */
    size_t n;
};

struct snp_hasher {
    EVP_MD_CTX *sha; /* owned */
    bool may_use_thread;
    bool has_thread;
    pthread_t thread;
    uint64_t added; /* changed by the caller only */

    /* Under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t more;
    pthread_cond_t fewer;
    struct hash_piece pieces[PIECES];
    uint64_t done;
    bool has_failed;
    bool is_ending;
};

int snp_hasher_new(struct snp_hasher **ret, struct snp_err *err)
{
    struct snp_hasher *hasher = calloc(1, sizeof(*hasher));

    if (hasher != NULL) {
        hasher->sha = EVP_MD_CTX_new();
    }
    if (hasher == NULL || hasher->sha == NULL) {
        free(hasher);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)pthread_mutex_init(&hasher->mutex, NULL);
    (void)pthread_cond_init(&hasher->more, NULL);
    (void)pthread_cond_init(&hasher->fewer, NULL);
    *ret = hasher;
    return 0;
}

void snp_hasher_free(struct snp_hasher *hasher)
{
    if (hasher == NULL) {
        return;
    }
    if (hasher->has_thread) {
        (void)pthread_mutex_lock(&hasher->mutex);
        hasher->is_ending = true;
        (void)pthread_cond_signal(&hasher->more);
        (void)pthread_mutex_unlock(&hasher->mutex);
        (void)pthread_join(hasher->thread, NULL);
    }
    (void)pthread_cond_destroy(&hasher->fewer);
    (void)pthread_cond_destroy(&hasher->more);
    (void)pthread_mutex_destroy(&hasher->mutex);
    EVP_MD_CTX_free(hasher->sha);
    free(hasher);
}

void snp_hasher_use_thread(struct snp_hasher *hasher)
{
    hasher->may_use_thread = true;
}

/* The thread; hashes all added pieces before it ends. */
static void *hash_all(void *arg)
{
    struct snp_hasher *hasher = arg;

    (void)pthread_mutex_lock(&hasher->mutex);
    for (;;) {
        struct hash_piece piece;
        bool is_hashed;

        while (hasher->done == hasher->added && !hasher->is_ending) {
            (void)pthread_cond_wait(&hasher->more, &hasher->mutex);
        }
        if (hasher->done == hasher->added) {
            break;
        }
        piece = hasher->pieces[hasher->done % PIECES];
        (void)pthread_mutex_unlock(&hasher->mutex);
        is_hashed = EVP_DigestUpdate(hasher->sha, piece.bytes, piece.n) == 1;
        (void)pthread_mutex_lock(&hasher->mutex);
        hasher->done++;
        hasher->has_failed = hasher->has_failed || !is_hashed;
        (void)pthread_cond_signal(&hasher->fewer);
    }
    (void)pthread_mutex_unlock(&hasher->mutex);
    return NULL;
}

uint64_t snp_hasher_mark(const struct snp_hasher *hasher)
{
    return hasher->added;
}

void snp_hasher_wait(struct snp_hasher *hasher, uint64_t mark)
{
    (void)pthread_mutex_lock(&hasher->mutex);
    while (hasher->done < mark) {
        (void)pthread_cond_wait(&hasher->fewer, &hasher->mutex);
    }
    (void)pthread_mutex_unlock(&hasher->mutex);
}

int snp_hasher_begin(struct snp_hasher *hasher, struct snp_err *err)
{
    snp_hasher_wait(hasher, hasher->added);
    hasher->has_failed = false;
    if (EVP_DigestInit_ex(hasher->sha, EVP_sha256(), NULL) != 1) {
        return snp_fail(err, SNP_E_INTERNAL, "libcrypto has no SHA-256");
    }
    return 0;
}

/* Without a thread, the caller hashes here; that is no failure. */
static bool has_thread(struct snp_hasher *hasher)
{
    if (!hasher->has_thread && hasher->may_use_thread) {
        hasher->has_thread = snp_thread_start(&hasher->thread, hash_all, hasher) == 0;
        hasher->may_use_thread = hasher->has_thread;
    }
    return hasher->has_thread;
}

int snp_hasher_add(struct snp_hasher *hasher, const void *bytes, size_t n, struct snp_err *err)
{
    if (n >= LARGE && has_thread(hasher)) {
        (void)pthread_mutex_lock(&hasher->mutex);
        while (hasher->added - hasher->done >= PIECES) {
            (void)pthread_cond_wait(&hasher->fewer, &hasher->mutex);
        }
        hasher->pieces[hasher->added % PIECES] = (struct hash_piece){bytes, n};
        hasher->added++;
        (void)pthread_cond_signal(&hasher->more);
        (void)pthread_mutex_unlock(&hasher->mutex);
        return 0;
    }
    snp_hasher_wait(hasher, hasher->added);
    if (EVP_DigestUpdate(hasher->sha, bytes, n) != 1) {
        return snp_fail(err, SNP_E_INTERNAL, "SHA-256 failed");
    }
    return 0;
}

int snp_hasher_end(struct snp_hasher *hasher, uint8_t ret[SNP_HASHER_BYTES], struct snp_err *err)
{
    unsigned len = SNP_HASHER_BYTES;

    snp_hasher_wait(hasher, hasher->added);
    if (hasher->has_failed || EVP_DigestFinal_ex(hasher->sha, ret, &len) != 1 ||
        len != SNP_HASHER_BYTES) {
        return snp_fail(err, SNP_E_INTERNAL, "SHA-256 failed");
    }
    return 0;
}
