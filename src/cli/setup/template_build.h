/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SETUP_TEMPLATE_BUILD_H
#define SNP_CLI_SETUP_TEMPLATE_BUILD_H

/* Making a template: its virtual environment, its packages, its record. */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

/* What `template add` was asked for; texts are borrowed, NULL = not given. */
struct snp_build {
    const char *state_dir;
    const char *name;
    const char *python;
    const char *venv; /* use this one, as it is */
    const char *requirements;
    const char *index; /* folder with wheels, or address */
    const char *preload;
    bool allow_source; /* packages may be built, which runs their code */
};

/*
 * Build and return the record (new reference), not yet written; progress goes to standard
 * error. A folder that was begun is removed on failure.
 */
int snp_build_run(const struct snp_build *build, json_t **ret, struct snp_err *err) SNP_NODISCARD;

/* Remove a folder of ours and all in it; what is not there is fine. */
void snp_build_remove(const char *path);

#endif
