/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the cleanup attributes and SNP_ASSERT. */
#include "base/macro.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void snp_assert_failed(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expr);
    abort();
}

void snp_freep(void *p)
{
    int saved = errno;
    void *memory = NULL;
    memcpy(&memory, p, sizeof(memory)); /* p is the address of any kind of pointer */
    free(memory);
    errno = saved;
}

void snp_closep(int *fd)
{
    int saved = errno;
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
    errno = saved;
}
