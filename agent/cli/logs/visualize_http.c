/* SPDX-License-Identifier: Apache-2.0 */
/* `visualize` without --out, in the program `visualize`: pages for a browser on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/http_hosts.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/httpd/pages.h"
#include "base/str.h"
#include "cli/logs/visualize.h"
#include "cli/sandbox/sandbox.h"

enum {
    PORT_DEFAULT = 8501,
};

static int address_read(const struct snp_opts *opts,
                        struct snp_httpd_address *ret,
                        struct snp_err *err)
{
    const char *host = snp_opts_str(opts, "host");
    long long port = (long long)snp_opts_int(opts, "port", PORT_DEFAULT);
    bool is_bare6 = host != NULL && host[0] != '[' && strchr(host, ':') != NULL;
    snp_autofree char *text = snp_need_format(is_bare6 ? "[%s]:%lld" : "%s:%lld",
                                              host == NULL ? "127.0.0.1" : host, port);

    if (host != NULL &&
        (strncmp(host, "unix:", 5) == 0 || snp_httpd_address_parse(text, ret, err) < 0)) {
        return snp_fail(err, SNP_E_INVALID,
                        "--host is an address of this machine as a number, or localhost");
    }
    if (host == NULL && snp_httpd_address_parse(text, ret, err) < 0) {
        return err->code;
    }
    if (!ret->is_loopback && !snp_opts_flag(opts, "allow-remote", false)) {
        return snp_fail(err, SNP_E_DENIED,
                        "other machines can reach %s, and HTTP is not encrypted; allow it with "
                        "--allow-remote",
                        ret->host);
    }
    return 0;
}

static void on_listening(void *ctx, const char *url)
{
    const struct snp_visualize *v = ctx;

    snp_cli_print_url(url, NULL, v->as_json);
    snp_term_printf(
        stderr,
        "Serving the runs of %s and the sessions; Ctrl-C stops. Anyone with the address can "
        "read them.\n",
        v->page.dir);
}

static int on_make(void *ctx, const char *name, struct snp_buf *out, struct snp_err *err)
{
    const struct snp_visualize *v = ctx;
    struct snp_page page = v->page;
    struct snp_page_made made;
    snp_autofree char *path = NULL;
    snp_autofree char *session = NULL;
    int r = name[0] == '\0' ? 0 : snp_visualize_find(v, name, &path, &session, err);

    page.path = path;
    page.session = session;
    page.is_served = true;
    r = r < 0 ? r : snp_page_make(&page, out, &made, err);
    /* Between pages there is no connection: the daemon may end, and another one start. */
    snp_sandbox_close();
    return r;
}

/* The id in a path LOG_DIR/ID.jsonl. */
static char *id_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;

    return snp_need(strndup(name, strcspn(name, ".")));
}

static int serve(struct snp_visualize *v, const struct snp_opts *opts, struct snp_err *err)
{
    snp_cleanup(snp_http_hosts_done) struct snp_http_hosts hosts = {0};
    snp_autofree char *id =
        v->path != NULL ? id_in(v->path) : snp_need_copy(v->session == NULL ? "" : v->session);
    char policy[SNP_PAGE_POLICY_MAX];
    struct snp_httpd_pages pages = {
        .policy = policy,
        .page_max = SNP_PAGE_MAX,
        .page_arg = id,
        .listening = on_listening,
        .make = on_make,
        .ctx = v,
    };
    int r = address_read(opts, &pages.address, err);

    r = r < 0 ? r : snp_http_hosts_read(opts, &hosts, err);
    if (r < 0) {
        return r;
    }
    if (id == NULL || snp_page_policy(policy) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_sandbox_close();
    pages.names = (const char *const *)hosts.names;
    pages.n_names = hosts.n;
    r = snp_httpd_pages_run(&pages, err);
    return r == SNP_E_LIMIT
               ? snp_fail(err, r, "%s: --port N takes another port, --port 0 a free one", err->msg)
               : r;
}

int snp_visualize_http_verb(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_visualize_done) struct snp_visualize v = {0};
    struct snp_err err;
    int r = snp_visualize_read(cli, opts, &v, &err);

    v.as_json = cli->is_json;
    r = r < 0 ? r : serve(&v, opts, &err);
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}
