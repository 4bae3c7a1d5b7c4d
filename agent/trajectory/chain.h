/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TRAJECTORY_CHAIN_H
#define SNP_TRAJECTORY_CHAIN_H

/*
 * The hash chain of a trajectory (docs/reference/trajectory.md). A line ends with its hash:
 *
 *     {...,"hash":"64 hex digits"}
 *
 * which is SHA-256 over the hash of the line before it (64 hex digits; zeros before the first) and
 * the line as it stands without `,"hash":"..."`. So a line that is changed, moved, left out or put
 * in breaks the chain. A user who can write the whole file can make a whole new chain: only a hash
 * stored elsewhere detects that, and a cut at the end.
 *
 * A line of ours has `,"mac":"64 hex digits"` in front of that: HMAC-SHA-256, with a key that only
 * the user has, over the hash that the line would have without it. It proves the writer of the
 * line, and its place.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

enum {
    SNP_CHAIN_HEX = 64,
    SNP_CHAIN_KEY = 32, /* bytes */
};

/* A place in the chain: the hash of the last line. */
struct snp_chain {
    char last[SNP_CHAIN_HEX + 1];
};

void snp_chain_init(struct snp_chain *chain);

/*
 * The hash of the next line, whose text without hash is body (from "{" to "}"), into out; advances
 * the chain. 0, or -1 when there is no SHA-256.
 */
int snp_chain_next(struct snp_chain *chain, const char *body, size_t n, char out[SNP_CHAIN_HEX + 1])
    SNP_NODISCARD;

enum snp_chain_link {
    SNP_CHAIN_OK = 0,
    SNP_CHAIN_NONE,   /* the line has no hash */
    SNP_CHAIN_BROKEN, /* it has another one; the chain continues from that hash */
};
enum snp_chain_link snp_chain_check(struct snp_chain *chain, const char *line, size_t n);

/*
 * The mac of the next line, whose text without mac and hash is body, into out. The chain stays. 0
 * or -1.
 */
int snp_chain_mac(const struct snp_chain *chain,
                  const unsigned char key[SNP_CHAIN_KEY],
                  const char *body,
                  size_t n,
                  char out[SNP_CHAIN_HEX + 1]) SNP_NODISCARD;

/* Whether the line that follows chain was written with this key. Its hash is not checked. */
bool snp_chain_is_ours(const struct snp_chain *chain,
                       const unsigned char key[SNP_CHAIN_KEY],
                       const char *line,
                       size_t n);

#endif
