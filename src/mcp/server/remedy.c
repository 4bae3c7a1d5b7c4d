/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/server/remedy.h"

#include <string.h>

#include "base/json.h"
#include "base/macro.h"
#include "base/policy/limits.h"
#include "base/text/remedy.h"
#include "base/text/text.h"

enum {
    QUOTED_MAX = 400, /* characters of an argument in a call that a text names */
};

/* value as JSON, or plain if that is unambiguous; new, NULL when out of memory. */
static char *quoted(const char *value)
{
    snp_autojson json_t *text = json_string(value);
    snp_autofree char *plain = text == NULL ? NULL : json_dumps(text, JSON_ENCODE_ANY);
    snp_autobuf struct snp_buf clean = {0};

    if (plain == NULL) {
        return NULL;
    }
    snp_buf_init(&clean, 8 * strlen(plain) + 64);
    if (snp_text_line(&clean, plain, strlen(plain), 8 * strlen(plain)) < 0) {
        return NULL;
    }
    return clean.len == strlen(plain) && memcmp(snp_buf_bytes(&clean), plain, clean.len) == 0
               ? SNP_TAKE_PTR(plain)
               : json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
}

void snp_mcp_call_arg(struct snp_say *text, const char *name, const char *value)
{
    snp_autofree char *shown = quoted(value);

    if (shown == NULL) {
        text->r = SNP_E_NOMEM;
    } else {
        snp_say(text, "%s=%s", name, strlen(shown) > QUOTED_MAX ? "(the same)" : shown);
    }
}

void snp_mcp_call_session(struct snp_say *text, const char *session_id)
{
    if (strcmp(session_id, "default") != 0) {
        snp_say(text, ", ");
        snp_mcp_call_arg(text, "session_id", session_id);
    }
}

void snp_mcp_ways_say(struct snp_say *text, int64_t ways, const char *session_id)
{
    static const char *const does[] = {
        "runs the cells again first", "runs the other cells again first", "continues without them"};
    bool is_first = true;

    for (unsigned i = 0; i < SNP_ARRAY_LEN(does); i++) {
        if ((ways & (1 << i)) == 0) {
            continue;
        }
        snp_say(text, "%srecover=\"%s\"", is_first ? "SniparaSandbox.execute_python(" : ", ",
                snp_recover_ways[i]);
        if (is_first) {
            snp_mcp_call_session(text, session_id);
        }
        snp_say(text, "%s %s", is_first ? ")" : "", does[i]);
        is_first = false;
    }
}

static int ways_add(struct snp_buf *out, int64_t ways, const char *object)
{
    struct snp_say say = {.buf = *out};

    snp_mcp_ways_say(&say, ways, object[0] == '\0' ? "default" : object);
    snp_say(&say, "; SniparaSandbox.destroy_session starts over");
    *out = say.buf;
    return say.r;
}

static const struct snp_remedy_limit limits[] = {
    {"workspace_size", "delete files that are not needed"},
    {"memory", "delete files and variables that are not needed"},
    {"project_size",
     "ask the user to start this server with a larger --workspace-size and --workspace-files"},
    {"journal_budget", "ask the user to raise it: snipara-sandbox gc --journal-budget SIZE"},
    {"cost_limit", "give the model a price, or the argument cost_limit=-1 (no limit)"},
    {NULL, NULL},
};

static int set_limit_add(struct snp_buf *out, const struct snp_err *err)
{
    char option[64];

    return snp_buf_addf(
        out, "the user changes it with: snipara-sandbox sessions set %s %s", err->object,
        snp_limit_option(err->remedy.name, (uint64_t)err->remedy.value, option, sizeof(option)));
}

static const struct snp_remedy_words words = {
    /* Each text is one literal. */
    /* clang-format off */
    .kind = {
        [SNP_REMEDY_CLEAR_SESSION]  = "SniparaSandbox.destroy_session starts over",
        [SNP_REMEDY_END_SESSION]    = "SniparaSandbox.destroy_session ends one",
        [SNP_REMEDY_TIER]           = "ask the user to start this server with --env {name}",
        [SNP_REMEDY_WEAKER_TIER]    = "ask the user to start this server with --env {name}, the weaker tier",
        [SNP_REMEDY_ALLOW_DEGRADED] = "ask the user to start this server with --allow-degraded",
        [SNP_REMEDY_ALLOW_INEXACT]  = "ask the user to start this server with --no-require-exact",
        [SNP_REMEDY_ADD_TEMPLATE]   = "the user makes one with: snipara-sandbox template add",
        [SNP_REMEDY_RENEW_TEMPLATE] = "the user rebuilds it with: snipara-sandbox template add {name} --replace",
        [SNP_REMEDY_ALLOW_PYTHON]   = "the user allows it with: snipara-sandbox template add NAME --python {name}",
        [SNP_REMEDY_LIST_SESSIONS]  = "SniparaSandbox.list_sessions lists them",
        [SNP_REMEDY_LIST_FILES]     = "SniparaSandbox.list_files lists them",
        [SNP_REMEDY_STATE_DIR]      = "the user can set SNIPARA_SANDBOX_STATE_DIR to a folder on another disk",
        [SNP_REMEDY_NO_SESSION]     = "ask the user what snipara-sandbox doctor says",
        [SNP_REMEDY_DOCTOR]         = "ask the user what snipara-sandbox doctor says",
    },
    /* clang-format on */
    .limits = limits,
    .ways = ways_add,
    .set_limit = set_limit_add,
};

void snp_mcp_remedy_say(struct snp_say *out, const struct snp_err *err, size_t max)
{
    snp_autosay struct snp_say way = SNP_SAY((size_t)8 * sizeof(*err));

    snp_say_line(out, err->msg, max);
    way.r = snp_remedy_add(&way.buf, &words, err);
    snp_say(out, way.buf.len == 0 ? "" : "; ");
    snp_say_line(out, snp_say_cstr(&way), sizeof(*err));
    out->r = way.r < 0 ? way.r : out->r;
}
