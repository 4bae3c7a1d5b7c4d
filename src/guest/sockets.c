/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel lists the sockets of a network namespace with the memory that each has allocated
 * (sock_diag(7)). Data sent by a unix socket is charged to the sender until it is read. A closed
 * sender is no longer listed, so the recipient's queue is counted instead. Of datagrams only the
 * first one's length is listed: a recipient is counted as full.
 */
#include "guest/sockets.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/macro.h"

enum {
    ALL_STATES = -1,
    BOTH_WAYS = 3,       /* a unix socket's shutdown, after which it has no sender */
    SENT_BYTES = 212992, /* of one sender: the kernel's default, which the filter keeps */
    DATAGRAMS = 11,      /* of as many senders, in a queue */
};

static const struct {
    uint8_t family;
    uint8_t protocol;
} kinds[] = {
    {AF_INET, IPPROTO_UDP}, {AF_INET6, IPPROTO_UDP},
    {AF_INET, IPPROTO_TCP}, {AF_INET6, IPPROTO_TCP},
    {AF_UNIX, 0},
};

static bool ask(int fd, uint8_t family, uint8_t protocol)
{
    struct {
        struct nlmsghdr head;
        union {
            struct inet_diag_req_v2 inet;
            struct unix_diag_req local;
        } of;
    } q;

    memset(&q, 0, sizeof(q));
    q.head.nlmsg_len = sizeof(q);
    q.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    q.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    if (family == AF_UNIX) {
        q.of.local.sdiag_family = family;
        q.of.local.udiag_states = (uint32_t)ALL_STATES;
        q.of.local.udiag_show =
            UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN | UDIAG_SHOW_MEMINFO;
    } else {
        q.of.inet.sdiag_family = family;
        q.of.inet.sdiag_protocol = protocol;
        q.of.inet.idiag_states = (uint32_t)ALL_STATES;
        q.of.inet.idiag_ext = 1U << (INET_DIAG_SKMEMINFO - 1);
    }
    return send(fd, &q, sizeof(q), MSG_NOSIGNAL) == (ssize_t)sizeof(q);
}

/*
 * Bytes of datagrams that may wait although their senders were closed. A pair's end has one
 * sender; a named socket has any.
 */
static uint64_t datagram_bytes(struct rtattr *at, int len)
{
    struct unix_diag_rqlen queue = {0};
    uint32_t peer = 1;
    bool has_name = false;

    for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
        if (at->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(at) >= sizeof(peer)) {
            memcpy(&peer, RTA_DATA(at), sizeof(peer)); /* 0: it was closed */
        } else if (at->rta_type == UNIX_DIAG_RQLEN && RTA_PAYLOAD(at) >= sizeof(queue)) {
            memcpy(&queue, RTA_DATA(at), sizeof(queue));
        }
        has_name |= at->rta_type == UNIX_DIAG_NAME;
    }
    return has_name && queue.udiag_rqueue > 0 ? (uint64_t)DATAGRAMS * SENT_BYTES
           : peer == 0                        ? SENT_BYTES
                                              : 0;
}

/* Bytes of one socket; at: its attributes, len bytes. */
static uint64_t socket_bytes(struct rtattr *at, int len, bool is_unix)
{
    const unsigned short memory = is_unix ? UNIX_DIAG_MEMINFO : INET_DIAG_SKMEMINFO;
    uint32_t info[SK_MEMINFO_BACKLOG + 1] = {0};
    struct unix_diag_rqlen queue = {0};
    uint8_t is_shut = 0;
    uint32_t sent;

    for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
        size_t n = RTA_PAYLOAD(at);

        if (at->rta_type == memory && n >= sizeof(info)) {
            memcpy(info, RTA_DATA(at), sizeof(info));
        } else if (is_unix && at->rta_type == UNIX_DIAG_RQLEN && n >= sizeof(queue)) {
            memcpy(&queue, RTA_DATA(at), sizeof(queue));
        } else if (is_unix && at->rta_type == UNIX_DIAG_SHUTDOWN && n >= sizeof(is_shut)) {
            memcpy(&is_shut, RTA_DATA(at), sizeof(is_shut));
        }
    }
    sent = info[SK_MEMINFO_WMEM_ALLOC]; /* excludes TCP's queue */
    sent = sent > info[SK_MEMINFO_WMEM_QUEUED] ? sent : info[SK_MEMINFO_WMEM_QUEUED];
    return (uint64_t)sent + info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_BACKLOG] +
           (is_shut == BOTH_WAYS ? queue.udiag_rqueue : 0);
}

/* The total of one reply. */
static uint64_t answer_bytes(int fd, bool is_unix)
{
    const int fixed =
        (int)NLMSG_LENGTH(is_unix ? sizeof(struct unix_diag_msg) : sizeof(struct inet_diag_msg));
    union {
        struct nlmsghdr first;
        char bytes[32 << 10]; /* the largest message of the kernel */
    } buf;
    uint64_t total = 0;
    ssize_t got;

    while ((got = recv(fd, buf.bytes, sizeof(buf.bytes), MSG_DONTWAIT)) > 0) {
        unsigned len = (unsigned)got;
        unsigned next = 0;

        for (struct nlmsghdr *m = &buf.first; next < len && NLMSG_OK(m, len - next);
             m = (struct nlmsghdr *)(void *)(buf.bytes + next)) {
            if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) {
                return total;
            }
            struct rtattr *at = (void *)((char *)m + NLMSG_ALIGN(fixed));
            const int left = (int)m->nlmsg_len - (int)NLMSG_ALIGN(fixed);

            total += socket_bytes(at, left, is_unix);
            if (is_unix &&
                ((const struct unix_diag_msg *)NLMSG_DATA(m))->udiag_type == SOCK_DGRAM) {
                total += datagram_bytes(at, left);
            }
            next += NLMSG_ALIGN(m->nlmsg_len);
        }
    }
    return total;
}

uint64_t snp_sockets_bytes(int diag_fd)
{
    uint64_t total = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        if (ask(diag_fd, kinds[i].family, kinds[i].protocol)) {
            total += answer_bytes(diag_fd, kinds[i].family == AF_UNIX);
        }
    }
    return total;
}
