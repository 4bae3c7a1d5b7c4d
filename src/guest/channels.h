/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_CHANNELS_H
#define SNP_GUEST_CHANNELS_H

/*
 * Many local streams over one, for a sandbox that shares no kernel object with its supervisor: a
 * container, reached by standard input and output only.
 *
 * Both ends run this code. Bytes that one end reads from a channel's descriptor, the other writes
 * to its own. A descriptor that the outer end receives with bytes becomes a channel: the inner end
 * makes a socket pair or a pipe, and passes one end on with the same bytes. Users of a channel thus
 * pass descriptors as over a direct connection. docs/wire.md has the frames.
 *
 * At most SNP_CHANNEL_WINDOW bytes of a channel are in transit, so no stream blocks another.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    SNP_CHANNEL_WINDOW = 256 << 10,
    SNP_CHANNEL_HEADER_LEN = 12,
    SNP_CHANNEL_BYTES_MAX = 64 << 10, /* in one frame */
};

/* Initial channels. */
enum {
    SNP_CHANNEL_INIT = 0, /* pid 1's stream */
    SNP_CHANNEL_STDOUT,
    SNP_CHANNEL_STDERR,
    SNP_CHANNEL_FIRST, /* of passed descriptors */
};

/* An empty frame of an unused channel number: the inner end's first bytes. */
#define SNP_CHANNEL_HELLO \
    {                     \
        0, UINT32_MAX, 0  \
    }

/* Directions of a channel at this end. */
enum {
    SNP_CHANNEL_READ = 1,  /* from our descriptor to the other end */
    SNP_CHANNEL_WRITE = 2, /* from the other end to our descriptor */
};

struct snp_channels;

struct snp_channels_spec {
    int in_fd;     /* the shared stream; both owned, and may be the same */
    int out_fd;    /* ... */
    bool is_inner; /* creates the passed descriptors */
    /*
     * The other end's standard output and error are framed with headers of 8 bytes, as in the
     * Docker Engine API. Standard error goes to complain.
     */
    bool is_attached;
    void (*complain)(void *data, const char *bytes, size_t n);
    /* The first standard output has arrived: channels are needed from now on. NULL = ignored. */
    void (*spoken)(void *data);
    void *data;
};

/* NULL: out of memory or descriptors; then in_fd and out_fd are closed. */
struct snp_channels *snp_channels_new(const struct snp_channels_spec *spec);

/* Closes all. */
void snp_channels_free(struct snp_channels *cs);

/* Add an initial channel; fd is owned, also on failure. -1: out of memory. */
int snp_channels_add(struct snp_channels *cs, uint32_t id, int fd, unsigned ways) SNP_NODISCARD;

/*
 * These two sockets are one pair. When both are passed, the inner end makes one pair for them, so
 * that their users are connected directly. For the outer end.
 */
void snp_channels_pair(struct snp_channels *cs, const int ends[2]);

/* Readable when snp_channels_step has work. */
int snp_channels_fd(const struct snp_channels *cs);

/*
 * Wait up to timeout_ms (-1 = forever) for events and handle them. -1: the shared stream has ended
 * or failed.
 */
int snp_channels_step(struct snp_channels *cs, int timeout_ms) SNP_NODISCARD;

#endif
