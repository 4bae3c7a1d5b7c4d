/* SPDX-License-Identifier: Apache-2.0 */
/* .gitignore as git reads it; words of code. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/project/ignore.h"
#include "context/words.h"
#include "unit/harness.h"

/* rules, path ('/' at its end: a folder), what is judged */
static const struct {
    const char *rules;
    const char *path;
    enum snp_ignored judged;
} ignored[] = {
    {"*.o", "a.o", SNP_IGNORED_OUT},
    {"*.o", "x/y/a.o", SNP_IGNORED_OUT},
    {"*.o", "a.oo", SNP_IGNORED_SILENT},
    {"build/", "build/", SNP_IGNORED_OUT},
    {"build/", "build", SNP_IGNORED_SILENT},
    {"/build", "x/build", SNP_IGNORED_SILENT},
    {"a/b", "a/b", SNP_IGNORED_OUT},
    {"a/b", "x/a/b", SNP_IGNORED_SILENT},
    {"*.log\n!keep.log", "keep.log", SNP_IGNORED_IN},
    {"!keep.log\n*.log", "keep.log", SNP_IGNORED_OUT},
    {"**/x", "x", SNP_IGNORED_OUT},
    {"**/x", "a/b/x", SNP_IGNORED_OUT},
    {"a/**/b", "a/b", SNP_IGNORED_OUT},
    {"a/**/b", "a/x/y/b", SNP_IGNORED_OUT},
    {"a/**/b", "a/x/y/c", SNP_IGNORED_SILENT},
    {"a/**", "a/x", SNP_IGNORED_OUT},
    {"a/**", "a/", SNP_IGNORED_SILENT},
    {"a/*", "a/x/y", SNP_IGNORED_SILENT},
    {"a*b/c", "a/b/c", SNP_IGNORED_SILENT},
    {"?.c", "a.c", SNP_IGNORED_OUT},
    {"?.c", "ab.c", SNP_IGNORED_SILENT},
    {"[a-c].c", "b.c", SNP_IGNORED_OUT},
    {"[!a-c].c", "b.c", SNP_IGNORED_SILENT},
    {"[]-].c", "].c", SNP_IGNORED_OUT},
    {"[a", "a", SNP_IGNORED_SILENT},
    {"# no\n\\#yes", "#yes", SNP_IGNORED_OUT},
    {"\\!a", "!a", SNP_IGNORED_OUT},
    {"a\\*", "a*", SNP_IGNORED_OUT},
    {"a\\*", "ab", SNP_IGNORED_SILENT},
    {"a \r\nb\\ ", "a", SNP_IGNORED_OUT},
    {"b\\ ", "b ", SNP_IGNORED_OUT},
    {"\xef\xbb\xbfx", "x", SNP_IGNORED_OUT},
    {"*a*a*a*a*a*a*a*ab", "aaaaaaaaaaa", SNP_IGNORED_SILENT},
    {"/", "x", SNP_IGNORED_SILENT},
    {"!", "x", SNP_IGNORED_SILENT},
};

TEST(rules_are_read_as_git_reads_them)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(ignored); i++) {
        char path[64];
        size_t n = strlen(ignored[i].path);
        bool is_folder = ignored[i].path[n - 1] == '/';
        struct snp_ignore *ignore;

        (void)snprintf(path, sizeof(path), "%.*s", (int)(n - is_folder), ignored[i].path);
        assert_int_equal(snp_ignore_new(ignored[i].rules, strlen(ignored[i].rules), &ignore), 0);
        if (snp_ignore_judge(ignore, path, is_folder) != ignored[i].judged) {
            fail_msg("%s judges %s otherwise", ignored[i].rules, ignored[i].path);
        }
        snp_ignore_free(ignore);
    }
}

static int word_add(void *arg, const char *word, size_t n, size_t start, size_t end, bool is_part)
{
    struct snp_buf *out = arg;

    assert_true(start < end);
    return snp_buf_addf(out, "%s%.*s", is_part ? "+" : " ", (int)n, word);
}

TEST(names_are_words_and_have_parts)
{
    static const char *const texts[][2] = {
        {"parseHTTPHeader(x)", " parsehttphead+pars+http+head x"},
        {"parser parsed copies copying running creation", " pars pars copi copi run creat"},
        {"snp_utf8_valid", " snp_utf8_valid+snp+utf+valid"},
        {"__init__ _x", " init x"},
        {"cells class status", " cell class status"},
        {"a.b-c", " a b c"},
        {"Größe", " größ"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(texts); i++) {
        struct snp_buf out = SNP_BUF(1000);

        assert_int_equal(snp_words(texts[i][0], strlen(texts[i][0]), word_add, &out), 0);
        assert_string_equal(snp_buf_cstr(&out), texts[i][1]);
        snp_buf_done(&out);
    }
}

RUN(UNIT(rules_are_read_as_git_reads_them), UNIT(names_are_words_and_have_parts))
