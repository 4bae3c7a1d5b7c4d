/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of a team's standards, and a file that is judged by its rules, with a zero byte between
 * them. Whatever they say: it ends, values lie in the text, and a line that breaks a rule is one of
 * the file's.
 */
#include <string.h>

#include "fuzz/target.h"
#include "standard/front.h"
#include "standard/standard.h"

struct text {
    const char *bytes;
    size_t n;
};

static int on_item(void *arg, const struct snp_front_item *item)
{
    const struct text *text = arg;
    struct snp_front_word words[4];
    size_t n = snp_front_words(item->value, item->n, words, 4);

    SNP_ASSERT(item->value >= text->bytes && item->value + item->n <= text->bytes + text->n);
    SNP_ASSERT(item->n > 0 && memchr(item->value, '\n', item->n) == NULL);
    for (size_t i = 0; i < n; i++) {
        SNP_ASSERT(words[i].n > 0 && words[i].text >= item->value &&
                   words[i].text + words[i].n <= item->value + item->n);
    }
    return 0;
}

static void rules_judge(const struct snp_standard *standard, const struct text *file)
{
    const struct snp_rule_text none = {.bytes = NULL};
    const struct snp_rule_text now = {.bytes = file->bytes, .n = file->n};
    uint32_t lines = 1;

    for (size_t i = 0; i < file->n; i++) {
        lines += file->bytes[i] == '\n';
    }
    for (size_t i = 0; i < standard->n_rules; i++) {
        uint64_t steps = 100000;
        enum snp_rule_judged judged;
        uint32_t line;

        if (standard->rules[i].regex == NULL) {
            SNP_ASSERT(standard->rules[i].kind == SNP_RULE_CHECK ||
                       standard->rules[i].problem != NULL);
            continue;
        }
        SNP_ASSERT(snp_rule_judge(&standard->rules[i], &none, &now, &steps, &judged, &line) == 0);
        SNP_ASSERT(line <= lines && judged != SNP_RULE_BROKEN_BEFORE);
        /* what was there already is not of the change */
        SNP_ASSERT(snp_rule_judge(&standard->rules[i], &now, &now, &steps, &judged, &line) == 0 &&
                   (judged != SNP_RULE_BROKEN || standard->rules[i].kind == SNP_RULE_REQUIRE));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *end = memchr(bytes, '\0', n);
    struct text text = {.bytes = (const char *)bytes, .n = end == NULL ? n : (size_t)(end - bytes)};
    const struct text file = {.bytes = end == NULL ? "" : (const char *)end + 1,
                              .n = end == NULL ? 0 : n - text.n - 1};
    struct snp_standard standard;
    struct snp_front_matter front;

    SNP_ASSERT(snp_front_read(text.bytes, text.n, on_item, &text, &front) == 0);
    SNP_ASSERT(front.body <= text.n && (front.problem == NULL || front.body == 0));
    SNP_ASSERT(
        snp_standard_parse(text.bytes, text.n, "a/b.md", SNP_STANDARD_GUIDELINES, &standard) == 0);
    SNP_ASSERT(standard.title != NULL && standard.class < SNP_STANDARD_CLASSES);
    (void)snp_standard_covers(&standard, "src/auth/a.ts");
    rules_judge(&standard, &file);
    snp_standard_done(&standard);
    return 0;
}
