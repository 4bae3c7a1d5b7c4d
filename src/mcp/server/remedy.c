/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/server/remedy.h"

#include <string.h>

#include "base/json.h"
#include "base/macro.h"
#include "text/remedy.h"
#include "text/text.h"

enum {
    QUOTED_MAX = 400, /* characters of an argument in a call that a text names */
};

/* value as JSON, plain where that shows all that is in it; new, NULL when out of memory. */
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

int snp_mcp_call_arg(struct snp_buf *text, const char *name, const char *value)
{
    snp_autofree char *shown = quoted(value);

    if (shown == NULL) {
        return SNP_E_NOMEM;
    }
    return strlen(shown) > QUOTED_MAX ? snp_buf_addf(text, "%s=(the same)", name)
                                      : snp_buf_addf(text, "%s=%s", name, shown);
}

int snp_mcp_call_session(struct snp_buf *text, const char *session_id)
{
    int r;

    if (strcmp(session_id, "default") == 0) {
        return 0;
    }
    r = snp_buf_adds(text, ", ");
    return r < 0 ? r : snp_mcp_call_arg(text, "session_id", session_id);
}

int snp_mcp_ways_add(struct snp_buf *text, int64_t ways, const char *session_id)
{
    static const char *const does[] = {"runs the cells again first",
                                       "runs the other cells again first",
                                       "goes on without them"};
    bool is_first = true;
    int r = 0;

    for (unsigned i = 0; r == 0 && i < SNP_ARRAY_LEN(does); i++) {
        if ((ways & (1 << i)) == 0) {
            continue;
        }
        r = snp_buf_addf(text, "%srecover=\"%s\"",
                         is_first ? "SniparaSandbox.execute_python(" : ", ",
                         snp_recover_ways[i]);
        r = r < 0 || !is_first ? r : snp_mcp_call_session(text, session_id);
        r = r < 0 ? r : snp_buf_addf(text, "%s %s", is_first ? ")" : "", does[i]);
        is_first = false;
    }
    return r;
}

static int ways_add(struct snp_buf *out, int64_t ways, const char *object)
{
    int r = snp_mcp_ways_add(out, ways, object[0] == '\0' ? "default" : object);

    return r < 0 ? r : snp_buf_adds(out, "; SniparaSandbox.destroy_session begins anew");
}

static const struct snp_remedy_limit limits[] = {
    {"workspace_size", "delete files that are not needed"                                    },
    {"project_size",
     "ask the user to start this server with a larger --workspace-size and --workspace-files"},
    {"journal_budget", "SniparaSandbox.destroy_session frees what a session takes"           },
    {"cost_limit",     "give the model a price, or the argument cost_limit=-1 (no limit)"    },
    {NULL,             NULL                                                                  },
};

static const struct snp_remedy_words words = {
  /* Each text is one literal. */
  /* clang-format off */
    .kind = {
        [SNP_REMEDY_CLEAR_SESSION]  = "SniparaSandbox.destroy_session begins anew",
        [SNP_REMEDY_END_SESSION]    = "SniparaSandbox.destroy_session ends one",
        [SNP_REMEDY_TIER]           = "ask the user to start this server with --env {name}",
        [SNP_REMEDY_WEAKER_TIER]    = "ask the user to start this server with --env {name}, the weaker tier",
        [SNP_REMEDY_ALLOW_DEGRADED] = "ask the user to start this server with --allow-degraded",
        [SNP_REMEDY_ALLOW_INEXACT]  = "ask the user to start this server with --no-require-exact",
        [SNP_REMEDY_TEMPLATE]       = "ask the user to start this server with --template {name}",
        [SNP_REMEDY_ADD_TEMPLATE]   = "the user makes one with: snipara-sandbox template add",
        [SNP_REMEDY_RENEW_TEMPLATE] = "the user builds it anew with: snipara-sandbox template add {name} --replace",
        [SNP_REMEDY_ALLOW_PYTHON]   = "the user allows it with: snipara-sandbox template add NAME --python {name}",
        [SNP_REMEDY_STATE_DIR]      = "the user can set SNIPARA_SANDBOX_STATE_DIR to a folder on another disk",
        [SNP_REMEDY_NO_SESSION]     = "ask the user what snipara-sandbox doctor says",
        [SNP_REMEDY_DOCTOR]         = "ask the user what snipara-sandbox doctor says",
    },
  /* clang-format on */
    .limits = limits,
    .ways = ways_add,
};

int snp_mcp_remedy_text(struct snp_buf *out, const struct snp_err *err, size_t max)
{
    snp_autobuf struct snp_buf way = {0};
    int r;

    snp_buf_init(&way, (size_t)8 * sizeof(*err));
    r = snp_text_line(out, err->msg, strlen(err->msg), max);
    r = r < 0 ? r : snp_remedy_add(&way, &words, err);
    r = r < 0 || way.len == 0 ? r : snp_buf_adds(out, "; ");
    return r < 0 ? r : snp_text_line(out, snp_buf_cstr(&way), way.len, sizeof(*err));
}
