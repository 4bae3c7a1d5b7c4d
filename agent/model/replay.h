/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_REPLAY_H
#define SNP_MODEL_REPLAY_H

/*
 * The provider without a model: a script of answers, one JSON object a line, and the writer of such
 * scripts. docs/reference/models.md describes the format.
 */

#include "model/provider.h"
#include "model/reply.h"

struct snp_replay;

/* SNP_E_INVALID: an invalid line, named by its number; SNP_E_NOT_FOUND. */
int snp_replay_load(const char *path, struct snp_replay **ret, struct snp_err *err) SNP_NODISCARD;
/* Free a list filled by snp_replay_open, or a single script. */
void snp_replay_free(struct snp_replay *replay);
/* The script at path, from the list or loaded into it. *ret is borrowed from the list. */
int snp_replay_open(struct snp_replay **list,
                    const char *path,
                    struct snp_replay **ret,
                    struct snp_err *err) SNP_NODISCARD;

/*
 * The first unused turn that matches the request; it is then used, unless it repeats. *ret is
 * borrowed. SNP_E_NOT_FOUND: none, with the reason.
 */
int snp_replay_take(struct snp_replay *replay,
                    const struct snp_model_request *request,
                    const json_t **ret,
                    struct snp_err *err) SNP_NODISCARD;

/* Fill a reply from a turn, as if it had just been received, and report it in pieces. */
int snp_replay_read(const json_t *turn,
                    struct snp_model_reply *reply,
                    struct snp_err *err) SNP_NODISCARD;
/* True: the turn is a failure. */
bool snp_replay_failure(const json_t *turn,
                        enum snp_model_failure *ret,
                        int *ret_status,
                        bool *ret_is_final, /* a retry gets the same answer */
                        struct snp_err *ret_err);
uint64_t snp_replay_delay_ms(const json_t *turn);

/*
 * Before the first record: create the file (0600), or check that it is a script. SNP_E_INVALID,
 * SNP_E_SYS.
 */
int snp_replay_record_begin(const char *path, struct snp_err *err) SNP_NODISCARD;
/* Append an answer. SNP_E_SYS. */
int snp_replay_record(const char *path,
                      const struct snp_model_request *request,
                      const struct snp_model_answer *answer,
                      struct snp_err *err) SNP_NODISCARD;

#endif
