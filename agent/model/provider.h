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
    SNP_MODEL_STOP_END = 0, /* it said what it had to say */
    SNP_MODEL_STOP_TOOLS,   /* it waits for its tool calls */
    /* cut off at max_tokens: text is not whole, the last call may be broken */
    SNP_MODEL_STOP_LENGTH,
    SNP_MODEL_STOP_FILTER, /* the provider withheld the rest, or the model refused */
    SNP_MODEL_STOP_N,
};

/* Why there is no answer. What a caller decides by; the text is in the snp_err beside it. */
enum snp_model_failure {
    SNP_MODEL_FAILED_REQUEST = 0, /* refused as wrong: repeating it is useless */
    SNP_MODEL_FAILED_SETUP,       /* no key, no such provider, no base URL: nothing was sent */
    SNP_MODEL_FAILED_AUTH,        /* the key is refused, or may not use this model */
    SNP_MODEL_FAILED_MODEL,       /* there is no such model */
    SNP_MODEL_FAILED_QUOTA,       /* no money or quota left: waiting does not help */
    SNP_MODEL_FAILED_CONTEXT,     /* more tokens than the model takes */
    SNP_MODEL_FAILED_RATE,        /* 429 after all retries */
    SNP_MODEL_FAILED_SERVER,      /* 5xx or overloaded after all retries */
    SNP_MODEL_FAILED_NETWORK,     /* no connection, or it broke, after all retries */
    SNP_MODEL_FAILED_REPLY,       /* what came is no reply of this protocol, or is too large */
    SNP_MODEL_FAILED_TIMEOUT,     /* the deadline */
    SNP_MODEL_FAILED_REPLAY,      /* the script has no turn for this */
    SNP_MODEL_FAILED_N,
};

enum {
    SNP_MODEL_PRICE_MAX = 1000000000, /* USD of one call: no sum of such overflows */
};
/* Of one call and kind. No model can use more: who says so has said nothing. */
static const uint64_t snp_model_tokens_max = UINT64_C(1) << 40;

/* Tokens. Sums over all tries of one call; values the provider does not report are estimated. */
struct snp_model_usage {
    uint64_t input;       /* all of the prompt, cached parts included */
    uint64_t output;      /* reasoning included */
    uint64_t cache_read;  /* of input: read from the provider's cache, billed for less */
    uint64_t cache_write; /* of input: written to it, billed for more */
    uint64_t reasoning;   /* of output */
    bool is_estimated;    /* at least a part was not told */
};

struct snp_model_event;
struct snp_model_answer;

struct snp_model_request {
    /*
     * As a user writes it ("gpt-4o-mini", "anthropic/claude-...", "replay"); NULL = the
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

    /* Pieces as they come; may be NULL, may ask and cancel. */
    void (*on_event)(void *ctx, const struct snp_model_event *event);
    /*
     * The end, exactly once, never before the call that asked has returned, never after its
     * cancellation.
     */
    void (*on_done)(void *ctx, const struct snp_model_answer *answer);
    void *ctx;
};

enum snp_model_event_type {
    SNP_MODEL_EVENT_TEXT = 0,  /* a piece of the answer */
    SNP_MODEL_EVENT_REASONING, /* a piece of what it thinks, where that is shown */
    SNP_MODEL_EVENT_CALL,      /* a tool call begins; text = its name */
    /* this try failed (err), the next begins in wait_ms; what was streamed is void */
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
    bool is_ok; /* else failure and err say why, and message is what came before, or NULL */
    enum snp_model_failure failure;
    struct snp_err err;
    int http_status; /* of the last reply, 0 = none */

    json_t *message;    /* to append to the conversation; json_incref to keep it */
    const char *text;   /* its content, "" if it has none */
    json_t *tool_calls; /* its calls: an array, maybe empty; never NULL when is_ok */
    json_t *parsed;     /* with a schema: the text as JSON; NULL = it was not JSON */
    enum snp_model_stop stop;

    struct snp_model_usage usage;
    /* else the price of the model is unknown, and cost_usd is 0 and means nothing */
    bool is_priced;
    double cost_usd;      /* of all tries */
    const char *provider; /* "openai", "anthropic", "gemini", "replay", "mistral", ... */
    const char *model;    /* as the provider names it */
    const char *reply_id; /* the provider's id of the reply, "" = none */
    unsigned tries;
    uint64_t duration_ms;
};

extern const char *const snp_model_stop_names[SNP_MODEL_STOP_N];
extern const char *const snp_model_failure_names[SNP_MODEL_FAILED_N]; /* "rate_limit", ... */

/* {"input": N, ..., ESTIMATED: bool}. New reference. */
json_t *snp_model_usage_to_json(const struct snp_model_usage *usage, const char *estimated);

/*
 * Everything of an answer but err's place as JSON (for trajectories), and back where it was stored
 * so. New reference, NULL when out of memory.
 */
json_t *snp_model_answer_to_json(const struct snp_model_answer *answer);

/* Why the arguments of a tool call cannot be used, NULL if they can. Borrowed from call. */
const char *snp_model_call_error(const json_t *call);

/* Tokens of a text, estimated high rather than low. */
uint64_t snp_model_estimate(const char *text, size_t n);
/* Input tokens of a request: messages, tools and schema. */
uint64_t snp_model_estimate_request(const struct snp_model_request *request);

#endif
