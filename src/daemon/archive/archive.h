/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_ARCHIVE_ARCHIVE_H
#define SNP_DAEMON_ARCHIVE_ARCHIVE_H

/*
 * The file of `export` (docs/archive.md): a mark, a manifest, the cells, then a bundle. Whoever
 * reads one trusts nothing in it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "policy/limits.h"
#include "policy/session_name.h"

struct snp_source;
struct snp_tx;

enum {
    SNP_ARCHIVE_VERSION = 2,
    SNP_ARCHIVE_VERSION_OLDEST = 1, /* without outputs, and without a sum at its end */
    SNP_ARCHIVE_VERSION_SUMMED = 2,
    SNP_ARCHIVE_TYPE_SUM = 90,
    SNP_ARCHIVE_SHOWN_MAX = 1 << 20,    /* of what one cell printed and displayed */
    SNP_ARCHIVE_SHOWN_BYTES = 64 << 20, /* of all of them together */
    SNP_ARCHIVE_CELLS_MAX = 10000,
    SNP_ARCHIVE_CELLS_BYTES = 64 << 20, /* of all of them together */
};

/* A file of ours without a name, in the folder: gone with its descriptor. The caller closes. */
int snp_archive_file(const char *folder, int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/*
 * Write all but the bundle of a source to fd. In a job. Of cells beyond the bounds the oldest
 * are left out, and their results before that; of outputs those of the newest are in it.
 */
int snp_archive_write(struct snp_tx *tx,
                      int fd,
                      const struct snp_source *source,
                      struct snp_err *err) SNP_NODISCARD;

/* Append the bundle of a checkpoint that holds nothing. */
int snp_archive_write_empty(int fd, struct snp_err *err) SNP_NODISCARD;

/* Its bytes from offset `at`, as they come. SNP_E_INVALID: no file of ours begins so. */
int snp_archive_begins(uint64_t at, const char *bytes, size_t n, struct snp_err *err) SNP_NODISCARD;

/* What a file says of itself, checked in form. */
struct snp_archive {
    char name[SNP_SESSION_NAME_MAX + 1]; /* "" = has none that may be used */
    json_t *spec;                        /* owned: an object, as session/spec.h writes it */
    json_t *lost;                        /* owned: an array */
    unsigned version;
    uint64_t cell;
    uint64_t n_cells;
    off_t cells_at;  /* where the cells begin */
    off_t bundle_at; /* where the bundle begins */
};

/*
 * Read it from fd, a regular file. SNP_E_INVALID: it is not one of ours, or of a version that
 * this program does not read; SNP_E_LIMIT: more cells than may be. On failure nothing is owned.
 */
int snp_archive_read(int fd, struct snp_archive *ret, struct snp_err *err) SNP_NODISCARD;
void snp_archive_done(struct snp_archive *archive);

/* Enter its cells into the journal as those of a session, which has none. In a job. */
int snp_archive_cells(struct snp_tx *tx,
                      int fd,
                      const struct snp_archive *archive,
                      const char *session,
                      struct snp_err *err) SNP_NODISCARD;

/* What sessions made here may have; a file may have less, not more. */
struct snp_archive_policy {
    struct snp_limits limits;
    json_t *given;    /* owned: limits that replace those of its file; NULL = none */
    const char *tier; /* its name */
    bool is_auto;
    bool allow_degraded;
    bool require_exact;
};

/*
 * The policy of a session made from it: archive->spec with what exceeds `most` cut down, and
 * paths of the other machine taken out. notes: an array of texts, one for each change.
 */
int snp_archive_spec(const struct snp_archive *archive,
                     const struct snp_archive_policy *most,
                     json_t *notes,
                     char **ret_spec,
                     struct snp_err *err) SNP_NODISCARD;

#endif
