/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_REPLY_H
#define SNP_MODEL_REPLY_H

/* A reply being received: its parts in the order received, and the resulting message. */

#include "base/buf.h"
#include "model/provider.h"

enum {
    /* bytes of a reply's text, its reasoning, its arguments: of each */
    SNP_MODEL_TEXT_MAX = 16 << 20,
    SNP_MODEL_CALLS_MAX = 128,
    SNP_MODEL_ID_MAX = 128,
    SNP_MODEL_RAW_SHOWN = 500, /* shown characters of invalid arguments */
};

struct snp_model_tool_call {
    int64_t index;               /* the provider's number of the call */
    char id[SNP_MODEL_ID_MAX];   /* "" = none given */
    char name[SNP_MODEL_ID_MAX]; /* "" until known */
    struct snp_buf arguments;    /* JSON text */
    json_t *signature;           /* to be sent back to the provider; NULL = nothing */
};

struct snp_model_reply {
    void (*on_event)(void *ctx, const struct snp_model_event *event); /* NULL = none */
    void *ctx;

    struct snp_buf text;
    struct snp_buf reasoning;
    struct snp_model_tool_call *calls; /* owned; at most SNP_MODEL_CALLS_MAX */
    size_t n_calls;
    json_t *opaque;       /* owned; NULL = nothing */
    bool keeps_blocks;    /* else the order of its blocks is irrelevant, and opaque is dropped */
    bool keeps_reasoning; /* the provider needs its reasoning sent back */
    enum snp_model_stop stop;
    bool has_stop; /* the provider gave a stop reason */
    bool is_ended; /* the stream is complete */
    struct snp_model_usage usage;
    bool has_usage; /* reported by the provider */
    char model[SNP_MODEL_ID_MAX];
    char id[SNP_MODEL_ID_MAX];
    json_t *error; /* owned; an error that the provider reported inside a reply */
};

void snp_model_reply_init(struct snp_model_reply *reply);
void snp_model_reply_done(struct snp_model_reply *reply);

/* A piece of text (NULL = ""). SNP_E_LIMIT, SNP_E_NOMEM. */
int snp_model_reply_text(struct snp_model_reply *reply,
                         const json_t *text,
                         struct snp_err *err) SNP_NODISCARD;
int snp_model_reply_reasoning(struct snp_model_reply *reply,
                              const json_t *text,
                              struct snp_err *err) SNP_NODISCARD;

/*
 * The call with this index, or a new one. id and name (NULL = not in this piece) are stored the
 * first time. SNP_E_LIMIT: too many calls, or the name is too long.
 */
int snp_model_reply_call(struct snp_model_reply *reply,
                         int64_t index,
                         const char *id,
                         const char *name,
                         struct snp_model_tool_call **ret,
                         struct snp_err *err) SNP_NODISCARD;
/* A piece of a call's arguments: a string, or the whole object. */
int snp_model_reply_arguments(struct snp_model_tool_call *call,
                              const json_t *arguments,
                              struct snp_err *err) SNP_NODISCARD;

/*
 * The stop reason in the provider's words, from a table ended by NULL. An unknown word is the usual
 * end.
 */
struct snp_model_stop_word {
    const char *word;
    enum snp_model_stop stop;
};
void snp_model_reply_stop(struct snp_model_reply *reply,
                          const json_t *reason,
                          const struct snp_model_stop_word *words);
/* An error in place of a reply; NULL or null: nothing is stored, and false. */
bool snp_model_reply_error(struct snp_model_reply *reply, json_t *error);

/* Copy a string used as a name, cut to the size of ret. */
void snp_model_reply_name(char into[SNP_MODEL_ID_MAX], const json_t *text);
/* A count of an object; absent, negative or not an integer: 0. */
uint64_t snp_model_count(const json_t *object, const char *key);

/*
 * The assistant's message of the received parts. n_before: messages of the conversation before it,
 * used to make ids for calls without one. New reference, NULL when out of memory.
 */
json_t *snp_model_reply_message(struct snp_model_reply *reply, size_t n_before);

#endif
