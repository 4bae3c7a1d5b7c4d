/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PATCH_PATCH_H
#define SNP_BASE_PATCH_PATCH_H

/*
 * The changes of a session to its project: for each file the project's side (base) and the new side
 * (now). The second comes from inside a sandbox and is only data: paths are judged (place.h) before
 * they are used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_PATCH_FILE_MAX = 16 << 20,  /* bytes of a file whose contents are part of a patch */
    SNP_PATCH_BYTES_MAX = 64 << 20, /* of all of them, each side */
    SNP_PATCH_FILES_MAX = 5000,
    SNP_PATCH_HASH_LEN = 64, /* SHA-256 in hexadecimal */
};

enum snp_patch_kind {
    SNP_PATCH_NONE = 0, /* missing */
    SNP_PATCH_FILE,
    SNP_PATCH_LINK,
    SNP_PATCH_FOLDER,
    SNP_PATCH_OTHER, /* a pipe, a device, or behind a symbolic link */
};

struct snp_patch_side {
    enum snp_patch_kind kind;
    unsigned mode; /* permissions */
    uint64_t size;
    char hash[SNP_PATCH_HASH_LEN + 1]; /* of a file's contents */
    char *bytes;  /* owned: the contents and a NUL; NULL = larger than SNP_PATCH_FILE_MAX */
    char *target; /* owned: of a link */
    double ctime; /* base: unix seconds of its last change of any kind (st_ctime) */
};
void snp_patch_side_done(struct snp_patch_side *side);
/* Take bytes (malloc'ed, n and a NUL) as the contents of a file. SNP_E_INTERNAL: no SHA-256. */
int snp_patch_side_take(struct snp_patch_side *side, char *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;
/* Whether both sides are equal for a project: kind, contents, target, and executable bit. */
bool snp_patch_side_is_same(const struct snp_patch_side *a, const struct snp_patch_side *b);
/*
 * The new mode of a file: 0644 or 0755 if it is new, else its old mode with the executable bits set
 * or cleared.
 */
unsigned snp_patch_mode(const struct snp_patch_side *base, const struct snp_patch_side *now);

struct snp_patch_file {
    char *path; /* owned; below the project, no "..", nothing empty */
    struct snp_patch_side base;
    struct snp_patch_side now;
    const char *refusal; /* static: why it cannot be applied; NULL = it can */
    const char *caution; /* static: why it must be named to be applied; NULL = it need not */
};

struct snp_patch {
    struct snp_patch_file *files; /* owned; sorted by path after closing */
    size_t n;
    size_t room;
    uint64_t bytes;  /* contents of `now` */
    size_t n_caches; /* cache files left out */
    char hash[SNP_PATCH_HASH_LEN + 1];
};
void snp_patch_done(struct snp_patch *patch);
#define snp_autopatch snp_cleanup(snp_patch_done)

/* Add a file; path: copied. *ret is valid until the next one. SNP_E_LIMIT. */
int snp_patch_add(struct snp_patch *patch,
                  const char *path,
                  struct snp_patch_file **ret,
                  struct snp_err *err) SNP_NODISCARD;

/* Sort the files, judge their places, and hash the patch. */
int snp_patch_close(struct snp_patch *patch, struct snp_err *err) SNP_NODISCARD;

/*
 * {"sha256", "files": [{"path", "base", "now", "refused"?, "must_be_named"?}]}; with_contents: plus
 * the new contents. New reference.
 */
json_t *snp_patch_to_json(const struct snp_patch *patch, bool with_contents);

/* Lower-case SHA-256. 0, or -1 if not available. */
int snp_patch_hash(const void *bytes, size_t n, char out[SNP_PATCH_HASH_LEN + 1]) SNP_NODISCARD;

#endif
