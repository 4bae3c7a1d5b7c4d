/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_FEATURES_H
#define SNP_TIER_HOST_FEATURES_H

/* Rows of the answer to `probe`, and tests of the features that they report. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/json.h"

/* One row; cost and fix are left out if ok. New reference. */
json_t *snp_probe_row(
    const char *name, bool ok, const char *detail, const char *cost, const char *fix);

/* Run f in a child; true if it returns 0 there. */
bool snp_probe_works(int (*f)(void));

/* The same in two steps, for tests in parallel. */
pid_t snp_probe_begin(int (*f)(void));
bool snp_probe_end(pid_t pid);

/* A test for these: 0 if seccomp notifications work. */
int snp_probe_seccomp_notify(void);

#endif
