/* SPDX-License-Identifier: Apache-2.0 */
/* The user's pager is run without a shell: its command is split at blanks. */
#include "base/cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    WORDS_MAX = 16,
};

static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

static const char *pager_command(void)
{
    const char *own = variable("SNIPARA_SANDBOX_PAGER");
    const char *usual = variable("PAGER");

    return own != NULL ? own : usual != NULL ? usual : "less";
}

/* Split text (modified) into words; returns their number, 0 = none or too many. */
static size_t words_part(char *text, char *words[WORDS_MAX + 1])
{
    size_t n = 0;

    for (;;) {
        text += strspn(text, " \t");
        if (*text == '\0') {
            words[n] = NULL;
            return n;
        }
        if (n == WORDS_MAX) {
            return 0;
        }
        words[n++] = text;
        text += strcspn(text, " \t");
        if (*text != '\0') {
            *text++ = '\0';
        }
    }
}

/* The options git uses: quit if it fits one page, pass colours, leave the screen. */
static void less_options(void)
{
    (void)setenv("LESS", "FRX", 0); /* NOLINT(concurrency-mt-unsafe) */
}

static int pager_start(char *const *words, int in_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    int eno;

    less_options();
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
    eno = posix_spawnp(ret_pid, words[0], &actions, NULL, words, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return eno;
}

/* True if a pager ran, whether or not it read everything. */
static bool pager_run(const char *text, size_t n)
{
    snp_autofree char *command = snp_need_copy(pager_command());
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    char *words[WORDS_MAX + 1];
    int pair[2] = {-1, -1};
    pid_t pid = -1;
    bool is_whole = true;
    int eno;

    if (command == NULL || words_part(command, words) == 0 || strcmp(words[0], "cat") == 0 ||
        pipe2(pair, O_CLOEXEC) < 0) {
        return false;
    }
    eno = pager_start(words, pair[0], &pid);
    snp_closep(&pair[0]);
    if (eno == 0) {
        /* Ctrl-C is for the pager. If it quits early, that is no error. */
        (void)sigaction(SIGINT, &ignore, &before);
        is_whole = snp_write_all(pair[1], text, n) == 0 || errno == EPIPE;
        snp_closep(&pair[1]);
        (void)SNP_RETRY(waitpid(pid, NULL, 0));
        (void)sigaction(SIGINT, &before, NULL);
    }
    snp_closep(&pair[1]);
    return eno == 0 && is_whole;
}

int snp_pager_write(const char *text, size_t n, bool want_pager)
{
    (void)fflush(stdout);
    if (n > 0 && want_pager && snp_term_is(stdout) && snp_term_is(stdin) && pager_run(text, n)) {
        return 0;
    }
    return n == 0 || fwrite(text, 1, n, stdout) == n ? 0 : -1;
}
