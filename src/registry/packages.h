/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REGISTRY_PACKAGES_H
#define SNP_REGISTRY_PACKAGES_H

/* What a session's interpreter is and can import, found by looking at files only. */

#include "base/buf.h"
#include "registry/python.h"

/*
 * *ret_minor of Python 3.x, 0 if it cannot be told; append to names the packages it finds: those
 * that a template loads, then those of a list of well-known ones, with commas; nothing if there are
 * none. No name comes from a project's files: models read them.
 */
int snp_packages_find(const struct snp_python_query *query,
                      unsigned *ret_minor,
                      struct snp_buf *names,
                      struct snp_err *err) SNP_NODISCARD;

#endif
