/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_JOIN_H
#define SNP_GUEST_MODULE_JOIN_H

/*
 * For a template, before it is forked: of the four or five mappings of each library two are made,
 * code and data, so that a fork has half as many to copy, and its end to undo. What of a
 * library was only read can then be executed or written, by a process that may map memory of
 * either kind anyway; nothing can be both.
 */
void snp_join_libraries(void);

#endif
