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
#include "cli/mcp_install.h"

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
    json_t *server =
        client->form == FORM_SERVERS ? json_object() : json_pack("{s:s}", "type", "stdio");

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

int snp_mcp_client_path(const char *name, char **ret_path, struct snp_err *err)
{
    const struct client *client = client_find(name, err);
    bool is_home = client != NULL && snp_has_prefix(client->written, "~/");
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe) */
    snp_autofree char *folder = NULL;

    if (client == NULL) {
        return SNP_E_INVALID;
    }
    if (is_home && (home == NULL || home[0] != '/')) {
        return snp_fail(err, SNP_E_NOT_FOUND, "HOME is not set");
    }
    folder = is_home ? strdup(home) : getcwd(NULL, 0);
    *ret_path = folder == NULL
                    ? NULL
                    : snp_format("%s/%s", folder, client->written + (is_home ? 2 : 0));
    return *ret_path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

/* Appended, unless there is one: that is its owner's to change. */
static int toml_edit(
    const char *command, const char *text, size_t n, struct snp_buf *out, struct snp_err *err)
{
    snp_autofree char *table = toml_for(command);
    snp_autofree char *head = snp_format("[mcp_servers.%s]", server_name);
    int r = table == NULL || head == NULL ? SNP_E_NOMEM : snp_buf_add(out, text, n);

    if (r == 0 && memmem(text, n, head, strlen(head)) == NULL) {
        r = snp_buf_addf(out, "%s%s", n == 0 ? "" : text[n - 1] == '\n' ? "\n" : "\n\n", table);
    }
    return r < 0 ? snp_fail(err, (enum snp_code)r, "the file is too large") : 0;
}

int snp_mcp_client_edit(
    const char *name, const char *text, size_t n, struct snp_buf *out, struct snp_err *err)
{
    const struct client *client = client_find(name, err);
    snp_autofree char *command = client == NULL ? NULL : command_for(client);
    snp_autojson json_t *server = command == NULL ? NULL : server_json(client, command);
    snp_autofree char *value = server == NULL ? NULL : json_dumps(server, 0);
    struct snp_json_entry entry = {NULL, server_name, value};
    int r;

    if (client == NULL) {
        return SNP_E_INVALID;
    }
    if (value == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (client->form == FORM_TOML) {
        return toml_edit(command, text, n, out, err);
    }
    entry.group = group_of(client);
    r = snp_json_text_put(text, n, &entry, out, err);
    return r == SNP_E_INVALID
               ? snp_err_wrap(err, "edit it by hand (mcp-serve --print-config %s)", name)
               : r;
}
