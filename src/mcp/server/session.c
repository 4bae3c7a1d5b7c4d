/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of callers. Any text is a valid session_id; the daemon's names are narrower. */
#include "mcp/server/session.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/text/text.h"
#include "mcp/caps.h"
#include "mcp/server/remedy.h"

enum {
    MISSING_SHOWN = 250, /* characters */
    CLEAN_MAX = 40,      /* characters of an invalid id that are kept in its name */
};

static const struct snp_mcp_profile profiles[] = {
    {"quick", 5000, 128ULL << 20},
    {"default", 30000, 512ULL << 20},
    {"analysis", 120000, 2ULL << 30},
    {"extended", 300000, 4ULL << 30},
};

/* Calls that texts name ------------------------------------------------------------------------ */

void snp_mcp_missing_say(struct snp_say *text,
                         const json_t *row,
                         const char *session_id,
                         const char *before)
{
    const json_t *missing = json_object_get(row, "missing");
    const json_t *what = json_object_get(missing, "text");

    if (json_is_string(what)) {
        snp_say(text, "%s[%.20s] lacks ", before, snp_json_str(row, "state", "?"));
        snp_say_string(text, what, MISSING_SHOWN);
        snp_say(text, "; ");
        snp_mcp_ways_say(text, snp_json_to_ways(json_object_get(missing, "recover")), session_id);
    }
}

const struct snp_mcp_profile *snp_mcp_profile(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(profiles); i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            return &profiles[i];
        }
    }
    return NULL;
}

const char *snp_mcp_more(const json_t *limit)
{
    const uint64_t value = (uint64_t)snp_json_int(limit, "value", 0);
    const char *key = snp_json_str(limit, "key", "");

    if (strcmp(key, "timeout") == 0) {
        return value < (uint64_t)SNP_MCP_TIMEOUT_S * 1000
                   ? "; the argument timeout raises it, up to 600"
                   : "; do less in one call";
    }
    if (strcmp(key, "memory") != 0) {
        return "";
    }
    return value < snp_mcp_profile("analysis")->memory_bytes
               ? "; a new session with profile analysis or extended has more"
           : value < snp_mcp_profile("extended")->memory_bytes
               ? "; a new session with profile extended has more"
               : "; use less at a time";
}

/* FNV-1a: for names of a user's sessions, not for secrets. */
static uint64_t hash(const char *text)
{
    uint64_t value = 0xcbf29ce484222325ULL;

    for (; *text != '\0'; text++) {
        value = (value ^ (unsigned char)*text) * 0x100000001b3ULL;
    }
    return value;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-", c) != NULL);
}

void snp_mcp_default_session(const char *project, char out[SNP_SESSION_NAME_MAX + 1])
{
    if (project == NULL) {
        (void)snprintf(out, SNP_SESSION_NAME_MAX + 1, "default");
    } else {
        (void)snprintf(out, SNP_SESSION_NAME_MAX + 1, "default-%08llx",
                       (unsigned long long)(hash(project) & 0xffffffffU));
    }
}

void snp_mcp_session_name(struct snp_mcp_sandboxes *service,
                          const char *id,
                          char out[SNP_SESSION_NAME_MAX + 1])
{
    struct snp_err ignored;
    char clean[CLEAN_MAX + 1];
    size_t n = 0;

    if (id == NULL || id[0] == '\0' || strcmp(id, "default") == 0) {
        id = "default";
        snp_mcp_default_session(service->options.project, out);
    } else if (snp_session_name_check(id, &ignored) == 0) {
        (void)snprintf(out, SNP_SESSION_NAME_MAX + 1, "%s", id);
        return; /* it is its name */
    } else {
        for (; n < CLEAN_MAX && id[n] != '\0'; n++) {
            bool is_first = n == 0 && (id[0] == '.' || id[0] == '-');

            clean[n] = is_name_byte(id[n]) && !is_first ? id[n] : '_';
        }
        clean[n] = '\0';
        (void)snprintf(out, SNP_SESSION_NAME_MAX + 1, "%s-%016llx", clean,
                       (unsigned long long)hash(id));
    }
    if (json_object_get(service->ids, out) == NULL) {
        snp_mcp_remember(service->ids, out, snp_json_bytes(id, strlen(id)), SNP_MCP_NAMES_MAX);
    }
}

void snp_mcp_remember(json_t *table, const char *key, json_t *value, size_t max)
{
    void *oldest = json_object_iter(table);

    if (json_object_get(table, key) == NULL && json_object_size(table) >= max && oldest != NULL) {
        (void)json_object_del(table, json_object_iter_key(oldest));
    }
    (void)json_object_set_new(table, key, value); /* without memory it is not stored */
}

const char *snp_mcp_session_id(const struct snp_mcp_sandboxes *service, const char *name)
{
    return snp_json_str(service->ids, name, name);
}
