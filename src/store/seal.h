/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_SEAL_H
#define SNP_STORE_SEAL_H

/*
 * A store sealed with the user's key: its content files and its database are encrypted on disk.
 * DIR/seal exists from the first use of a key. It has a salt, a value that detects a wrong key, and
 * the path of the key, so that every later start of the daemon uses the key.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_SEAL_KEY = 32, /* bytes of the file */
    SNP_SEAL_SALT = 16,
    SNP_SEAL_TAG = 16,
    SNP_SEAL_NAME = 32, /* a SHA-256 */
};

/* The last bytes of a sealed content's name, and the same as an SQL condition on a row. */
#define SNP_SEAL_MARK     "snp-seal"
#define SNP_SEAL_SQL_MARK "substr(hash, 25) = CAST('" SNP_SEAL_MARK "' AS BLOB)"

struct snp_seal;

/*
 * The seal of the store in dir; NULL if key_path is NULL and it has none. SNP_E_DENIED: the key is
 * missing, another user's, readable by others, or not the store's; SNP_E_INVALID: it is no key. The
 * message has the remedy.
 */
int snp_seal_open(const char *dir, const char *key_path, struct snp_seal **ret, struct snp_err *err)
    SNP_NODISCARD;
/* Erase the keys. NULL is allowed. */
void snp_seal_free(struct snp_seal *seal);

/*
 * Before the database is opened: seal it if it is not sealed yet; then every database that SQLite
 * opens in this process is sealed, until snp_seal_free. The plain one must be intact and closed.
 * Repeatable after a failure.
 */
int snp_seal_database(struct snp_seal *seal, const char *path, struct snp_err *err) SNP_NODISCARD;
/* Its database is still plain, or missing. */
bool snp_seal_is_new(const struct snp_seal *seal);

/*
 * Turn a content's SHA-256 into its name, in place: with a seal a name that reveals nothing without
 * the key, without one (NULL) it is unchanged. False: out of memory.
 */
bool snp_seal_name(const struct snp_seal *seal, uint8_t hash[SNP_SEAL_NAME]) SNP_NODISCARD;
bool snp_seal_is_name(const uint8_t hash[SNP_SEAL_NAME]);

/* For one writer or reader of files: one file after the other, each with a salt. */
struct snp_sealer;
/* NULL: out of memory. */
struct snp_sealer *snp_sealer_new(const struct snp_seal *seal);
void snp_sealer_free(struct snp_sealer *sealer);
bool snp_sealer_salt(uint8_t ret_salt[SNP_SEAL_SALT]) SNP_NODISCARD;
bool snp_sealer_begin(struct snp_sealer *sealer, const uint8_t salt[SNP_SEAL_SALT]) SNP_NODISCARD;

/* A piece of a file. No two pieces of one file have the same number. */
struct snp_seal_piece {
    uint64_t number;
    const void *about; /* authenticated with it, not encrypted */
    size_t about_n;
};
/* to: n bytes and SNP_SEAL_TAG; may be from. */
bool snp_sealer_put(struct snp_sealer *sealer,
                    const struct snp_seal_piece *piece,
                    const void *from,
                    size_t n,
                    void *to) SNP_NODISCARD;
/* Decrypt in place; a tag follows the n bytes. False: not the original bytes. */
bool snp_sealer_get(struct snp_sealer *sealer,
                    const struct snp_seal_piece *piece,
                    void *bytes,
                    size_t n) SNP_NODISCARD;

#endif
