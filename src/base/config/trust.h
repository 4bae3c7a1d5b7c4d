/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CONFIG_TRUST_H
#define SNP_BASE_CONFIG_TRUST_H

/*
 * Files of a working folder, and the user's trust in them. A stranger's file is never read. Trust
 * in a file, beyond harmless settings (allow.h), is recorded in the state folder, one record
 * per path: the file's owner and the SHA-256 of its content. A changed file must be trusted again.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

enum snp_trust {
    SNP_TRUST_NONE = 0,
    SNP_TRUST_CHANGED, /* another content, or owner, was trusted */
    SNP_TRUST_GIVEN,
};

enum {
    SNP_SOURCE_HEX = 64
};

/* A file as read, once: the parsed bytes are the hashed bytes. */
struct snp_config_text {
    char *text; /* owned; NUL-terminated */
    size_t len;
    uid_t owner;
    char hash[SNP_SOURCE_HEX + 1];
};

/*
 * Read a file of at most max bytes. is_foreign (may be NULL: then the owner is not checked) becomes
 * true if it belongs to neither us nor root, or is a link that does; then nothing was read, and the
 * code is SNP_E_DENIED. Else as snp_file_read. *ret is the caller's: snp_source_done().
 */
int snp_source_read(const char *path,
                    size_t max,
                    struct snp_config_text *ret,
                    bool *is_foreign,
                    struct snp_err *err) SNP_NODISCARD;
void snp_source_done(struct snp_config_text *source);

/* The user's trust in this content at this path. Without a state folder: none. */
enum snp_trust snp_trust_of(const char *path, const struct snp_config_text *source);
/* Record trust; by names the command ("trust", "init"). */
int snp_trust_add(const char *path,
                  const struct snp_config_text *source,
                  const char *by,
                  struct snp_err *err) SNP_NODISCARD;
/* The same for bytes that we have just written. */
int snp_trust_add_own(const char *path,
                      const void *bytes,
                      size_t n,
                      const char *by,
                      struct snp_err *err) SNP_NODISCARD;
/* SNP_E_NOT_FOUND: no record of the path. */
int snp_trust_revoke(const char *path, struct snp_err *err) SNP_NODISCARD;
/*
 * All records, unsorted: {"path", "owner", "sha256", "by", "at" (seconds), "state": "trusted",
 * "changed", "gone" or "foreign"}. New reference in *ret.
 */
int snp_trust_list(json_t **ret, struct snp_err *err) SNP_NODISCARD;

#endif
