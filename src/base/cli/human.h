/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_HUMAN_H
#define SNP_BASE_CLI_HUMAN_H

/* Times and sizes for people; the text lives until the end of the full expression. */

#include <stdint.h>

#include "base/json.h"

struct snp_human {
    char text[48];
};

/* "0.4 ms", "12 ms", "1.5 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
struct snp_human snp_human_span(uint64_t us);
/* Age of a time (seconds since 1970): "12 s ago", "just now"; 0: "never". */
struct snp_human snp_human_age(double then_s);
/* "2026-11-22 06:35:25 CET" in the local time zone; "never" for 0. */
struct snp_human snp_human_when(double then_s);
/* The same for a record's "2026-11-22T05:35:25.123Z"; other text is unchanged. */
struct snp_human snp_human_stamp(const char *stamp);
/* The same as snp_format_bytes. */
struct snp_human snp_human_bytes(uint64_t bytes);

#endif
