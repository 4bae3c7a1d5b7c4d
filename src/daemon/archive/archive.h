/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_ARCHIVE_ARCHIVE_H
#define SNP_DAEMON_ARCHIVE_ARCHIVE_H

/*
 * The file of `export` (docs/archive.md): a mark, a manifest, the cells, then a bundle. The reader
 * trusts nothing in it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"
#include "base/policy/session_name.h"

struct snp_source;
struct snp_tx;

enum {
    SNP_ARCHIVE_VERSION = 2,
    SNP_ARCHIVE_VERSION_OLDEST = 1, /* no outputs, and no checksum at the end */
    SNP_ARCHIVE_VERSION_SUMMED = 2,
    SNP_ARCHIVE_TYPE_SUM = 90,
    SNP_ARCHIVE_SHOWN_MAX = 1 << 20,    /* output and displays of one cell */
    SNP_ARCHIVE_SHOWN_BYTES = 64 << 20, /* output and displays of all cells */
    SNP_ARCHIVE_CELLS_MAX = 10000,
    SNP_ARCHIVE_CELLS_BYTES = 64 << 20, /* all cells together */
};

/* Create an unnamed file in the folder; it disappears when closed. The caller closes it. */
int snp_archive_file(const char *folder, int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/*
 * Write all of a source but the bundle to fd. In a job. If the cells exceed the limits, results are
 * left out first, then the oldest cells; outputs are kept for the newest cells.
 */
int snp_archive_write(struct snp_tx *tx,
                      int fd,
                      const struct snp_source *source,
                      struct snp_err *err) SNP_NODISCARD;

/* Append the bundle of an empty checkpoint. */
int snp_archive_write_empty(int fd, struct snp_err *err) SNP_NODISCARD;

/*
 * Check the bytes from offset `at` as they arrive. SNP_E_INVALID: not the beginning of an archive.
 */
int snp_archive_begins(uint64_t at, const char *bytes, size_t n, struct snp_err *err) SNP_NODISCARD;

/* The manifest of a file, its form checked. */
struct snp_archive {
    char name[SNP_SESSION_NAME_MAX + 1]; /* "" = no usable name */
    json_t *spec;                        /* owned: an object, as session/spec.h writes it */
    json_t *lost;                        /* owned: an array */
    unsigned version;
    uint64_t cell;
    uint64_t n_cells;
    off_t cells_at;  /* where the cells begin */
    off_t bundle_at; /* where the bundle begins */
};

/*
 * Read an archive from fd, a regular file. SNP_E_INVALID: not an archive, or a version that this
 * program cannot read; SNP_E_LIMIT: too many cells. On failure nothing is owned.
 */
int snp_archive_read(int fd, struct snp_archive *ret, struct snp_err *err) SNP_NODISCARD;
void snp_archive_done(struct snp_archive *archive);

/* Write the archive's cells to the journal, for a session without cells. In a job. */
int snp_archive_cells(struct snp_tx *tx,
                      int fd,
                      const struct snp_archive *archive,
                      const char *session,
                      struct snp_err *err) SNP_NODISCARD;

/* Limits for imported sessions; a file may ask for less, not for more. */
struct snp_archive_policy {
    struct snp_limits limits;
    json_t *given;    /* owned: limits that replace those in the file; NULL = none */
    const char *tier; /* its name */
    bool is_auto;
    bool allow_degraded;
    bool require_exact;
};

/*
 * The policy of the imported session: archive->spec, cut down to `most` and without paths of the
 * other machine. notes: an array of texts, one per change.
 */
int snp_archive_spec(const struct snp_archive *archive,
                     const struct snp_archive_policy *most,
                     json_t *notes,
                     char **ret_spec,
                     struct snp_err *err) SNP_NODISCARD;

#endif
