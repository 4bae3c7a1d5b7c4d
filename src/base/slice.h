/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_SLICE_H
#define SNP_BASE_SLICE_H

/*
 * The calling thread only passes messages on: have its turns on a processor short, so that they
 * come soon when others compute. What it forks, and other threads, are as before. Nothing comes
 * of it before Linux 6.12.
 */
void snp_slice_short(void);

#endif
