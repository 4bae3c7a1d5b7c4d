/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The git configuration of a project: what the code gets to see of it has no credentials in
 * any URL and no line that names them; if nothing was cut, it is what was there.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/target.h"
#include "tier/engine/secrets.h"

/* Is there a "://" with an '@' before the end of what may be a host? */
static bool has_userinfo(const char *text)
{
    for (const char *url = strstr(text, "://"); url != NULL; url = strstr(url + 3, "://")) {
        for (const char *c = url + 3; *c != '\0' && *c != '/' && !isspace((unsigned char)*c); c++) {
            if (*c == '@') {
                return true;
            }
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char *const words[] = {"extraheader", "password", "token", "helper", "askpass"};
    char *text = strndup((const char *)bytes, n);
    bool changed = false;
    char *clean;

    SNP_ASSERT(text != NULL);
    clean = snp_secrets_clean_git_config(text, &changed);
    SNP_ASSERT(clean != NULL && strlen(clean) <= strlen(text));
    SNP_ASSERT(changed == (strcmp(clean, text) != 0));
    SNP_ASSERT(!has_userinfo(clean));
    for (size_t i = 0; i < SNP_ARRAY_LEN(words); i++) {
        SNP_ASSERT(strcasestr(clean, words[i]) == NULL);
    }
    free(clean);
    free(text);
    return 0;
}
