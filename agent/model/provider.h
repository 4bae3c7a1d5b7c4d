/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_PROVIDER_H
#define SNP_MODEL_PROVIDER_H

/*
 * Requests to models and their answers, the same for all providers.
 *
 * A conversation is a JSON array of messages:
 *   {"role": "system" | "user", "content": TEXT}
 *   {"role": "assistant", "content": TEXT | null, "tool_calls": [CALL...]?, "opaque": {...}?}
 *   {"role": "tool", "tool_call_id": ID, "name": TOOL, "content": TEXT, "is_error": true?}
 * CALL is {"id", "name", "arguments": {...}}. Arguments that were no JSON object read {"_error":
 * WHY, "_raw": up to 500 characters}: answer such a call with WHY, and the model mends it. Every
 * call is answered by one tool message before the next user or assistant message. An answer's
 * message is appended to the conversation as it is; "opaque" is what a provider wants to see again,
 * and means nothing to others.
 *
 * Tools: [{"name", "description", "parameters": JSON Schema}].
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum snp_model_stop {
    SNP_MODEL_STOP_END = 0, /* the model finished */
    SNP_MODEL_STOP_TOOLS,   /* the model waits for its tool calls */
    /* cut off at max_tokens: text is incomplete, the last call may be broken */
    SNP_MODEL_STOP_LENGTH,
    SNP_MODEL_STOP_FILTER, /* the provider withheld the rest, or the model refused */
    SNP_MODEL_STOP_N,
};

/* Why a call failed, for decisions of the caller; the text is in the snp_err beside it. */
enum snp_model_failure {
    SNP_MODEL_FAILED_REQUEST = 0, /* refused as invalid: repeating it is useless */
    SNP_MODEL_FAILED_SETUP,       /* no key, no such provider, no base URL: nothing was sent */
    SNP_MODEL_FAILED_AUTH,        /* the key is refused, or has no access to this model */
    SNP_MODEL_FAILED_MODEL,       /* no such model */
    SNP_MODEL_FAILED_QUOTA,       /* no money or quota left: waiting does not help */
    SNP_MODEL_FAILED_CONTEXT,     /* more tokens than the model accepts */
    SNP_MODEL_FAILED_RATE,        /* 429 after all retries */
    SNP_MODEL_FAILED_SERVER,      /* 5xx or overloaded after all retries */
    SNP_MODEL_FAILED_NETWORK,     /* no connection, or it broke, after all retries */
    SNP_MODEL_FAILED_REPLY,       /* not a valid reply of this protocol, or too large */
    SNP_MODEL_FAILED_TIMEOUT,     /* the deadline */
    SNP_MODEL_FAILED_REPLAY,      /* the script has no turn for this */
    SNP_MODEL_FAILED_N,
};

enum {
    SNP_MODEL_PRICE_MAX = 1000000000, /* USD of one call: no sum of such overflows */
};
/* Of one call and kind. No model can use more, so larger counts are ignored. */
static const uint64_t snp_model_tokens_max = UINT64_C(1) << 40;

/*
 * Tokens. Sums over all tries of one call; counts that the provider does not report are estimated.
 */
struct snp_model_usage {
    uint64_t input;       /* the whole prompt, including cached parts */
    uint64_t output;      /* including reasoning */
    uint64_t cache_read;  /* of input: read from the provider's cache, billed for less */
    uint64_t cache_write; /* of input: written to it, billed for more */
    uint64_t reasoning;   /* of output */
    bool is_estimated;    /* at least one count is estimated */
};

struct snp_model_event;
struct snp_model_answer;

struct snp_model_request {
    /*
     * Name as the user writes it ("gpt-4o-mini", "anthropic/claude-...", "replay"); NULL = the
     * configured one.
     */
    const char *model;
    const json_t *messages;  /* borrowed until done; not changed */
    const json_t *tools;     /* borrowed until done; NULL or [] = none */
    const char *tool_choice; /* "auto" (NULL), "none", "required", or the name of a tool */
    const json_t *schema;    /* the answer is JSON that follows this JSON Schema; NULL = text */
    double temperature;      /* below 0 = the configured one */
    uint64_t max_tokens;     /* of the answer; 0 = the provider's default */
    uint64_t deadline_us;    /* CLOCK_MONOTONIC, for all tries and waits together; 0 = none */
    unsigned max_tries;      /* 0 = the configured number */
    const char *label;       /* what a replay script can match: "main", "sub", ...; NULL = "main" */

    /* Pieces in the order received; may be NULL, may start and cancel calls. */
    void (*on_event)(void *ctx, const struct snp_model_event *event);
    /*
     * The end: called exactly once, never before the starting call has returned, never after a
     * cancellation.
     */
    void (*on_done)(void *ctx, const struct snp_model_answer *answer);
    void *ctx;
};

enum snp_model_event_type {
    SNP_MODEL_EVENT_TEXT = 0,  /* a piece of the answer */
    SNP_MODEL_EVENT_REASONING, /* a piece of its reasoning, if the provider shows it */
    SNP_MODEL_EVENT_CALL,      /* a tool call begins; text = its name */
    /* this try failed (err), the next begins in wait_ms; discard the streamed text */
    SNP_MODEL_EVENT_RETRY,
};

struct snp_model_event {
    enum snp_model_event_type type;
    const char *text; /* UTF-8, NUL-terminated; "" for a retry */
    size_t len;
    uint64_t wait_ms;
    unsigned next_try;         /* counts from 2 */
    const struct snp_err *err; /* NULL unless a retry */
};

/* The end of a call. Everything is borrowed until the callback returns. */
struct snp_model_answer {
    bool is_ok; /* else see failure and err; message is NULL or the part received before */
    enum snp_model_failure failure;
    struct snp_err err;
    int http_status; /* of the last reply, 0 = none */

    json_t *message;    /* to be appended to the conversation; json_incref to keep it */
    const char *text;   /* its content, "" if it has none */
    json_t *tool_calls; /* its calls: an array, possibly empty; never NULL when is_ok */
    json_t *parsed;     /* with a schema: the text as JSON; NULL = it was not JSON */
    enum snp_model_stop stop;

    struct snp_model_usage usage;
    /* else the price of the model is unknown, and cost_usd is 0 without meaning */
    bool is_priced;
    double cost_usd;      /* of all tries */
    const char *provider; /* "openai", "anthropic", "gemini", "replay", "mistral", ... */
    const char *model;    /* the provider's name of it */
    const char *reply_id; /* the provider's id of the reply, "" = none */
    unsigned tries;
    uint64_t duration_ms;
};

extern const char *const snp_model_stop_names[SNP_MODEL_STOP_N];
extern const char *const snp_model_failure_names[SNP_MODEL_FAILED_N]; /* "rate_limit", ... */

/* {"input": N, ..., ESTIMATED: bool}. New reference. */
json_t *snp_model_usage_to_json(const struct snp_model_usage *usage, const char *estimated);

/*
 * All of an answer except err.place as JSON (for trajectories), and back from that form. New
 * reference, NULL when out of memory.
 */
json_t *snp_model_answer_to_json(const struct snp_model_answer *answer);

/* Why the arguments of a tool call are unusable; NULL if they are valid. Borrowed from call. */
const char *snp_model_call_error(const json_t *call);

/* Tokens of a text; the estimate is rather too high than too low. */
uint64_t snp_model_estimate(const char *text, size_t n);
/* Input tokens of a request: messages, tools and schema. */
uint64_t snp_model_estimate_request(const struct snp_model_request *request);

#endif
