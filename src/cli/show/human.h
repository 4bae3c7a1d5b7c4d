/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SHOW_HUMAN_H
#define SNP_CLI_SHOW_HUMAN_H

/* Times as people say them. */

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum {
    SNP_HUMAN_MAX = 48, /* bytes that any of these texts needs */
};

/* "0.4 ms", "12 ms", "1.5 s", "3 min 20 s", "2 h 5 min", "3 d 4 h" into out; returns out. */
const char *snp_human_span(uint64_t us, char *out, size_t out_len);

/* How long before now a time was (seconds since 1970): "12 s ago", "just now"; 0: "never". */
const char *snp_human_age(double then_s, char *out, size_t out_len);

/* "2026-11-22 06:35:25 CET" in the local time zone; "never" for 0. */
const char *snp_human_when(double then_s, char *out, size_t out_len);

/* The same of a record's "2026-11-22T05:35:25.123Z"; another text as it is. */
const char *snp_human_stamp(const char *stamp, char *out, size_t out_len);

/* A number of an object, integer or real; absent or of another type: 0. */
double snp_json_number(const json_t *object, const char *key);

#endif
