/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients of MCP are told to start us: one row each. The command's name where that is enough, its
 * path where clients do not see the PATH of a shell.
 */
#include "cli/mcp_clients.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

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
} clients[] = {
    {"claude",         FORM_TYPED,   false, ".mcp.json in the project"                        },
    {"claude-desktop", FORM_SERVERS, true,  "~/.config/Claude/claude_desktop_config.json"     },
    {"cursor",         FORM_SERVERS, true,  ".cursor/mcp.json or ~/.cursor/mcp.json"          },
    {"vscode",         FORM_VSCODE,  true,  ".vscode/mcp.json"                                },
    {"codex",          FORM_TOML,    false, "~/.codex/config.toml"                            },
    {"gemini",         FORM_SERVERS, false, ".gemini/settings.json or ~/.gemini/settings.json"},
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

static json_t *json_for(const struct client *client, const char *command)
{
    bool is_typed = client->form != FORM_SERVERS;
    json_t *server =
        is_typed ? json_pack("{s:s, s:o, s:[s]}", "type", "stdio", "command",
                             snp_json_bytes(command, strlen(command)), "args", "mcp-serve")
                 : json_pack("{s:o, s:[s]}", "command",
                             snp_json_bytes(command, strlen(command)), "args", "mcp-serve");

    return json_pack("{s:{s:o}}", client->form == FORM_VSCODE ? "servers" : "mcpServers",
                     server_name, server);
}

static int toml_print(const char *command)
{
    snp_autojson json_t *text = snp_json_bytes(command, strlen(command));
    snp_autofree char *quoted = text == NULL ? NULL : json_dumps(text, JSON_ENCODE_ANY);

    if (quoted == NULL) {
        return SNP_EXIT_FAILED;
    }
    /* A JSON string is a TOML one. */
    (void)printf("[mcp_servers.%s]\ncommand = %s\nargs = [\"mcp-serve\"]\n", server_name,
                 quoted);
    return SNP_EXIT_OK;
}

int snp_mcp_client_print(const struct snp_cli *cli, const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(clients); i++) {
        const struct client *client = &clients[i];
        snp_autofree char *command = NULL;
        snp_autojson json_t *value = NULL;

        if (strcmp(client->name, name) != 0) {
            continue;
        }
        (void)fprintf(stderr, "into %s:\n", client->file);
        command = command_for(client);
        if (command == NULL) {
            return SNP_EXIT_FAILED;
        }
        if (client->form == FORM_TOML) {
            return toml_print(command);
        }
        value = json_for(client, command);
        return value == NULL ? SNP_EXIT_FAILED : snp_cli_print_json(value);
    }
    return snp_cli_usage(cli,
                         "--print-config: there is no client '%s'; there are claude, "
                         "claude-desktop, cursor, vscode, codex and gemini",
                         name);
}
