/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop [N]: N sessions at once in an event loop, which is poll() here; then one that runs for ever
 * is interrupted.
 */
#include <poll.h>
#include <snipara/sandbox.h>
#include <stdio.h>
#include <stdlib.h>

struct job {
    int number;
    int *n_open;
    long long value;
};

static void on_done(void *ctx, struct snipara_call *call)
{
    struct job *job = ctx;
    const struct snipara_error *error = snipara_call_error(call);
    const char *value = snipara_text(call, "value", NULL);

    if (error != NULL) {
        (void)fprintf(stderr, "loop: session %d: %s\n", job->number, error->message);
    }
    job->value = value == NULL ? -1 : strtoll(value, NULL, 10);
    --*job->n_open;
    snipara_free(call);
}

/* Until none of them is open any more. */
static void turn(struct snipara *box, const int *n_open)
{
    while (*n_open > 0) {
        struct pollfd p = {.fd = snipara_fd(box), .events = POLLIN};

        (void)poll(&p, 1, -1); /* a program of yours waits for more here */
        (void)snipara_step(box);
    }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 8;
    int n_open = n;
    long long sum = 0;
    struct job *jobs = calloc((size_t)n, sizeof(*jobs));
    struct snipara *box;
    const struct snipara_error *error = snipara_connect(NULL, &box);
    struct snipara_call *call;

    if (error != NULL || jobs == NULL) {
        (void)fprintf(stderr, "loop: %s\n", error == NULL ? "out of memory" : error->message);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        char code[64];

        jobs[i] = (struct job){.number = i, .n_open = &n_open};
        (void)snprintf(code, sizeof(code), "sum(range(%d))", 1000 * (i + 1));
        snipara_on_done(snipara_run(box, SNIPARA_RUN(.code = code)), on_done, &jobs[i]);
    }
    turn(box, &n_open);
    for (int i = 0; i < n; i++) {
        sum += jobs[i].value;
    }
    (void)printf("%d sessions: %lld\n", n, sum);

    call = snipara_run(box, SNIPARA_RUN(.code = "while True: pass"));
    if (!snipara_wait(call, 300)) {
        snipara_interrupt(call);
    }
    (void)snipara_wait(call, -1);
    (void)printf("the endless one: %s\n", snipara_text(call, "status", NULL));
    snipara_free(call);
    snipara_close(box);
    free(jobs);
    return 0;
}
