/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SHOW_NEARBY_H
#define SNP_CLI_SHOW_NEARBY_H

/*
 * Files that code looked for in the sandbox, and that are on this machine. Only the person who
 * typed the command is told, with the person's own rights: nothing of it is in a result.
 */

#include "base/buf.h"
#include "base/json.h"

/*
 * What a person can do about a file or module of an error; NULL: it is not here either. The
 * caller frees.
 */
char *snp_nearby_error(const json_t *error, const char *session);
/*
 * The same of the words of a command that failed. said: its standard error, which must tell of one.
 * session: that it ran in; NULL: in one without a name, which is gone.
 */
char *snp_nearby_words(const json_t *argv, const struct snp_buf *said, const char *session);

#endif
