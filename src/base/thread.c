/* SPDX-License-Identifier: Apache-2.0 */
/* Threads. */
#include "base/thread.h"

#include <signal.h>

int snp_thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    int eno;

    (void)sigfillset(&all); /* signals belong to the main loop */
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    eno = pthread_create(ret, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return eno;
}
