/* SPDX-License-Identifier: Apache-2.0 */
/* The state is allocated: it wants an alignment that a stack frame of its own need not give. */
#include "guest/files/digest.h"

#include <stdio.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct snp_digest {
    XXH3_state_t state;
};

struct snp_digest *snp_digest_new(void)
{
    XXH3_state_t *state = XXH3_createState(); /* aligned */

    if (state == NULL || XXH3_128bits_reset(state) != XXH_OK) {
        (void)XXH3_freeState(state);
        return NULL;
    }
    return (struct snp_digest *)state;
}

void snp_digest_add(struct snp_digest *digest, const void *bytes, size_t len)
{
    (void)XXH3_128bits_update(&digest->state, bytes, len);
}

void snp_digest_end(struct snp_digest *digest, char ret_text[SNP_DIGEST_LEN + 1])
{
    XXH128_hash_t hash = XXH3_128bits_digest(&digest->state);

    (void)snprintf(ret_text, SNP_DIGEST_LEN + 1, "%016llx%016llx",
                   (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    (void)XXH3_freeState(&digest->state);
}
