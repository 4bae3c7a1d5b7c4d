/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/need.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *snp_need(void *memory)
{
    if (memory == NULL) {
        (void)fputs("snipara-sandbox: out of memory\n", stderr);
        exit(1); /* NOLINT(concurrency-mt-unsafe): one thread */
    }
    return memory;
}

char *snp_need_copy(const char *text)
{
    return text == NULL ? NULL : snp_need(strdup(text));
}

char *snp_need_format(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, fmt);
    text = vasprintf(&text, fmt, args) < 0 ? NULL : text;
    va_end(args);
    return snp_need(text);
}
