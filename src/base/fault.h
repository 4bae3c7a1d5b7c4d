/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_FAULT_H
#define SNP_BASE_FAULT_H

/*
 * Places where tests let a program die or fail. They exist only in builds with
 * -Dfaults=true (tests/crash/fault.h); in all others each is nothing at all, not even a string.
 */

#ifdef SNP_FAULTS

#    include <stdbool.h>

/* A point that is only passed or died at. */
#    define SNP_FAULT(name) snp_fault_pass(name)
/* A point that can be told to fail: true, and errno is set. */
#    define SNP_FAULT_FAILS(name) snp_fault_fails(name)

void snp_fault_pass(const char *name);
bool snp_fault_fails(const char *name);

#else

#    define SNP_FAULT(name)       ((void)0)
#    define SNP_FAULT_FAILS(name) false

#endif

#endif
