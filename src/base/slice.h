/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_SLICE_H
#define SNP_BASE_SLICE_H

/*
 * The calling thread only forwards messages: request short time slices, so that it is scheduled
 * soon when other threads compute. Threads and processes that it starts are not affected. No effect
 * before Linux 6.12.
 */
void snp_slice_short(void);

#endif
