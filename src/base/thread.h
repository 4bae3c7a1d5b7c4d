/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_THREAD_H
#define SNP_BASE_THREAD_H

#include <pthread.h>

#include "base/macro.h"

/* Start a thread with all signals blocked. 0 or errno. */
int snp_thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg) SNP_NODISCARD;

#endif
