/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_STATE_H
#define SNP_RUN_STATE_H

/*
 * The state of a run, derived only from the records of its trajectory, in order. A running loop
 * writes a record and applies it; a resumed one reads and applies the records: both reach the same
 * state. So only snp_run_state_apply may change it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "run/attempt.h"
#include "run/breaker.h"

enum snp_run_kind {
    SNP_RUN_COMPLETION = 0, /* `run`: turns until an answer */
    SNP_RUN_AGENT,          /* `agent`: iterations, each of some turns, until FINAL */
};

enum {
    SNP_RUN_NESTING_MAX = 5, /* nested sub-calls */
};

/*
 * Records are files and may be forged: their numbers are clamped between 0 and this, and so are
 * sums, so that two sums can be added and subtracted.
 */
static const int64_t snp_run_sum_max = INT64_C(1) << 60;

/* A number of a record, within these limits; 0 if missing. */
int64_t snp_run_number(const json_t *record, const char *member);

/* a + b, of numbers that are not negative; at most snp_run_sum_max. */
int64_t snp_run_sum(int64_t a, int64_t b);

/* Limits of sub-calls. */
struct snp_run_sub_limits {
    bool is_on;
    int64_t per_turn; /* of a completion */
    /* share of its parent's remaining tokens and money */
    double inheritance;
    double cost_usd; /* of a whole run, on all levels */
};

/* Limits of a run, or of a sub-completion; 0 = none, of cost: below 0. */
struct snp_run_budget {
    int64_t max_depth;    /* model turns of a completion */
    int64_t max_subcalls; /* its own model calls, including failed ones */
    int64_t tokens;       /* of both directions, from the run's start */
    int64_t tool_calls;   /* of a completion */
    int64_t iterations;   /* of an agent */
    int64_t wall_ms;      /* wall clock limit from the run's start, while it runs */
    double cost_usd;      /* from the run's start */
    struct snp_run_sub_limits sub;
};
json_t *snp_run_budget_to_json(const struct snp_run_budget *budget);
void snp_run_budget_from_json(const json_t *object, struct snp_run_budget *ret);

/* Files written and deleted below /workspace; sets: path -> true. */
struct snp_run_files {
    json_t *created;
    json_t *modified;
    json_t *deleted;
};

/*
 * Members of one completion: the run's own, or that of a sub-call, which is above its caller's. A
 * macro, so that the present one's members are members of the state.
 */
#define SNP_RUN_LEVEL_MEMBERS                                                              \
    struct snp_run_budget budget;                                                          \
    json_t *messages;      /* in the form of provider.h */                                 \
    int64_t turn;          /* answers in this completion */                                \
    int64_t turn_calls;    /* model calls of this level */                                 \
    int64_t turn_tools;    /* tool calls in it */                                          \
    int64_t turn_subs;     /* sub-calls since its last answer */                           \
    json_t *ask;           /* an ask without an answer, NULL = none */                     \
    json_t *prompt;        /* text of the message before it */                             \
    json_t *answer;        /* an answer whose turn is not over, NULL = none */             \
    json_t *tool;          /* the last begun, unfinished tool, NULL = none */              \
    size_t n_begun;        /* such calls, from next_call on; above 1 only of user tools */ \
    json_t *batch;         /* the same of a batch of sub-calls */                          \
    json_t *sub_open;      /* of the running tool: unanswered asks of sub-calls */         \
    json_t *sub_done;      /* and the events of answered ones */                           \
    size_t next_call;      /* of the answer's tool calls: the first without result */      \
    json_t *results;       /* of this turn */                                              \
    json_t *cells;         /* of this turn */                                              \
    bool has_last_note;    /* in this completion the model was asked to finish */          \
    char last_call_id[40]; /* of the event before; "" = none */                            \
    struct snp_breaker breaker;                                                            \
    json_t *text;  /* the model's last text without tools or beside them, or NULL */       \
    bool is_cut;   /* and it was truncated */                                              \
    json_t *final; /* {"answer", "answer_source"}; NULL = not yet */                       \
    /* Its start; 0 of the run itself. */                                                  \
    int64_t base_depth;                                                                    \
    int64_t base_tokens;                                                                   \
    int64_t base_calls;                                                                    \
    int64_t base_ms;                                                                       \
    double base_cost

struct snp_run_level {
    SNP_RUN_LEVEL_MEMBERS;
};

/* All owned; zero, then snp_run_state_init. Read-only elsewhere. */
struct snp_run_state {
    json_t *head;
    enum snp_run_kind kind;
    json_t *events; /* lines of docs/reference/trajectory.md about model calls */

    /* Sums over all levels. */
    int64_t calls; /* answers, and unanswered asks */
    int64_t tokens_in;
    int64_t tokens_out;
    bool is_estimated; /* partly */
    int64_t tool_calls;
    double cost_usd;      /* of the calls whose price is known; finite */
    bool is_cost_unknown; /* of at least one call */
    int64_t sub_calls;    /* of calls: those of sub-calls */
    double sub_cost_usd;  /* of cost_usd: the same */
    int64_t elapsed_ms;   /* until the last record */

    int64_t iteration;  /* of an agent, from 1; 0 = none begun */
    json_t *iterations; /* summaries of completed ones, as in AgentResult */
    int64_t iteration_tokens;
    double iteration_cost;
    int64_t iteration_tools;
    json_t *iteration_text; /* the model's last text in it; a string or NULL */

    json_t *verdict;                /* the last "verdict" on the work of an agent; NULL = none */
    unsigned n_verdicts;            /* with the same reasons, one after the other */
    bool is_judged;                 /* and nothing follows it */
    struct snp_run_attempt attempt; /* the attempt to be judged next */

    int64_t steps;     /* cells begun, in all of its sessions */
    int64_t last_cell; /* of the session */
    struct snp_run_files files;
    json_t *end; /* the last recorded end; NULL = still running */

    /* The present completion, and those that wait for it, the run's own first. */
    union {
        struct {
            SNP_RUN_LEVEL_MEMBERS;
        };
        struct snp_run_level level;
    };
    struct snp_run_level outer[SNP_RUN_NESTING_MAX];
    size_t nesting; /* number of nested ones */
};

int snp_run_state_init(struct snp_run_state *state) SNP_NODISCARD;
void snp_run_state_done(struct snp_run_state *state);

/* Apply a record. Borrowed. SNP_E_INVALID: it does not follow from earlier ones; SNP_E_NOMEM. */
int snp_run_state_apply(struct snp_run_state *state,
                        const json_t *record,
                        struct snp_err *err) SNP_NODISCARD;

/* Tokens of both directions, 0 to snp_run_sum_max. */
int64_t snp_run_state_tokens(const struct snp_run_state *state);

/* Tool calls of the current turn. Borrowed; an array or NULL. */
const json_t *snp_run_state_calls(const struct snp_run_state *state);

/* The completion of the run itself. */
const struct snp_run_level *snp_run_state_root(const struct snp_run_state *state);
/* Whether the present completion ends with an answer without tool calls: not an agent's own. */
bool snp_run_state_is_completion(const struct snp_run_state *state);
/* Turns above the present one, on all levels: "depth" of an event. */
int64_t snp_run_state_depth(const struct snp_run_state *state);

/* The event of the turn that ends now. New reference, NULL when out of memory. */
json_t *snp_run_state_event(const struct snp_run_state *state, const char *timestamp);

/* The AgentResult summary of the current or last iteration. New reference. */
json_t *snp_run_state_summary(const struct snp_run_state *state);

/* {"created": [...], "modified": [...], "deleted": [...]}, sorted. New reference. */
json_t *snp_run_state_files(const struct snp_run_state *state);

/*
 * A completion's substitute for a final answer: the last text of the model, else a list of its
 * actions. "" if nothing. New reference.
 */
json_t *snp_run_state_partial(const struct snp_run_level *level);

#endif
