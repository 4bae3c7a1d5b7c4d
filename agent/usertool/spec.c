/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read the configuration of user tools: tables of members, each checked, so that an unknown word is
 * reported instead of ignored.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "mcp/client/fingerprints.h"
#include "usertool/usertool_priv.h"

enum {
    TEXT_MAX = 8 << 10, /* bytes of one word of a command, of a variable or header */
    FILE_MAX = SNP_SCHEMA_BYTES_MAX,
    NAME_MAX_BYTES = 40, /* of a server: its tools' names begin with it */
    MS = 1000,
};

/* The place of a setting, for messages and relative paths. */
struct tool_location {
    const char *file;
    const char *table; /* "tools", "mcp_servers" */
    const char *name;
    struct snp_err *err;
};

static int wrong(const struct tool_location *place, const char *member, const char *what)
{
    return snp_fail(place->err, SNP_E_INVALID, "%.150s: %s.%.60s.%s: %s", place->file, place->table,
                    place->name, member, what);
}

static int no_memory(const struct tool_location *place)
{
    return snp_fail(place->err, SNP_E_NOMEM, "out of memory");
}

/* Refuse unknown members. */
static int members_check(const struct tool_location *place,
                         const json_t *table,
                         const char *const *known)
{
    const char *name;
    json_t *value;

    if (!json_is_object(table)) {
        return snp_fail(place->err, SNP_E_INVALID, "%.150s: %s.%.60s must be a table", place->file,
                        place->table, place->name);
    }
    json_object_foreach((json_t *)(uintptr_t)table, name, value)
    {
        size_t n = 0;

        while (known[n] != NULL && strcmp(known[n], name) != 0) {
            n++;
        }
        if (known[n] == NULL) {
            const char *nearest = snp_suggest(name, known, n);

            return snp_fail(place->err, SNP_E_INVALID,
                            "%.150s: %s.%.60s: unknown key '%.60s'%s%s%s", place->file,
                            place->table, place->name, name,
                            nearest == NULL ? "" : "; did you mean ",
                            nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
        }
    }
    return 0;
}

/* Texts --------------------------------------------------------------------------------------- */

/* Consumes text, also on failure. */
static int text_keep(const struct tool_location *place,
                     struct snp_toolbox_texts *texts,
                     size_t most,
                     const char *member,
                     char *text)
{
    if (text == NULL) {
        return no_memory(place);
    }
    if (texts->items == NULL) {
        texts->items = calloc(most + 1, sizeof(*texts->items));
    }
    if (texts->items == NULL || texts->n >= most || strlen(text) > TEXT_MAX) {
        bool is_memory = texts->items == NULL;

        free(text);
        return is_memory ? no_memory(place) : wrong(place, member, "too long, or too many");
    }
    texts->items[texts->n++] = text;
    return 0;
}

/* A text without NUL; NULL if the value is not one. Borrowed. */
static const char *text_of(const json_t *value)
{
    const char *text = json_string_value(value);

    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

/*
 * A copy of the text with "${NAME}" and "${NAME:-instead}" replaced from our environment, so that
 * files need not contain keys. The caller frees; NULL: see *err.
 */
static char *expand(const struct tool_location *place, const char *member, const char *text)
{
    snp_autobuf struct snp_buf out = SNP_BUF(TEXT_MAX + 1);
    const char *value;
    int r = 0;

    while (*text != '\0' && r == 0) {
        size_t plain = strcspn(text, "$");
        const char *close =
            text[plain] == '$' && text[plain + 1] == '{' ? strchr(text + plain, '}') : NULL;
        snp_autofree char *name = NULL;
        char *instead;

        if (close == NULL) {
            plain += text[plain] == '$' ? 1 : 0;
            r = snp_buf_add(&out, text, plain);
            text += plain;
            continue;
        }
        name = strndup(text + plain + 2, (size_t)(close - text) - plain - 2);
        if (name == NULL) {
            (void)no_memory(place);
            return NULL;
        }
        instead = strstr(name, ":-");
        if (instead != NULL) {
            *instead = '\0';
            instead += 2;
        }
        value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
        value = value == NULL || *value == '\0' ? instead : value;
        if (value == NULL) {
            (void)snp_fail(place->err, SNP_E_INVALID,
                           "%.150s: %s.%.60s.%s: the variable %.60s is not set", place->file,
                           place->table, place->name, member, name);
            return NULL;
        }
        r = snp_buf_add(&out, text, plain);
        r = r < 0 ? r : snp_buf_adds(&out, value);
        text = close + 1;
    }
    if (r < 0 || snp_buf_cstr(&out) == NULL) {
        (void)wrong(place, member, "too long");
        return NULL;
    }
    return strdup(snp_buf_cstr(&out));
}

/* The folder of the file, and a path in it. The caller frees; NULL when out of memory. */
static char *path_of(const struct tool_location *place, const char *path)
{
    const char *slash = strrchr(place->file, '/');

    return path[0] == '/' || slash == NULL
               ? strdup(path)
               : snp_format("%.*s/%s", (int)(slash - place->file), place->file, path);
}

/* {"NAME": "value"} to "NAME=value" or "Name: value". */
static int pairs_take(const struct tool_location *place,
                      const json_t *table,
                      const char *member,
                      const char *between,
                      struct snp_toolbox_texts *ret)
{
    const json_t *pairs = json_object_get(table, member);
    bool is_env = between[0] == '=';
    const char *name;
    json_t *value;
    int r = 0;

    if (pairs != NULL && !json_is_object(pairs)) {
        return wrong(place, member, "must be a table of texts");
    }
    json_object_foreach((json_t *)(uintptr_t)pairs, name, value)
    {
        snp_autofree char *expanded = NULL;

        if (text_of(value) == NULL || name[0] == '\0' || strpbrk(name, "=: \r\n") != NULL ||
            strpbrk(text_of(value), "\r\n") != NULL) {
            return wrong(place, member, "must have names and texts of one line each");
        }
        expanded = expand(place, member, text_of(value));
        if (expanded == NULL) {
            return place->err->code;
        }
        r = text_keep(place, ret, is_env ? SNP_TOOLBOX_ENV_MAX : SNP_TOOLBOX_HEADERS_MAX, member,
                      snp_format("%s%s%s", name, between, expanded));
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Append a list of words, or one word, to the existing ones. */
static int words_take(const struct tool_location *place,
                      const json_t *table,
                      const char *member,
                      struct snp_toolbox_texts *ret)
{
    const json_t *words = json_object_get(table, member);
    size_t n = json_is_array(words) ? json_array_size(words) : words == NULL ? 0 : 1;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const char *word = text_of(json_is_array(words) ? json_array_get(words, i) : words);
        bool is_program = ret->n == 0;

        if (word == NULL || (is_program && *word == '\0')) {
            return wrong(place, member, "must be a list of texts, the program first");
        }
        r = text_keep(place, ret, SNP_TOOLBOX_ARGS_MAX, member,
                      is_program && strchr(word, '/') != NULL ? path_of(place, word)
                                                              : strdup(word));
    }
    return r;
}

static int seconds_take(const struct tool_location *place, const json_t *table, uint64_t *ret)
{
    const json_t *value = json_object_get(table, "timeout");
    double seconds = json_number_value(value);

    if (value == NULL) {
        return 0;
    }
    if (!json_is_number(value) || !(seconds >= 0.1) ||
        seconds > (double)SNP_USERTOOL_TIMEOUT_MAX_MS / MS) {
        return wrong(place, "timeout", "must be 0.1 to 600 seconds");
    }
    *ret = (uint64_t)(seconds * MS);
    return 0;
}

static int cwd_take(const struct tool_location *place, const json_t *table, char **ret)
{
    const json_t *value = json_object_get(table, "cwd");

    if (value == NULL) {
        return 0;
    }
    if (text_of(value) == NULL) {
        return wrong(place, "cwd", "must be a folder");
    }
    *ret = path_of(place, text_of(value));
    return *ret == NULL ? no_memory(place) : 0;
}

/* Commands ------------------------------------------------------------------------------------ */

/* A schema, or the file that has it. */
static int schema_take(const struct tool_location *place, const json_t *table, json_t **ret)
{
    json_t *value = json_object_get(table, "schema");
    snp_autofree char *path = NULL;
    snp_autofree char *text = NULL;
    size_t n = 0;
    int r;

    if (value == NULL) {
        *ret = json_pack("{s:s}", "type", "object");
        return *ret == NULL ? no_memory(place) : 0;
    }
    if (json_is_object(value)) {
        *ret = json_incref(value);
        return 0;
    }
    if (text_of(value) == NULL) {
        return wrong(place, "schema", "must be a JSON Schema, or the name of a file with one");
    }
    path = path_of(place, text_of(value));
    if (path == NULL) {
        return no_memory(place);
    }
    r = snp_file_read(path, FILE_MAX, &text, &n, place->err);
    r = r < 0 ? r : snp_json_parse(text, n, ret, place->err);
    return r < 0
               ? snp_err_wrap(place->err, "%s.%.60s.schema %.150s", place->table, place->name, path)
               : 0;
}

static int command_take(struct snp_toolbox *box,
                        const struct tool_location *place,
                        const json_t *table)
{
    static const char *const known[] = {"command", "description", "schema", "timeout",
                                        "env",     "cwd",         NULL};
    snp_autojson json_t *schema = NULL;
    struct snp_toolbox_command spec = {
        .name = place->name,
        .description = snp_json_str(table, "description", NULL),
    };
    int r = members_check(place, table, known);

    if (r == 0 && snp_has_prefix(place->name, "mcp__")) {
        r = snp_fail(place->err, SNP_E_INVALID,
                     "%.150s: a command cannot be named %.60s: names that start with mcp__ are "
                     "for tools of MCP servers",
                     place->file, place->name);
    }
    r = r < 0 ? r : snp_toolbox_commands_count(box, place->err);
    r = r < 0 ? r : words_take(place, table, "command", &spec.argv);
    if (r == 0 && spec.argv.n == 0) {
        r = wrong(place, "command", "is missing: a list, the program first");
    }
    if (r == 0 && spec.description == NULL) {
        r = wrong(place, "description",
                  "is missing: a text that describes the command to the model");
    }
    r = r < 0 ? r : pairs_take(place, table, "env", "=", &spec.env);
    r = r < 0 ? r : cwd_take(place, table, &spec.cwd);
    r = r < 0 ? r : seconds_take(place, table, &spec.timeout_ms);
    r = r < 0 ? r : schema_take(place, table, &schema);
    if (r < 0) {
        snp_toolbox_texts_done(&spec.argv);
        snp_toolbox_texts_done(&spec.env);
        free(spec.cwd);
        return r;
    }
    spec.schema = schema;
    r = snp_toolbox_command_add(box, &spec, place->err);
    return r < 0 ? snp_err_wrap(place->err, "%.150s: %s", place->file, place->table) : 0;
}

int snp_toolbox_add_commands(struct snp_toolbox *box,
                             const json_t *commands,
                             const char *file,
                             struct snp_err *err)
{
    struct tool_location place = {.file = file, .table = "tools", .err = err};
    json_t *table;
    int r = 0;

    if (commands != NULL && !json_is_object(commands)) {
        return snp_fail(err, SNP_E_INVALID, "%.150s: tools must be a table", file);
    }
    json_object_foreach((json_t *)(uintptr_t)commands, place.name, table)
    {
        r = r < 0 ? r : command_take(box, &place, table);
    }
    return r;
}

/* Servers ------------------------------------------------------------------------------------- */

static int name_check(const struct tool_location *place)
{
    size_t n =
        strspn(place->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

    return n == 0 || place->name[n] != '\0' || n > NAME_MAX_BYTES ||
                   strstr(place->name, "__") != NULL
               ? snp_fail(place->err, SNP_E_INVALID,
                          "%.150s: '%.60s' is not a valid name of a server: use 1 to %d of A-Z "
                          "a-z 0-9 _ -, no two _ in a row",
                          place->file, place->name, NAME_MAX_BYTES)
               : 0;
}

static int pins_take(const struct tool_location *place, const json_t *table, json_t **ret)
{
    const json_t *value = json_object_get(table, "pins");
    snp_autofree char *path = NULL;
    int r;

    if (value == NULL) {
        return 0;
    }
    if (text_of(value) == NULL) {
        return wrong(place, "pins", "must be a file");
    }
    path = path_of(place, text_of(value));
    r = path == NULL ? no_memory(place) : snp_mcp_fingerprints_read(path, ret, place->err);
    if (r == 0 && *ret == NULL) {
        return snp_err_remedy(place->err, wrong(place, "pins", "no such file"),
                              SNP_REMEDY_FINGERPRINTS, NULL, 0);
    }
    return r;
}

/* Its address: a program or a URL. */
static int address_take(const struct tool_location *place,
                        const json_t *table,
                        struct snp_toolbox_server *spec)
{
    const json_t *url = json_object_get(table, "url");
    const char *type = snp_json_str(table, "type", url == NULL ? "stdio" : "http");
    int r = words_take(place, table, "command", &spec->argv);

    if (r == 0 && (spec->argv.n > 0) == (url != NULL)) {
        return wrong(place, "command", "is wrong: give either command or url");
    }
    if (r == 0 && !snp_streq(type, url == NULL ? "stdio" : "http")) {
        return wrong(place, "type", "must be stdio (with command) or http (with url)");
    }
    if (r < 0 || url == NULL) {
        r = r < 0 ? r : words_take(place, table, "args", &spec->argv);
        return r < 0 ? r : pairs_take(place, table, "env", "=", &spec->env);
    }
    if (text_of(url) == NULL) {
        return wrong(place, "url", "must be a text");
    }
    spec->url = expand(place, "url", text_of(url));
    return spec->url == NULL ? place->err->code
                             : pairs_take(place, table, "headers", ": ", &spec->headers);
}

static int server_take(struct snp_toolbox *box,
                       const struct tool_location *place,
                       const json_t *table)
{
    static const char *const known[] = {"type",    "command", "args",  "env",  "cwd", "url",
                                        "headers", "timeout", "tools", "pins", NULL};
    struct snp_toolbox_server spec = {
        .name = place->name,
        .wanted = json_object_get(table, "tools"),
    };
    int r = members_check(place, table, known);

    r = r < 0 ? r : name_check(place);
    if (r == 0 && !snp_toolbox_has_room(box)) {
        r = snp_fail(place->err, SNP_E_LIMIT, "more than %d MCP servers", SNP_TOOLBOX_SERVERS_MAX);
    }
    r = r < 0 ? r : address_take(place, table, &spec);
    r = r < 0 ? r : cwd_take(place, table, &spec.cwd);
    r = r < 0 ? r : seconds_take(place, table, &spec.timeout_ms);
    r = r < 0 ? r : pins_take(place, table, &spec.pins);
    if (r == 0 && spec.wanted != NULL && !json_is_array(spec.wanted)) {
        r = wrong(place, "tools", "must be a list of the server's tools");
    }
    if (r < 0) {
        snp_toolbox_texts_done(&spec.argv);
        snp_toolbox_texts_done(&spec.env);
        snp_toolbox_texts_done(&spec.headers);
        free(spec.cwd);
        free(spec.url);
        json_decref(spec.pins);
        return r;
    }
    r = snp_toolbox_server_start(box, &spec, place->err);
    return r < 0 ? snp_err_wrap(place->err, "MCP server %s", place->name) : 0;
}

int snp_toolbox_add_servers(struct snp_toolbox *box,
                            const json_t *servers,
                            const char *file,
                            struct snp_err *err)
{
    struct tool_location place = {.file = file, .table = "mcp_servers", .err = err};
    json_t *table;
    int r = 0;

    if (servers != NULL && !json_is_object(servers)) {
        return snp_fail(err, SNP_E_INVALID, "%.150s: mcp_servers must be a table", file);
    }
    json_object_foreach((json_t *)(uintptr_t)servers, place.name, table)
    {
        r = r < 0 ? r : server_take(box, &place, table);
    }
    return r;
}
