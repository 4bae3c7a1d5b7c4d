/* SPDX-License-Identifier: Apache-2.0 */
#include "context/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"

enum {
    ANSWER_MS = 30000, /* the parser itself gives up after a second of processor time */
    FAILED_MAX = 5,    /* then files of this language are plain text */
};

static void stop(struct snp_parse *parse)
{
    if (parse->pid > 0) {
        (void)kill(parse->pid, SIGKILL);
        (void)SNP_RETRY(waitpid(parse->pid, NULL, 0));
    }
    parse->pid = 0;
    snp_closep(&parse->fd);
}

void snp_parse_done(struct snp_parse *parse)
{
    stop(parse);
    free(parse->items);
    free(parse->program);
    *parse = (struct snp_parse)SNP_PARSE_NEW;
}

void snp_parse_find(struct snp_parse *parse)
{
    struct snp_err ignored;

    parse->is_missing = snp_own_program("context-parser", &parse->program, &ignored) < 0 ||
                        access(parse->program, X_OK) < 0;
}

static bool start(struct snp_parse *parse)
{
    static const char *const no_variables[] = {NULL};
    snp_autoclose int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct snp_err ignored;
    int ends[2];

    if (parse->items == NULL) {
        parse->items = malloc(SNP_PARSE_ITEMS_MAX * sizeof(*parse->items));
    }
    if (parse->items == NULL || nowhere < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        parse->is_missing = true;
        return false;
    }
    const char *const argv[] = {parse->program, NULL};
    struct snp_child child = {.argv = argv,
                              .env = no_variables,
                              .has_only_env = true,
                              .cwd = "/",
                              .fds = {ends[1], ends[1], nowhere}};
    parse->is_missing = snp_child_start(&child, &parse->pid, &ignored) < 0;
    (void)close(ends[1]);
    parse->fd = ends[0];
    if (parse->is_missing) {
        parse->pid = 0;
        snp_closep(&parse->fd);
    }
    return !parse->is_missing;
}

static void failed(struct snp_parse *parse, enum snp_language language)
{
    parse->failed[language]++;
    stop(parse);
}

/* Transfer all n bytes, in or out, before the deadline. */
static bool move(int fd, void *bytes, size_t n, bool is_out, uint64_t deadline)
{
    char *at = bytes;

    while (n > 0) {
        uint64_t now = snp_now_us();
        struct pollfd wait = {.fd = fd, .events = is_out ? POLLOUT : POLLIN};
        ssize_t done;

        if (now >= deadline || SNP_RETRY(poll(&wait, 1, (int)((deadline - now) / 1000) + 1)) <= 0) {
            return false;
        }
        done = is_out ? SNP_RETRY(send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT))
                      : SNP_RETRY(recv(fd, at, n, MSG_DONTWAIT));
        if (done == 0 || (done < 0 && errno != EAGAIN)) {
            return false;
        }
        at += done < 0 ? 0 : done;
        n -= done < 0 ? 0 : (size_t)done;
    }
    return true;
}

static bool ask(struct snp_parse *parse,
                enum snp_language language,
                const char *text,
                size_t n,
                bool wants_tree)
{
    struct snp_parse_question head = {
        .language = language, .n_bytes = (uint32_t)n, .wants_tree = wants_tree};
    uint64_t deadline = snp_now_us() + ANSWER_MS * UINT64_C(1000);

    if (language == SNP_LANGUAGE_NONE || n > SNP_PARSE_BYTES_MAX || parse->is_missing ||
        parse->failed[language] >= FAILED_MAX || (parse->pid == 0 && !start(parse))) {
        return false;
    }
    if (!move(parse->fd, &head, sizeof(head), true, deadline) ||
        !move(parse->fd, (void *)(uintptr_t)text, n, true, deadline)) {
        failed(parse, language);
        return false;
    }
    return true;
}

bool snp_parse_ask(struct snp_parse *parse, enum snp_language language, const char *text, size_t n)
{
    return ask(parse, language, text, n, false);
}

bool snp_parse_tree(struct snp_parse *parse,
                    enum snp_language language,
                    const char *text,
                    size_t n,
                    struct snp_buf *out)
{
    uint64_t deadline = snp_now_us() + ANSWER_MS * UINT64_C(1000);
    struct snp_parse_answer head;
    char *room;

    if (!ask(parse, language, text, n, true)) {
        return false;
    }
    if (!move(parse->fd, &head, sizeof(head), false, deadline) ||
        head.n_items > SNP_PARSE_TREE_MAX || snp_buf_reserve(out, head.n_items, &room) < 0 ||
        !move(parse->fd, room, head.n_items, false, deadline)) {
        failed(parse, language);
        return false;
    }
    snp_buf_commit(out, head.n_items);
    return head.is_whole != 0;
}

static bool lies_in(const struct snp_parse_range *range, size_t n)
{
    return range->start <= range->end && range->end <= n;
}

bool snp_parse_items(struct snp_parse *parse,
                     enum snp_language language,
                     size_t n,
                     const struct snp_parse_item **ret,
                     size_t *ret_n)
{
    uint64_t deadline = snp_now_us() + ANSWER_MS * UINT64_C(1000);
    struct snp_parse_answer head;

    *ret = parse->items;
    *ret_n = 0;
    if (parse->pid == 0) {
        return false;
    }
    if (!move(parse->fd, &head, sizeof(head), false, deadline) ||
        head.n_items > SNP_PARSE_ITEMS_MAX ||
        !move(parse->fd, parse->items, head.n_items * sizeof(*parse->items), false, deadline)) {
        failed(parse, language);
        return false;
    }
    for (uint32_t i = 0; i < head.n_items; i++) {
        const struct snp_parse_item *item = &parse->items[i];

        if (item->kind >= SNP_PARSE_KINDS || !lies_in(&item->name, n) || !lies_in(&item->all, n) ||
            !lies_in(&item->signature, n) || !lies_in(&item->doc, n)) {
            failed(parse, language);
            return false;
        }
    }
    parse->failed[language] += head.is_whole == 0;
    *ret_n = head.n_items;
    return head.is_whole != 0;
}
