/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_LAUNCH_H
#define SNP_TIER_NATIVE_LAUNCH_H

/*
 * The program between supervisor and template. Checks that the template's packages are unchanged,
 * builds its root, drops every capability and executes the interpreter.
 */
int snp_native_launch_main(int argc, char **argv);

#endif
