/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libcrypto that the command uses, loaded on the first call: mapping and
 * relocating it takes 0.6 ms, and few commands compute a hash. Without the library every function
 * fails, and callers report it.
 */
#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stddef.h>

#define HIDDEN          __attribute__((visibility("hidden")))
#define TEXT(x)         #x
#define SONAME(version) "libcrypto.so." TEXT(version)
#define REAL(name)                                          \
    __typeof__(name) *real = NULL; /* NOLINT(bugprone-*) */ \
    *(void **)(void *)&real = find(#name)

static void *find(const char *name)
{
    static void *library; /* never unloaded */

    library =
        library == NULL ? dlopen(SONAME(OPENSSL_SHLIB_VERSION), RTLD_NOW | RTLD_LOCAL) : library;
    return library == NULL ? NULL : dlsym(library, name);
}

/* NOLINTBEGIN(readability-*): the parameters are OpenSSL's */
HIDDEN const EVP_MD *EVP_sha256(void)
{
    REAL(EVP_sha256);
    return real == NULL ? NULL : real();
}

HIDDEN int EVP_Digest(const void *data,
                      size_t n,
                      unsigned char *out,
                      unsigned *ret_n,
                      const EVP_MD *md,
                      ENGINE *engine)
{
    REAL(EVP_Digest);
    return real == NULL ? 0 : real(data, n, out, ret_n, md, engine);
}

HIDDEN EVP_MD_CTX *EVP_MD_CTX_new(void)
{
    REAL(EVP_MD_CTX_new);
    return real == NULL ? NULL : real();
}

HIDDEN int EVP_DigestInit_ex(EVP_MD_CTX *ctx, const EVP_MD *md, ENGINE *engine)
{
    REAL(EVP_DigestInit_ex);
    return real == NULL ? 0 : real(ctx, md, engine);
}

HIDDEN int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *data, size_t n)
{
    REAL(EVP_DigestUpdate);
    return real == NULL ? 0 : real(ctx, data, n);
}

HIDDEN int EVP_DigestFinal_ex(EVP_MD_CTX *ctx, unsigned char *out, unsigned *ret_n)
{
    REAL(EVP_DigestFinal_ex);
    return real == NULL ? 0 : real(ctx, out, ret_n);
}

HIDDEN void EVP_MD_CTX_free(EVP_MD_CTX *ctx)
{
    REAL(EVP_MD_CTX_free);
    if (real != NULL) {
        real(ctx);
    }
}

HIDDEN unsigned char *HMAC(const EVP_MD *md,
                           const void *key,
                           int key_n,
                           const unsigned char *data,
                           size_t n,
                           unsigned char *out,
                           unsigned *ret_n)
{
    REAL(HMAC);
    return real == NULL ? NULL : real(md, key, key_n, data, n, out, ret_n);
}

HIDDEN int CRYPTO_memcmp(const void *a, const void *b, size_t n)
{
    REAL(CRYPTO_memcmp);
    return real == NULL ? 1 : real(a, b, n);
}
/* NOLINTEND(readability-*) */
