/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_CHANNELS_H
#define SNP_GUEST_CHANNELS_H

/*
 * Many local streams over one, for a sandbox that shares no kernel object with its supervisor: a
 * container, of which there are only standard input and output.
 *
 * Both ends run this code. What one end reads of a channel's descriptor the other writes to its
 * own. A descriptor that the outer end receives with bytes becomes a channel: the inner end makes a
 * socket pair or a pipe, and passes its half on with the same bytes. So whoever speaks over a
 * channel passes descriptors as if there were nothing between. docs/wire.md has the frames.
 *
 * At most SNP_CHANNEL_WINDOW bytes of a channel are on their way, and so no stream holds
 * up another.
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

/* The channels that are there from the start. */
enum {
    SNP_CHANNEL_INIT = 0, /* pid 1's stream */
    SNP_CHANNEL_STDOUT,
    SNP_CHANNEL_STDERR,
    SNP_CHANNEL_FIRST, /* of those that are passed */
};

/* An empty frame of a channel that there is never: what the inner end writes first of all. */
#define SNP_CHANNEL_HELLO \
    {                     \
        0, UINT32_MAX, 0  \
    }

/* Which way bytes go at this end. */
enum {
    SNP_CHANNEL_READ = 1,  /* from our descriptor to the other end */
    SNP_CHANNEL_WRITE = 2, /* the other way */
};

struct snp_channels;

struct snp_channels_spec {
    int in_fd;     /* the stream that all share; both owned from here on, and may be the same */
    int out_fd;    /* ... */
    bool is_inner; /* makes the descriptors that are passed */
    /*
     * The other end's standard output and error come in frames of 8 bytes and so many more, as the
     * Docker Engine API has it. What is of standard error goes to complain.
     */
    bool is_attached;
    void (*complain)(void *data, const char *bytes, size_t n);
    /*
     * The first of standard output has come: from here on channels are needed. NULL = of
     * no interest.
     */
    void (*spoken)(void *data);
    void *data;
};

/* NULL: out of memory or descriptors; then in_fd and out_fd are closed. */
struct snp_channels *snp_channels_new(const struct snp_channels_spec *spec);

/* Closes all. */
void snp_channels_free(struct snp_channels *cs);

/* One of those that are there from the start; fd is owned, also on failure. -1: out of memory. */
int snp_channels_add(struct snp_channels *cs, uint32_t id, int fd, unsigned ways) SNP_NODISCARD;

/*
 * These two sockets are the ends of one pair. When both are passed the inner end makes one pair for
 * them, so that whoever has them speaks without us. For the outer end.
 */
void snp_channels_pair(struct snp_channels *cs, const int ends[2]);

/* Readable when there is something to do. */
int snp_channels_fd(const struct snp_channels *cs);

/*
 * Do what there is, after waiting for it for so long (-1 = without end). -1: the shared stream has
 * ended or was broken.
 */
int snp_channels_step(struct snp_channels *cs, int timeout_ms) SNP_NODISCARD;

#endif
