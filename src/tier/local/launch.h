/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_LAUNCH_H
#define SNP_TIER_LOCAL_LAUNCH_H

/*
 * The keeper of a template of the local tier: `tier-local --zygote NAME=VALUE...` with the
 * names template, python, guest, host-id (0: no user of its own), folder (what sandboxes have
 * theirs in) and landlock-abi; descriptors as in tier/host/template.h, the last a
 * pipe that ends with the supervisor. It starts the template, confined, adopts whatever
 * loses its parent below it, and when the supervisor is gone kills it all.
 */
int snp_local_launch_main(int argc, char **argv);

#endif
