/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .gitignore and a path of a stranger, with a zero byte between them; the path is split into
 * words, too. Whatever they say: it ends, and a word lies where it says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/project/ignore.h"
#include "context/words.h"
#include "fuzz/target.h"

struct text {
    size_t n;
    size_t last; /* where the whole word before began */
};

static int on_word(void *arg, const char *word, size_t n, size_t start, size_t end, bool is_part)
{
    struct text *text = arg;

    SNP_ASSERT(start < end && end <= text->n && n > 0 && n <= SNP_WORD_MAX && n <= end - start);
    SNP_ASSERT(start >= text->last && memchr(word, ' ', n) == NULL);
    text->last = is_part ? text->last : start;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *end = memchr(bytes, '\0', n);
    size_t n_rules = end == NULL ? n : (size_t)(end - bytes);
    char *path =
        strndup(end == NULL ? "" : (const char *)end + 1, end == NULL ? 0 : n - n_rules - 1);
    struct snp_ignore *ignore = NULL;

    SNP_ASSERT(path != NULL && snp_ignore_new((const char *)bytes, n_rules, &ignore) == 0);
    /*
     * a rule for folders alone never leaves out a file that the same rules keep as a
     * folder silently
     */
    enum snp_ignored as_file = snp_ignore_judge(ignore, path, false);
    SNP_ASSERT(as_file == SNP_IGNORED_SILENT ||
               snp_ignore_judge(ignore, path, true) != SNP_IGNORED_SILENT);
    snp_ignore_free(ignore);
    struct text text = {.n = strlen(path)};
    SNP_ASSERT(snp_words(path, text.n, on_word, &text) == 0);
    free(path);
    return 0;
}
