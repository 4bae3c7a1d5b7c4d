/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_SEAL_H
#define SNP_STORE_SEAL_H

/*
 * A store that is sealed with a key of the user's: its files of contents and its database are
 * encrypted on disk. DIR/seal is there from the first use of a key on. It has a salt, a value that
 * shows a wrong key, and the path of the key, so that no later start of the daemon can forget
 * the key.
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

/*
 * The last bytes of the name of a sealed content, and the same in SQL: whether a row's content
 * is one.
 */
#define SNP_SEAL_MARK     "snp-seal"
#define SNP_SEAL_SQL_MARK "substr(hash, 25) = CAST('" SNP_SEAL_MARK "' AS BLOB)"

struct snp_seal;

/*
 * The seal of the store in dir; NULL if key_path is NULL and it has none. SNP_E_DENIED: the key is
 * missing, somebody else's, readable by others, or not the store's; SNP_E_INVALID: it is no key.
 * The message says the way out.
 */
int snp_seal_open(const char *dir, const char *key_path, struct snp_seal **ret, struct snp_err *err)
    SNP_NODISCARD;
/* Forget the keys. NULL is fine. */
void snp_seal_free(struct snp_seal *seal);

/*
 * Before the database is opened: one that is not sealed yet becomes so, then every database that
 * SQLite opens in this process is a sealed one, until snp_seal_free. The plain one must be intact
 * and closed. Repeatable after a failure.
 */
int snp_seal_database(struct snp_seal *seal, const char *path, struct snp_err *err) SNP_NODISCARD;
/* Is its database still a plain one, or none? */
bool snp_seal_is_new(const struct snp_seal *seal);

/*
 * What a content of this SHA-256 is called, in place: with a seal another name, which says nothing
 * to who has no key. Without one (NULL) it stays. False: out of memory.
 */
bool snp_seal_name(const struct snp_seal *seal, uint8_t hash[SNP_SEAL_NAME]) SNP_NODISCARD;
bool snp_seal_is_name(const uint8_t hash[SNP_SEAL_NAME]);

/* Of one writer or reader of files: one file after the other, each with its salt. */
struct snp_sealer;
/* NULL: out of memory. */
struct snp_sealer *snp_sealer_new(const struct snp_seal *seal);
void snp_sealer_free(struct snp_sealer *sealer);
bool snp_sealer_salt(uint8_t ret_salt[SNP_SEAL_SALT]) SNP_NODISCARD;
bool snp_sealer_begin(struct snp_sealer *sealer, const uint8_t salt[SNP_SEAL_SALT]) SNP_NODISCARD;

/* A piece of a file. No two pieces of one file have the same number. */
struct snp_seal_piece {
    uint64_t number;
    const void *about; /* authenticated with it, and not encrypted */
    size_t about_n;
};
/* to: n bytes and SNP_SEAL_TAG; may be from. */
bool snp_sealer_put(struct snp_sealer *sealer,
                    const struct snp_seal_piece *piece,
                    const void *from,
                    size_t n,
                    void *to) SNP_NODISCARD;
/* In place; a tag stands behind the n bytes. False: it is not what was put there. */
bool snp_sealer_get(struct snp_sealer *sealer,
                    const struct snp_seal_piece *piece,
                    void *bytes,
                    size_t n) SNP_NODISCARD;

#endif
