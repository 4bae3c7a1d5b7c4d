/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a client, copied and checked. */
#include "mcp/client/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/http/url.h"
#include "base/str.h"
#include "mcp/client/caps.h"

enum {
    ARGS_MAX = 4096,
};

static void texts_free(const char *const *texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        free((char *)(uintptr_t)texts[i]);
    }
    free((void *)(uintptr_t)texts);
}

void snp_mcp_options_free(struct snp_mcp_client_options *options)
{
    texts_free(options->argv);
    texts_free(options->env);
    texts_free(options->headers);
    free((char *)(uintptr_t)options->cwd);
    free((char *)(uintptr_t)options->url);
    free((char *)(uintptr_t)options->ca_file);
    if (options->token != NULL) {
        explicit_bzero((char *)(uintptr_t)options->token, strlen(options->token));
        free((char *)(uintptr_t)options->token);
    }
    *options = (struct snp_mcp_client_options){0};
}

/* NULL stays NULL. */
static int text_copy(const char *text, const char **ret)
{
    *ret = text == NULL ? NULL : strdup(text);
    return text != NULL && *ret == NULL ? -1 : 0;
}

static int texts_copy(const char *const *texts, const char *const **ret)
{
    const char **copy;
    size_t n = 0;

    while (texts != NULL && texts[n] != NULL) {
        n++;
    }
    if (texts == NULL || n > ARGS_MAX) {
        return texts == NULL ? 0 : -1;
    }
    copy = calloc(n + 1, sizeof(*copy));
    *ret = copy;
    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = strdup(texts[i]);
        if (copy[i] == NULL) {
            return -1;
        }
    }
    return copy == NULL ? -1 : 0;
}

/* Visible ASCII, as a header takes it. */
static bool is_token(const char *token)
{
    size_t n = strlen(token);

    for (size_t i = 0; i < n; i++) {
        if (token[i] <= 0x20 || token[i] > 0x7e) {
            return false;
        }
    }
    return n > 0 && n <= SNP_MCP_CLIENT_TOKEN_MAX;
}

static int env_check(const char *const *env, struct snp_err *err)
{
    size_t n = 0;

    for (; env != NULL && env[n] != NULL; n++) {
        const char *end = strchr(env[n], '=');

        if (end == NULL || end == env[n]) {
            return snp_fail(err, SNP_E_INVALID, "a variable must be NAME=value, not '%.100s'",
                            env[n]);
        }
    }
    return n > SNP_MCP_CLIENT_ENV_MAX
               ? snp_fail(err, SNP_E_LIMIT, "at most %d variables", SNP_MCP_CLIENT_ENV_MAX)
               : 0;
}

static int check(const struct snp_mcp_client_options *options, struct snp_err *err)
{
    bool has_program = options->argv != NULL && options->argv[0] != NULL;
    int r;

    if (has_program == (options->url != NULL)) {
        return snp_fail(err, SNP_E_INVALID, "give either a command or a URL");
    }
    if (options->url == NULL) {
        return options->token != NULL || options->headers != NULL || options->ca_file != NULL
                   ? snp_fail(err, SNP_E_INVALID,
                              "a token, headers and certificates need a URL; give a command "
                              "variables instead")
                   : env_check(options->env, err);
    }
    r = snp_http_url_check(options->url, 0, err);
    if (r == 0 && options->token != NULL && !is_token(options->token)) {
        r = snp_fail(err, SNP_E_INVALID, "the token must have 1 to %d visible ASCII characters",
                     SNP_MCP_CLIENT_TOKEN_MAX);
    }
    return r;
}

int snp_mcp_options_copy(const struct snp_mcp_client_options *options,
                         struct snp_mcp_client_options *ret,
                         struct snp_err *err)
{
    int r = check(options, err);

    if (r < 0) {
        return r;
    }
    *ret = *options;
    ret->argv = NULL;
    ret->env = NULL;
    ret->headers = NULL;
    ret->capabilities = NULL; /* the client has a separate copy */
    r |= text_copy(options->cwd, &ret->cwd);
    r |= text_copy(options->url, &ret->url);
    r |= text_copy(options->token, &ret->token);
    r |= text_copy(options->ca_file, &ret->ca_file);
    r |= texts_copy(options->argv, &ret->argv);
    r |= texts_copy(options->env, &ret->env);
    r |= texts_copy(options->headers, &ret->headers);
    return r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}
