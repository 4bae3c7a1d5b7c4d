/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_MODEL_PRIV_H
#define SNP_MODEL_MODEL_PRIV_H

/* Shared declarations of model.c (begin and end of calls) and try.c (the tries). */

#include "http/http.h"
#include "http/sse.h"
#include "model/keyring.h"
#include "model/model.h"
#include "model/price.h"
#include "model/replay.h"
#include "model/route.h"

enum {
    SNP_MODEL_QUIRKS_MAX = 16
};

/* What a model of a provider did not take. */
struct snp_model_quirks {
    const struct snp_model_route *route;
    char model[SNP_MODEL_ID_MAX];
    unsigned flags;
};

struct snp_models {
    uv_loop_t *loop;
    const struct snp_config *config;
    struct snp_http *http;
    struct snp_keyring *keyring;
    struct snp_prices *prices;
    struct snp_replay *replays; /* loaded when they are first asked; owned, linked */
    const char *record_file;    /* borrowed; NULL = none */
    bool is_recording;          /* it is there */
    struct snp_model_quirks quirks[SNP_MODEL_QUIRKS_MAX];
    size_t n_quirks;
    struct snp_model_call *calls;
};

struct snp_model_call {
    struct snp_models *models;
    struct snp_model_request request; /* texts and JSON are ours */
    char *texts[3];                   /* owned: model, tool_choice, label */
    json_t *messages;
    json_t *tools;
    json_t *schema;
    struct snp_model_target target;

    uv_timer_t timer; /* of the step that comes next */
    uv_timer_t deadline;
    unsigned n_open; /* timers */
    bool is_over;
    uint64_t started_us;
    unsigned max_tries;
    unsigned n_tries;
    bool has_new_key; /* asked for after the old one was refused */

    struct snp_key_wait *wait;
    const char *key; /* borrowed from the keyring */

    /* the try that runs */
    struct snp_http_call *http;
    struct snp_model_reply reply;
    struct snp_sse sse;
    struct snp_buf body; /* of a reply that is no stream */
    const json_t *turn;  /* of a replay */
    int status;
    bool is_stream;
    uint64_t retry_after_ms;
    struct snp_err try_err; /* of reading; code SNP_OK = none */

    struct snp_model_usage usage; /* of the tries before */
    struct snp_model_call *next;
};

/* The first step of a call: its key, then a try. From the loop. */
void snp_model_try_begin(struct snp_model_call *call);

/* What the running try has used: told, or estimated from what was sent and what came. */
struct snp_model_usage snp_model_try_usage(const struct snp_model_call *call);
void snp_model_usage_add(struct snp_model_usage *into, const struct snp_model_usage *more);

/* The end of a call, told to its caller. */
void snp_model_finish_ok(struct snp_model_call *call);
void snp_model_finish_failed(struct snp_model_call *call,
                             enum snp_model_failure failure,
                             const struct snp_err *err);

/* Milliseconds until its deadline; UINT64_MAX without one. */
uint64_t snp_model_time_left_ms(const struct snp_model_call *call);

#endif
