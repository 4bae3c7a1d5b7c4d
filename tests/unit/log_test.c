/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line per event whatever is in it, and nothing that a terminal would obey. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit/harness.h"

struct capture {
    int saved; /* what standard error was */
    int read_end;
};

static void capture_start(struct capture *capture)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    capture->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(capture->saved >= 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    (void)close(ends[1]);
    capture->read_end = ends[0];
}

/* What was written since, as text. */
static void capture_stop(struct capture *capture, char *out, size_t out_len)
{
    assert_int_equal(dup2(capture->saved, STDERR_FILENO), STDERR_FILENO);
    (void)close(capture->saved);
    ssize_t n = snp_read_all(capture->read_end, out, out_len - 1);
    assert_true(n >= 0);
    out[n] = '\0';
    (void)close(capture->read_end);
}

TEST(a_line_has_level_time_component_event_and_text)
{
    struct capture capture;
    char out[512];
    capture_start(&capture);
    snp_log_setup("tester", SNP_LOG_INFO);
    errno = EXDEV;
    snp_log(SNP_LOG_WARN, "begun", "n=%d", 3);
    int eno = errno;
    snp_log(SNP_LOG_DEBUG, "hidden", "n=4");
    capture_stop(&capture, out, sizeof(out));
    assert_int_equal(eno, EXDEV);
    assert_true(snp_has_prefix(out, "warn 20"));
    assert_true(snp_has_suffix(out, "Z tester begun n=3\n"));
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

TEST(control_bytes_and_broken_text_are_escaped)
{
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"a\nb\r\t\x1b[31m\x7f\\", " a\\x0ab\\x0d\\x09\\x1b[31m\\x7f\\x5c\n"},
        {"caf\xC3\xA9", " caf\xC3\xA9\n"},
        {"\xC2\x9B"
         "31m\xC2\xA0",
         " \\xc2\\x9b31m\xC2\xA0\n"},
        {"caf\xC3\xA9\xFF", " caf\\xc3\\xa9\\xff\n"},
        {"cut \xC3", " cut \\xc3\n"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        struct capture capture;
        char out[512];
        capture_start(&capture);
        snp_log(SNP_LOG_ERROR, "e", "%s", cases[i].text);
        capture_stop(&capture, out, sizeof(out));
        assert_true(snp_has_suffix(out, cases[i].shown));
    }
}

TEST(long_text_is_cut_to_one_line)
{
    struct capture capture;
    static char text[20000];
    static char out[20000];
    memset(text, '\n', sizeof(text) - 1);
    capture_start(&capture);
    snp_log(SNP_LOG_ERROR, text, "%s", text);
    capture_stop(&capture, out, sizeof(out));
    assert_true(strlen(out) > 8000 && strlen(out) < 8400);
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

RUN(UNIT(a_line_has_level_time_component_event_and_text),
    UNIT(control_bytes_and_broken_text_are_escaped),
    UNIT(long_text_is_cut_to_one_line))
