/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_REGISTRY_PACKAGES_H
#define SNP_BASE_REGISTRY_PACKAGES_H

/* The version and packages of a session's interpreter, found by reading files only. */

#include "base/buf.h"
#include "base/registry/python.h"

/*
 * *ret_minor of Python 3.x, 0 if unknown; append to names the packages found: those that a template
 * loads, then well-known ones, separated by commas; nothing if there are none. No name comes from a
 * project's files, because models read them.
 */
int snp_packages_find(const struct snp_python_query *query,
                      unsigned *ret_minor,
                      struct snp_buf *names,
                      struct snp_err *err) SNP_NODISCARD;

#endif
