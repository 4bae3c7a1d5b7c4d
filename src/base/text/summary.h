/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_SUMMARY_H
#define SNP_BASE_TEXT_SUMMARY_H

/*
 * The sentences about a result of a cell (docs/result.md), for the command line, MCP and runs: how
 * the cell ended, its limit, files and denials, and the state of its session. A line is {member,
 * part, text}: a member of the result, perhaps a part of that, and the text. Names in a text are
 * untrusted: each front end cleans them.
 */

#include <stdbool.h>

#include "base/json.h"
#include "base/text/hint.h"

/* The label of a line for people, and the word before it for models; borrowed from the line. */
void snp_summary_labels(const json_t *line, const char **ret_people, const char **ret_models);

/*
 * How a stopped cell ended: for people a phrase after its status, for models a sentence. NULL = its
 * error or exit code explains it. The caller frees.
 */
char *snp_summary_end(const json_t *result, enum snp_hint_reader reader);

/* "memory is 512 MiB", for people with the option that raises it; NULL = none. The caller frees. */
char *snp_summary_limit(const json_t *result, enum snp_hint_reader reader);

/*
 * The changed files, a line for each part of `files`: text is "a, b and 3 more, 7 cache files",
 * `names` has its pieces. At most `most` of a kind are named, and no cache files. Ownership as
 * below.
 */
json_t *snp_summary_files(const json_t *result, size_t most);

enum {
    SNP_SUMMARY_PROCESS = 64
};
/* "exited with 3", "ended by SIGKILL", "running", "end unknown"; to text. exit_code < 0: none. */
const char *snp_summary_process(const char *state,
                                int64_t exit_code,
                                const char *signal_name,
                                char text[SNP_SUMMARY_PROCESS]);

/* Whether a path is in a folder that tests and tools fill automatically, such as __pycache__. */
bool snp_summary_is_cache(const char *path);

/*
 * The lines of `restarted`, `state`, `transaction`, `checkpoint` and `restored` in the order of
 * printing; a text is one sentence or a list. At most `most` of the items not restored are named,
 * the others counted. [] = the session is as the code left it. The caller owns it; NULL = out of
 * memory.
 */
json_t *snp_summary_session(const json_t *result, size_t most);

/*
 * The lines of `denials`, with `hint`: text as "network: connect 1.1.1.1:443 (2 times), no network
 * [guest]", of which operation, object and rule are untrusted; hint for the reader, unless it
 * repeats the previous one. told: a hint already printed, or NULL. A refusal by the limit that
 * ended the cell is left out, as `limit` reports it. At most `most`, then one with the number of
 * the others. Ownership as above.
 */
json_t *snp_summary_denials(const json_t *result,
                            enum snp_hint_reader reader,
                            const char *told,
                            size_t most);

#endif
