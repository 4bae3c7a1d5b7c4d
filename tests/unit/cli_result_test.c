/* SPDX-License-Identifier: Apache-2.0 */
/* Results on the command line: the JSON that is put together, exit statuses, base64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cli/session/result.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/summary.h"
#include "unit/harness.h"

#define SIGNALLED       "ended by a signal (SIGKILL)" /* banned-ok: a text */
#define SIGNALLED_MODEL "Ended by a signal (SIGKILL)" /* banned-ok: a text */

static int send_event(struct snp_view *view, const char *head, const char *raw, size_t raw_len)
{
    struct snp_err err;
    snp_autojson json_t *parsed = json_loads(head, 0, NULL);
    assert_non_null(parsed);
    return snp_view_event(view, parsed, raw, raw_len, &err);
}

TEST(output_and_displays_are_put_together)
{
    struct snp_view view;
    snp_autojson json_t *head =
        json_pack("{s:s, s:i, s:{s:s}}", "status", "ok", "cell", 1, "output", "handle", "h1");
    snp_view_init(&view, false, NULL);
    assert_int_equal(send_event(&view, "{\"event\": \"stdout\"}", "he\xc3", 3), 0);
    assert_int_equal(send_event(&view, "{\"event\": \"stdout\"}", "\xa4", 1), 0);
    assert_int_equal(
        send_event(&view, "{\"event\": \"gap\", \"stream\": \"stdout\", \"omitted_chars\": 12}", "",
                   0),
        0);
    assert_int_equal(send_event(&view, "{\"event\": \"stdout\"}", "tail", 4), 0);
    assert_int_equal(send_event(&view, "{\"event\": \"stderr\"}", "\xff", 1), 0);
    assert_int_equal(
        send_event(&view,
                   "{\"event\": \"display\", \"mime\": [[\"text/plain\", 1], [\"image/png\", 2]]}",
                   "t\x01\x02", 3),
        0);
    snp_autojson json_t *result = snp_view_result(&view, head);
    assert_non_null(result);
    assert_string_equal(snp_json_str(result, "stdout", ""),
                        "he\xc3\xa4\n... (12 characters omitted; full text: snipara-sandbox output "
                        "h1) ...\ntail");
    assert_string_equal(snp_json_str(result, "stderr", ""), "\xef\xbf\xbd");
    const json_t *display = json_array_get(json_object_get(result, "displays"), 0);
    assert_string_equal(snp_json_str(display, "text/plain", ""), "t");
    assert_string_equal(snp_json_str(display, "image/png", ""), "AQI=");
    assert_true(json_is_null(json_object_get(result, "value")));
    snp_view_done(&view);
}

TEST(events_that_are_not_are_refused)
{
    struct snp_view view;
    snp_view_init(&view, false, NULL);
    assert_int_equal(send_event(&view, "{\"event\": \"what\"}", "", 0), SNP_E_PEER);
    assert_int_equal(
        send_event(&view, "{\"event\": \"display\", \"mime\": [[\"a/b\", 9]]}", "x", 1),
        SNP_E_PEER);
    assert_int_equal(send_event(&view, "{\"event\": \"gap\", \"stream\": \"stdout\"}", "", 0),
                     SNP_E_PEER);
    snp_view_done(&view);
}

TEST(displays_are_saved_byte_for_byte)
{
    char dir[] = "/tmp/snp-view-XXXXXX";
    struct snp_view view;
    struct snp_err err;
    size_t len = 0;
    snp_autofree char *text = NULL;
    snp_autojson json_t *head = json_pack("{s:i}", "cell", 7);
    assert_non_null(mkdtemp(dir));
    snp_view_init(&view, false, dir);
    assert_int_equal(
        send_event(&view,
                   "{\"event\": \"display\", \"mime\": [[\"text/plain\", 1], [\"image/png\", 4]]}",
                   "t\x89PN\0", 5),
        0);
    assert_int_equal(snp_view_save(&view, head, &err), 0);
    snp_autofree char *path = snp_format("%s/cell7-1.png", dir);
    assert_int_equal(snp_file_read(path, 100, &text, &len, &err), 0);
    assert_int_equal(len, 4);
    assert_memory_equal(text, "\x89PN\0", 4);
    assert_int_equal(unlink(path), 0);
    /* The plain text beside it was not saved: the folder is empty. */
    assert_int_equal(rmdir(dir), 0);
    snp_view_done(&view);
}

/* The kind of an error without a traceback is the code's word too. */
TEST(what_is_told_of_an_error_steers_no_terminal)
{
    struct snp_view view;
    FILE *saved = stderr;
    snp_autofree char *text = NULL;
    size_t len = 0;
    snp_autojson json_t *head = json_pack("{s:s, s:{s:s, s:s}}", "status", "error", "error", "type",
                                          "\x1b]0;x\x07", "message", "m\x1b[2J");

    snp_view_init(&view, false, NULL);
    stderr = open_memstream(&text, &len);
    assert_non_null(stderr);
    int r = snp_view_finish(&view, head);
    (void)fclose(stderr);
    stderr = saved;
    assert_int_equal(r, 0);
    assert_string_equal(text, "error: \\x1b]0;x\\x07: m\\x1b[2J\n");
    snp_view_done(&view);
}

TEST(exit_statuses_follow_the_result)
{
    static const struct {
        const char *head;
        enum snp_exit_of of;
        int status;
    } rows[] = {
        {"{\"status\": \"ok\", \"exit_code\": null}", SNP_EXIT_OF_PYTHON, 0},
        {"{\"status\": \"ok\", \"exit_code\": 3}", SNP_EXIT_OF_PYTHON, 0},
        {"{\"status\": \"ok\", \"exit_code\": 3}", SNP_EXIT_OF_SHELL_LINES, 3},
        {"{\"status\": \"error\", \"exit_code\": 3}", SNP_EXIT_OF_PYTHON, 3},
        {"{\"status\": \"error\", \"exit_code\": -1}", SNP_EXIT_OF_PYTHON, 255},
        {"{\"status\": \"error\", \"exit_code\": 256}", SNP_EXIT_OF_PYTHON, 1},
        {"{\"status\": \"killed\", \"exit_code\": 70}", SNP_EXIT_OF_PYTHON, 1},
        {"{\"status\": \"timeout\"}", SNP_EXIT_OF_PYTHON, 1},
        {"{\"status\": \"ok\", \"exit_code\": 0}", SNP_EXIT_OF_COMMAND, 0},
        {"{\"status\": \"error\", \"exit_code\": 3}", SNP_EXIT_OF_COMMAND, 3},
        {"{\"status\": \"error\", \"exit_code\": 255}", SNP_EXIT_OF_COMMAND, 255},
        {"{\"status\": \"timeout\", \"signal\": \"SIGKILL\"}", SNP_EXIT_OF_COMMAND, 124},
        {"{\"status\": \"killed\", \"signal\": \"SIGSEGV\"}", SNP_EXIT_OF_COMMAND, 139},
        {"{\"status\": \"oom\", \"exit_code\": null, \"signal\": \"SIGKILL\"}", SNP_EXIT_OF_COMMAND,
         137},
        {"{\"status\": \"limit\", \"exit_code\": 0}", SNP_EXIT_OF_COMMAND, 1},
        {"{\"status\": \"killed\", \"signal\": \"SIGNONE\"}", SNP_EXIT_OF_COMMAND, 1},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *head = json_loads(rows[i].head, 0, NULL);
        assert_int_equal(snp_result_exit(head, rows[i].of), rows[i].status);
    }
}

TEST(base64_is_that_of_the_rfc)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        size_t n = 0;
        snp_autofree char *text = snp_base64(rows[i][0], strlen(rows[i][0]));
        snp_autofree unsigned char *back = snp_base64_decode(rows[i][1], strlen(rows[i][1]), &n);
        assert_string_equal(text, rows[i][1]);
        assert_int_equal(n, strlen(rows[i][0]));
        assert_memory_equal(back, rows[i][0], n);
    }
}

/* People read a phrase after the status, models a sentence; an error of the cell says it better. */
TEST(the_end_of_a_cell_is_said_once)
{
    static const char error[] = "{\"type\": \"Killed\"}";
    static const struct {
        const char *status;
        const char *signal;
        const char *error;
        const char *people;
        const char *models;
    } rows[] = {
        {"ok", NULL, "null", NULL, NULL},
        {"error", NULL, error, NULL, NULL},
        {"timeout", "SIGKILL", error, "the time limit was reached (SIGKILL)",
         "Execution timed out after 1.5 seconds"},
        {"oom", "SIGKILL", error, "the memory limit was reached (SIGKILL)", "Out of memory"},
        {"limit", NULL, error, "a limit was reached", "A limit was reached"},
        {"killed", "SIGKILL", error, SIGNALLED, NULL},
        {"killed", "SIGKILL", "null", SIGNALLED, SIGNALLED_MODEL},
        {"killed", NULL, error, NULL, NULL},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *result = json_pack(
            "{s:s, s:s?, s:o, s:{s:i}}", "status", rows[i].status, "signal", rows[i].signal,
            "error", json_loads(rows[i].error, JSON_DECODE_ANY, NULL), "limit", "value", 1500);
        snp_autofree char *people = snp_summary_end(result, SNP_HINT_PERSON);
        snp_autofree char *models = snp_summary_end(result, SNP_HINT_MODEL);

        assert_true(snp_streq(people, rows[i].people) || people == rows[i].people);
        assert_true(snp_streq(models, rows[i].models) || models == rows[i].models);
    }
}

/* Options are for new sessions; the command is for the open one. */
TEST(a_limit_is_said_with_the_way_to_raise_it)
{
    static const struct {
        const char *name;
        const char *key;
        const char *flag;
        const char *text;
        const char *people;
    } rows[] = {
        {NULL, "memory", "--memory", "64 MiB", "memory is 64 MiB; --memory raises it"},
        {"s", "timeout", "--timeout", "1 s", "timeout is 1 s; --timeout raises it"},
        {"s", "memory", "--memory", "64 MiB",
         "memory is 64 MiB; raise it with: snipara-sandbox sessions set s --memory SIZE"},
        {"s", "processes", "--processes", "64",
         "processes is 64; raise it with: snipara-sandbox sessions set s --processes N"},
        {"s", "tmp_size", "--tmp-size", "1 MiB",
         "tmp_size is 1 MiB; the new limit applies at the next wake: snipara-sandbox hibernate s"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *result = json_pack(
            "{s:s?, s:[s], s:{s:s, s:s, s:s}}", "name", rows[i].name, "at_wake", "tmp_size",
            "limit", "key", rows[i].key, "flag", rows[i].flag, "text", rows[i].text);
        snp_autofree char *people = snp_summary_limit(result, SNP_HINT_PERSON);

        assert_string_equal(people, rows[i].people);
    }
}

RUN(UNIT(output_and_displays_are_put_together),
    UNIT(events_that_are_not_are_refused),
    UNIT(displays_are_saved_byte_for_byte),
    UNIT(what_is_told_of_an_error_steers_no_terminal),
    UNIT(exit_statuses_follow_the_result),
    UNIT(the_end_of_a_cell_is_said_once),
    UNIT(a_limit_is_said_with_the_way_to_raise_it),
    UNIT(base64_is_that_of_the_rfc))
