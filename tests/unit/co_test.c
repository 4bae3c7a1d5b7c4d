/* SPDX-License-Identifier: Apache-2.0 */
/* Coroutines: order, nesting, aborts, the end of a stack. */
#include "daemon/co.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "unit/harness.h"

static char trace[64];

static void note(char letter)
{
    size_t n = strlen(trace);

    assert_true(n + 1 < sizeof(trace));
    trace[n] = letter;
}

static void start(void (*run)(void *arg), void *arg)
{
    struct snp_err err = {.msg = ""};

    assert_int_equal(snp_co_start(run, arg, &err), 0);
}

/* An operation that awaits twice, through a function that it calls. */
struct operation {
    char name;
    struct snp_await *pending; /* NULL: not suspended */
    struct snp_co *co;
    int r;
};

static int step(struct operation *op)
{
    struct snp_await wait = {0};
    struct snp_err err;
    int r;

    op->pending = &wait;
    note(op->name);
    r = snp_await(&wait, NULL, &err);
    op->pending = NULL;
    return r;
}

static void leave(char *name)
{
    note(*name);
}

static void two_steps(void *arg)
{
    struct operation *op = arg;
    snp_cleanup(leave) char end SNP_UNUSED = (char)(op->name - 'a' + 'A');

    op->co = snp_co_self();
    op->r = step(op);
    SNP_THEN(op->r, step(op));
}

TEST(operations_continue_in_the_order_of_their_callbacks)
{
    struct operation a = {.name = 'a'};
    struct operation b = {.name = 'b'};

    memset(trace, 0, sizeof(trace));
    start(two_steps, &a);
    start(two_steps, &b);
    assert_null(snp_co_self());
    snp_await_ended(b.pending, NULL);
    snp_await_ended(b.pending, NULL);
    snp_await_ended(a.pending, NULL);
    snp_await_ended(a.pending, NULL);
    assert_string_equal(trace, "abbBaA");
    assert_int_equal(a.r, 0);
}

TEST(a_failure_is_returned_by_the_await)
{
    const struct snp_err err = {.code = SNP_E_TIMEOUT};
    struct operation a = {.name = 'a'};

    memset(trace, 0, sizeof(trace));
    start(two_steps, &a);
    snp_await_ended(a.pending, &err);
    assert_string_equal(trace, "aA");
    assert_int_equal(a.r, SNP_E_TIMEOUT);
}

/* Continues another operation, and starts one, before it suspends. */
static void outer(void *arg)
{
    struct operation *ops = arg;

    snp_await_ended(ops[0].pending, NULL);
    start(two_steps, &ops[1]);
    assert_int_equal(step(&ops[2]), 0);
    note('O');
}

TEST(an_operation_may_continue_and_start_others)
{
    struct operation ops[3] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};

    memset(trace, 0, sizeof(trace));
    start(two_steps, &ops[0]);
    start(outer, ops);
    assert_string_equal(trace, "aabc");
    snp_await_ended(ops[2].pending, NULL);
    snp_await_ended(ops[0].pending, NULL);
    snp_await_ended(ops[1].pending, NULL);
    snp_await_ended(ops[1].pending, NULL);
    assert_string_equal(trace, "aabcOAbB");
}

static void ended_before(void *arg)
{
    struct snp_await wait = {0};
    json_t *result = json_string("done");
    struct snp_err err;

    snp_await_end(&wait, result, NULL);
    json_decref(result);
    assert_int_equal(snp_await(&wait, arg, &err), 0);
}

TEST(a_callback_before_the_await_is_not_lost)
{
    json_t *result = NULL;

    start(ended_before, &result);
    assert_string_equal(json_string_value(result), "done");
    json_decref(result);
}

TEST(an_aborted_operation_fails_when_its_callback_comes)
{
    struct operation a = {.name = 'a'};

    memset(trace, 0, sizeof(trace));
    start(two_steps, &a);
    snp_co_abort(a.co);
    assert_string_equal(trace, "a");
    snp_await_ended(a.pending, NULL);
    assert_string_equal(trace, "aA");
    assert_int_equal(a.r, SNP_E_PEER);
}

static void cancel(struct snp_await *wait)
{
    note('x');
    snp_await_ended(wait, NULL);
}

static void abortable(void *arg)
{
    struct operation *op = arg;
    struct snp_err err;

    op->co = snp_co_self();
    for (int i = 0; i < 2; i++) {
        struct snp_await wait = {.cancel = cancel};

        op->r = snp_await(&wait, NULL, &err);
    }
    note('A');
}

TEST(an_abort_cuts_an_await_short_and_later_ones)
{
    struct operation a = {.name = 'a'};

    memset(trace, 0, sizeof(trace));
    start(abortable, &a);
    snp_co_abort(a.co);
    assert_string_equal(trace, "xxA");
    assert_int_equal(a.r, SNP_E_PEER);
}

static void count(void *arg)
{
    struct operation *op = arg;

    (void)step(op);
}

TEST(stacks_are_reused)
{
    static struct operation ops[100];

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(ops); i++) {
            memset(trace, 0, sizeof(trace));
            start(count, &ops[i]);
        }
        for (size_t i = 0; i < SNP_ARRAY_LEN(ops); i++) {
            snp_await_ended(ops[i].pending, NULL);
        }
    }
}

static void never(void *arg SNP_UNUSED)
{
    _exit(1);
}

/* Without memory for a stack the operation fails before it begins. */
TEST(no_memory_for_a_stack_is_an_error)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
        struct operation ops[20] = {{.name = 'a'}};
        struct snp_err err;

        for (int i = 0; i < 20; i++) { /* spare stacks of earlier tests are in use */
            memset(trace, 0, sizeof(trace));
            start(count, &ops[i]);
        }
        (void)setrlimit(RLIMIT_AS, &limit);
        _exit(snp_co_start(never, NULL, &err) == SNP_E_NOMEM ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The sanitizer would move its frames to the heap. */
__attribute__((no_sanitize_address)) static int deep(int depth)
{
    volatile char frame[1024];
    volatile char *at = &frame[depth % 1024];

    *at = 1;
    return depth == 0 ? 1 : deep(depth - 1) + *at;
}

static void dive(void *arg)
{
    int kib = *(int *)arg;

    _exit(deep(kib) == kib + 1 ? 0 : 3);
}

static int die(int kib)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        start(dive, &kib);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(a_stack_that_overflows_ends_the_program)
{
    int status = die(SNP_CO_STACK / 2 / 1024);

    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = die(SNP_CO_STACK / 1024 + 8);
    /* The address sanitizer reports it, and exits. */
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) == 1);
}

RUN(UNIT(operations_continue_in_the_order_of_their_callbacks),
    UNIT(a_failure_is_returned_by_the_await),
    UNIT(an_operation_may_continue_and_start_others),
    UNIT(a_callback_before_the_await_is_not_lost),
    UNIT(an_aborted_operation_fails_when_its_callback_comes),
    UNIT(an_abort_cuts_an_await_short_and_later_ones),
    UNIT(stacks_are_reused),
    UNIT(no_memory_for_a_stack_is_an_error),
    UNIT(a_stack_that_overflows_ends_the_program))
