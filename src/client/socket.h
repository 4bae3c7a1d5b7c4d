/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_SOCKET_H
#define SNP_CLIENT_SOCKET_H

/* Bytes to and from the daemon, for the blocking client and the one for event loops. */

#include "base/buf.h"
#include "base/json.h"

enum {
    SNP_SOCKET_READ = 64 << 10, /* bytes at once */
};

struct snp_socket_request {
    uint32_t id;
    json_t *head; /* of SNP_WRITE: a request; borrowed; NULL = out of memory */
    const void *raw;
    size_t raw_len;
};

/* Append a request's frame. SNP_E_LIMIT: it is too large, or the queue is full. */
int snp_socket_queue(struct snp_buf *out,
                     const struct snp_socket_request *request,
                     struct snp_err *err) SNP_NODISCARD;
/*
 * Send as much as possible without blocking. 1: the other side has closed, and out is dropped.
 * SNP_E_PEER.
 */
int snp_socket_send(int fd, struct snp_buf *out, struct snp_err *err) SNP_NODISCARD;
/*
 * Append received bytes. SNP_E_PEER, with the error from the daemon's log. *ret_is_unread is set to
 * true if the other side closed before it read all that was sent, else unchanged.
 */
int snp_socket_receive(int fd, struct snp_buf *in, bool *ret_is_unread, struct snp_err *err)
    SNP_NODISCARD;

#endif
