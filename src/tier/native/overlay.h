/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_OVERLAY_H
#define SNP_TIER_NATIVE_OVERLAY_H

/*
 * A folder of the host, shown elsewhere, read-only, as the layer of an overlay. Its files are the
 * same ones; its sockets, pipes and locks are not, but the overlay's own. A bind mount, read-only
 * or not, would let whoever sees it connect to a server outside, by the path of its socket.
 *
 * An overlay may go on showing what it has looked up before, or not found, when the folder changes.
 */

#include "base/macro.h"

/*
 * Show the folder fd (O_PATH) at path, with what is mounted in it. empty: an empty folder in
 * the same namespace. 0, or -1 with errno, and nothing is shown.
 */
int snp_overlay_show(int fd, const char *path, const char *empty) SNP_NODISCARD;

/* The same by bind mounts. 0, or -1 with errno. */
int snp_overlay_bind(int fd, const char *path) SNP_NODISCARD;

/* Can /usr be covered? 0 or -1. Leaves the process in a mount namespace of its own: for a child. */
int snp_overlay_try(void);

#endif
