/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MODEL_DRIVER_H
#define SNP_MODEL_DRIVER_H

/*
 * The interface of a provider of models: how a request is written, and how its reply is read.
 * Drivers neither connect nor wait nor count tries; model.c does.
 */

#include "base/buf.h"
#include "model/provider.h"
#include "model/reply.h"

enum {
    SNP_MODEL_HEADERS_MAX = 8,
    SNP_MODEL_BODY_MAX = 64 << 20, /* bytes of a request */
};

/* Features that a server refused once; later requests leave them out. */
enum snp_model_quirk {
    SNP_MODEL_NO_TEMPERATURE = 1 << 0,
    SNP_MODEL_NO_STREAM_OPTIONS = 1 << 1,
    SNP_MODEL_OTHER_MAX_TOKENS = 1
                                 << 2, /* max_tokens where it was max_completion_tokens, and back */
    SNP_MODEL_NO_CACHE_CONTROL = 1 << 3,
};

/* How a provider is called: a row of the table of routes. */
struct snp_model_route;

/* A request to be written; everything is borrowed. */
struct snp_model_job {
    const struct snp_model_request *request;
    const char *model;       /* the provider's name of it */
    const char *base_url;    /* without a trailing slash */
    const char *key;         /* NULL = none */
    const char *key_header;  /* such as "Authorization: Bearer " */
    const char *api_version; /* Azure's; NULL = none */
    double temperature;      /* below 0 = unset */
    unsigned quirks;         /* enum snp_model_quirk */
    bool is_origin;          /* the provider's own service, not a compatible one */
};

struct snp_model_wire {
    struct snp_buf url;
    char *headers[SNP_MODEL_HEADERS_MAX + 1]; /* owned */
    json_t *body;                             /* owned */
};

struct snp_model_driver {
    const char *name;
    /* Fill url, headers (except Content-Type) and body. */
    int (*write)(const struct snp_model_job *job, struct snp_model_wire *wire, struct snp_err *err);
    /*
     * One event of the stream. SNP_E_PEER: it is invalid. An error the provider reports goes to
     * reply->error.
     */
    int (*event)(struct snp_model_reply *reply, const json_t *data, struct snp_err *err);
    /* The same for a reply in one piece, from a server that does not stream. */
    int (*whole)(struct snp_model_reply *reply, const json_t *body, struct snp_err *err);
};

extern const struct snp_model_driver snp_model_openai;
extern const struct snp_model_driver snp_model_anthropic;
extern const struct snp_model_driver snp_model_gemini;

/*
 * Add "NAME: value" to wire's headers, and the path after base_url to its URL. SNP_E_NOMEM,
 * SNP_E_LIMIT.
 */
int snp_model_wire_header(struct snp_model_wire *wire,
                          const char *name,
                          const char *value) SNP_NODISCARD;
/* Add the key in the header that job names. Without a key, do nothing. */
int snp_model_wire_key(const struct snp_model_job *job, struct snp_model_wire *wire) SNP_NODISCARD;
void snp_model_wire_init(struct snp_model_wire *wire);
void snp_model_wire_done(struct snp_model_wire *wire);

/* Text of a message's content; "" if it has none. Borrowed. */
const char *snp_model_content(const json_t *message);

/*
 * A list of the results of make for each item; NULL from make: out of memory. New reference, NULL
 * when out of memory.
 */
json_t *snp_model_list_of(const json_t *list, json_t *(*make)(const json_t *item));
/* {name, description, SCHEMA: parameters}. New reference. */
json_t *snp_model_tool(const char *schema, const json_t *tool);

/*
 * The list MEMBER of the last of these turns if it has this role, else of a new turn; borrowed,
 * NULL when out of memory.
 */
json_t *snp_model_parts(json_t *turns, const char *role, const char *member);

/* Remove a key (NULL = none) of 8 bytes or more from a text of another source. */
void snp_model_scrub(char *text, const char *key);

#endif
