/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Show data of MCP servers. Texts are written like any program's output, names and notes always
 * clean.
 */
#include "cli/server/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "base/text/text.h"

enum {
    NAME_CHARS = 128,
    WORDS_CHARS = 90, /* of a description in a table */
    LIST_CHARS = 200,
    LABEL_COLUMNS = 14,
    ARGUMENTS_MAX = 4096,
    TEXT_MAX = 1 << 20,
};

/* Append a line of clean text to out; "" if it does not fit. */
static const char *clean(struct snp_buf *out, const char *text, size_t max)
{
    const char *made;

    snp_buf_init(out, TEXT_MAX);
    if (snp_text_line(out, text, strnlen(text, TEXT_MAX / 8), max) < 0) {
        snp_buf_clear(out);
    }
    made = snp_buf_cstr(out);
    return made == NULL ? "" : made;
}

static void line_print(const char *name, const char *text, size_t max)
{
    snp_autobuf struct snp_buf shown = {0};

    (void)printf("%-13s ", name);
    snp_term_fill(stdout, clean(&shown, text, max), LABEL_COLUMNS, LABEL_COLUMNS);
    (void)putchar('\n');
}

/* Info ------------------------------------------------------------------------------------ */

static void capabilities_print(const json_t *capabilities)
{
    snp_autobuf struct snp_buf text = {0};
    const char *key;
    json_t *value;

    snp_buf_init(&text, ARGUMENTS_MAX);
    json_object_foreach((json_t *)(uintptr_t)capabilities, key, value)
    {
        if (snp_buf_addf(&text, "%s%s", text.len == 0 ? "" : ", ", key) < 0) {
            break;
        }
    }
    if (text.len > 0) {
        line_print("Offers", snp_need(snp_buf_cstr(&text)), LIST_CHARS);
    }
}

void snp_mcp_show_info(const struct snp_mcp_client_info *info)
{
    const char *title = snp_json_str(info->server, "title", "");

    line_print("Server", snp_json_str(info->server, "name", "(not given)"), NAME_CHARS);
    if (*title != '\0') {
        line_print("Title", title, NAME_CHARS);
    }
    line_print("Version", snp_json_str(info->server, "version", ""), NAME_CHARS);
    (void)printf("%-13s %s%s\n", "Protocol", info->version,
                 info->era == SNP_ERA_MODERN ? "" : " (legacy)");
    capabilities_print(info->capabilities);
    if (*info->instructions != '\0') {
        (void)puts("Instructions (from the server):");
        snp_term_text(stdout, info->instructions, strlen(info->instructions), 0);
        (void)putchar('\n');
    }
}

json_t *snp_mcp_info_json(const struct snp_mcp_client_info *info)
{
    return json_pack("{s:s, s:s, s:O?, s:O, s:o}", "era",
                     info->era == SNP_ERA_MODERN ? "modern" : "legacy", "protocol", info->version,
                     "server", info->server, "capabilities", info->capabilities, "instructions",
                     snp_json_bytes(info->instructions, strlen(info->instructions)));
}

/* Tables ---------------------------------------------------------------------------------- */

/* A cell: one clean line. */
static void cell_add(struct snp_table *table, const char *text, size_t max)
{
    snp_autobuf struct snp_buf shown = {0};

    snp_table_add(table, clean(&shown, text, max));
}

static bool is_required(const json_t *schema, const char *key)
{
    size_t i;
    json_t *name;

    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (json_is_string(name) && snp_streq(json_string_value(name), key)) {
            return true;
        }
    }
    return false;
}

/* "code, timeout?": an argument of a list. */
static void argument_add(struct snp_buf *list, const char *name, bool is_needed)
{
    /* Arguments without room are left out. */
    (void)!snp_buf_addf(list, "%s%s%s", list->len == 0 ? "" : ", ", name, is_needed ? "" : "?");
}

void snp_mcp_show_tools(const json_t *tools)
{
    static const char *const heads[] = {"Tool", "Arguments", "Description (from the server)"};
    struct snp_table table = SNP_TABLE(heads);
    size_t i;
    json_t *tool;

    json_array_foreach(tools, i, tool)
    {
        const json_t *schema = json_object_get(tool, "inputSchema");
        snp_autobuf struct snp_buf list = {0};
        const char *key;
        json_t *value;

        snp_buf_init(&list, ARGUMENTS_MAX);
        json_object_foreach(json_object_get(schema, "properties"), key, value)
        {
            argument_add(&list, key, is_required(schema, key));
        }
        cell_add(&table, snp_json_str(tool, "name", ""), NAME_CHARS);
        cell_add(&table, snp_need(snp_buf_cstr(&list)), WORDS_CHARS);
        cell_add(&table, snp_json_str(tool, "description", ""), WORDS_CHARS);
    }
    snp_table_print(stdout, &table, "no tools");
}

void snp_mcp_show_resources(const json_t *resources, const json_t *templates)
{
    static const char *const heads[] = {"URI", "Type", "Name"};
    const json_t *const lists[] = {resources, templates};
    static const char *const members[] = {"uri", "uriTemplate"};
    struct snp_table table = SNP_TABLE(heads);
    size_t i;
    json_t *item;

    for (size_t which = 0; which < SNP_ARRAY_LEN(lists); which++) {
        json_array_foreach(lists[which], i, item)
        {
            cell_add(&table, snp_json_str(item, members[which], ""), 1000);
            cell_add(&table, snp_json_str(item, "mimeType", ""), NAME_CHARS);
            cell_add(&table, snp_json_str(item, "name", ""), WORDS_CHARS);
        }
    }
    snp_table_print(stdout, &table, "no resources");
}

void snp_mcp_show_prompts(const json_t *prompts)
{
    static const char *const heads[] = {"Prompt", "Arguments", "Description (from the server)"};
    struct snp_table table = SNP_TABLE(heads);
    size_t i;
    json_t *prompt;

    json_array_foreach(prompts, i, prompt)
    {
        snp_autobuf struct snp_buf list = {0};
        size_t k;
        json_t *argument;

        snp_buf_init(&list, ARGUMENTS_MAX);
        json_array_foreach(json_object_get(prompt, "arguments"), k, argument)
        {
            argument_add(&list, snp_json_str(argument, "name", ""),
                         snp_json_bool(argument, "required", false));
        }
        cell_add(&table, snp_json_str(prompt, "name", ""), NAME_CHARS);
        cell_add(&table, snp_need(snp_buf_cstr(&list)), WORDS_CHARS);
        cell_add(&table, snp_json_str(prompt, "description", ""), WORDS_CHARS);
    }
    snp_table_print(stdout, &table, "no prompts");
}

/* Content --------------------------------------------------------------------------------- */

static void text_print(const json_t *text)
{
    size_t n = json_string_length(text);
    const char *bytes = json_string_value(text);

    if (bytes != NULL) {
        (void)!snp_term_write(stdout, bytes, n);
        if (n == 0 || bytes[n - 1] != '\n') {
            (void)putchar('\n');
        }
    }
}

/* "[image image/png, 1234 bytes in base64: see --json]" */
static void other_print(const char *type, const json_t *block, const char *member)
{
    snp_autobuf struct snp_buf kind = {0};
    snp_autobuf struct snp_buf mime = {0};

    (void)printf("[%s %s, %zu bytes in base64: see --json]\n", clean(&kind, type, 40),
                 clean(&mime, snp_json_str(block, "mimeType", ""), 80),
                 json_string_length(json_object_get(block, member)));
}

static void block_print(const json_t *block)
{
    const char *type = snp_json_str(block, "type", "");
    const json_t *resource = json_object_get(block, "resource");
    snp_autobuf struct snp_buf shown = {0};

    if (snp_streq(type, "text")) {
        text_print(json_object_get(block, "text"));
    } else if (snp_streq(type, "resource_link")) {
        (void)printf("[resource %s]\n", clean(&shown, snp_json_str(block, "uri", ""), 1000));
    } else if (json_object_get(resource, "text") != NULL) {
        text_print(json_object_get(resource, "text"));
    } else if (resource != NULL) {
        other_print("resource", resource, "blob");
    } else {
        other_print(type, block, "data");
    }
}

void snp_mcp_show_content(const json_t *content)
{
    size_t i;
    json_t *block;

    json_array_foreach(content, i, block)
    {
        block_print(block);
    }
}

void snp_mcp_show_messages(const json_t *messages)
{
    size_t i;
    json_t *message;

    json_array_foreach(messages, i, message)
    {
        snp_autobuf struct snp_buf role = {0};

        (void)printf("%s:\n", clean(&role, snp_json_str(message, "role", ""), 40));
        block_print(json_object_get(message, "content"));
    }
}

int snp_mcp_show_contents(const json_t *contents)
{
    size_t i;
    json_t *item;

    json_array_foreach(contents, i, item)
    {
        const json_t *text = json_object_get(item, "text");
        const json_t *blob = json_object_get(item, "blob");
        snp_autofree unsigned char *bytes = NULL;
        size_t n = 0;

        if (json_is_string(text)) {
            (void)!snp_term_write(stdout, json_string_value(text), json_string_length(text));
            continue;
        }
        if (snp_term_is(stdout)) {
            return -1;
        }
        bytes = json_is_string(blob)
                    ? snp_base64_decode(json_string_value(blob), json_string_length(blob), &n)
                    : NULL;
        if (bytes == NULL || fwrite(bytes, 1, n, stdout) != n) {
            return -1;
        }
    }
    return 0;
}
