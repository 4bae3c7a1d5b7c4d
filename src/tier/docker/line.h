/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_LINE_H
#define SNP_TIER_DOCKER_LINE_H

/*
 * A socket in a private folder, mounted into a container, over which its pid 1 receives its streams
 * as in native: their data then bypasses the engine. If pid 1 cannot reach it, or /proc does not
 * identify the peer, the streams become channels.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "guest/pid1/container.h"

struct snp_line {
    uv_poll_t *poll;                 /* of fd; owned; NULL = not open */
    int fd;                          /* listening; then connected to pid 1 */
    const char *container;           /* borrowed; its pid 1 may have the ends */
    bool has_caller;                 /* fd is connected */
    int ends[SNP_CONTAINER_STREAMS]; /* owned, until pid 1 has them; -1 = none */
    char folder[4096];               /* "" = none */
};

void snp_line_init(struct snp_line *line);

/*
 * Make a folder of this name below state_dir, and its socket. container: borrowed; its id, "" until
 * it has one.
 */
int snp_line_open(struct snp_line *line,
                  uv_loop_t *loop,
                  const char *state_dir,
                  const char *name,
                  const char *container,
                  struct snp_err *err) SNP_NODISCARD;

/* Are the ends still here? */
static inline bool snp_line_has_ends(const struct snp_line *line)
{
    return line->ends[0] >= 0;
}

/* Remove everything except ends already taken. */
void snp_line_close(struct snp_line *line);

/* Remove folders below state_dir of killed supervisors, except names that begin with ours. */
void snp_line_clean(const char *state_dir, const char *ours);

#endif
