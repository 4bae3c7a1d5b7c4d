/* SPDX-License-Identifier: Apache-2.0 */

/* Loading libcurl. */

#include "base/http/curl.h"

#include <dlfcn.h>

#include "base/str.h"

#define NAMED(name) {"curl_" #name, offsetof(struct snp_curl, name)},

static const struct {
    const char *name;
    size_t offset; /* in struct snp_curl */
} functions[] = {SNP_CURL_FUNCTIONS(NAMED)};

/* Debian's two builds have one interface; either will do. */
static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

/* Never unloaded: the library belongs to the process. */
static struct snp_curl loaded;
static bool is_loaded;

static int resolve(void *library, struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(functions); i++) {
        void *function = dlsym(library, functions[i].name);

        if (function == NULL) {
            return snp_fail(err, SNP_E_UNSUPPORTED,
                            "libcurl lacks %s; install version 7.87 or newer", functions[i].name);
        }
        *(void **)(void *)((char *)&loaded + functions[i].offset) = function;
    }
    return 0;
}

const struct snp_curl *snp_curl_load(struct snp_err *err)
{
    void *library = NULL;

    if (is_loaded) {
        return &loaded;
    }
    for (size_t i = 0; library == NULL && i < SNP_ARRAY_LEN(libraries); i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        (void)snp_fail(err, SNP_E_UNSUPPORTED, "libcurl cannot be loaded; install libcurl4");
        return NULL;
    }
    is_loaded = resolve(library, err) == 0;
    return is_loaded ? &loaded : NULL;
}
