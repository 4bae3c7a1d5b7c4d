/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_LAUNCH_H
#define SNP_TIER_NATIVE_LAUNCH_H

/*
 * The program between supervisor and template: `tier-native --zygote TEMPLATE PYTHON
 * GUEST_DIR HOST_ID`. Builds the template's root, gives up every right and executes
 * the interpreter. HOST_ID: user id to become, 0 = stay (a namespace's own 0).
 * Never returns; exit status 3 with one line on standard error when it fails.
 */

enum {
    SNP_LAUNCH_CONTROL_FD = 3,
    SNP_LAUNCH_SESSION_FILTER_FD = 4,
    SNP_LAUNCH_ZYGOTE_FILTER_FD = 5,
};

int snp_launch_main(int argc, char **argv);

#endif
