/* SPDX-License-Identifier: Apache-2.0 */
#include "context/parser/grammar.h"

#include <string.h>

#include "context/language.h"

#define DECLARE(name, grammar, query, ends)        \
    const TSLanguage *tree_sitter_##grammar(void); \
    extern const char snp_query_##query[];
/* NOLINTNEXTLINE(readability-redundant-declaration): two languages may have one query */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
SNP_LANGUAGES(DECLARE)
#pragma GCC diagnostic pop

#define GRAMMAR(name, grammar, query, ends) tree_sitter_##grammar,
#define QUERY(name, grammar, query, ends)   snp_query_##query,
static const TSLanguage *(*const languages[SNP_LANGUAGE_N])(void) = {NULL, SNP_LANGUAGES(GRAMMAR)};
static const char *const queries[SNP_LANGUAGE_N] = {NULL, SNP_LANGUAGES(QUERY)};

static struct snp_grammar made[SNP_LANGUAGE_N];

const struct snp_grammar *snp_grammar_of(uint32_t language)
{
    uint32_t at = 0;
    TSQueryError why = TSQueryErrorNone;

    if (language == SNP_LANGUAGE_NONE || language >= SNP_LANGUAGE_N) {
        return NULL;
    }
    if (made[language].query == NULL) {
        made[language].language = languages[language]();
        made[language].query = ts_query_new(made[language].language, queries[language],
                                            (uint32_t)strlen(queries[language]), &at, &why);
    }
    return made[language].query == NULL ? NULL : &made[language];
}
