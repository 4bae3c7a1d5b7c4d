/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_NEARBY_H
#define SNP_BASE_CLI_SESSION_NEARBY_H

/*
 * Files that code missed in the sandbox but that exist on this machine. Only the person at the
 * command line sees this, looked up with that person's rights; it is not in any result.
 */

#include "base/buf.h"
#include "base/json.h"

/* Advice for a file or module of an error; NULL: it is not here either. The caller frees. */
char *snp_nearby_error(const json_t *error, const char *session);
/*
 * The same for the words of a failed command. said: its standard error, which must report a missing
 * file. session: where it ran; NULL: an unnamed one, already gone.
 */
char *snp_nearby_words(const json_t *argv, const struct snp_buf *said, const char *session);

#endif
