/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_LANGUAGE_H
#define SNP_CONTEXT_LANGUAGE_H

/*
 * Languages with a parser for definitions. To add one, add a row here, its grammar in
 * tools/grammars and meson.build, and its query in agent/context/parser/queries.
 */

#include <stddef.h>

/* name, symbol of its grammar, its query, suffixes of file names */
/* clang-format off */
#define SNP_LANGUAGES(F) \
    F(python, python, python, ".py .pyi .pyw") \
    F(javascript, javascript, javascript, ".js .mjs .cjs .jsx") \
    F(typescript, typescript, typescript, ".ts .mts .cts") \
    F(tsx, tsx, typescript, ".tsx") \
    F(go, go, go, ".go") \
    F(rust, rust, rust, ".rs") \
    F(java, java, java, ".java") \
    F(c, c, c, ".c .h") \
    F(cpp, cpp, cpp, ".cc .cpp .cxx .hh .hpp .hxx .ipp") \
    F(ruby, ruby, ruby, ".rb .rake .gemspec") \
    F(bash, bash, bash, ".sh .bash")
/* clang-format on */

enum snp_language {
    SNP_LANGUAGE_NONE = 0, /* plain text */
#define SNP_LANGUAGE_ROW(name, grammar, query, ends) SNP_LANGUAGE_##name,
    SNP_LANGUAGES(SNP_LANGUAGE_ROW)
#undef SNP_LANGUAGE_ROW
    SNP_LANGUAGE_N,
};

/* The language by the suffix of a file's name. */
enum snp_language snp_language_of(const char *path);
/* "python"; "text" for none. */
const char *snp_language_name(enum snp_language language);

#endif
