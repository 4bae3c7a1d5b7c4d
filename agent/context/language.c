/* SPDX-License-Identifier: Apache-2.0 */
#include "context/language.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"

#define NAME(name, grammar, query, ends) #name,
#define ENDS(name, grammar, query, ends) ends,
static const char *const names[SNP_LANGUAGE_N] = {"text", SNP_LANGUAGES(NAME)};
static const char *const all_ends[SNP_LANGUAGE_N] = {"", SNP_LANGUAGES(ENDS)};

/* Whether text is one of the blank-separated words of a list, ignoring case. */
static bool is_listed(const char *list, const char *text)
{
    size_t n = strlen(text);

    for (const char *at = list; *at != '\0';) {
        size_t len = strcspn(at, " ");

        if (len == n && strncasecmp(at, text, n) == 0) {
            return true;
        }
        at += len + (at[len] == ' ');
    }
    return false;
}

enum snp_language snp_language_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *end = strrchr(slash == NULL ? path : slash, '.');

    for (int i = 1; end != NULL && i < SNP_LANGUAGE_N; i++) {
        if (is_listed(all_ends[i], end)) {
            return (enum snp_language)i;
        }
    }
    return SNP_LANGUAGE_NONE;
}

const char *snp_language_name(enum snp_language language)
{
    return names[language];
}
