/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_USERTOOL_H
#define SNP_RUN_TOOL_USERTOOL_H

/*
 * User tools: each a description with callbacks. They run outside the sandbox with the user's
 * rights, so the code that fills the set has asked the user (agent/usertool).
 *
 *     struct snp_usertool tool = {.name = "lookup", .description = "...", .schema = schema,
 *                                 .begin = my_begin, .cancel = my_cancel, .ctx = me};
 *     snp_usertools_add(tools, &tool, &err);
 *
 *     static int my_begin(void *ctx, struct snp_usercall *call, const json_t *arguments, err)
 *     {
 *         ... starts something, and later, from the loop: snp_usercall_answer(call, false, text,
 *         n); return 0;
 *     }
 *
 * Arguments are checked against the schema before begin is called; a call over its time limit is
 * cancelled; an answer is cut to SNP_USERTOOL_REPLY_MAX bytes, and goes to the model cleaned,
 * redacted and marked as data.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "schema/schema.h"

enum {
    SNP_USERTOOL_NAME_MAX = 64,               /* bytes: the limit of all providers */
    SNP_USERTOOL_TEXT_MAX = 8 << 10,          /* bytes of a description */
    SNP_USERTOOL_TOOLS_MAX = 128,             /* of one set */
    SNP_USERTOOL_DEFINITIONS_MAX = 512 << 10, /* bytes of all of them, as JSON */
    SNP_USERTOOL_ARGUMENTS_MAX = 1 << 20,     /* bytes of a call's arguments, as JSON */
    SNP_USERTOOL_REPLY_MAX = 1 << 20,         /* bytes of an answer */
    SNP_USERTOOL_OURS_MOST = 24000,           /* characters of an answer of one of our tools */
    SNP_USERTOOL_PARALLEL_MAX = 16,           /* calls at once */
    SNP_USERTOOL_TIMEOUT_MS = 30 * 1000,      /* of a call whose tool has no limit */
    SNP_USERTOOL_TIMEOUT_MAX_MS = 600 * 1000,
};

/* Message to a model about a stopped call. */
#define SNP_USERTOOL_MAYBE "Some of its effects may remain; check before you call it again."

/* One call, from begin to answer or cancel. */
struct snp_usercall;

struct snp_usertool {
    const char *name; /* copied: A-Z a-z 0-9 _ -, beginning with a letter or _; none of ours */
    const char *description; /* copied; untrusted bytes are cleaned */
    const json_t *schema;    /* of the arguments, an object; borrowed during add */
    enum snp_schema_manner manner;
    const char *origin;  /* for the record: "command", "mcp NAME"; copied */
    uint64_t timeout_ms; /* 0 = SNP_USERTOOL_TIMEOUT_MS */
    /*
     * This program's tool: its name begins with snipara_ (or the former rlm_), and more of an
     * answer is shown.
     */
    bool is_ours;

    /*
     * Begin a call. Exactly one of these follows: snp_usercall_answer(), immediately or later on
     * the loop; or cancel. arguments: borrowed until return. Failure: nothing has begun; *err goes
     * to the model.
     */
    int (*begin)(void *ctx,
                 struct snp_usercall *call,
                 const json_t *arguments,
                 struct snp_err *err);
    /* Stop it and free the call before returning. */
    void (*cancel)(void *ctx, struct snp_usercall *call);
    /* The tool is removed; it has no open call. May be NULL. */
    void (*free)(void *ctx);
    void *ctx;
};

/* Set the tool's data of a call; NULL at first. */
void snp_usercall_keep(struct snp_usercall *call, void *data);
void *snp_usercall_kept(const struct snp_usercall *call);

/* Answer a call: bytes of any kind, copied. The tool must not use the call any more. */
void snp_usercall_answer(struct snp_usercall *call, bool is_error, const char *bytes, size_t n);

/* Sets ---------------------------------------------------------------------------------------- */

struct snp_usertools;

/* *ret is the caller's: snp_usertools_free(). loop: borrowed. */
int snp_usertools_new(uv_loop_t *loop,
                      struct snp_usertools **ret,
                      struct snp_err *err) SNP_NODISCARD;
/* No call may be open. */
void snp_usertools_free(struct snp_usertools *tools);

/*
 * Add a tool. On failure the set does not own it: free is not called. SNP_E_INVALID: its name or
 * schema is wrong, or the name is taken; SNP_E_UNSUPPORTED: its schema; SNP_E_LIMIT: it is too
 * large, or there are too many.
 */
int snp_usertools_add(struct snp_usertools *tools,
                      const struct snp_usertool *given,
                      struct snp_err *err) SNP_NODISCARD;

size_t snp_usertools_n(const struct snp_usertools *tools);
bool snp_usertools_has(const struct snp_usertools *tools, const char *name);

/* For a provider and the record: [{name, description, parameters, origin}]. Borrowed. */
const json_t *snp_usertools_list(const struct snp_usertools *tools);

/* Calls --------------------------------------------------------------------------------------- */

struct snp_usercall_end {
    bool is_error;
    bool is_cut;       /* the answer was longer */
    size_t most;       /* characters for the model; 0 = default */
    const char *bytes; /* borrowed until the callback returns; not NULL */
    size_t n;
};

/* Check a call's arguments. SNP_E_INVALID, SNP_E_LIMIT; *err goes to the model. */
int snp_usertools_check(const struct snp_usertools *tools,
                        const char *name,
                        const json_t *arguments,
                        struct snp_err *err) SNP_NODISCARD;

/*
 * Call a tool; the arguments have been checked. done: once, later, from the loop, in every case,
 * even if it could not begin; then the call is freed. *ret_call may be NULL only when out of
 * memory, the one failure.
 */
int snp_usercall_begin(struct snp_usertools *tools,
                       const char *name,
                       const json_t *arguments,
                       void (*done)(void *ctx, const struct snp_usercall_end *end),
                       void *ctx,
                       struct snp_usercall **ret_call) SNP_NODISCARD;

/* Stop a call: done is called with an error and the reason. No effect if it has been answered. */
void snp_usercall_stop(struct snp_usercall *call, const char *why);
/* Stop a call without calling done, and free it. NULL is ignored. */
void snp_usercall_drop(struct snp_usercall *call);

#endif
