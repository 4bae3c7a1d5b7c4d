/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mcp-serve --http`: the MCP server for clients that connect to it. Its address is printed to
 * standard output; the token is only in a file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cli/http_hosts.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/httpd/token.h"
#include "base/rundir.h"
#include "base/str.h"
#include "cli/mcp/serve.h"
#include "mcp/http/httpd.h"

struct http_arguments {
    struct snp_httpd_options http;
    char *token;      /* owned; NULL = none */
    char *token_file; /* owned */
    struct snp_http_hosts hosts;
    bool as_json;
};

static void given_done(struct http_arguments *given)
{
    snp_httpd_token_free(given->token);
    free(given->token_file);
    snp_http_hosts_done(&given->hosts);
}

static int token_read(const struct snp_opts *opts,
                      struct http_arguments *given,
                      struct snp_err *err)
{
    const char *file = snp_opts_str(opts, "token-file");
    snp_autofree char *state = NULL;
    int r = 0;

    if (snp_opts_flag(opts, "no-token", false)) {
        return file == NULL
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "give --token-file or --no-token, not both");
    }
    if (file == NULL) {
        r = snp_state_dir(&state, err);
        if (r < 0) {
            return r;
        }
    }
    given->token_file = file == NULL ? snp_need_format("%s/mcp-token", state) : snp_need_copy(file);
    r = snp_httpd_token_load(given->token_file, &given->token, err);
    given->http.token = given->token;
    return r;
}

static int given_read(const struct snp_opts *opts,
                      struct http_arguments *given,
                      struct snp_err *err)
{
    const char *address = snp_opts_str(opts, "http");
    bool is_open = snp_opts_flag(opts, "no-token", false);
    int r = snp_httpd_address_parse(address == NULL ? "" : address, &given->http.address, err);

    if (r < 0) {
        return snp_err_wrap(err, "--http");
    }
    if (!given->http.address.is_loopback && !snp_opts_flag(opts, "allow-remote", false)) {
        return snp_fail(err, SNP_E_DENIED,
                        "other machines can reach %s; allow it with --allow-remote, and put a "
                        "TLS proxy in front of it",
                        given->http.address.host);
    }
    if (!given->http.address.is_loopback && is_open) {
        return snp_fail(
            err, SNP_E_DENIED,
            "a server that other machines can reach needs a token; leave out --no-token");
    }
    given->as_json = snp_opts_flag(opts, "json", false);
    r = snp_http_hosts_read(opts, &given->hosts, err);
    given->http.names = (const char *const *)given->hosts.names;
    given->http.n_names = given->hosts.n;
    return r < 0 ? r : token_read(opts, given, err);
}

struct serving {
    struct snp_mcp_sandboxes *service;
    const struct http_arguments *given;
};

static void on_listening(void *ctx, const char *url)
{
    const struct serving *serving = ctx;

    snp_cli_print_url(url, serving->given->token_file, serving->given->as_json);
    if (serving->given->token_file != NULL) {
        snp_term_printf(stderr,
                        "clients send the header Authorization: Bearer TOKEN, with the "
                        "token in %s\n",
                        serving->given->token_file);
    } else if (!serving->given->http.address.is_unix) {
        (void)fprintf(stderr, "every user of this machine can connect: no token is needed\n");
    }
}

static void on_ending(void *ctx)
{
    snp_mcp_sandboxes_ending(((struct serving *)ctx)->service);
}

static bool is_settled(void *ctx)
{
    return snp_mcp_sandboxes_settled(((struct serving *)ctx)->service);
}

static int http_run(struct snp_mcp_sandboxes *service, void *ctx, struct snp_err *err)
{
    struct http_arguments *given = ctx;
    struct serving serving = {service, given};

    given->http.listening = on_listening;
    given->http.ending = on_ending;
    given->http.is_settled = is_settled;
    given->http.ctx = &serving;
    return snp_httpd_run(&service->hub, &given->http, err);
}

int snp_mcp_http_verb(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct http_arguments given = {0};
    struct snp_err err;
    int r = given_read(opts, &given, &err);

    if (r == 0) {
        r = snp_mcp_serve(cli, opts, http_run, &given, &err);
    }
    given_done(&given);
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}
