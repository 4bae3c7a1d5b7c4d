/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe NAME [ARGUMENT]: one way to use the library; prints what came of it, for test_library.py.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <snipara/sandbox.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

/* What a program was compiled with must not move: only longer structures are compatible. */
#define AT(type, member, place) \
    _Static_assert(offsetof(struct type, member) == (place), #type "." #member)
AT(snipara_error, message, 16);
AT(snipara_error, remedy_value, 64);
AT(snipara_options, no_start, 16);
AT(snipara_session, env, 40);
AT(snipara_session, require_exact, 49);
AT(snipara_part, len, 16);
AT(snipara_cell, argv, 48);
AT(snipara_cell, timeout_ms, 72);
AT(snipara_cell, recover, 88);
AT(snipara_cell, called, 112);
AT(snipara_cell, ctx, 120);
AT(snipara_options, later, 17);
AT(snipara_session, rootfs, 56);
AT(snipara_session, network, 64);
AT(snipara_session, temporary, 65);
AT(snipara_session, guarantees, 72);
AT(snipara_tool, timeout_ms, 32);
AT(snipara_prompt, folder, 40);
AT(snipara_prompt, record, 64);
AT(snipara_prompt, ctx, 88);
AT(snipara_cell, internal, 128);
AT(snipara_cell, request, 136);
AT(snipara_cell, event, 144);
AT(snipara_cell, open_input, 152);
_Static_assert(sizeof(struct snipara_cell) == 160 && sizeof(struct snipara_session) == 80 &&
                   sizeof(struct snipara_error) == 80 && sizeof(struct snipara_prompt) == 104 &&
                   sizeof(struct snipara_tool) == 40,
               "the sizes that programs were compiled with");

static struct snipara *box;

static struct snipara_call *done(struct snipara_call *call)
{
    while (!snipara_wait(call, -1)) {
    }
    return call;
}

static void print_error(const struct snipara_error *e)
{
    (void)printf("%s|%s|%s|%s\n", e->name, e->object, e->limit, e->remedy);
}

static void end(struct snipara_call *call)
{
    const struct snipara_error *e = snipara_call_error(done(call));

    if (e != NULL) {
        print_error(e);
    } else {
        (void)printf("ok\n");
    }
    snipara_free(call);
}

static void errors(const char *argument)
{
    const char *const limits[] = {"memory=lots", NULL};
    const char *const unknown[] = {"memroy=1m", NULL};

    (void)argument;
    end(snipara_open(box, "errors", NULL));
    end(snipara_run(box, SNIPARA_RUN(.session = "-bad", .code = "1")));
    end(snipara_open(box, "other", SNIPARA_SESSION(.limits = limits)));
    end(snipara_open(box, "other", SNIPARA_SESSION(.limits = unknown)));
    end(snipara_open(box, "other", SNIPARA_SESSION(.project = "/no/such/folder")));
    end(snipara_get(box, "errors", "nothing", 0));
    end(snipara_rollback(box, "errors", "nothing"));
    end(snipara_put(box, "errors", "four", "data", 4, 0));
    end(snipara_get(box, "errors", "four", 3));
    end(snipara_get(box, "errors", "four", 4));
    end(snipara_run(box, SNIPARA_RUN(.code = "1", .request = "{\"tier\": \"nothing\"}")));
    end(snipara_run(box, SNIPARA_RUN(.code = "1", .request = "not JSON")));
    end(snipara_request(box, "{\"method\": \"no.such\"}", NULL, 0));
    end(snipara_request(box, "not JSON", NULL, 0));
    end(NULL);
}

static void transfer(const char *argument)
{
    enum {
        LEN = (3 << 20) + 17
    };
    char *data = malloc(LEN);
    struct snipara_call *call;
    const void *got;
    size_t len;

    (void)argument;
    for (size_t i = 0; data != NULL && i < LEN; i++) {
        data[i] = (char)(i * 2654435761U >> 13);
    }
    end(snipara_open(box, "files", NULL));
    end(snipara_put(box, "files", "big", data, LEN, 0600));
    call = done(snipara_get(box, "files", "big", 0));
    got = snipara_data(call, &len);
    (void)printf("%s\n", data != NULL && len == LEN && memcmp(got, data, LEN) == 0 ? "the same"
                                                                                   : "different");
    snipara_free(call);
    call = done(snipara_list(box, "files", ""));
    (void)printf("%zu %s %lld %.0f\n", snipara_count(call, "entries"),
                 snipara_text(call, "entries.0.name", NULL),
                 (long long)snipara_int(call, "entries.0.size", -1),
                 snipara_real(call, "entries.0.nothing", -1));
    snipara_free(call);
    free(data);
}

static void on_output(void *ctx, enum snipara_stream stream, const char *bytes, size_t len)
{
    static enum snipara_stream last;

    (void)ctx;
    if (stream != last) { /* it comes in any number of pieces */
        (void)printf("%d:", (int)stream);
        last = stream;
    }
    (void)printf("%.*s", (int)len, bytes);
}

static void on_display(void *ctx, const struct snipara_part *parts, size_t n)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(parts[i].type, "text/html") != 0) {
            continue;
        }
        (void)printf("%s:%.*s\n", parts[i].type, (int)parts[i].len, parts[i].data);
    }
}

static void on_called(
    void *ctx, struct snipara_call *run, uint32_t number, const void *request, size_t len)
{
    static const char answer[] = "{\"results\": [{\"response\": \"forty-two\"}]}";

    (void)ctx;
    (void)printf("asked %u: %.*s; waiting here says %d\n", number, (int)len, (const char *)request,
                 (int)snipara_wait(run, -1));
    snipara_free(snipara_answer(run, number, true, answer, strlen(answer)));
}

static void on_event(void *ctx, const char *json, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    if (strstr(json, "\"gap\"") != NULL) { /* output comes in any number of pieces */
        (void)printf("gap\n");
    }
}

static void callbacks(const char *argument)
{
    struct snipara_call *call;

    (void)argument;
    end(snipara_run(box, SNIPARA_RUN(.code = "import sys\nprint('out')", .output = on_output)));
    end(snipara_run(box, SNIPARA_RUN(.code = "cat >&2", .shell = true, .input = "in\n",
                                     .input_len = 3, .output = on_output)));
    end(snipara_run(
        box,
        SNIPARA_RUN(.code = "class H:\n    def _repr_html_(self): return '<b>1</b>'\ndisplay(H())",
                    .display = on_display)));
    end(snipara_run(box,
                    SNIPARA_RUN(.code = "print('x' * 9999)", .output = on_output, .event = on_event,
                                .request = "{\"limits\": {\"output\": 100}}")));
    call = done(snipara_run(box, SNIPARA_RUN(.code = "llm_query('what?')", .called = on_called)));
    (void)printf("%s\n", snipara_text(call, "value", NULL));
    snipara_free(call);
}

static void on_end(void *ctx, struct snipara_call *call)
{
    (void)printf("%s: %s\n", (const char *)ctx,
                 snipara_call_error(call) == NULL ? "ok" : snipara_call_error(call)->name);
    snipara_free(call);
}

static void daemon_dies(const char *argument)
{
    static char what[] = "the cell that ran";
    struct snipara_call *call;

    (void)argument;
    end(snipara_run(box, SNIPARA_RUN(.session = "kept", .code = "x = 41")));
    end(snipara_request(box, "{\"method\": \"checkpoint\", \"session\": \"kept\"}", NULL, 0));
    call = snipara_run(box, SNIPARA_RUN(.session = "kept", .code = "import time; time.sleep(600)"));
    snipara_on_done(call, on_end, what);
    while (snipara_wait(call, 500)) {
    }
    (void)printf("running\n");
    (void)fflush(stdout);           /* who reads this kills the daemon */
    while (snipara_step(box) > 0) { /* the descriptor says when */
        struct pollfd p = {.fd = snipara_fd(box), .events = POLLIN};
        (void)poll(&p, 1, 60000);
    }
    call = done(snipara_run(box, SNIPARA_RUN(.session = "kept", .code = "x + 1")));
    (void)printf("without recover: %s\n", snipara_call_error(call)->remedy_ways);
    snipara_free(call);
    call = done(
        snipara_run(box, SNIPARA_RUN(.session = "kept", .code = "x + 1", .recover = "checkpoint")));
    (void)printf("afterwards: %s; children: %s\n", snipara_text(call, "value", NULL),
                 waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? "none" : "some");
    snipara_free(call);
    end(snipara_request(box, "{\"method\": \"shutdown\"}", NULL, 0));
}

/*
 * More calls than are sent at once, in two sessions; the first of both, and the last, which waits
 * to be sent, are endless.
 */
static void queue(const char *argument)
{
    enum {
        LAST = 27
    };
    struct snipara_call *calls[LAST + 1];
    unsigned n_ok = 0;

    (void)argument;
    for (unsigned i = 0; i <= LAST; i++) {
        calls[i] =
            snipara_run(box, SNIPARA_RUN(.session = i % 2 == 0 ? "even" : "odd",
                                         .code = i < 2 || i == LAST ? "while True: pass" : "1"));
    }
    snipara_interrupt(calls[LAST]);
    snipara_interrupt(calls[0]);
    snipara_interrupt(calls[1]);
    for (unsigned i = 0; i <= LAST; i++) {
        const char *status = snipara_text(done(calls[i]), "status", NULL);
        const struct snipara_error *error = snipara_call_error(calls[i]);
        bool is_stopped =
            error != NULL ? error->code == SNIPARA_TIMEOUT : strcmp(status, "interrupted") == 0;

        n_ok += status != NULL && strcmp(status, "ok") == 0 ? 1 : 0;
        if (i < 2 || i == LAST) {
            (void)printf("%d\n", (int)is_stopped);
        }
        snipara_free(calls[i]);
    }
    (void)printf("%u\n", n_ok);
}

/* Sessions of a program that is killed: some that were to end with it, and some that were not. */
static void temporary(const char *argument)
{
    (void)argument;
    end(snipara_open(box, "kept", NULL));
    end(snipara_open(box, "mine", SNIPARA_SESSION(.temporary = true)));
    end(snipara_fork(box, "mine", "copy", 1));
    end(snipara_request(box,
                        "{\"method\": \"fork\", \"from\": \"mine\", \"name\": \"gone\", "
                        "\"temporary\": true}",
                        NULL, 0));
    (void)fflush(stdout);
    (void)raise(SIGKILL);
}

static void commands(const char *argument)
{
    static const char *const lists[][4] = {
        {"export", "commands.snp", "commands"},
        {"export", "commands.snp", "commands"},
        {"export", "--help"},
        {"exec", "1"},
        {NULL},
    };

    (void)argument;
    end(snipara_open(box, "commands", NULL));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        end(snipara_command(box, lists[i]));
    }
    end(snipara_command(box, NULL));
}

static void shut_down(const char *argument)
{
    (void)argument;
    end(snipara_request(box, "{\"method\": \"shutdown\"}", NULL, 0));
}

static void free_it(void *ctx, struct snipara_call *call)
{
    (void)ctx;
    snipara_free(call);
}

static void close_all(void *ctx, struct snipara_call *call)
{
    (void)ctx;
    snipara_free(call);
    snipara_close(box);
}

/* What is waited for goes in its own callback, then all of it. */
static void freed(const char *argument)
{
    void (*const how[])(void *, struct snipara_call *) = {free_it, close_all};

    (void)argument;
    for (size_t i = 0; i < 2; i++) {
        struct snipara_call *call = snipara_sessions(box);

        snipara_on_done(call, how[i], NULL);
        (void)printf("%d\n", snipara_wait(call, -1));
    }
    box = NULL;
}

static struct snipara_call *second;

static void ask_again(void *ctx, struct snipara_call *call)
{
    (void)ctx;
    (void)call;
    (void)poll(NULL, 0, 50); /* the daemon has closed */
    second = snipara_sessions(box);
}

/* The daemon answers once and goes away. */
static void hung_up(const char *argument)
{
    struct snipara_call *call = snipara_sessions(box);

    (void)argument;
    snipara_on_done(call, ask_again, NULL);
    end(call);
    end(second);
}

/* A loop that idles while a daemon starts, or greets slowly. ARGUMENT: "often" = many times. */
static void turns(const char *argument)
{
    struct snipara_call *call = snipara_sessions(box);
    int idle = 0;

    while (!snipara_is_done(call)) {
        struct pollfd p = {.fd = snipara_fd(box), .events = POLLIN};

        idle += poll(&p, 1, 10) == 0 ? 1 : 0;
        (void)snipara_step(box);
    }
    (void)printf("%s\n", idle >= (strcmp(argument, "often") == 0 ? 20 : 1) ? "turned" : "blocked");
    end(call);
}

static void forked(const char *argument)
{
    int fd = snipara_fd(box);
    pid_t pid;

    (void)argument;
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        end(snipara_run(box, SNIPARA_RUN(.code = "1")));
        snipara_close(box);
        (void)fflush(stdout);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    end(snipara_run(box, SNIPARA_RUN(.code = "1")));
    (void)printf("%s\n", fd == snipara_fd(box) ? "the same descriptor" : "another");
}

static void left_open(const char *argument)
{
    struct snipara_call *call =
        snipara_run(box, SNIPARA_RUN(.code = "while True: pass", .attached = true));
    struct snipara_call *freed = snipara_run(box, SNIPARA_RUN(.code = "2"));

    (void)argument;
    snipara_free(freed);
    snipara_close(box);
    box = NULL;
    end(call);
}

/* A program that was compiled with an earlier header, whose structure was shorter. */
static void older(const char *argument)
{
    struct snipara_cell cell = {.size = offsetof(struct snipara_cell, output), .code = "1"};

    (void)argument;
    cell.output = on_output; /* is not looked at */
    end(snipara_run(box, &cell));
}

/* Runs --------------------------------------------------------------------------------- */

enum {
    WORDS_MAX = 16,
    MANY = 6,
};

/* What is done when the tool `never` is called. */
static const char *on_never = "";
static bool is_slow;
static bool is_deaf;
static unsigned n_records;
static uint32_t late;
static struct {
    struct snipara_call *run;
    uint32_t number;
} waiting[MANY];
static unsigned n_waiting;

static void on_record(void *ctx, const char *json, size_t len)
{
    (void)ctx;
    n_records += json[0] == '{' && json[len] == '\0' ? 1 : 1000;
    if (is_slow) {
        (void)poll(NULL, 0, 50);
    }
    while (is_deaf && access("go_on", F_OK) < 0) {
        (void)poll(NULL, 0, 20);
    }
}

static void on_streamed(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    (void)printf("text: %.*s\n", (int)len, text);
}

static void on_noted(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    (void)printf("note: %.*s\n", (int)len, text);
}

static void on_answered(void *ctx, struct snipara_call *answer)
{
    (void)ctx;
    (void)printf("late: %d\n", (int)snipara_int(answer, "answered", -1));
    snipara_free(answer);
}

static void never(struct snipara_call *run, uint32_t number)
{
    late = number;
    if (strcmp(on_never, "stop") == 0) {
        snipara_interrupt(run);
        snipara_interrupt(run);
    } else if (strcmp(on_never, "die") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(on_never, "free") == 0) {
        snipara_free(run);
    }
}

static void on_tool(void *ctx,
                    struct snipara_call *run,
                    uint32_t number,
                    const char *tool,
                    const char *arguments,
                    size_t len)
{
    (void)ctx;
    (void)printf("%s %.*s\n", tool, (int)len, arguments);
    (void)fflush(stdout);
    if (strcmp(tool, "never") == 0) {
        never(run, number);
        return;
    }
    if (late != 0) {
        snipara_on_done(snipara_answer(run, late, true, "too late", 8), on_answered, NULL);
        late = 0;
    }
    if (strstr(arguments, "everywhere") != NULL) {
        static char large[17 << 20]; /* more than a frame has */

        snipara_free(snipara_answer(run, number, true, large, sizeof(large)));
        return;
    }
    snipara_free(snipara_answer(run, number, strcmp(tool, "fails") != 0, "Oslo has 709037", 15));
}

static const struct snipara_tool *const tools[] = {
    SNIPARA_TOOL(.name = "lookup",
                 .description = "Look a place up",
                 .parameters = "{\"type\": \"object\", \"properties\": {\"place\": {\"type\": "
                               "\"string\"}}, \"required\": [\"place\"]}"),
    SNIPARA_TOOL(.name = "fails"), SNIPARA_TOOL(.name = "never", .timeout_ms = 500), NULL};
static const struct snipara_tool *const patient[] = {
    SNIPARA_TOOL(.name = "never", .timeout_ms = 600000), NULL};
static const struct snipara_tool *const bad[] = {
    SNIPARA_TOOL(.name = "bad", .parameters = "{\"type\": \"no such\"}"), NULL};

/* "stop" of "on_never=stop"; NULL: it is another word. */
static const char *value_of(const char *word, const char *name)
{
    size_t n = strlen(name);

    return strncmp(word, name, n) == 0 ? word + n : NULL;
}

/* ARGUMENT: words with a blank between; what is none of these is a setting. */
static void ask(const char *argument)
{
    char *text = argument == NULL ? NULL : strdup(argument);
    const char *settings[WORDS_MAX] = {NULL};
    size_t n = 0;
    struct snipara_prompt prompt = {.size = sizeof(prompt),
                                    .text = "Do it",
                                    .settings = settings,
                                    .tools = tools,
                                    .record = on_record,
                                    .streamed = on_streamed,
                                    .called = on_tool,
                                    .noted = on_noted};
    struct snipara_call *call;

    for (char *rest = text, *word = strsep(&rest, " "); word != NULL && n < WORDS_MAX;
         word = strsep(&rest, " ")) {
        if (value_of(word, "on_never=") != NULL) {
            on_never = value_of(word, "on_never=");
        } else if (value_of(word, "resume=") != NULL) {
            prompt.resume = value_of(word, "resume=");
            prompt.text = NULL;
        } else if (value_of(word, "folder=") != NULL) {
            prompt.folder = value_of(word, "folder=");
        } else if (strcmp(word, "agent") == 0) {
            prompt.agent = true;
        } else if (strcmp(word, "empty") == 0) {
            prompt.text = "";
        } else if (strcmp(word, "huge") == 0) {
            static char huge[(5 << 20) + 1];

            memset(huge, 'x', sizeof(huge) - 1);
            prompt.text = huge;
        } else if (strcmp(word, "patient") == 0) {
            prompt.tools = patient;
        } else if (strcmp(word, "bad") == 0) {
            prompt.tools = bad;
        } else if (strcmp(word, "slow") == 0) {
            is_slow = true;
        } else if (strcmp(word, "deaf") == 0) {
            is_deaf = true;
        } else {
            settings[n++] = word;
        }
    }
    call = snipara_ask(box, &prompt);
    while (strcmp(on_never, "free") == 0 && snipara_step(box) > 0) {
        struct pollfd p = {.fd = snipara_fd(box), .events = POLLIN};
        (void)poll(&p, 1, 60000);
    }
    if (strcmp(on_never, "free") != 0) {
        if (snipara_call_error(done(call)) == NULL) {
            (void)printf("%u records\n%s\n", n_records, snipara_json(call));
        }
        end(call);
    }
    free(text);
}

/* Runs at once: none of them is answered before all have asked. */
static void on_many(void *ctx,
                    struct snipara_call *run,
                    uint32_t number,
                    const char *tool,
                    const char *arguments,
                    size_t len)
{
    (void)ctx;
    (void)tool;
    (void)arguments;
    (void)len;
    waiting[n_waiting].run = run;
    waiting[n_waiting++].number = number;
    for (unsigned i = 0; n_waiting == MANY && i < MANY; i++) {
        snipara_free(snipara_answer(waiting[i].run, waiting[i].number, true, "yes", 3));
    }
}

/* ARGUMENT: model=... */
static void many(const char *argument)
{
    const char *const settings[] = {argument, NULL};
    struct snipara_call *calls[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        calls[i] = snipara_ask(box, SNIPARA_PROMPT(.text = "Do it", .settings = settings,
                                                   .tools = tools, .called = on_many));
    }
    for (unsigned i = 0; i < MANY; i++) {
        (void)printf("%s\n", snipara_text(done(calls[i]), "response", NULL));
        snipara_free(calls[i]);
    }
}

/* Read all output of a process, and print it when it has ended. */
static void process_print(int64_t process)
{
    char text[256];
    size_t n = 0;
    int64_t at[2] = {0, 0};
    bool is_last = false;

    while (!is_last) {
        struct snipara_call *call =
            done(snipara_process_read(box, "running", process, at[0], at[1], 5000));
        size_t len;
        const char *data = snipara_data(call, &len);

        if (snipara_call_error(call) != NULL) {
            end(call);
            return;
        }
        at[0] = snipara_int(call, "stdout", -1) + snipara_int(call, "stdout_len", -1);
        at[1] = snipara_int(call, "stderr", -1) + snipara_int(call, "stderr_len", -1);
        len = len < sizeof(text) - n ? len : sizeof(text) - n;
        memcpy(text + n, data, len);
        n += len;
        is_last = snipara_int(call, "eof", 0) == 1;
        snipara_free(call);
    }
    (void)printf("%.*s", (int)n, text);
}

static void processes(const char *argument)
{
    const char *const sleeper[] = {"sleep", "1000", NULL};
    struct snipara_call *call;
    int64_t process;

    (void)argument;
    end(snipara_start(box, SNIPARA_RUN(.session = "running", .code = "1")));
    call = done(snipara_start(box, SNIPARA_RUN(.session = "running", .code = "cat; exit 3",
                                               .shell = true, .open_input = true)));
    process = snipara_int(call, "cell", -1);
    end(call);
    call = done(snipara_process_write(box, "running", process, "a line\n", 7, true));
    (void)printf("%d\n", (int)snipara_int(call, "written", -1));
    snipara_free(call);
    process_print(process);
    call = done(snipara_process_wait(box, "running", process, 5000));
    (void)printf("%s %d\n", snipara_text(call, "state", NULL),
                 (int)snipara_int(call, "exit_code", -1));
    snipara_free(call);
    end(snipara_process_write(box, "running", process, "x", 1, false));
    call = done(snipara_start(box, SNIPARA_RUN(.session = "running", .argv = sleeper)));
    process = snipara_int(call, "cell", -1);
    end(call);
    call = done(snipara_process_wait(box, "running", process, 1));
    (void)printf("%s\n", snipara_text(call, "state", NULL));
    snipara_free(call);
    end(snipara_process_signal(box, "running", process, SIGTERM));
    while (snipara_text(call = done(snipara_process_wait(box, "running", process, 5000)), "signal",
                        NULL) == NULL) {
        snipara_free(call);
    }
    (void)printf("%s\n", snipara_text(call, "signal", NULL));
    snipara_free(call);
    call = done(snipara_processes(box, "running"));
    (void)printf("%zu %s\n", snipara_count(call, "processes"),
                 snipara_text(call, "processes.1.argv.0", NULL));
    snipara_free(call);
    end(snipara_process_read(box, "running", -1, 0, 0, 0));
    end(snipara_destroy(box, "running"));
}

/* ARGUMENT: a setting. */
static void settings(const char *argument)
{
    const char *const list[] = {argument, NULL};
    struct snipara_call *call = done(snipara_settings(box, NULL, list));

    if (snipara_call_error(call) == NULL) {
        (void)printf("%lld %s %zu\n", (long long)snipara_int(call, "max_depth", -1),
                     snipara_text(call, "sources.max_depth", NULL),
                     snipara_count(call, "warnings"));
    }
    end(call);
}

static const struct {
    const char *name;
    void (*run)(const char *argument);
} ways[] = {
    {"errors", errors},       {"transfer", transfer},
    {"callbacks", callbacks}, {"daemon_dies", daemon_dies},
    {"queue", queue},         {"shut_down", shut_down},
    {"temporary", temporary}, {"freed", freed},
    {"hung_up", hung_up},     {"turns", turns},
    {"forked", forked},       {"left_open", left_open},
    {"older", older},         {"ask", ask},
    {"many", many},           {"settings", settings},
    {"commands", commands},   {"processes", processes},
};

int main(int argc, char **argv)
{
    const bool later =
        argc > 1 && (strcmp(argv[1], "settings") == 0 || strcmp(argv[1], "turns") == 0);
    const struct snipara_error *error =
        snipara_connect(SNIPARA_OPTIONS(.no_start = argc > 3, .later = later), &box);

    if (error != NULL) {
        print_error(error);
        return 3;
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (argc > 1 && strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run(argc > 2 ? argv[2] : NULL);
            snipara_close(box);
            return 0;
        }
    }
    return 2;
}
