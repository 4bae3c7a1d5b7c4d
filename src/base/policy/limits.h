/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_LIMITS_H
#define SNP_BASE_POLICY_LIMITS_H

/*
 * The resource limits of a session: one row each, with key, flag, unit, range and default. Command
 * line, configuration, daemon, tier and manifest all read this table.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum snp_limit {
    SNP_LIMIT_WALL = 0,   /* ms per cell */
    SNP_LIMIT_CPUS,       /* thousandths of a CPU */
    SNP_LIMIT_MEMORY,     /* bytes, no swap */
    SNP_LIMIT_PROCESSES,  /* processes and threads of the code */
    SNP_LIMIT_TMP,        /* bytes of /tmp (and of /dev/shm, apart) */
    SNP_LIMIT_WORKSPACE,  /* bytes written to /workspace */
    SNP_LIMIT_INODES,     /* files written to /workspace */
    SNP_LIMIT_FILE,       /* bytes of one file */
    SNP_LIMIT_OPEN_FILES, /* descriptors of one process */
    SNP_LIMIT_OUTPUT,     /* characters of stdout and of stderr shown; all are counted */
    SNP_LIMIT_N,
};

enum snp_limit_unit {
    SNP_UNIT_COUNT = 0,
    SNP_UNIT_MS,    /* written by people as seconds: "30", "0.5" */
    SNP_UNIT_MILLI, /* written by people as a decimal number: "1.0" */
    SNP_UNIT_BYTES, /* "512m" */
};

struct snp_limit_info {
    const char *key;  /* in JSON and in the configuration: "memory" */
    const char *flag; /* "--memory" */
    enum snp_limit_unit unit;
    uint64_t fallback; /* default */
    uint64_t min;
    uint64_t max;
    const char *help; /* "memory of the whole sandbox, no swap" */
};

struct snp_limits {
    uint64_t value[SNP_LIMIT_N];
};

/* The row of a limit; static. */
const struct snp_limit_info *snp_limit_info(enum snp_limit limit);

void snp_limits_default(struct snp_limits *limits);

/*
 * Parse a limit as people write it and check its range. source names its origin ("--memory",
 * "SNIPARA_SANDBOX_MEMORY"). SNP_E_INVALID names the source, the text, and the range in people's
 * unit.
 */
int snp_limit_parse(enum snp_limit limit,
                    const char *text,
                    const char *source,
                    uint64_t *ret,
                    struct snp_err *err) SNP_NODISCARD;

/* "512 MiB", "30 s", "1.0", "64" as people read it; returns out. */
const char *snp_limit_format(enum snp_limit limit, uint64_t value, char *out, size_t out_len);

/* The command-line option for a limit: "--memory 512m"; "" if the key is unknown. Returns out. */
const char *snp_limit_option(const char *key, uint64_t value, char *out, size_t out_len);

/*
 * {"timeout_ms": 30000, "memory_bytes": ...}: key plus "_ms", "_milli", "_bytes" or nothing by
 * unit. New reference.
 */
json_t *snp_limits_to_json(const struct snp_limits *limits);

/*
 * Read such an object into *limits; absent members stay unchanged. SNP_E_INVALID for a wrong type,
 * an unknown member or a value out of range; then *limits is untouched.
 */
int snp_limits_from_json(const json_t *object,
                         struct snp_limits *limits,
                         struct snp_err *err) SNP_NODISCARD;

#endif
