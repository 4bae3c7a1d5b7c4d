/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_PRINT_H
#define SNP_WIRE_PRINT_H

/* The tables of messages as pages: docs/wire.md and docs/result.md have them from here. */

#include <stdbool.h>
#include <stdio.h>

/* what: "client", "tier", "result" or "events". False: none of them. */
bool snp_messages_print(FILE *out, const char *what);

#endif
