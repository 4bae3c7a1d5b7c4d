/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_OVERLAY_H
#define SNP_TIER_NATIVE_OVERLAY_H

/*
 * A folder of the host, shown elsewhere, read-only, as the layer of an overlay. Files are shared
 * with the host; sockets, pipes and locks are separate. Through a bind mount, even a read-only one,
 * code could connect to a server outside, by the path of its socket.
 *
 * An overlay may cache earlier look-ups, also failed ones, when the folder changes.
 */

#include "base/macro.h"

/*
 * Show the folder fd (O_PATH) at path, with its inner mounts. empty: an empty folder in the same
 * namespace. 0, or -1 with errno, and nothing is shown.
 */
int snp_overlay_show(int fd, const char *path, const char *empty) SNP_NODISCARD;

/* The same by bind mounts. 0, or -1 with errno. */
int snp_overlay_bind(int fd, const char *path) SNP_NODISCARD;

/* Can /usr be overlaid? 0 or -1. Moves the process to a new mount namespace: call it in a child. */
int snp_overlay_try(void);

#endif
