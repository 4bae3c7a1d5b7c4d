/* SPDX-License-Identifier: Apache-2.0 */
/* Times for people. Clocks may jump: a time in the future is "just now". */
#include "base/cli/human.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"

enum {
    MS_US = 1000,
    SECOND_US = 1000 * 1000,
    MINUTE_S = 60,
    HOUR_S = 3600,
    DAY_S = 86400,
};

struct snp_human snp_human_span(uint64_t us)
{
    struct snp_human out;
    unsigned long long s = us / SECOND_US;

    if (us < (uint64_t)10 * MS_US) {
        (void)snprintf(out.text, sizeof(out.text), "%.1f ms", (double)us / MS_US);
    } else if (us < SECOND_US) {
        (void)snprintf(out.text, sizeof(out.text), "%llu ms", (unsigned long long)(us / MS_US));
    } else if (s < 10) {
        (void)snprintf(out.text, sizeof(out.text), "%.1f s", (double)us / SECOND_US);
    } else if (s < MINUTE_S) {
        (void)snprintf(out.text, sizeof(out.text), "%llu s", s);
    } else if (s < HOUR_S) {
        (void)snprintf(out.text, sizeof(out.text), "%llu min %llu s", s / MINUTE_S, s % MINUTE_S);
    } else if (s < DAY_S) {
        (void)snprintf(out.text, sizeof(out.text), "%llu h %llu min", s / HOUR_S,
                       s % HOUR_S / MINUTE_S);
    } else {
        (void)snprintf(out.text, sizeof(out.text), "%llu d %llu h", s / DAY_S, s % DAY_S / HOUR_S);
    }
    return out;
}

struct snp_human snp_human_age(double then_s)
{
    struct snp_human out;
    double age_s = (double)snp_wall_us() / SECOND_US - then_s;
    unsigned long long s = age_s < 1 ? 0 : (unsigned long long)age_s;

    if (then_s <= 0) {
        (void)snprintf(out.text, sizeof(out.text), "never");
    } else if (s == 0) {
        (void)snprintf(out.text, sizeof(out.text), "just now");
    } else if (s < MINUTE_S) {
        (void)snprintf(out.text, sizeof(out.text), "%llu s ago", s);
    } else if (s < HOUR_S) {
        (void)snprintf(out.text, sizeof(out.text), "%llu min ago", s / MINUTE_S);
    } else if (s < DAY_S) {
        (void)snprintf(out.text, sizeof(out.text), "%llu h %llu min ago", s / HOUR_S,
                       s % HOUR_S / MINUTE_S);
    } else {
        (void)snprintf(out.text, sizeof(out.text), "%llu d ago", s / DAY_S);
    }
    return out;
}

struct snp_human snp_human_when(double then_s)
{
    struct snp_human out;
    time_t then = (time_t)then_s;
    struct tm parts;

    if (then_s <= 0 || localtime_r(&then, &parts) == NULL ||
        strftime(out.text, sizeof(out.text), "%Y-%m-%d %H:%M:%S %Z", &parts) == 0) {
        (void)snprintf(out.text, sizeof(out.text), "never");
    }
    return out;
}

struct snp_human snp_human_stamp(const char *stamp)
{
    struct snp_human out;
    struct tm parts = {0};
    const char *end = strptime(stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    time_t then = end == NULL ? 0 : timegm(&parts);

    if (then <= 0) {
        (void)snprintf(out.text, sizeof(out.text), "%s", stamp);
        return out;
    }
    return snp_human_when((double)then);
}

struct snp_human snp_human_bytes(uint64_t bytes)
{
    struct snp_human out = {.text = ""};

    (void)snp_format_bytes(bytes, out.text, sizeof(out.text));
    return out;
}
