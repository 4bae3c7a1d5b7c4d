/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SETUP_TEMPLATE_BUILD_H
#define SNP_CLI_SETUP_TEMPLATE_BUILD_H

/* Making a template: its virtual environment, its packages, its record. */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

/* Arguments of `template add`; texts are borrowed, NULL = not given. */
struct snp_build {
    const char *state_dir;
    const char *name;
    const char *python;
    const char *venv; /* use this one in place */
    const char *requirements;
    const char *index; /* folder with wheels, or address */
    const char *preload;
    bool allow_source; /* packages may be built, which runs their code */
};

/*
 * Build a template and return its record (new reference), not yet written; progress goes to
 * standard error. On failure the folder is removed.
 */
int snp_build_run(const struct snp_build *build, json_t **ret, struct snp_err *err) SNP_NODISCARD;

/* Remove a folder of ours with its contents; a missing one is fine. */
void snp_build_remove(const char *path);

#endif
