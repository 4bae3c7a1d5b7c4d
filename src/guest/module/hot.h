/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_HOT_H
#define SNP_GUEST_MODULE_HOT_H

/*
 * After a fork each page a process writes is first copied, a page fault each. What an
 * interpreter writes in every cell are the same pages, a few hundred, wherever they lie. Copied
 * ahead, between cells, they do not cost the next one its time.
 *
 * look: before a fork; learns, now and then, which pages were written since the one before. touch:
 * after it, in the process that goes on; copies them, and reads each once. Nothing of the code's
 * own large memory is among them. Both do nothing where the kernel cannot (before Linux 5.14).
 */
void snp_hot_look(void);
void snp_hot_touch(void);

#endif
