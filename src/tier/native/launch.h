/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_LAUNCH_H
#define SNP_TIER_NATIVE_LAUNCH_H

/*
 * The program between supervisor and template: `tier-native --zygote NAME=VALUE...`.
 * Checks that the template's packages are what they were, builds its root, gives up every
 * right and executes the interpreter. Never returns; exit status 3 with one line on
 * standard error when it fails.
 *
 * Names: template, python (program), guest (folder), rootfs and id (folder
 * instead of the host's /), host-id (user id to become, 0 = stay: a
 * namespace's own 0), prefix, venv, site, alias, hash, ours (1: bytecode counts for the hash),
 * preload. What they mean: struct snp_python. Those not given are empty.
 */

int snp_launch_main(int argc, char **argv);

#endif
