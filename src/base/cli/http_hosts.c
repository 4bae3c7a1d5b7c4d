/* SPDX-License-Identifier: Apache-2.0 */
/* Accepted host names of a server. */
#include "base/cli/http_hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"

enum {
    HOST_LEN_MAX = 253, /* of a name in DNS */
};

/* Normalise a host's name for comparison, without scheme and port. */
static int host_read(const char *text, char **ret, struct snp_err *err)
{
    size_t len = strlen(text);

    if (len == 0 || len > HOST_LEN_MAX || strpbrk(text, "/@ \t*") != NULL ||
        (text[0] != '[' && strchr(text, ':') != NULL)) {
        return snp_fail(err, SNP_E_INVALID,
                        "--allow-host takes a host's name without scheme and port");
    }
    *ret = snp_need_copy(text);
    for (char *c = *ret; *c != '\0'; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    return 0;
}

int snp_http_hosts_read(const struct snp_opts *opts,
                        struct snp_http_hosts *ret,
                        struct snp_err *err)
{
    const char *const *items = NULL;
    size_t n = snp_opts_list(opts, "allow-host", &items);

    if (n > SNP_HTTP_HOSTS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "--allow-host can be given %d times", SNP_HTTP_HOSTS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        int r = host_read(items[i], &ret->names[i], err);

        if (r < 0) {
            return r;
        }
        ret->n = i + 1;
    }
    return 0;
}

void snp_http_hosts_done(struct snp_http_hosts *hosts)
{
    for (size_t i = 0; i < SNP_HTTP_HOSTS_MAX; i++) {
        free(hosts->names[i]);
    }
    *hosts = (struct snp_http_hosts){.n = 0};
}
