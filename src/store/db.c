/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite, with our habits: write-ahead log, one connection that excludes others, statements kept ready by the address
 * of their text, and reports that name the file and the way out.
 *
 * A commit in the log is one append and, if asked for, one fdatasync. The log is moved into the
 * database by the store when it has nothing else to do, not by SQLite in the middle of a commit.
 */
#include "store/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/str.h"
#include "store/store.h"

enum {
    NEED_MIN = 64 << 10,   /* what any commit may take */
    VALUE_MAX = 512 << 20, /* bytes of one value */
};

/* Errors -------------------------------------------------------------------------------- */

static int fail_full(struct snp_db *db, struct snp_err *err)
{
    struct statvfs fs;
    char need[32];
    char have[32];
    uint64_t needed = db->bound + NEED_MIN;

    (void)snp_format_bytes(needed, need, sizeof(need));
    if (statvfs(db->path, &fs) == 0) {
        (void)snp_format_bytes((uint64_t)fs.f_bavail * fs.f_frsize, have, sizeof(have));
    } else {
        (void)strcpy_unknown(have, sizeof(have));
    }
    return snp_fail(err, SNP_E_LIMIT,
                    "%s: the disk is full (%s free, about %s needed); free space there, run "
                    "`snipara-sandbox gc`, or set SNIPARA_SANDBOX_STATE_DIR to another disk",
                    db->path, have, need);
}
