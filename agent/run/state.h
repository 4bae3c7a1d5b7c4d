/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_STATE_H
#define SNP_RUN_STATE_H

/*
 * What a run knows, made of nothing but the records of its trajectory, in their order. A running
 * loop writes a record and applies it; a resumed one reads the records and applies them: both stand
 * where the last record left them. So nothing may be changed here but by snp_run_state_apply.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "run/attempt.h"
#include "run/breaker.h"

enum snp_run_kind {
    SNP_RUN_COMPLETION = 0, /* `run`: turns until there is an answer */
    SNP_RUN_AGENT,          /* `agent`: iterations, each of some turns, until FINAL */
};

enum {
    SNP_RUN_NESTING_MAX = 5, /* sub-calls inside each other */
};

/*
 * Records are read from files, and those may be forged: numbers out of them are brought between 0
 * and this, and no sum goes above it, so that two of such sums can be added and subtracted.
 */
static const int64_t snp_run_sum_max = INT64_C(1) << 60;

/* Such a number of a record; 0 if there is none. */
int64_t snp_run_number(const json_t *record, const char *member);

/* a + b, of numbers that are not negative; at most snp_run_sum_max. */
int64_t snp_run_sum(int64_t a, int64_t b);

/* Limits of sub-calls. */
struct snp_run_sub_limits {
    bool is_on;
    int64_t per_turn; /* of a completion */
    /* the share of what is left of its parent's tokens and money that one gets */
    double inheritance;
    double cost_usd; /* of all of a run, on all levels */
};

/* Limits of a run, or of a sub-completion; 0 = none, of cost: below 0. */
struct snp_run_budget {
    int64_t max_depth;    /* model turns of a completion */
    int64_t max_subcalls; /* its own model calls, failed ones included */
    int64_t tokens;       /* of both directions, counted from the run's beginning */
    int64_t tool_calls;   /* of a completion */
    int64_t iterations;   /* of an agent */
    int64_t wall_ms; /* until here it may go on, counted from the run's beginning, while it runs */
    double cost_usd; /* counted from the run's beginning */
    struct snp_run_sub_limits sub;
};
json_t *snp_run_budget_to_json(const struct snp_run_budget *budget);
void snp_run_budget_from_json(const json_t *object, struct snp_run_budget *ret);

/* What was written and deleted below /workspace; sets: path -> true. */
struct snp_run_files {
    json_t *created;
    json_t *modified;
    json_t *deleted;
};

/*
 * What belongs to one completion: the run's own, or that of a sub-call, which stands above the one
 * that has called it. A macro, so that the present one's members are members of the state.
 */
#define SNP_RUN_LEVEL_MEMBERS                                                               \
    struct snp_run_budget budget;                                                           \
    json_t *messages;      /* as provider.h says */                                         \
    int64_t turn;          /* answers in this completion */                                 \
    int64_t turn_calls;    /* model calls of its own */                                     \
    int64_t turn_tools;    /* tool calls in it */                                           \
    int64_t turn_subs;     /* sub-calls since its last answer */                            \
    json_t *ask;           /* an ask without an answer, NULL = none */                      \
    json_t *prompt;        /* text of the message before it */                              \
    json_t *answer;        /* an answer whose turn is not over, NULL = none */              \
    json_t *tool;          /* the last tool that has begun and not ended, NULL = none */    \
    size_t n_begun;        /* such calls, from next_call on; above 1 only of user tools */  \
    json_t *batch;         /* the same of a batch of sub-calls */                           \
    json_t *sub_open;      /* of the tool that runs: asks of sub-calls without an answer */ \
    json_t *sub_done;      /* and the events of those that have one */                      \
    size_t next_call;      /* of the answer's tool calls: the first without result */       \
    json_t *results;       /* of this turn */                                               \
    json_t *cells;         /* of this turn */                                               \
    bool has_last_note;    /* in this completion the model was told to finish */            \
    char last_call_id[40]; /* of the event before; "" = none */                             \
    struct snp_breaker breaker;                                                             \
    json_t *text;  /* what the model has said last without tools or beside them, or NULL */ \
    bool is_cut;   /* and it was not whole */                                               \
    json_t *final; /* {"answer", "answer_source"}; NULL = not yet */                        \
    /* Where it began; 0 of the run itself. */                                              \
    int64_t base_depth;                                                                     \
    int64_t base_tokens;                                                                    \
    int64_t base_calls;                                                                     \
    int64_t base_ms;                                                                        \
    double base_cost

struct snp_run_level {
    SNP_RUN_LEVEL_MEMBERS;
};

/* All owned; zero, then snp_run_state_init. Everybody else reads. */
struct snp_run_state {
    json_t *head;
    enum snp_run_kind kind;
    json_t *events; /* lines of docs/reference/trajectory.md that stand for a model call */

    /* Sums over all levels. */
    int64_t calls; /* answers, and asks without one */
    int64_t tokens_in;
    int64_t tokens_out;
    bool is_estimated; /* a part of these */
    int64_t tool_calls;
    double cost_usd;      /* of the calls whose price is known; finite */
    bool is_cost_unknown; /* of at least one call */
    int64_t sub_calls;    /* of calls: those of sub-calls */
    double sub_cost_usd;  /* of cost_usd: the same */
    int64_t elapsed_ms;   /* until the last record */

    int64_t iteration;  /* of an agent, from 1; 0 = none begun */
    json_t *iterations; /* summaries of those that are over, as AgentResult has them */
    int64_t iteration_tokens;
    double iteration_cost;
    int64_t iteration_tools;
    json_t *iteration_text; /* what the model has said last in it; a string or NULL */

    json_t *verdict;                /* the last "verdict" on the work of an agent; NULL = none */
    unsigned n_verdicts;            /* with the same reasons, one after the other */
    bool is_judged;                 /* and nothing follows it */
    struct snp_run_attempt attempt; /* at what the verdict will be on */

    int64_t steps;     /* cells that it has begun, in all of its sessions */
    int64_t last_cell; /* of the session */
    struct snp_run_files files;
    json_t *end; /* what the last end said; NULL = it goes on */

    /* The completion that works now, and those that wait for it, the run's own first. */
    union {
        struct {
            SNP_RUN_LEVEL_MEMBERS;
        };
        struct snp_run_level level;
    };
    struct snp_run_level outer[SNP_RUN_NESTING_MAX];
    size_t nesting; /* of these there are so many */
};

int snp_run_state_init(struct snp_run_state *state) SNP_NODISCARD;
void snp_run_state_done(struct snp_run_state *state);

/* Take a record in. Borrowed. SNP_E_INVALID: it does not follow from those before; SNP_E_NOMEM. */
int snp_run_state_apply(struct snp_run_state *state,
                        const json_t *record,
                        struct snp_err *err) SNP_NODISCARD;

/* Tokens of both directions, 0 to snp_run_sum_max. */
int64_t snp_run_state_tokens(const struct snp_run_state *state);

/* Tool calls of the turn that is not over. Borrowed; an array or NULL. */
const json_t *snp_run_state_calls(const struct snp_run_state *state);

/* The completion of the run itself. */
const struct snp_run_level *snp_run_state_root(const struct snp_run_state *state);
/* The present completion ends with an answer without tool calls: it is no agent's own. */
bool snp_run_state_is_completion(const struct snp_run_state *state);
/* Turns above the present one, all levels together: "depth" of an event. */
int64_t snp_run_state_depth(const struct snp_run_state *state);

/* The line of the turn that ends now. New reference, NULL when out of memory. */
json_t *snp_run_state_event(const struct snp_run_state *state, const char *timestamp);

/* What AgentResult says of the iteration that goes on or ended last. New reference. */
json_t *snp_run_state_summary(const struct snp_run_state *state);

/* {"created": [...], "modified": [...], "deleted": [...]}, sorted. New reference. */
json_t *snp_run_state_files(const struct snp_run_state *state);

/*
 * What a completion can say without a final answer: the last text of the model, else what it did.
 * "" if nothing. New reference.
 */
json_t *snp_run_state_partial(const struct snp_run_level *level);

#endif
