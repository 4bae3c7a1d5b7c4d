/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_LAUNCH_H
#define SNP_TIER_LOCAL_LAUNCH_H

/*
 * The keeper of a template. It starts the template, confined, adopts whatever loses its parent
 * below it, and when the supervisor is gone kills it all.
 */
int snp_local_launch_main(int argc, char **argv);

#endif
