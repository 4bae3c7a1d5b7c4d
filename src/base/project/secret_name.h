/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PROJECT_SECRET_NAME_H
#define SNP_BASE_PROJECT_SECRET_NAME_H

/* Files of a project that hold secrets, judged by their names only; case-insensitive. */

#include <stdbool.h>
#include <stddef.h>

/* name: of a file or a folder; folder: its parent's path, of len bytes, with its slash. */
bool snp_secret_name(const char *folder, size_t len, const char *name);

/* A pattern with at most one `*`; n: bytes of the name. */
bool snp_name_fits(const char *pattern, const char *name, size_t n);

#endif
