/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_REPLAY_H
#define SNP_DAEMON_CELL_REPLAY_H

/* Compare a replayed cell with its first run in the journal. */

#include <stdint.h>

#include "base/err.h"

struct snp_tx;

enum {
    SNP_REPLAY_TEXT = 96, /* bytes of names, with the NUL */
};

/*
 * On the store's thread. out: the differences, as in "value, output"; "" = no difference in what
 * the journal has of both runs. Both ended with the same status.
 */
int snp_replay_compare(struct snp_tx *tx,
                       const char *session,
                       uint64_t cell,
                       uint64_t replay,
                       char out[SNP_REPLAY_TEXT],
                       struct snp_err *err) SNP_NODISCARD;

#endif
