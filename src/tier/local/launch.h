/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_LAUNCH_H
#define SNP_TIER_LOCAL_LAUNCH_H

/*
 * The keeper of a template. It starts the confined template, adopts orphans below it, and kills
 * them all when the supervisor has ended.
 */
int snp_local_launch_main(int argc, char **argv);

#endif
