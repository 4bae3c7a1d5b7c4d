/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier-local: runs sandboxes without namespaces.
 *
 *   tier-local --state DIR       serve the tier protocol on descriptor 3
 *   tier-local --zygote ...      keeper of a template, see tier/host/launch.h
 */
#include "base/str.h"
#include "tier/engine/program.h"
#include "tier/local/launch.h"
#include "tier/local/local.h"

int main(int argc, char **argv)
{
    static struct snp_local local = {.host = SNP_HOST_INIT, .folder_lock_fd = -1};

    if (argc >= 2 && snp_streq(argv[1], "--zygote")) {
        return snp_local_launch_main(argc - 2, argv + 2);
    }
    return snp_tier_main(argc, argv, &snp_local_ops.tier, &local);
}
