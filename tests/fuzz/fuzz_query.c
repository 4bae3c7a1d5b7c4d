/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to an index, and a pattern, with a zero byte between them: what models and users type.
 * The first byte says how. No question is an error of the database, the budget holds, and a pattern
 * ends or is refused.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "context/query.h"
#include "context/search.h"
#include "fuzz/target.h"

enum {
    HOW_MODE = 1,     /* keyword */
    HOW_CURRENT = 2,  /* with a current file */
    HOW_SMALL = 4,    /* the least budget */
    RESULTS_MAX = 20, /* lines */
};

static const struct {
    const char *path;
    const char *text;
} files[] = {
    {"auth.py", "from store import Store\n\ndef verify_token(token):\n    \"\"\"Say "
                "whether.\"\"\"\n    return "
                "Store().get(token)\n"},
    {"store.py", "class Store:\n    def get(self, key):\n        return None\n"},
    {"notes.md", "# Notes\n\nTokens end \xc3\xa4 after an hour: aaaaaaaaaaaaaaaaaaaaaaaa\n"},
};

static int forget(const char *path,
                  const struct stat *st SNP_UNUSED,
                  int kind SNP_UNUSED,
                  struct FTW *at SNP_UNUSED)
{
    return remove(path);
}

/* Of a folder that is gone already: nothing stays when a fuzzer is killed. */
static void index_make(struct snp_index *ret)
{
    char folder[] = "/tmp/snp-fuzz-XXXXXX";
    char project[sizeof(folder) + 2];
    struct snp_index_report report;
    struct snp_err err;

    SNP_ASSERT(mkdtemp(folder) != NULL);
    /* NOLINTBEGIN(concurrency-mt-unsafe) */
    SNP_ASSERT(setenv("SNIPARA_SANDBOX_STATE_DIR", folder, 1) == 0);
    (void)snprintf(project, sizeof(project), "%s/p", folder);
    SNP_ASSERT(mkdir(project, 0700) == 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(files); i++) {
        snp_autofree char *path = snp_format("%s/%s", project, files[i].path);
        snp_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        SNP_ASSERT(fd >= 0 && snp_write_all(fd, files[i].text, strlen(files[i].text)) == 0);
    }
    SNP_ASSERT(snp_index_open(project, false, ret, &err) == 0);
    SNP_ASSERT(snp_index_refresh(ret, true, NULL, NULL, &report, &err) == 0);
    SNP_ASSERT(report.files == SNP_ARRAY_LEN(files));
    SNP_ASSERT(nftw(folder, forget, 8, FTW_DEPTH | FTW_PHYS) == 0);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

static void question_try(struct snp_index *index, unsigned how, const char *text)
{
    const struct snp_query query = {
        .text = text,
        .current = (how & HOW_CURRENT) != 0 ? "auth.py" : NULL,
        .max_tokens = (how & HOW_SMALL) != 0 ? SNP_QUERY_TOKENS_MIN : SNP_QUERY_TOKENS,
        .mode = (how & HOW_MODE) != 0 ? SNP_QUERY_KEYWORD : SNP_QUERY_HYBRID,
    };
    struct snp_answer answer;
    struct snp_err err;
    uint64_t tokens = 0;

    SNP_ASSERT(snp_query(index, &query, &answer, &err) == 0);
    for (size_t i = 0; i < answer.n; i++) {
        const struct snp_section *section = &answer.items[i];

        SNP_ASSERT(section->score > 0 && section->score <= 1 && section->why[0] != '\0');
        SNP_ASSERT(section->lines[0] >= 1 && section->lines[0] <= section->lines[1]);
        tokens += section->tokens;
    }
    SNP_ASSERT(tokens == answer.tokens && tokens <= query.max_tokens);
    snp_answer_done(&answer);
}

static void on_line(void *arg, const char *path, uint32_t number, const char *line, size_t n)
{
    bool is_known = false;

    for (size_t i = 0; i < SNP_ARRAY_LEN(files); i++) {
        is_known |= snp_streq(files[i].path, path) &&
                    memmem(files[i].text, strlen(files[i].text), line, n) != NULL;
    }
    SNP_ASSERT(is_known && number >= 1);
    ++*(uint64_t *)arg;
}

static void pattern_try(struct snp_index *index, const char *pattern)
{
    uint64_t told = 0;
    const struct snp_search what = {pattern, RESULTS_MAX, on_line, &told};
    struct snp_search_result result;
    struct snp_err err;
    int r = snp_search(index, &what, &result, &err);

    SNP_ASSERT(r == 0 || r == SNP_E_INVALID || r == SNP_E_UNSUPPORTED || r == SNP_E_LIMIT);
    SNP_ASSERT(r < 0 || (result.matches == told && told <= RESULTS_MAX));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct snp_index index;
    snp_autofree char *text = strndup(n == 0 ? "" : (const char *)bytes + 1, n - (n > 0));
    size_t n_text = text == NULL ? 0 : strlen(text);
    snp_autofree char *pattern =
        n_text + 2 > n ? strdup("") : strndup((const char *)bytes + n_text + 2, n - n_text - 2);

    SNP_ASSERT(text != NULL && pattern != NULL);
    if (index.db.sqlite == NULL) {
        index_make(&index);
    }
    if (n > 0 && n_text <= SNP_QUERY_TEXT_MAX && snp_utf8_valid(text, n_text)) {
        question_try(&index, bytes[0], text);
    }
    pattern_try(&index, pattern);
    return 0;
}
