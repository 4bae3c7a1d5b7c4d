/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask MODEL QUESTION: a model answers with the help of a tool of this program: what a shop has
 * in stock.
 */
#include <snipara/sandbox.h>
#include <stdio.h>
#include <string.h>

static void on_called(void *ctx,
                      struct snipara_call *run,
                      uint32_t number,
                      const char *tool,
                      const char *arguments,
                      size_t len)
{
    static const char stock[] = "12 apples, 3 pears";

    (void)ctx;
    (void)printf("%s %.*s\n", tool, (int)len, arguments);
    snipara_free(snipara_answer(run, number, true, stock, strlen(stock)));
}

static void on_noted(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    (void)fprintf(stderr, "ask: %.*s\n", (int)len, text);
}

int main(int argc, char **argv)
{
    static const struct snipara_tool stock = {
        .size = sizeof(stock),
        .name = "stock",
        .description = "What is in stock",
        .parameters = "{\"type\": \"object\", \"properties\": {\"shop\": {\"type\": "
                      "\"string\"}}, \"required\": [\"shop\"]}"};
    const struct snipara_tool *const tools[] = {&stock, NULL};
    char model[256];
    const char *const settings[] = {model, "max_depth=8", "cost_limit=0.50", NULL};
    struct snipara *box;
    const struct snipara_error *error = snipara_connect(SNIPARA_OPTIONS(.later = true), &box);
    struct snipara_call *call;
    const char *answer;

    if (argc != 3 || error != NULL) {
        (void)fprintf(stderr, "ask: %s\n", error == NULL ? "MODEL QUESTION" : error->message);
        return 2;
    }
    (void)snprintf(model, sizeof(model), "model=%s", argv[1]);
    call = snipara_ask(box, SNIPARA_PROMPT(.text = argv[2], .settings = settings, .tools = tools,
                                           .called = on_called, .noted = on_noted));
    while (!snipara_wait(call, -1)) { /* a signal was caught */
    }
    error = snipara_call_error(call);
    answer = snipara_text(call, "response", NULL);
    if (error != NULL || snipara_text(call, "error", NULL) != NULL) {
        (void)fprintf(stderr, "ask: %s\n",
                      error != NULL ? error->message : snipara_text(call, "error", NULL));
    }
    (void)printf("%s\nrecorded as %.8s, $%.2f\n", answer == NULL ? "(no answer)" : answer,
                 error == NULL ? snipara_text(call, "trajectory_id", NULL) : "nothing",
                 snipara_real(call, "total_cost_usd", 0));
    snipara_free(call);
    snipara_close(box);
    return error == NULL ? 0 : 1;
}
