/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/remedy.h"

#include <string.h>

#include "base/policy/limits.h"
#include "base/text/remedy.h"

enum {
    TEXT_MAX = 2048,
};

static const struct snp_remedy_limit limits[] = {
    {"workspace_size", "--workspace-size raises the limit, --file-size that of a single file"},
    {"memory",
     "delete files or variables, or raise it: snipara-sandbox sessions set NAME --memory SIZE"},
    {"project_size",
     "--workspace-size and --workspace-files raise that, or choose a smaller folder"},
    {"journal_budget",
     "snapshots remove makes room; snipara-sandbox gc --journal-budget SIZE raises it until the "
     "daemon ends, SNIPARA_SANDBOX_JOURNAL_BUDGET from its next start on"},
    {"cost_limit", "give the model a price (docs/reference/models.md), or --cost-limit none"},
    {NULL, NULL},
};

static int set_limit_add(struct snp_buf *out, const struct snp_err *err)
{
    char option[64];

    return snp_buf_addf(
        out, "to change it: snipara-sandbox sessions set %s %s", err->object,
        snp_limit_option(err->remedy.name, (uint64_t)err->remedy.value, option, sizeof(option)));
}

static const struct snp_remedy_words words = {
    /* Each text is one literal. */
    /* clang-format off */
    .kind = {
        [SNP_REMEDY_OTHER_NAME]     = "--name gives another",
        [SNP_REMEDY_FORCE]          = "--yes does it anyway",
        [SNP_REMEDY_RECURSE]        = "-r copies a folder",
        [SNP_REMEDY_CLEAR_SESSION]  = "to drop its variables and files: snipara-sandbox sessions clear {name}",
        [SNP_REMEDY_END_SESSION]    = "end one with: snipara-sandbox sessions destroy NAME",
        [SNP_REMEDY_NO_SESSION]     = "details: snipara-sandbox doctor; code that needs no session runs without --session",
        [SNP_REMEDY_TIER]           = "--env {name} runs it in the {name} tier",
        [SNP_REMEDY_WEAKER_TIER]    = "--env {name} runs it in the weaker {name} tier",
        [SNP_REMEDY_ALLOW_DEGRADED] = "--allow-degraded runs without it",
        [SNP_REMEDY_ALLOW_INEXACT]  = "or use --no-require-exact; details: snipara-sandbox doctor",
        [SNP_REMEDY_ADD_TEMPLATE]   = "snipara-sandbox template add makes one",
        [SNP_REMEDY_RENEW_TEMPLATE] = "snipara-sandbox template add {name} --replace rebuilds it",
        [SNP_REMEDY_ALLOW_PYTHON]   = "to allow it: snipara-sandbox template add NAME --python {name}",
        [SNP_REMEDY_STATE_DIR]      = "or set SNIPARA_SANDBOX_STATE_DIR to a folder on another disk",
        [SNP_REMEDY_LOG_DIR]        = "to write there anyway, use --log-dir",
        [SNP_REMEDY_LIST_SESSIONS]  = "to list sessions: snipara-sandbox sessions; to make one: exec -s NAME CODE",
        [SNP_REMEDY_LIST_SNAPSHOTS] = "to list snapshots: snipara-sandbox snapshots",
        [SNP_REMEDY_LIST_FILES]     = "to list files: snipara-sandbox ls SESSION:FOLDER",
        [SNP_REMEDY_FINGERPRINTS]   = "snipara-sandbox mcp tools --json shows them, --pins FILE writes them",
        [SNP_REMEDY_DOCTOR]         = "details: snipara-sandbox doctor",
    },
    /* clang-format on */
    .limits = limits,
    .ways = snp_cli_remedy_ways,
    .set_limit = set_limit_add,
};

int snp_cli_remedy_ways(struct snp_buf *out, int64_t ways, const char *session)
{
    static const char *const texts[] = {" --recover replay runs the cells again",
                                        " --recover skip runs the other cells again",
                                        " --recover checkpoint continues without them"};
    bool is_first = true;
    int r = snp_buf_addf(out, "exec -s %s", session);

    for (unsigned i = 0; i < SNP_ARRAY_LEN(texts); i++) {
        if ((ways & (1 << i)) != 0) {
            r = r < 0 ? r : snp_buf_addf(out, "%s%s", is_first ? "" : ",", texts[i]);
            is_first = false;
        }
    }
    return r;
}

int snp_cli_remedy_add(struct snp_buf *out, const struct snp_err *err)
{
    return snp_remedy_add(out, &words, err);
}

json_t *snp_cli_remedy_text(const struct snp_err *err)
{
    snp_autobuf struct snp_buf text = {0};
    size_t n;
    int r;

    snp_buf_init(&text, TEXT_MAX);
    r = snp_buf_addf(&text, "%s; ", err->msg);
    n = text.len;
    r = r < 0 ? r : snp_cli_remedy_add(&text, err);
    return r < 0 || text.len == n ? snp_json_bytes(err->msg, strlen(err->msg))
                                  : snp_json_bytes(snp_buf_bytes(&text), text.len);
}
