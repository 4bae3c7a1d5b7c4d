/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists, page by page. Invalid items are left out with a note, so that one bad definition does not
 * hide the others; endless or oversized lists fail.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mcp/caps.h"
#include "base/mcp/tooldef.h"
#include "base/str.h"
#include "base/text/say.h"
#include "base/text/text.h"
#include "mcp/client/caps.h"
#include "mcp/client/priv.h"

struct list {
    struct snp_mcp_client *client;
    const char *method; /* static */
    const char *member;
    uint64_t timeout_ms;
    json_t *items;
    json_t *notes;
    json_t *names;   /* of tools, as an object: names must be unique */
    json_t *headers; /* {tool: rules} */
    char *cursor;    /* owned; of the requested page; NULL = the first */
    size_t bytes;
    unsigned pages;
    void (*done)(void *ctx,
                 const struct snp_mcp_client_end *end,
                 json_t *items,
                 const json_t *notes);
    void *ctx;
};

static const struct {
    const char *method;
    const char *member;
} lists[] = {
    {"tools/list", "tools"},
    {"resources/list", "resources"},
    {"resources/templates/list", "resourceTemplates"},
    {"prompts/list", "prompts"},
};

static void list_free(void *ctx)
{
    struct list *list = ctx;

    json_decref(list->items);
    json_decref(list->notes);
    json_decref(list->names);
    json_decref(list->headers);
    free(list->cursor);
    free(list);
}

static void list_end(struct list *list, const struct snp_mcp_client_end *end)
{
    if (end->err == NULL && list->headers != NULL) {
        json_decref(list->client->tool_headers);
        list->client->tool_headers = json_incref(list->headers);
    }
    list->done(list->ctx, end, end->err == NULL ? list->items : NULL,
               end->err == NULL ? list->notes : NULL);
    list_free(list);
}

/* "Skipped tool 'NAME': WHY"; clean. */
static int note_add(struct list *list, const json_t *tool, const char *why)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)SNP_MCP_CLIENT_NOTE_MAX * 8);

    snp_say(&text, "Skipped tool '");
    snp_say_string(&text, json_object_get(tool, "name"), 60);
    snp_say(&text, "': %s", why);
    return text.r < 0 ? text.r : json_array_append_new(list->notes, snp_text_json(&text.buf));
}

static int tool_add(struct list *list, json_t *tool, struct snp_err *err)
{
    snp_autojson json_t *headers = NULL;
    struct snp_err why;
    const char *name = snp_mcp_tooldef_name(tool);
    int r = snp_mcp_tooldef_check(tool, list->client->options.url != NULL, &headers, &why);

    if (r == 0 && json_object_get(list->names, name) != NULL) {
        r = snp_fail(&why, SNP_E_INVALID, "another tool has this name");
    }
    if (r == SNP_E_NOMEM) {
        *err = why;
        return r;
    }
    if (r < 0) {
        r = note_add(list, tool, why.msg);
    } else {
        r = json_array_append(list->items, tool) | json_object_set(list->names, name, json_true());
        if (json_array_size(headers) > 0) {
            r |= json_object_set(list->headers, name, headers);
        }
    }
    return r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static int items_add(struct list *list, const json_t *items, struct snp_err *err)
{
    size_t i;
    json_t *item;
    int r = 0;

    if (!json_is_array(items)) {
        return snp_fail(err, SNP_E_PEER, "the answer to %s has no '%s'", list->method,
                        list->member);
    }
    json_array_foreach(items, i, item)
    {
        list->bytes += json_dumpb(item, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
        if (json_array_size(list->items) + json_array_size(list->notes) >=
                SNP_MCP_CLIENT_ITEMS_MAX ||
            list->bytes > SNP_MCP_CLIENT_LIST_MAX) {
            return snp_fail(
                err, SNP_E_LIMIT,
                "%s has more than %d entries or %d MiB; set the server up to offer fewer",
                list->method, SNP_MCP_CLIENT_ITEMS_MAX, SNP_MCP_CLIENT_LIST_MAX >> 20);
        }
        if (list->headers != NULL) {
            r = tool_add(list, item, err);
        } else if (json_is_object(item)) {
            r = json_array_append(list->items, item) < 0
                    ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                    : 0;
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int page_ask(struct list *list, struct snp_err *err);

/* Request the next page, if any: 1. 0: that was all. */
static int page_next(struct list *list, const json_t *result, struct snp_err *err)
{
    const char *cursor = snp_json_str(result, "nextCursor", NULL);
    int r;

    if (cursor == NULL) {
        return 0;
    }
    if (strlen(cursor) > SNP_MCP_CLIENT_CURSOR_MAX || snp_streq(cursor, list->cursor) ||
        ++list->pages >= SNP_MCP_CLIENT_PAGES_MAX) {
        return snp_fail(err, SNP_E_LIMIT,
                        "%s does not end: more than %d pages, the same page twice, or a cursor "
                        "of more than %d bytes",
                        list->method, SNP_MCP_CLIENT_PAGES_MAX, SNP_MCP_CLIENT_CURSOR_MAX);
    }
    free(list->cursor);
    list->cursor = strdup(cursor);
    r = list->cursor == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : page_ask(list, err);
    return r < 0 ? r : 1;
}

static void on_page(void *ctx, const struct snp_mcp_client_end *end)
{
    struct list *list = ctx;
    struct snp_mcp_client_end told = *end;
    struct snp_err err;
    int r = 0;

    if (end->err == NULL) {
        r = items_add(list, json_object_get(end->result, list->member), &err);
        r = r < 0 ? r : page_next(list, end->result, &err);
        told.err = r < 0 ? &err : NULL;
    }
    if (r <= 0) {
        list_end(list, &told);
    }
}

static int page_ask(struct list *list, struct snp_err *err)
{
    const struct snp_mcp_client_call call = {
        .method = list->method,
        .params = list->cursor == NULL ? json_object() : json_pack("{s:s}", "cursor", list->cursor),
        .timeout_ms = list->timeout_ms,
        .done = on_page,
        .dropped = list_free,
        .ctx = list,
    };

    return snp_mcp_client_call(list->client, &call, NULL, err);
}

int snp_mcp_client_list(struct snp_mcp_client *client,
                        const char *method,
                        uint64_t timeout_ms,
                        void (*done)(void *ctx,
                                     const struct snp_mcp_client_end *end,
                                     json_t *items,
                                     const json_t *notes),
                        void *ctx,
                        struct snp_err *err)
{
    struct list *list = calloc(1, sizeof(*list));
    int r;

    if (list == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    list->client = client;
    list->timeout_ms = timeout_ms;
    list->done = done;
    list->ctx = ctx;
    for (size_t i = 0; i < SNP_ARRAY_LEN(lists); i++) {
        if (snp_streq(lists[i].method, method)) {
            list->method = lists[i].method;
            list->member = lists[i].member;
        }
    }
    SNP_ASSERT(list->method != NULL);
    list->items = json_array();
    list->notes = json_array();
    if (snp_streq(method, "tools/list")) {
        list->names = json_object();
        list->headers = json_object();
    }
    r = list->items == NULL || list->notes == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                                   : page_ask(list, err);
    if (r < 0) {
        list_free(list);
    }
    return r;
}
