/* SPDX-License-Identifier: Apache-2.0 */
#include "repair/tap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/str.h"

enum {
    ID_MAX = 400,
};

struct tap {
    json_t *tests; /* owned */
    uint64_t plan;
    size_t n_plans;
    size_t n_tests;
    bool is_over; /* the program bailed out */
};

static bool starts(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* "skipped" or another outcome from the text after a #; NULL: none. */
static const char *directive(const char *text)
{
    const char *at = strstr(text, " #");

    at = at == NULL ? NULL : at + 2 + strspn(at + 2, " ");
    return at == NULL                        ? NULL
           : strncasecmp(at, "skip", 4) == 0 ? "skipped"
           : strncasecmp(at, "todo", 4) == 0 ? "xfailed"
                                             : NULL;
}

/* "ok 1 - description # directive": the description is its name, else its number. */
static void test_take(struct tap *tap, const char *rest, bool is_ok)
{
    size_t digits = strspn(rest, "0123456789");
    const char *text = rest + digits + strspn(rest + digits, " -");
    size_t n = strcspn(text, "#");
    const char *outcome = directive(rest);
    snp_autobuf struct snp_buf id = SNP_BUF(ID_MAX);

    while (n > 0 && text[n - 1] == ' ') {
        n--;
    }
    tap->n_tests++;
    if (n == 0 || snp_buf_add(&id, text, n) < 0 ||
        json_object_get(tap->tests, snp_buf_cstr(&id)) != NULL) {
        (void)!snp_buf_addf(&id, "#%zu", tap->n_tests);
    }
    (void)json_object_set_new(tap->tests, snp_buf_cstr(&id) == NULL ? "" : snp_buf_cstr(&id),
                              json_string(outcome != NULL ? outcome
                                          : is_ok         ? "passed"
                                                          : "failed"));
}

static void line_take(struct tap *tap, const char *line)
{
    if (starts(line, "1..")) {
        (void)!snp_parse_u64(line + 3, &tap->plan);
        tap->n_plans++;
    } else if (starts(line, "ok ") || strcmp(line, "ok") == 0) {
        test_take(tap, line + strlen("ok") + (line[2] != '\0'), true);
    } else if (starts(line, "not ok")) {
        test_take(tap, line + strlen("not ok") + (line[6] != '\0'), false);
    } else if (starts(line, "Bail out!")) {
        tap->is_over = true;
    }
}

json_t *snp_tap_read(const char *text, size_t n)
{
    snp_autofree char *copy = n == 0 ? NULL : strndup(text, n);
    struct tap tap = {.tests = json_object()};
    char *rest = copy;
    char *line;

    while (copy != NULL && (line = strsep(&rest, "\n")) != NULL) {
        line[strcspn(line, strncmp(line, "1..", 3) == 0 ? " #\r" : "\r")] = '\0';
        line_take(&tap, line);
    }
    if (tap.n_plans != 1 || tap.is_over || tap.plan < 1 ||
        tap.plan != json_object_size(tap.tests)) {
        json_decref(tap.tests);
        return NULL;
    }
    return json_pack("{s:o, s:[], s:{}}", "tests", tap.tests, "errors", "given");
}
