/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of our server in clients' configurations, from the options of a command line. */
#include "cli/mcp/entry.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/httpd/listen.h"
#include "base/rundir.h"
#include "base/str.h"
#include "mcp/server/catalog.h"

void snp_mcp_entry_done(struct snp_mcp_entry *entry)
{
    json_decref(entry->args);
    free(entry->url);
    *entry = (struct snp_mcp_entry){0};
}

/* Options -------------------------------------------------------------------------------------- */

/* Whether an option is for the server, not for the verb that configures it. */
static bool is_carried(const char *name)
{
    static const char *const own[] = {"yes",      "json",       "http",         "token-file",
                                      "no-token", "allow-host", "allow-remote", "print-config"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(own); i++) {
        if (strcmp(own[i], name) == 0) {
            return false;
        }
    }
    return true;
}

/* An option's value, made independent of the server's working directory; the caller frees. */
static char *value_of(const struct snp_opt *opt, const char *text, struct snp_err *err)
{
    bool is_path = strcmp(opt->name, "project") == 0 || strcmp(opt->name, "config") == 0;
    char *value = is_path ? realpath(text, NULL) : snp_need_copy(text);

    if (value == NULL) {
        (void)snp_fail(err, SNP_E_INVALID, "--%s: no such %s: %.200s", opt->name,
                       opt->name[0] == 'p' ? "folder" : "file", text);
    }
    return value;
}

static int option_add(json_t *args,
                      const struct snp_opts *opts,
                      const struct snp_opt *opt,
                      const char *text,
                      struct snp_err *err)
{
    bool has_value = opt->type != SNP_OPT_FLAG && opt->type != SNP_OPT_BOOL;
    bool is_off = !has_value && !snp_opts_flag(opts, opt->name, true);
    snp_autofree char *value = has_value ? value_of(opt, text, err) : NULL;
    snp_autofree char *word = snp_need_format("--%s%s", is_off ? "no-" : "", opt->name);

    if (has_value && value == NULL) {
        return err->code;
    }
    return word == NULL || json_array_append_new(args, json_string(word)) < 0 ||
                   (has_value &&
                    json_array_append_new(args, snp_json_bytes(value, strlen(value))) < 0)
               ? snp_fail(err, SNP_E_INVALID, "--%s is not UTF-8", opt->name)
               : 0;
}

static int options_take(const struct snp_opt_spec *spec,
                        const struct snp_opts *opts,
                        json_t *args,
                        struct snp_err *err)
{
    int r = 0;

    for (size_t i = 0; i < spec->n_options && r == 0; i++) {
        const struct snp_opt *opt = &spec->options[i];

        if (is_carried(opt->name) && snp_opts_given(opts, opt->name)) {
            r = option_add(args, opts, opt, snp_opts_text_at(opts, i), err);
        }
    }
    return r;
}

/* Refuse the options that the server would refuse. */
static int options_check(struct snp_cli *cli, const struct snp_opts *opts, struct snp_err *err)
{
    const struct snp_config *config = NULL;
    snp_autojson json_t *tools = NULL;
    const char *wanted = snp_opts_str(opts, "tools");
    int r = snp_cli_config(cli, opts, &config, err);

    return r < 0 || wanted == NULL ? r : snp_tools_list(wanted, NULL, &tools, err);
}

/* The URL -------------------------------------------------------------------------------------- */

static int url_make(const char *where, char **ret, struct snp_err *err)
{
    struct snp_httpd_address address;
    int r = 0;

    if (snp_has_prefix(where, "http://") || snp_has_prefix(where, "https://")) {
        *ret = snp_need_copy(where);
    } else {
        in_port_t port;

        r = snp_httpd_address_parse(where, &address, err);
        if (r < 0) {
            return snp_err_wrap(err, "--http");
        }
        port = ntohs(((const struct sockaddr_in *)&address.where)->sin_port);
        if (address.is_unix || port == 0) {
            return snp_fail(err, SNP_E_INVALID,
                            "--http: clients need a port; give PORT, HOST:PORT or a URL");
        }
        *ret = snp_need_format("http://%s:%u/mcp", address.host, (unsigned)port);
    }
    return 0;
}

int snp_mcp_entry_make(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_mcp_entry *ret,
                       struct snp_err *err)
{
    const char *where = snp_opts_str(opts, "http");
    int r = 0;

    *ret = (struct snp_mcp_entry){
        .args = snp_need(json_pack("[s]", "mcp-serve")),
        .has_token = !snp_opts_flag(opts, "no-token", false),
    };
    if (where == NULL && (snp_opts_given(opts, "no-token") || snp_opts_given(opts, "token-file"))) {
        return snp_fail(err, SNP_E_INVALID, "--%s needs --http",
                        snp_opts_given(opts, "no-token") ? "no-token" : "token-file");
    }
    if (where != NULL) {
        r = url_make(where, &ret->url, err);
    }
    r = r < 0 ? r : options_take(&cli->verb->spec, opts, ret->args, err);
    ret->has_options = json_array_size(ret->args) > 1;
    return r < 0 || !ret->has_options ? r : options_check(cli, opts, err);
}

/* Advice --------------------------------------------------------------------------------------- */

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */

/* Print how to start the server, and where the client finds the token. */
static void advise_http(const struct snp_opts *opts, const struct snp_mcp_entry *entry)
{
    const char *where = snp_opts_str(opts, "http");
    const char *given = snp_opts_str(opts, "token-file");
    snp_autofree char *state = NULL;
    snp_autofree char *file = given == NULL ? NULL : snp_need_copy(given);
    struct snp_err err;
    size_t i;
    json_t *word;

    if (strstr(where, "://") == NULL) {
        (void)fputs("Start the server with: snipara-sandbox", stderr);
        json_array_foreach(entry->args, i, word)
        {
            (void)fprintf(stderr, " %s%s", json_string_value(word), i != 0 ? "" : " --http ");
            (void)fputs(i != 0 ? "" : where, stderr);
        }
        (void)fprintf(stderr, "%s%s%s\n", entry->has_token ? "" : " --no-token",
                      given == NULL ? "" : " --token-file ", given == NULL ? "" : given);
    }
    if (!entry->has_token) {
        return;
    }
    if (file == NULL && snp_state_dir(&state, &err) == 0) {
        file = snp_need_format("%s/mcp-token", state);
    }
    (void)fprintf(stderr,
                  "Start the client with the token in its environment:\n"
                  "  export " SNP_MCP_TOKEN_VARIABLE "=\"$(cat '%s')\"\n",
                  file == NULL ? "mcp-token" : file);
}

static bool is_given(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

/* Whether a variable makes this command use another place. */
static bool leads_elsewhere(const char *name)
{
    const char *value = getenv(name);
    char usual[48];
    struct stat st;

    if (value == NULL || value[0] != '/') {
        return false;
    }
    if (strcmp(name, "XDG_RUNTIME_DIR") != 0) {
        return strcmp(name, "XDG_STATE_HOME") != 0 || !is_given("SNIPARA_SANDBOX_STATE_DIR");
    }
    (void)snprintf(usual, sizeof(usual), "/run/user/%u", (unsigned)geteuid());
    return !is_given("SNIPARA_SANDBOX_RUNTIME_DIR") && strcmp(value, usual) != 0 &&
           stat(value, &st) == 0 && st.st_uid == geteuid();
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat st[2];

    return stat(a, &st[0]) == 0 && stat(b, &st[1]) == 0 && st[0].st_dev == st[1].st_dev &&
           st[0].st_ino == st[1].st_ino;
}

static void advise_variables(const struct snp_cli *cli, const char *text)
{
    static const char *const names[] = {"SNIPARA_SANDBOX_RUNTIME_DIR", "SNIPARA_SANDBOX_STATE_DIR",
                                        "XDG_RUNTIME_DIR", "XDG_STATE_HOME"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (leads_elsewhere(names[i]) && strstr(text, names[i]) == NULL) {
            snp_cli_warn(cli,
                         "%s is %.200s here. A client that starts without it uses another "
                         "daemon, with other sessions; add it to \"env\" of the entry.",
                         names[i], getenv(names[i]));
        }
    }
}

void snp_mcp_entry_advise(const struct snp_cli *cli,
                          const struct snp_opts *opts,
                          const struct snp_mcp_entry *entry,
                          const char *text)
{
    const char *sudo_uid = getenv("SUDO_UID");
    const char *sudo_user = getenv("SUDO_USER");
    const char *home = getenv("HOME");
    const struct passwd *user = getpwuid(geteuid());
    uint64_t uid = 0;

    if (entry->url != NULL) {
        advise_http(opts, entry);
    }
    if (sudo_uid != NULL && snp_parse_u64(sudo_uid, &uid) == 0 && uid != geteuid()) {
        snp_cli_warn(cli,
                     "this is for clients of user %.100s. Those of %.100s use another daemon, "
                     "with other sessions; run it without sudo.",
                     user == NULL ? "root" : user->pw_name,
                     sudo_user == NULL ? sudo_uid : sudo_user);
        return;
    }
    if (user != NULL && home != NULL && !is_same_folder(home, user->pw_dir)) {
        snp_cli_warn(cli,
                     "HOME is %.200s here. A client that starts with %.200s reads another "
                     "configuration, and may use another daemon.",
                     home, user->pw_dir);
    }
    if (entry->url == NULL) {
        advise_variables(cli, text);
    }
}

/* NOLINTEND(concurrency-mt-unsafe) */
