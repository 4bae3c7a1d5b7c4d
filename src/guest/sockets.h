/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_SOCKETS_H
#define SNP_GUEST_SOCKETS_H

/* Memory in buffers of the sandbox's sockets, which is part of no process's memory. */

#include <stdint.h>

/*
 * Bytes in the queues of all TCP, UDP and unix sockets of the network namespace of diag_fd (a
 * NETLINK_SOCK_DIAG socket). 0 if the kernel cannot list them.
 */
uint64_t snp_sockets_bytes(int diag_fd);

#endif
