/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients of MCP are told to start us: one row each. The command's name where that is enough, its
 * path where clients do not see the PATH of a shell.
 */
#include "cli/mcp_clients.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/json_text.h"
#include "config/toml.h"

enum form {
    FORM_SERVERS = 0, /* {"mcpServers": {NAME: {command, args}}} */
    FORM_TYPED,       /* the same with "type": "stdio" */
    FORM_VSCODE,      /* {"servers": {...}} */
    FORM_TOML,        /* [mcp_servers.NAME] */
};

static const struct client {
    const char *name;
    enum form form;
    bool wants_path; /* started from a desktop: no PATH of a shell */
    const char *file;
    const char *
        written; /* by mcp-install: below the home folder if it begins with "~/", else the project's */
} clients[] = {
    {"claude",         FORM_TYPED,   false, ".mcp.json in the project",                         ".mcp.json"           },
    {"claude-desktop", FORM_SERVERS, true,  "~/.config/Claude/claude_desktop_config.json",
     "~/.config/Claude/claude_desktop_config.json"                                                                    },
    {"cursor",         FORM_SERVERS, true,  ".cursor/mcp.json or ~/.cursor/mcp.json",
     "~/.cursor/mcp.json"                                                                                             },
    {"vscode",         FORM_VSCODE,  true,  ".vscode/mcp.json",                                 ".vscode/mcp.json"    },
    {"codex",          FORM_TOML,    false, "~/.codex/config.toml",                             "~/.codex/config.toml"},
    {"gemini",         FORM_SERVERS, false, ".gemini/settings.json or ~/.gemini/settings.json",
     "~/.gemini/settings.json"                                                                                        },
};

static const char server_name[] = "SniparaSandbox";

/* Whether the name alone finds this very program. */
static bool is_in_path(const char *name, const char *own)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe) */

    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        snp_autofree char *file = snp_format("%.*s/%s", (int)n, path, name);
        snp_autofree char *real =
            file == NULL || access(file, X_OK) < 0 ? NULL : realpath(file, NULL);

        if (real != NULL) {
            return snp_streq(real, own); /* the first one is what a shell would take */
        }
        path += n + (path[n] == ':' ? 1 : 0);
    }
    return false;
}

/* How a client starts us; the caller frees. NULL when out of memory. */
static char *command_for(const struct client *client)
{
    static const char name[] = "snipara-sandbox";
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

    if (n < 0) {
        return strdup(name);
    }
    own[n] = '\0';
    return !client->wants_path && is_in_path(name, own) ? strdup(name) : strdup(own);
}

/* {"command": ..., "args": ["mcp-serve"]}; new reference. */
static json_t *server_json(const struct client *client, const char *command)
{
    bool is_typed = client->form == FORM_TYPED || client->form == FORM_VSCODE;
    json_t *server = is_typed ? json_pack("{s:s}", "type", "stdio") : json_object();

    if (json_object_set_new(server, "command", snp_json_bytes(command, strlen(command))) < 0 ||
        json_object_set_new(server, "args", json_pack("[s]", "mcp-serve")) < 0) {
        json_decref(server);
        return NULL;
    }
    return server;
}

static const char *group_of(const struct client *client)
{
    return client->form == FORM_VSCODE ? "servers" : "mcpServers";
}

/* A table of TOML; the caller frees. A JSON string is a TOML one. */
static char *toml_for(const char *command)
{
    snp_autojson json_t *text = snp_json_bytes(command, strlen(command));
    snp_autofree char *quoted = text == NULL ? NULL : json_dumps(text, JSON_ENCODE_ANY);

    return quoted == NULL
               ? NULL
               : snp_format("[mcp_servers.%s]\ncommand = %s\nargs = [\"mcp-serve\"]\n",
                            server_name, quoted);
}

static const struct client *client_find(const char *name, struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(clients); i++) {
        if (strcmp(clients[i].name, name) == 0) {
            return &clients[i];
        }
    }
    (void)snp_fail(err, SNP_E_INVALID,
                   "there is no client '%s'; there are claude, claude-desktop, cursor, vscode, "
                   "codex and gemini",
                   name);
    return NULL;
}

int snp_mcp_client_print(const struct snp_cli *cli, const char *name)
{
    struct snp_err err;
    const struct client *client = client_find(name, &err);
    snp_autofree char *command = NULL;
    snp_autofree char *toml = NULL;
    snp_autojson json_t *value = NULL;

    if (client == NULL) {
        return snp_cli_usage(cli, "--print-config: %s", err.msg);
    }
    (void)fprintf(stderr, "into %s:\n", client->file);
    command = command_for(client);
    if (command == NULL) {
        return SNP_EXIT_FAILED;
    }
    if (client->form == FORM_TOML) {
        toml = toml_for(command);
        return toml == NULL || fputs(toml, stdout) == EOF ? SNP_EXIT_FAILED : SNP_EXIT_OK;
    }
    value = json_pack("{s:{s:o}}", group_of(client), server_name, server_json(client, command));
    return value == NULL ? SNP_EXIT_FAILED : snp_cli_print_json(value);
}

void snp_mcp_place_done(struct snp_mcp_place *place)
{
    free(place->path);
    free(place->project);
    *place = (struct snp_mcp_place){0};
}

int snp_mcp_client_place(const char *name, struct snp_mcp_place *ret, struct snp_err *err)
{
    const struct client *client = client_find(name, err);
    bool is_home = client != NULL && snp_has_prefix(client->written, "~/");
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe) */
    snp_autofree char *folder = NULL;
    snp_autofree char *path = NULL;

    if (client == NULL) {
        return SNP_E_INVALID;
    }
    if (is_home && (home == NULL || home[0] != '/')) {
        return snp_fail(err, SNP_E_NOT_FOUND, "HOME is not set");
    }
    folder = is_home ? strdup(home) : getcwd(NULL, 0);
    path = folder == NULL ? NULL
                          : snp_format("%s/%s", folder, client->written + (is_home ? 2 : 0));
    if (path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = (struct snp_mcp_place){SNP_TAKE_PTR(path), is_home ? NULL : SNP_TAKE_PTR(folder)};
    return 0;
}

/* What is there and what is to be ------------------------------------------------------------- */

/* Whether an entry's arguments start our server, with options of its owner or without. */
static bool is_served(const json_t *entry)
{
    const char *first = json_string_value(json_array_get(json_object_get(entry, "args"), 0));

    return snp_streq(first, "mcp-serve");
}

/* The entry with what starts us; its owner's further members and options stay. New reference. */
static json_t *entry_made(const struct client *client, const char *command, const json_t *old)
{
    snp_autojson json_t *ours = server_json(client, command);
    snp_autojson json_t *entry = json_is_object(old) ? json_deep_copy(old) : json_object();

    if (is_served(old)) {
        (void)json_object_del(ours, "args");
    }
    return ours == NULL || json_object_update(entry, ours) < 0 ? NULL : SNP_TAKE_PTR(entry);
}

static int json_edit(const struct client *client,
                     const char *command,
                     const char *text,
                     size_t n,
                     struct snp_buf *out,
                     struct snp_err *err)
{
    snp_autojson json_t *whole = NULL;
    snp_autojson json_t *entry = NULL;
    const json_t *old;
    struct snp_json_entry wanted = {group_of(client), server_name, NULL};
    int r = snp_json_text_parse(text, n, &whole, err);

    if (r < 0) {
        return r;
    }
    old = json_object_get(json_object_get(whole, wanted.group), server_name);
    entry = entry_made(client, command, old);
    if (entry == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (old != NULL && json_equal(old, entry)) {
        return snp_buf_add(out, text, n) < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
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

static bool begins(const char *line, size_t n, const char *word)
{
    return n >= strlen(word) && strncmp(line, word, strlen(word)) == 0;
}

/* The text with another line for `command` in our table; without, if no such line is found. */
static int toml_replace(const char *command, const char *text, size_t n, struct snp_buf *out)
{
    snp_autofree char *head = snp_format("[mcp_servers.%s]", server_name);
    snp_autofree char *table = toml_for(command);
    const char *ours = table == NULL ? NULL : strchr(table, '\n') + 1; /* its second line */
    bool is_inside = false;
    int r = head == NULL || ours == NULL ? SNP_E_NOMEM : 0;

    while (n > 0 && r == 0) {
        size_t len = line_length(text, n);

        is_inside = text[0] == '[' ? begins(text, len, head) : is_inside;
        r = is_inside && begins(text, len, "command")
                ? snp_buf_add(out, ours, line_length(ours, strlen(ours)))
                : snp_buf_add(out, text, len);
        text += len;
        n -= len;
    }
    return r;
}

/* Whether the made text means the old one with our entry. */
static int toml_check(json_t *old,
                      const struct client *client,
                      const char *command,
                      const struct snp_buf *made,
                      struct snp_err *err)
{
    snp_autojson json_t *is = NULL;
    snp_autojson json_t *entry = NULL;
    json_t *servers;
    int r = toml_read(snp_buf_bytes(made), made->len, &is, err);

    if (r < 0) {
        return r;
    }
    if (json_object_get(old, "mcp_servers") == NULL) {
        (void)json_object_set_new(old, "mcp_servers", json_object());
    }
    servers = json_object_get(old, "mcp_servers");
    entry = entry_made(client, command, json_object_get(servers, server_name));
    (void)json_object_set(servers, server_name, entry);
    return json_equal(is, old)
               ? 0
               : snp_fail(err, SNP_E_INVALID, "the entry could not be written into this file");
}

static int toml_edit(const struct client *client,
                     const char *command,
                     const char *text,
                     size_t n,
                     struct snp_buf *out,
                     struct snp_err *err)
{
    snp_autofree char *table = toml_for(command);
    snp_autojson json_t *whole = NULL;
    const json_t *old;
    int r = toml_read(text, n, &whole, err);

    if (r < 0) {
        return r;
    }
    old = json_object_get(json_object_get(whole, "mcp_servers"), server_name);
    if (old != NULL && is_served(old) &&
        snp_streq(snp_json_str(old, "command", NULL), command)) {
        r = snp_buf_add(out, text, n);
        return r < 0 ? snp_fail(err, (enum snp_code)r, "the file is too large") : 0;
    }
    if (old != NULL) {
        r = toml_replace(command, text, n, out);
    } else {
        r = table == NULL ? SNP_E_NOMEM : snp_buf_add(out, text, n);
        r = r < 0 ? r
                  : snp_buf_addf(out, "%s%s",
                                 n == 0                ? ""
                                 : text[n - 1] == '\n' ? "\n"
                                                       : "\n\n",
                                 table);
    }
    return r < 0 ? snp_fail(err, (enum snp_code)r, "the file is too large")
                 : toml_check(whole, client, command, out, err);
}

int snp_mcp_client_edit(
    const char *name, const char *text, size_t n, struct snp_buf *out, struct snp_err *err)
{
    const struct client *client = client_find(name, err);
    snp_autofree char *command = client == NULL ? NULL : command_for(client);
    int r;

    if (client == NULL) {
        return SNP_E_INVALID;
    }
    if (command == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = client->form == FORM_TOML ? toml_edit(client, command, text, n, out, err)
                                  : json_edit(client, command, text, n, out, err);
    return r == SNP_E_INVALID
               ? snp_err_wrap(err, "edit it by hand (mcp-serve --print-config %s)", name)
               : r;
}
