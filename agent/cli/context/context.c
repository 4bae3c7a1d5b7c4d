/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `context`, whose verbs the program `context` runs. */
#include "cli/context/context.h"

#define OPT_DIR                                                                                 \
    {                                                                                           \
        "dir", 'C', SNP_OPT_STRING, "DIR",                                                      \
            "the project (default: the Git repository around this folder, else this folder)", 0 \
    }
#define OPT_TOKENS(text)                             \
    {                                                \
        "max-tokens", 'n', SNP_OPT_INT, "N", text, 0 \
    }

static const struct snp_opt index_options[] = {
    {"rebuild", 0, SNP_OPT_FLAG, NULL, "discard the index and read all files again", 0},
    {"watch", 'w', SNP_OPT_FLAG, NULL,
     "keep running, and update the index when files change, until Ctrl-C", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt query_options[] = {
    OPT_TOKENS("the most tokens: 100 to 100000 (default 4000)"),
    {"mode", 0, SNP_OPT_STRING, "MODE",
     "keyword, semantic (if it is installed) or hybrid (all; default)", 0},
    {"file", 'f', SNP_OPT_STRING, "FILE", "the current file; its imports rank higher", 0},
    OPT_DIR,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt search_options[] = {
    {"max-results", 'n', SNP_OPT_INT, "N", "limit of lines: 1 to 1000 (default 20)", 0},
    OPT_DIR,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt map_options[] = {
    OPT_TOKENS("the most tokens: 100 to 100000 (default 4000)"),
    OPT_DIR,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt sections_options[] = {
    {"limit", 'n', SNP_OPT_INT, "N", "limit of sections: 1 to 500 (default 50)", 0},
    {"offset", 0, SNP_OPT_INT, "N", "number of sections to skip (default 0)", 0},
    OPT_DIR,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt standards_options[] = {
    {"category", 0, SNP_OPT_LIST, "CLASS",
     "only MANDATORY, BEST_PRACTICES, GUIDELINES or REFERENCE; may be repeated", 0},
    OPT_TOKENS("limit of tokens of their texts: 100 to 100000 (default 2000)"),
    {"content", 0, SNP_OPT_BOOL, NULL, "print their texts (default: with --json)", 0},
    OPT_DIR,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt plain_options[] = {
    OPT_DIR,
    SNP_CLI_OPT_JSON,
};

static const struct snp_opt_arg index_args[] = {
    {"DIR", "the project (default: the Git repository around this folder, else this folder)", 0,
     1}};
static const struct snp_opt_arg query_args[] = {
    {"TEXT", "a name, a path, or words to search for", 1, 0}};
static const struct snp_opt_arg search_args[] = {
    {"REGEX", "a regular expression, case-insensitive; at most 500 bytes", 1, 1}};
static const struct snp_opt_arg read_args[] = {
    {"FILE:A-B", "FILE, FILE:A or FILE:A-B; prints at most 200 lines", 1, 1}};
static const struct snp_opt_arg skeleton_args[] = {{"FILE", "a file of the project", 1, 1}};
static const struct snp_opt_arg call_args[] = {
    {"TOOL", "the tool to call", 1, 1},
    {"FILE", "a file with its arguments (default: -, standard input)", 0, 1},
};
static const struct snp_opt_arg sections_args[] = {
    {"FILTER", "only sections with this text in their title or path", 0, 1}};

const struct snp_verb snp_verb_context_index = {
    .name = "index",
    .summary = "index a project, or update its index",
    .description = "Read the files that Git does not ignore into a database in the state folder. "
                   "Files named like secrets, files with a private key, binary files and files "
                   "over 1 MiB are skipped; links are not followed. Code is parsed in a process "
                   "that can only read, write and compute. The other commands update the index "
                   "automatically. If semantic search is installed, `index` then makes the vectors "
                   "it needs; after an interrupt the next `index` continues.",
    .spec = SNP_SPEC(index_options, index_args),
    .examples = "context index\ncontext index ~/src/project --json",
    .program = "context",
};
const struct snp_verb snp_verb_context_query = {
    .name = "query",
    .summary = "find the parts of a project that answer a question, within a token budget",
    .description = "Exact names and paths come first, then parts with the words of the question. "
                   "Each part shows why it matched. Whole definitions are printed while they fit, "
                   "then signatures, then names. Four characters count as one token. The key "
                   "context_embeddings selects how vectors for semantic search are made.",
    .spec = SNP_SPEC(query_options, query_args),
    .examples = "context query parse_header\ncontext query \"where are sessions saved\" "
                "--max-tokens 2000 --json",
    .program = "context",
};
const struct snp_verb snp_verb_context_search = {
    .name = "search",
    .summary = "find lines that match a regular expression",
    .description = "Search the text of all indexed files, for at most 1 s.",
    .spec = SNP_SPEC(search_options, search_args),
    .examples = "context search 'def \\w+_token'",
    .program = "context",
};
const struct snp_verb snp_verb_context_read = {
    .name = "read",
    .summary = "print numbered lines of a file",
    .spec = SNP_SPEC(plain_options, read_args),
    .examples = "context read src/main.c:1-40",
    .program = "context",
};
const struct snp_verb snp_verb_context_map = {
    .name = "map",
    .summary = "list files and the signatures in them, within a token budget",
    .spec = SNP_OPTIONS(map_options),
    .examples = "context map --max-tokens 2000",
    .program = "context",
};
const struct snp_verb snp_verb_context_skeleton = {
    .name = "skeleton",
    .summary = "print the signatures in a file, without bodies",
    .spec = SNP_SPEC(plain_options, skeleton_args),
    .examples = "context skeleton src/main.c",
    .program = "context",
};
const struct snp_verb snp_verb_context_sections = {
    .name = "sections",
    .summary = "list the definitions and sections of a project",
    .spec = SNP_SPEC(sections_options, sections_args),
    .examples = "context sections Session --limit 20",
    .program = "context",
};
const struct snp_verb snp_verb_context_standards = {
    .name = "standards",
    .summary = "list the team's coding standards and the rules that are checked",
    .description = "Read .snipara/standards/*.md, CODING_STANDARDS.md, AGENTS.md and "
                   "CONTRIBUTING.md. Standards marked MANDATORY are in every answer of `context "
                   "query`; a change that breaks one is not ready in `verify` and `agent --test`.",
    .spec = SNP_OPTIONS(standards_options),
    .examples = "context standards\ncontext standards --category MANDATORY --json",
    .program = "context",
};
const struct snp_verb snp_verb_context_stats = {
    .name = "stats",
    .summary = "show statistics of the index",
    .spec = SNP_OPTIONS(plain_options),
    .examples = "context stats --json",
    .program = "context",
};

const struct snp_verb snp_verb_context_call = {
    .name = "call",
    .summary = "answer a tool call with JSON arguments",
    .description = "Answer a tool call as in a run. TOOL is context_query, search, read, sections "
                   "or shared_context, or one of these with the prefix snipara_ or rlm_.",
    .spec = SNP_SPEC(plain_options, call_args),
    .examples = "context call search <<<'{\"pattern\": \"def main\"}'",
    .program = "context",
};

#define CONTEXT_VERB_ADDRESS(name) &snp_verb_context_##name,
static const struct snp_verb *const verbs[] = {SNP_CONTEXT_VERBS(CONTEXT_VERB_ADDRESS) NULL};

const struct snp_verb snp_verb_context = {
    .name = "context",
    .summary = "find code that answers a question: query, search, read, map",
    .verbs = verbs,
    .program = "context",
};
