/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_JOIN_H
#define SNP_GUEST_MODULE_JOIN_H

/*
 * For a template, before it is forked: reduces the four or five mappings of each library to two,
 * code and data, so that a fork has half as many to copy, and to undo at its end. Read-only parts
 * of a library become executable or writable, in a process that may map such memory anyway; nothing
 * becomes both.
 */
void snp_join_libraries(void);

#endif
