/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_RESTORED_H
#define SNP_DAEMON_CELL_RESTORED_H

/* What a wake restored and lost: the member `restored` of the session's next result. */

#include "daemon/save/missing.h"
#include "daemon/spec.h"

struct snp_session;

/* Zeroed at first. */
struct snp_restored {
    struct snp_missing_place place;
    struct snp_missing missing; /* owned */
    enum snp_recover decision;  /* about the missing cells */
    json_t *left_out;           /* owned: cells that the replay leaves out; or NULL */
    json_t *differing;          /* owned: rows of cells whose replay differed; or NULL */
    uint64_t checkpoint;        /* 0 = none */
    json_t *failed;             /* owned: losses of its restore; or NULL */
    bool is_image;              /* restored from an image */
    char no_image[200];         /* why not; "" = not tried */
};

void snp_restored_done(struct snp_restored *restored);

/* Report it with the session's next result. was_live: the session had an executor before. */
void snp_restored_report(struct snp_session *session,
                         const struct snp_restored *restored,
                         bool was_live,
                         uint64_t wake_us);

#endif
