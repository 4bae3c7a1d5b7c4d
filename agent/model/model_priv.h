/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_MODEL_PRIV_H
#define SNP_MODEL_MODEL_PRIV_H

/* Shared declarations of model.c (begin and end of calls) and try.c (the tries). */

#include "base/http/http.h"
#include "base/http/sse.h"
#include "model/keyring.h"
#include "model/model.h"
#include "model/price.h"
#include "model/replay.h"
#include "model/route.h"

enum {
    SNP_MODEL_QUIRKS_MAX = 16
};

/* Features that a model of a provider refused. */
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
    struct snp_replay *replays; /* loaded on first use; owned, linked */
    const char *record_file;    /* borrowed; NULL = none */
    bool is_recording;          /* the record file exists */
    struct snp_model_quirks quirks[SNP_MODEL_QUIRKS_MAX];
    size_t n_quirks;
    struct snp_model_call *calls;
};

struct snp_model_call {
    struct snp_models *models;
    struct snp_model_request request; /* texts and JSON are owned copies */
    char *texts[3];                   /* owned: model, tool_choice, label */
    json_t *messages;
    json_t *tools;
    json_t *schema;
    struct snp_model_target target;

    uv_timer_t timer; /* of the next step */
    uv_timer_t deadline;
    unsigned n_open; /* timers */
    bool is_over;
    uint64_t started_us;
    unsigned max_tries;
    unsigned n_tries;
    bool has_new_key; /* requested after the previous one was refused */

    struct snp_key_wait *wait;
    const char *key; /* borrowed from the keyring */

    /* the running try */
    struct snp_http_call *http;
    struct snp_model_reply reply;
    struct snp_sse sse;
    struct snp_buf body; /* of a reply that is not a stream */
    const json_t *turn;  /* of a replay */
    int status;
    bool is_stream;
    uint64_t retry_after_ms;
    struct snp_err try_err; /* of reading; code SNP_OK = none */

    struct snp_model_usage usage; /* of earlier tries */
    struct snp_model_call *next;
};

/* Begin a call: get its key, then try. From the loop. */
void snp_model_try_begin(struct snp_model_call *call);

/* Usage of the running try: reported, or estimated from the data sent and received. */
struct snp_model_usage snp_model_try_usage(const struct snp_model_call *call);
void snp_model_usage_add(struct snp_model_usage *into, const struct snp_model_usage *more);

/* End a call and report it to the caller. */
void snp_model_finish_ok(struct snp_model_call *call);
void snp_model_finish_failed(struct snp_model_call *call,
                             enum snp_model_failure failure,
                             const struct snp_err *err);

/* Milliseconds until its deadline; UINT64_MAX without one. */
uint64_t snp_model_time_left_ms(const struct snp_model_call *call);

#endif
