/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a session's life has no holes: nothing is left unsaid, out of reach or without
 * an end.
 */
#include "daemon/session/life.h"

#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "unit/harness.h"

static bool is_state(unsigned next)
{
    return next < SNP_SESSION_N;
}

/* Mark what can follow `from`, in however many steps. */
static void reach(enum snp_session_state from, bool seen[SNP_SESSION_N])
{
    seen[from] = true;
    for (unsigned event = 0; event < SNP_EV_N; event++) {
        unsigned next = snp_life_next(from, (enum snp_session_event)event);
        if (is_state(next) && !seen[next]) {
            reach((enum snp_session_state)next, seen);
        }
    }
}

TEST(each_event_says_what_it_does_in_each_state)
{
    for (unsigned event = 0; event < SNP_EV_N; event++) {
        bool does_something = false;
        for (unsigned from = 0; from < SNP_SESSION_N; from++) {
            unsigned next =
                snp_life_next((enum snp_session_state)from, (enum snp_session_event)event);
            assert_true(next != SNP_LIFE_UNSAID && next <= SNP_LIFE_STAYS);
            does_something |= is_state(next);
        }
        assert_true(does_something);
    }
}

/*
 * What each event leads to, a letter for each state it happens in, in the order of the enum: the
 * state, '-' it stays, '!' it cannot be.
 */
static const char letters[SNP_SESSION_N + 1] = "oirshawpbc";
static const struct {
    enum snp_session_event event;
    const char *next;
} pairs[] = {
    {SNP_EV_OPENED, "i!!!!!!!!!"},      {SNP_EV_CELL, "!r!!!!p!!!"},
    {SNP_EV_CELL_ENDED, "!!i!!-!w!!"},  {SNP_EV_SAVE, "!s--------"},
    {SNP_EV_SAVED, "!--i------"},       {SNP_EV_LEAVE, "!h!!!!h!h!"},
    {SNP_EV_CLEAR, "!hh!!hhh!!"},       {SNP_EV_LOST, "!aaa-!----"},
    {SNP_EV_RESTED, "!!!!a-a!a-"},      {SNP_EV_WAKE, "!!!!!w!!!!"},
    {SNP_EV_AWAKE, "!!!!!!i!!!"},       {SNP_EV_ROLL_BACK, "!b!!!b!!-!"},
    {SNP_EV_ROLLED_BACK, "!!!!!!!!i!"}, {SNP_EV_DESTROY, "ccccccccc!"},
};

/* Whether the daemon ends by it, as of a mistake of ours. */
static bool is_fatal(enum snp_session_state from, enum snp_session_event event)
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct snp_session session = {.state = from};

        (void)close(STDERR_FILENO);
        snp_session_event(&session, event);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void check_pair(enum snp_session_state from, enum snp_session_event event, char next)
{
    struct snp_session session = {.state = from};

    if (next == '!') {
        assert_true(is_fatal(from, event));
        return;
    }
    snp_session_event(&session, event);
    assert_int_equal(letters[session.state], next == '-' ? letters[from] : next);
}

TEST(each_pair_of_state_and_event)
{
    assert_int_equal(SNP_ARRAY_LEN(pairs), SNP_EV_N);
    for (unsigned i = 0; i < SNP_ARRAY_LEN(pairs); i++) {
        for (unsigned from = 0; from < SNP_SESSION_N; from++) {
            check_pair((enum snp_session_state)from, pairs[i].event, pairs[i].next[from]);
        }
    }
}

TEST(each_state_is_reached_and_can_end)
{
    bool reached[SNP_SESSION_N] = {false};
    reach(SNP_SESSION_OPENING, reached);
    reach(SNP_SESSION_ASLEEP, reached);
    for (unsigned from = 0; from < SNP_SESSION_N; from++) {
        bool onward[SNP_SESSION_N] = {false};
        reach((enum snp_session_state)from, onward);
        if (!reached[from] || !onward[SNP_SESSION_CLOSING]) {
            fail_msg("state %u", from);
        }
    }
}

TEST(nothing_follows_the_end)
{
    for (unsigned event = 0; event < SNP_EV_N; event++) {
        assert_false(is_state(snp_life_next(SNP_SESSION_CLOSING, (enum snp_session_event)event)));
    }
}

/* Asleep, woken, a cell, saved, asleep again. */
TEST(a_session_lives_by_its_events)
{
    static const struct {
        enum snp_session_event event;
        enum snp_session_state state;
    } steps[] = {
        {SNP_EV_WAKE, SNP_SESSION_WAKING},       {SNP_EV_CELL, SNP_SESSION_REPLAYING},
        {SNP_EV_CELL_ENDED, SNP_SESSION_WAKING}, {SNP_EV_AWAKE, SNP_SESSION_IDLE},
        {SNP_EV_SAVED, SNP_SESSION_IDLE},        {SNP_EV_CELL, SNP_SESSION_RUNNING},
        {SNP_EV_SAVE, SNP_SESSION_RUNNING},      {SNP_EV_CELL_ENDED, SNP_SESSION_IDLE},
        {SNP_EV_LEAVE, SNP_SESSION_HIBERNATING}, {SNP_EV_LOST, SNP_SESSION_HIBERNATING},
        {SNP_EV_RESTED, SNP_SESSION_ASLEEP},
    };
    struct snp_session session = {.state = SNP_SESSION_ASLEEP, .used_us = 1};
    for (size_t i = 0; i < SNP_ARRAY_LEN(steps); i++) {
        snp_session_event(&session, steps[i].event);
        assert_int_equal(session.state, steps[i].state);
    }
    assert_true(session.used_us > 1 && session.used_wall_us > 0);
}

RUN(UNIT(each_event_says_what_it_does_in_each_state),
    UNIT(each_pair_of_state_and_event),
    UNIT(each_state_is_reached_and_can_end),
    UNIT(nothing_follows_the_end),
    UNIT(a_session_lives_by_its_events))
