/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How MCP clients start us: one row each. The command's name if that is enough, its path for
 * clients that do not have the PATH of a shell.
 */
#include "cli/mcp/clients.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli/json_text.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/config/toml.h"
#include "base/str.h"
#include "cli/mcp/entry.h"

enum client_form {
    FORM_SERVERS = 0, /* {"mcpServers": {NAME: {command, args}}} */
    FORM_TYPED,       /* the same with "type" */
    FORM_VSCODE,      /* {"servers": {...}}, with "type" */
    FORM_TOML,        /* [mcp_servers.NAME] */
};

static const struct mcp_client {
    const char *name;
    enum client_form form;
    bool wants_path; /* started from a desktop, without a shell's PATH */
    const char *file;
    const char *written;  /* by mcp-install: below `usual` if set, else in the project */
    const char *usual;    /* folder, "~" the home folder */
    const char *variable; /* overrides `usual`; NULL = none */
    const char *url;      /* member that holds a URL; NULL = it only starts servers */
    const char *token;    /* how its configuration names the variable with the token */
} clients[] = {
    {"claude", FORM_TYPED, false, ".mcp.json in the project", ".mcp.json", NULL, NULL, "url",
     "${" SNP_MCP_TOKEN_VARIABLE "}"},
    {"claude-desktop", FORM_SERVERS, true, "~/.config/Claude/claude_desktop_config.json",
     "Claude/claude_desktop_config.json", "~/.config", "XDG_CONFIG_HOME", NULL, NULL},
    {"cursor", FORM_SERVERS, true, ".cursor/mcp.json or ~/.cursor/mcp.json", ".cursor/mcp.json",
     "~", NULL, "url", "${env:" SNP_MCP_TOKEN_VARIABLE "}"},
    {"vscode", FORM_VSCODE, true, ".vscode/mcp.json", ".vscode/mcp.json", NULL, NULL, "url",
     "${env:" SNP_MCP_TOKEN_VARIABLE "}"},
    {"codex", FORM_TOML, false, "~/.codex/config.toml", "config.toml", "~/.codex", "CODEX_HOME",
     "url", NULL},
    {"gemini", FORM_SERVERS, false, ".gemini/settings.json or ~/.gemini/settings.json",
     ".gemini/settings.json", "~", "GEMINI_CLI_HOME", "httpUrl", "$" SNP_MCP_TOKEN_VARIABLE},
    {"qwen", FORM_SERVERS, false, ".qwen/settings.json or ~/.qwen/settings.json", "settings.json",
     "~/.qwen", "QWEN_HOME", "httpUrl", "$" SNP_MCP_TOKEN_VARIABLE},
};

/* The members of an entry that we write; all others belong to the user. */
static const char *const own_members[] = {
    "type", "command", "args", "url", "httpUrl", "headers", "bearer_token_env_var"};

static const char server_name[] = "SniparaSandbox";

enum {
    TEXT_MAX = 64 << 10, /* bytes of a printed entry */
};

/* Whether PATH finds this very program by name. */
static bool is_in_path(const char *name, const char *own)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe) */

    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        snp_autofree char *file = snp_need_format("%.*s/%s", (int)n, path, name);
        snp_autofree char *real =
            file == NULL || access(file, X_OK) < 0 ? NULL : realpath(file, NULL);

        if (real != NULL) {
            return snp_streq(real, own); /* a shell uses the first match */
        }
        path += n + (path[n] == ':' ? 1 : 0);
    }
    return false;
}

/* The command for a client; the caller frees. NULL when out of memory. */
static char *command_for(const struct mcp_client *client)
{
    static const char name[] = "snipara-sandbox";
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

    if (n < 0) {
        return snp_need_copy(name);
    }
    own[n] = '\0';
    return !client->wants_path && is_in_path(name, own) ? snp_need_copy(name) : snp_need_copy(own);
}

static bool is_typed(const struct mcp_client *client)
{
    return client->form == FORM_TYPED || client->form == FORM_VSCODE;
}

/* {"url": ..., "headers": ...} in the client's form; new reference. */
static json_t *remote_json(const struct mcp_client *client, const struct snp_mcp_entry *wanted)
{
    json_t *server = json_pack("{s:s*, s:s}", "type", is_typed(client) ? "http" : NULL, client->url,
                               wanted->url);

    if (!wanted->has_token) {
        return server;
    }
    if (client->form == FORM_TOML) {
        (void)json_object_set_new(server, "bearer_token_env_var",
                                  json_string(SNP_MCP_TOKEN_VARIABLE));
    } else {
        (void)json_object_set_new(
            server, "headers",
            json_pack("{s:o}", "Authorization", json_sprintf("Bearer %s", client->token)));
    }
    return server;
}

/* Our server entry for the client; new reference, NULL when out of memory. */
static json_t *server_json(const struct mcp_client *client, const struct snp_mcp_entry *wanted)
{
    snp_autofree char *command = NULL;

    if (wanted->url != NULL) {
        return remote_json(client, wanted);
    }
    command = command_for(client);
    return command == NULL
               ? NULL
               : json_pack("{s:s*, s:o, s:O}", "type", is_typed(client) ? "stdio" : NULL, "command",
                           snp_json_bytes(command, strlen(command)), "args", wanted->args);
}

static const char *group_of(const struct mcp_client *client)
{
    return client->form == FORM_VSCODE ? "servers" : "mcpServers";
}

/* "key = value", a line of TOML; JSON text and lists of texts are valid TOML. */
static int toml_line(const char *key, const json_t *value, struct snp_buf *out)
{
    snp_autofree char *text = snp_need(json_dumps(value, JSON_ENCODE_ANY));

    return snp_buf_addf(out, "%s = %s\n", key, text);
}

/* A table of TOML. */
static int toml_table(json_t *server, struct snp_buf *out)
{
    int r = snp_buf_addf(out, "[mcp_servers.%s]\n", server_name);
    const char *key;
    json_t *value;

    json_object_foreach(server, key, value)
    {
        r = r < 0 ? r : toml_line(key, value, out);
    }
    return r;
}

static const struct mcp_client *client_find(const char *name, struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(clients); i++) {
        if (strcmp(clients[i].name, name) == 0) {
            return &clients[i];
        }
    }
    (void)snp_fail(err, SNP_E_INVALID,
                   "no client \"%s\"; use claude, claude-desktop, cursor, vscode, codex, gemini "
                   "or qwen",
                   name);
    return NULL;
}

/* Whether the client supports such an entry. */
static int client_check(const struct mcp_client *client,
                        const struct snp_mcp_entry *wanted,
                        struct snp_err *err)
{
    return wanted->url == NULL || client->url != NULL
               ? 0
               : snp_fail(err, SNP_E_INVALID,
                          "%s cannot connect to a URL: it starts the server itself; leave out "
                          "--http",
                          client->name);
}

static int server_print(const struct mcp_client *client, json_t *server)
{
    snp_autojson json_t *owned = server;
    snp_autobuf struct snp_buf text = {0};
    snp_autojson json_t *value = NULL;

    snp_buf_init(&text, TEXT_MAX);
    if (client->form == FORM_TOML) {
        return owned == NULL || toml_table(owned, &text) < 0 ||
                       fputs(snp_buf_cstr(&text), stdout) == EOF
                   ? SNP_EXIT_FAILED
                   : SNP_EXIT_OK;
    }
    value = json_pack("{s:{s:O}}", group_of(client), server_name, owned);
    return snp_cli_print_json(value);
}

/* Print the file to put it into. */
static void file_print(const struct mcp_client *client)
{
    snp_autoplace struct snp_mcp_place place = {0};
    const char *chosen = client->variable == NULL
                             ? NULL
                             : getenv(client->variable); /* NOLINT(concurrency-mt-unsafe) */
    struct snp_err err;
    bool is_elsewhere = chosen != NULL && snp_mcp_client_place(client->name, &place, &err) == 0;

    snp_term_printf(stderr, "Add to %s:\n", is_elsewhere ? place.path : client->file);
}

int snp_mcp_client_print(struct snp_cli *cli, const struct snp_opts *opts, const char *name)
{
    struct snp_err err;
    const struct mcp_client *client = client_find(name, &err);
    snp_autoentry struct snp_mcp_entry wanted = {0};
    int r = client == NULL ? SNP_E_INVALID : snp_mcp_entry_make(cli, opts, &wanted, &err);

    r = r < 0 ? r : client_check(client, &wanted, &err);
    if (r < 0) {
        return snp_cli_usage(cli, "--print-config: %s", err.msg);
    }
    file_print(client);
    r = server_print(client, server_json(client, &wanted));
    snp_mcp_entry_advise(cli, opts, &wanted, "");
    return r;
}

void snp_mcp_place_done(struct snp_mcp_place *place)
{
    free(place->path);
    free(place->project);
    *place = (struct snp_mcp_place){0};
}

/* The folder of a client's file; the caller frees. NULL: see err. */
static char *folder_of(const struct mcp_client *client, struct snp_err *err)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *chosen = client->variable == NULL ? NULL : getenv(client->variable);
    const char *home = getenv("HOME");
    /* NOLINTEND(concurrency-mt-unsafe) */
    char *folder = NULL;

    if (client->usual == NULL) {
        folder = getcwd(NULL, 0);
    } else if (chosen != NULL && chosen[0] != '\0') {
        folder = realpath(chosen, NULL);
        if (folder == NULL) {
            (void)snp_fail_sys(err, errno, "%s=%.200s", client->variable, chosen);
            return NULL;
        }
    } else if (home == NULL || home[0] != '/') {
        (void)snp_fail(err, SNP_E_NOT_FOUND, "HOME is not set");
        return NULL;
    } else {
        folder = snp_need_format("%s%s", home, client->usual + 1);
    }
    return snp_need(folder);
}

int snp_mcp_client_place(const char *name, struct snp_mcp_place *ret, struct snp_err *err)
{
    const struct mcp_client *client = client_find(name, err);
    snp_autofree char *folder = client == NULL ? NULL : folder_of(client, err);
    snp_autofree char *path = NULL;

    if (folder == NULL) {
        return err->code;
    }
    path = snp_need_format("%s/%s", folder, client->written);
    *ret = (struct snp_mcp_place){SNP_TAKE_PTR(path),
                                  client->usual != NULL ? NULL : SNP_TAKE_PTR(folder)};
    return 0;
}

/* Old and new content -------------------------------------------------------------------------- */

/* Whether an entry's arguments start our server, with or without options of the user. */
static bool is_served(const json_t *entry)
{
    const char *first = json_string_value(json_array_get(json_object_get(entry, "args"), 0));

    return snp_streq(first, "mcp-serve");
}

/* The entry with our members set; other members and options of the user stay. New reference. */
static json_t *entry_made(const struct mcp_client *client,
                          const struct snp_mcp_entry *wanted,
                          const json_t *old)
{
    snp_autojson json_t *ours = server_json(client, wanted);
    snp_autojson json_t *entry = json_is_object(old) ? json_deep_copy(old) : json_object();
    bool keeps_args = wanted->url == NULL && !wanted->has_options && is_served(old);
    bool keeps_headers = wanted->url != NULL &&
                         snp_streq(snp_json_str(old, client->url, NULL), wanted->url) &&
                         json_object_get(old, "headers") != NULL;

    bool keeps_type = wanted->url == NULL && json_object_get(old, "command") != NULL;

    if (keeps_args) {
        (void)json_object_del(ours, "args");
    }
    if (keeps_headers) {
        (void)json_object_del(ours, "headers");
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(own_members); i++) {
        const char *name = own_members[i];

        if (json_object_get(ours, name) == NULL && !(keeps_args && snp_streq(name, "args")) &&
            !(keeps_headers && snp_streq(name, "headers")) &&
            !(keeps_type && snp_streq(name, "type"))) {
            (void)json_object_del(entry, name);
        }
    }
    return ours == NULL || json_object_update(entry, ours) < 0 ? NULL : SNP_TAKE_PTR(entry);
}

/* The name of our entry: that of earlier releases, if the file has it. */
static const char *name_in(const json_t *servers)
{
    static const char earlier[] = "snipara-sandbox";

    return json_object_get(servers, server_name) == NULL &&
                   is_served(json_object_get(servers, earlier))
               ? earlier
               : server_name;
}

static int json_edit(const struct mcp_client *client,
                     const struct snp_mcp_entry *given,
                     const char *text,
                     size_t n,
                     struct snp_buf *out,
                     struct snp_err *err)
{
    snp_autojson json_t *whole = NULL;
    snp_autojson json_t *entry = NULL;
    const json_t *old;
    struct snp_json_entry wanted = {group_of(client), NULL, NULL};
    int r = snp_json_text_parse(text, n, &whole, err);

    if (r < 0) {
        return r;
    }
    wanted.name = name_in(json_object_get(whole, wanted.group));
    old = json_object_get(json_object_get(whole, wanted.group), wanted.name);
    entry = snp_need(entry_made(client, given, old));
    if (old != NULL && json_equal(old, entry)) {
        return snp_buf_add(out, text, n);
    }
    wanted.value = entry;
    return snp_json_text_put(text, n, &wanted, out, err);
}

/* TOML ---------------------------------------------------------------------------------------- */

static int toml_read(const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    struct snp_toml_fault fault = {0};

    return snp_toml_parse(text, n, ret, &fault) == 0
               ? 0
               : snp_fail(err, SNP_E_INVALID, "line %u: %s", fault.line, fault.text);
}

/* Bytes of the line at the front, with its end. */
static size_t line_length(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);

    return end == NULL ? n : (size_t)(end - text) + 1;
}

/* The member of ours that a line of TOML sets; NULL = none. */
static const char *member_at(const char *line, size_t n)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(own_members); i++) {
        size_t len = strlen(own_members[i]);

        if (n > len && strncmp(line, own_members[i], len) == 0 &&
            strchr(" \t=", line[len]) != NULL) {
            return own_members[i];
        }
    }
    return NULL;
}

/* Lines for members of ours that are new in the entry. */
static int toml_new_lines(const json_t *entry, const json_t *old, struct snp_buf *out)
{
    int r = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(own_members) && r == 0; i++) {
        const json_t *value = json_object_get(entry, own_members[i]);

        if (value != NULL && json_object_get(old, own_members[i]) == NULL) {
            r = toml_line(own_members[i], value, out);
        }
    }
    return r;
}

/*
 * Replace lines of our table that differ from the old entry. Values over several lines, or in other
 * notations, are not recognized; toml_check() detects that.
 */
static int toml_replace(const char *name,
                        const json_t *entry,
                        const json_t *old,
                        const char *text,
                        size_t n,
                        struct snp_buf *out)
{
    snp_autofree char *head = snp_need_format("[mcp_servers.%s]", name);
    bool is_inside = false;
    int r = 0;

    while (n > 0 && r == 0) {
        size_t len = line_length(text, n);
        const char *member = is_inside ? member_at(text, len) : NULL;
        const json_t *value = member == NULL ? NULL : json_object_get(entry, member);

        if (member == NULL || json_equal(value, json_object_get(old, member))) {
            r = snp_buf_add(out, text, len);
        } else if (value != NULL) {
            r = toml_line(member, value, out);
        }
        if (text[0] == '[') {
            is_inside = strncmp(text, head, len < strlen(head) ? len : strlen(head)) == 0;
            r = r < 0 || !is_inside ? r : toml_new_lines(entry, old, out);
        }
        text += len;
        n -= len;
    }
    return r;
}

/* Check that the new text parses to the old value with the entry. */
static int toml_check(
    json_t *whole, const char *name, json_t *entry, const struct snp_buf *made, struct snp_err *err)
{
    snp_autojson json_t *is = NULL;
    int r = toml_read(snp_buf_bytes(made), made->len, &is, err);

    if (r < 0) {
        return r;
    }
    if (json_object_get(whole, "mcp_servers") == NULL) {
        (void)json_object_set_new(whole, "mcp_servers", json_object());
    }
    (void)json_object_set(json_object_get(whole, "mcp_servers"), name, entry);
    return json_equal(is, whole)
               ? 0
               : snp_fail(err, SNP_E_INVALID, "the entry could not be written into this file");
}

static int toml_edit(const struct mcp_client *client,
                     const struct snp_mcp_entry *given,
                     const char *text,
                     size_t n,
                     struct snp_buf *out,
                     struct snp_err *err)
{
    snp_autojson json_t *whole = NULL;
    snp_autojson json_t *entry = NULL;
    const char *name;
    const json_t *old;
    int r = toml_read(text, n, &whole, err);

    if (r < 0) {
        return r;
    }
    name = name_in(json_object_get(whole, "mcp_servers"));
    old = json_object_get(json_object_get(whole, "mcp_servers"), name);
    entry = snp_need(entry_made(client, given, old));
    if (old != NULL) {
        r = toml_replace(name, entry, old, text, n, out);
    } else {
        r = snp_buf_add(out, text, n);
        r = r < 0 || n == 0 ? r : snp_buf_adds(out, text[n - 1] == '\n' ? "\n" : "\n\n");
        r = r < 0 ? r : toml_table(entry, out);
    }
    return r < 0 ? snp_fail(err, (enum snp_code)r, "the file is too large")
                 : toml_check(whole, name, entry, out, err);
}

int snp_mcp_client_edit(const char *name,
                        const struct snp_mcp_entry *wanted,
                        const char *text,
                        size_t n,
                        struct snp_buf *out,
                        struct snp_err *err)
{
    const struct mcp_client *client = client_find(name, err);
    int r = client == NULL ? SNP_E_INVALID : client_check(client, wanted, err);

    if (r < 0) {
        return r;
    }
    r = client->form == FORM_TOML ? toml_edit(client, wanted, text, n, out, err)
                                  : json_edit(client, wanted, text, n, out, err);
    return r == SNP_E_INVALID
               ? snp_err_wrap(err, "edit it by hand (mcp-serve --print-config %s)", name)
               : r;
}
