/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_PROJECT_H
#define SNP_TIER_ENGINE_PROJECT_H

/* A project's folder: opening it, and searching it for paths to hide. */

#include "base/err.h"

struct snp_sandbox;

/*
 * Open s->spec.project as s->project_fd and search it in a worker. done(s) runs later, with s->mask
 * and s->masked filled, or s->scan_result negative and s->scan_err set.
 */
int snp_project_open(struct snp_sandbox *s,
                     void (*done)(struct snp_sandbox *),
                     struct snp_err *err) SNP_NODISCARD;

#endif
