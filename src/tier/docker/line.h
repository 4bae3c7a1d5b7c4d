/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_LINE_H
#define SNP_TIER_DOCKER_LINE_H

/*
 * A socket in a folder of its own that a container is shown, over which its pid 1 gets its streams
 * as in native: what is sent over them then passes no engine. Where it leads nowhere nobody comes,
 * and the streams become channels; so too where /proc does not show who came.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "guest/pid1/container.h"

struct snp_line {
    uv_poll_t *poll;                 /* of fd; owned; NULL = not open */
    int fd;                          /* listens; then a stream to pid 1 */
    const char *container;           /* borrowed; whose pid 1 may have the ends */
    bool has_caller;                 /* ... */
    int ends[SNP_CONTAINER_STREAMS]; /* owned, till pid 1 has them; -1 = none */
    char folder[4096];               /* "" = there is none */
};

void snp_line_init(struct snp_line *line);

/*
 * Make folder, below state_dir with that name, and socket. container: borrowed; its id, "" until it
 * has one.
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

/* Nothing of it stays, but ends that somebody has taken from it. */
void snp_line_close(struct snp_line *line);

/* Folders below state_dir of those that were killed; but for names that begin with ours. */
void snp_line_clean(const char *state_dir, const char *ours);

#endif
