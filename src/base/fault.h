/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_FAULT_H
#define SNP_BASE_FAULT_H

/*
 * Points where tests make a program die or fail. They exist only in builds with -Dfaults=true
 * (tests/crash/fault.h) and compile to nothing in others.
 */

#ifdef SNP_FAULTS

#    include <stdbool.h>

/* A point that a test can stop or kill the program at. */
#    define SNP_FAULT(name) snp_fault_pass(name)
/* A point that a test can make fail: returns true and sets errno. */
#    define SNP_FAULT_FAILS(name) snp_fault_fails(name)

void snp_fault_pass(const char *name);
bool snp_fault_fails(const char *name);

#else

#    define SNP_FAULT(name)       ((void)0)
#    define SNP_FAULT_FAILS(name) false

#endif

#endif
