/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier-native: runs sandboxes with namespaces, seccomp and Landlock.
 *
 *   tier-native --state DIR      serve the tier protocol on descriptor 3
 *   tier-native --zygote ...     launcher of a template, see tier/host/launch.h
 *   tier-native --syscalls       print the table of allowed system calls
 */
#include <stdio.h>

#include "base/str.h"
#include "tier/engine/program.h"
#include "tier/host/syscalls.h"
#include "tier/native/launch.h"
#include "tier/native/native.h"

int main(int argc, char **argv)
{
    static struct snp_native native = {.host = SNP_HOST_INIT};

    if (argc >= 2 && snp_streq(argv[1], "--zygote")) {
        return snp_native_launch_main(argc - 2, argv + 2);
    }
    if (argc == 2 && snp_streq(argv[1], "--syscalls")) {
        snp_syscalls_print(stdout);
        return 0;
    }
    return snp_tier_main(argc, argv, &snp_native_ops.tier, &native);
}
