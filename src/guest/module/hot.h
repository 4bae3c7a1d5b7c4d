/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_HOT_H
#define SNP_GUEST_MODULE_HOT_H

/*
 * After a fork, the first write to each page copies it, with a page fault. An interpreter writes
 * the same few hundred scattered pages in every cell. Copying them in advance, between cells, saves
 * that time in the next cell.
 *
 * look: before a fork; sometimes learns which pages were written since the previous one. touch:
 * after it, in the continuing process; copies these pages, and reads each once. The code's large
 * objects are not included. Both do nothing on unsupported kernels (before Linux 5.14).
 */
void snp_hot_look(void);
void snp_hot_touch(void);

#endif
