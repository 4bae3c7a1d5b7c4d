/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one write per line on standard error, so that lines of several processes do not mix.
 * Control bytes, backslashes and invalid UTF-8 are written as \xNN. errno is kept. Long lines are
 * cut.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    PREFIX_MAX = 128,
    TEXT_MAX = 2048,                          /* of event and message before escaping */
    LINE_MAX_LEN = PREFIX_MAX + 4 * TEXT_MAX, /* every byte may become four */
};

static const char *log_component = "snipara-sandbox";
static enum snp_log_level log_level = SNP_LOG_INFO;

void snp_log_setup(const char *component, enum snp_log_level level)
{
    log_component = component;
    log_level = level;
}

/* Escape text into out (room for four times its length); returns the length. */
static size_t escape(const char *text, char *out)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(text);
    bool utf8 = snp_utf8_valid(text, n);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        /* U+0080..U+009F are control characters too: C2 80..9F */
        bool c1 = c == 0xC2U && (unsigned char)text[i + 1] < 0xA0U;
        bool after_c2 = i > 0 && (unsigned char)text[i - 1] == 0xC2U && c < 0xA0U;
        if (c >= 0x20U && c != 0x7FU && c != '\\' && (c < 0x80U || (utf8 && !c1 && !after_c2))) {
            out[len++] = (char)c;
            continue;
        }
        out[len++] = '\\';
        out[len++] = 'x';
        out[len++] = hex[c >> 4U];
        out[len++] = hex[c & 15U];
    }
    return len;
}

/* "level time component " into out; returns the length. */
static size_t write_prefix(enum snp_log_level level, char *out, size_t out_len)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    struct timespec now = {0};
    struct tm tm = {0};
    char stamp[32] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &tm) != NULL) {
        (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    }
    int n = snprintf(out, out_len, "%s %s.%03ldZ %s ", names[level], stamp, now.tv_nsec / 1000000,
                     log_component);
    if (n < 0) {
        return 0;
    }
    return (size_t)n < out_len ? (size_t)n : out_len - 1;
}

void snp_log(enum snp_log_level level, const char *event, const char *fmt, ...)
{
    if (level > log_level) {
        return;
    }
    int saved = errno;
    char text[TEXT_MAX];
    char line[LINE_MAX_LEN];
    size_t len = write_prefix(level, line, PREFIX_MAX);
    int n = snprintf(text, sizeof(text), "%.64s ", event);
    if (n > 0) {
        va_list args;
        va_start(args, fmt);
        int more = vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
        va_end(args);
        n = more;
    }
    if (n < 0) {
        text[0] = '\0';
    }
    len += escape(text, line + len);
    line[len++] = '\n';
    if (snp_write_all(STDERR_FILENO, line, len) < 0) {
        errno = saved; /* a failure to log cannot be reported */
        return;
    }
    errno = saved;
}
