/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIPARA_SANDBOX_H
#define SNIPARA_SANDBOX_H

/*
 * libsnipara-sandbox: run untrusted code in persistent sessions.
 *
 *     struct snipara *box;
 *     const struct snipara_error *error = snipara_connect(NULL, &box);
 *     struct snipara_call *call =
 *         snipara_run(box, SNIPARA_RUN(.session = "work", .code = "6 * 7"));
 *     if (snipara_wait(call, -1) && snipara_call_error(call) == NULL)
 *         puts(snipara_text(call, "value", NULL));
 *     snipara_free(call);
 *     snipara_close(box);
 *
 * Calls. A function that needs the daemon begins a call and returns at once. Wait for it with
 * snipara_wait(), or watch snipara_fd() in your event loop and call snipara_step(). 24 calls of a
 * connection run at once; up to 512 may be open, the others are queued. A call holds its failure,
 * so a chain needs one check at its end. NULL is a call that failed for lack of memory, and every
 * function accepts it as such.
 *
 * Names of sessions have 1 to 64 characters of A-Z a-z 0-9 . _ -, and do not begin with '.' or '-'.
 * Text is UTF-8. Strings that are given are copied; returned ones belong to the call or connection
 * they came from, until that is freed. A time is in milliseconds, a size in bytes.
 *
 * Structures of options begin with their size, and the macros SNIPARA_...() set it, so a program
 * compiled with this header works with a later library. Members that are not set are 0, which means
 * the default.
 *
 * Threads: one at a time for each connection and its calls; several connections are independent.
 * After fork() only the parent may use a connection; in the child calls fail, and snipara_close()
 * is allowed. No signal handler is installed, no signal is blocked, and SIGPIPE is never raised.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#    pragma GCC visibility push(default)
#endif

struct snipara;      /* a connection to the daemon of this user */
struct snipara_call; /* a request, and its answer */

/* Errors ------------------------------------------------------------------------------- */

enum snipara_code {
    SNIPARA_OK = 0,
    SNIPARA_INVALID = -1,     /* an argument is wrong; the message says which */
    SNIPARA_NOT_FOUND = -2,   /* no such session, snapshot, file, template */
    SNIPARA_LIMIT = -3,       /* a limit was met; members limit and limit_value */
    SNIPARA_DENIED = -4,      /* policy forbids it */
    SNIPARA_UNSUPPORTED = -5, /* this host or tier cannot do it */
    SNIPARA_TIMEOUT = -6,
    SNIPARA_NO_MEMORY = -7,
    SNIPARA_SYSTEM = -8, /* a system call failed; member system_error */
    /*
     * The daemon ended or broke its protocol. It is unknown whether it had begun an open call: look
     * at the session's history. The next call connects again and finds the sessions. A call that
     * the daemon certainly did not read is sent to the next one instead, once.
     */
    SNIPARA_LOST = -9,
    SNIPARA_INTERNAL = -10
};

/*
 * Why a call failed, and the remedy. Strings are "" if they do not apply. Failed code is not an
 * error of a call: see `status` in its result.
 */
struct snipara_error {
    enum snipara_code code;
    int system_error;        /* errno, with SNIPARA_SYSTEM */
    const char *name;        /* of the code: "not_found" */
    const char *message;     /* one line for people, without the remedy */
    const char *object;      /* the subject: a session, a file, an option */
    const char *limit;       /* the limit that was met: "memory" */
    int64_t limit_value;     /* in the unit of that limit */
    const char *remedy;      /* a word of docs/wire.md: "raise_limit" */
    const char *remedy_name; /* its object: the nearest name, the limit to raise */
    int64_t remedy_value;    /* its number: a sufficient limit; -1 = none */
    /* Of the remedy "recover": suitable values of `recover`, "replay checkpoint". */
    const char *remedy_ways;
};

/* Connection --------------------------------------------------------------------------- */

struct snipara_options {
    size_t size;
    /* Of the daemon; NULL = this user's daemon, which is started if none runs. */
    const char *socket;
    bool no_start; /* fail with SNIPARA_NOT_FOUND instead of starting one */
    /*
     * Connect with the first call that needs the daemon, without blocking: until that is done, the
     * calls are queued. For event loops.
     */
    bool later;
};
#define SNIPARA_OPTIONS(...) \
    (&(const struct snipara_options){.size = sizeof(struct snipara_options), __VA_ARGS__})

/*
 * Connect. Blocks until the daemon answers: about 1 ms if it runs, 40 s at most if not. With
 * `later` it does not block, and the calls fail if no daemon answers in that time. options: NULL =
 * the default. Returns NULL and *ret (close it later), or the error; that belongs to this thread
 * until its next snipara_connect().
 */
const struct snipara_error *snipara_connect(const struct snipara_options *options,
                                            struct snipara **ret);

/*
 * Free the connection. Its open calls end without a callback, and may only be freed afterwards.
 * Their cells continue in the daemon, except those run as `attached`. In a callback it takes effect
 * when that returns.
 */
void snipara_close(struct snipara *box);

/*
 * Get a descriptor that is readable (POLLIN) when snipara_step() has work. It is the same for the
 * whole life of the connection, also after a restart of the daemon. Do not read from it or close
 * it.
 */
int snipara_fd(const struct snipara *box);

/*
 * Connect, send and receive without blocking, also after a restart of the daemon; callbacks come
 * from here and from snipara_wait(). Returns the number of open calls.
 */
size_t snipara_step(struct snipara *box);

/* Return the version of the library: "3.0.0". */
const char *snipara_version(void);

/* Calls -------------------------------------------------------------------------------- */

/*
 * Wait until the call is done: at most timeout_ms, -1 = no limit. Returns true if it has succeeded
 * or failed; false if the time is over or a signal was caught, so that the caller can handle it.
 */
bool snipara_wait(struct snipara_call *call, int timeout_ms);

/* Check whether the call has succeeded or failed. */
bool snipara_is_done(const struct snipara_call *call);

/* Get the error of a failed call; NULL = it succeeded, or is not done. */
const struct snipara_error *snipara_call_error(const struct snipara_call *call);

/*
 * Call done(ctx, call) when the call is done, or at once if it already is; done may free the call
 * and begin others.
 */
void snipara_on_done(struct snipara_call *call,
                     void (*done)(void *ctx, struct snipara_call *call),
                     void *ctx);

/*
 * Interrupt the cell of an open snipara_run(), as Ctrl-C would: Python gets a KeyboardInterrupt,
 * and a cell that does not end is killed after a while. The call ends as usual, with status
 * "interrupted"; a cell that had not begun fails with SNIPARA_TIMEOUT. An open snipara_ask() is
 * stopped in the same way. Other calls are not affected.
 */
void snipara_interrupt(struct snipara_call *call);

/* Free a call. An open one continues, and its result is dropped. NULL is allowed. */
void snipara_free(struct snipara_call *call);

/* Answers -------------------------------------------------------------------------------------- */

/*
 * Members of a call's answer, by path: "value", "error.type", "usage.wall_us", "sessions.0.name".
 * docs/result.md lists the members for snipara_run(), docs/wire.md for other calls. Absent, null or
 * of another type: the fallback (text: NULL).
 */

/*
 * Get a text of the answer, NUL-terminated. ret_len: its bytes, for text that may contain NUL; or
 * NULL.
 */
const char *snipara_text(const struct snipara_call *call, const char *path, size_t *ret_len);

/* Get an integer of the answer; true and false are 1 and 0. */
int64_t snipara_int(const struct snipara_call *call, const char *path, int64_t fallback);

/* Get a number of the answer. */
double snipara_real(const struct snipara_call *call, const char *path, double fallback);

/* Count the elements of an array or the members of an object in the answer; 0 = none. */
size_t snipara_count(const struct snipara_call *call, const char *path);

/* Get the whole answer as JSON text; NULL = the call is not done, or has failed. */
const char *snipara_json(const struct snipara_call *call);

/*
 * Get the bytes of snipara_get(); *ret_len is 0 for other calls. A NUL follows that *ret_len does
 * not include.
 */
const void *snipara_data(const struct snipara_call *call, size_t *ret_len);

/* Running code --------------------------------------------------------------------------- */

/*
 * Options of a new session. An existing session keeps its options, and different values are refused
 * (SNIPARA_INVALID); snipara_set_limits() changes its limits.
 */
struct snipara_session {
    size_t size;
    const char *tier; /* "native", "local", "docker", "auto"; NULL = the strongest on this host */
    /* "base", "data", "plot", or an added one; NULL = the project's .venv, else base. */
    const char *template_name;
    const char *project;       /* folder shown at /workspace, which is never written to */
    const char *const *limits; /* "memory=512m", "timeout=30"...; NULL-terminated */
    const char *const *env;    /* "NAME=VALUE" for the code; NULL-terminated */
    bool allow_degraded;       /* run without a control that this host lacks */
    bool require_exact;        /* refuse if any control or limit is only approximate */
    /*
     * Tier docker: an image, or IMAGE#RUNTIME; else a folder whose /usr and /etc replace the
     * host's.
     */
    const char *rootfs;
    bool network;   /* tier docker: the code has the engine's network, as the result reports */
    bool temporary; /* destroy it some seconds after this process has ended for any reason */
    /* "network", "kernel"...: required of its tier; NULL-terminated. */
    const char *const *guarantees;
};
#define SNIPARA_SESSION(...) \
    (&(const struct snipara_session){.size = sizeof(struct snipara_session), __VA_ARGS__})

enum snipara_stream {
    SNIPARA_STDOUT = 1,
    SNIPARA_STDERR = 2
};

/* A form of a displayed object: its MIME type and bytes. */
struct snipara_part {
    const char *type; /* "text/plain", "image/png" */
    const char *data;
    size_t len;
};

struct snipara_cell {
    size_t size;
    /* Name or id; a new name makes a session; NULL = a session that ends with this call. */
    const char *session;
    const struct snipara_session *with; /* options of a new session; NULL = defaults */
    const char *code;                   /* Python, or with `shell` a line for /bin/sh */
    size_t code_len;                    /* bytes of code; 0 = up to its NUL */
    bool shell;
    const char *const *argv; /* a command and its arguments instead of code; NULL-terminated */
    const void *input;       /* standard input; NULL = /dev/null */
    size_t input_len;
    int64_t timeout_ms; /* of this cell; 0 = the session's */
    bool no_rollback;   /* effects of the cell stay even if it has to be killed */
    bool atomic;        /* effects of the cell are undone if it fails */
    bool attached;      /* interrupt the cell if this program ends */
    bool quick;         /* do not wait until the outcome would survive a power cut */
    /*
     * If cells are missing after a crash: "replay", "skip", "checkpoint"; NULL = fail and name
     * them.
     */
    const char *recover;
    /* Callbacks while it runs; each may be NULL. Bytes are borrowed until they return. */
    void (*output)(void *ctx, enum snipara_stream stream, const char *bytes, size_t len);
    void (*display)(void *ctx, const struct snipara_part *parts, size_t n_parts);
    /* The code calls its host: answer with snipara_answer(), now or later. NULL = not supported. */
    void (*called)(
        void *ctx, struct snipara_call *call, uint32_t number, const void *request, size_t len);
    void *ctx;
    /*
     * This program's internal code, such as reading a value: snipara_history() leaves it out (an
     * older daemon lists it).
     */
    bool internal;
    /*
     * Members of the request `exec` in docs/wire.md, as a JSON object: "{\"checkpoint\": \"off\"}".
     * They replace those of this structure. NULL = none.
     */
    const char *request;
    /*
     * An event of `exec` in docs/wire.md, a JSON object, and its bytes. If set, output and display
     * are not called; unlike them it also gets `gap`, the omitted middle of an output.
     */
    void (*event)(void *ctx, const char *json, const char *bytes, size_t len);
    bool open_input; /* of snipara_start(): standard input is open for snipara_process_write() */
};
#define SNIPARA_RUN(...) \
    (&(const struct snipara_cell){.size = sizeof(struct snipara_cell), __VA_ARGS__})

/*
 * Run a cell. Answer: docs/result.md. `status` is "ok", "error", "timeout", "oom", "killed",
 * "limit" or "interrupted"; `state` describes the session after it. Output and displays are passed
 * only to the callbacks. Code and input have at most 15 MiB together.
 */
struct snipara_call *snipara_run(struct snipara *box, const struct snipara_cell *cell);

/*
 * Make a session ready without running your code: a cell without code. Fails if it exists with
 * other options.
 */
struct snipara_call *snipara_open(struct snipara *box,
                                  const char *session,
                                  const struct snipara_session *with);

/*
 * Answer a call from inside, at most 4 MiB (otherwise it fails); ok false: the code gets an
 * exception with that text. Also answers a tool's call, with text for the model. Answer:
 * `answered`, false = the call had ended already.
 */
struct snipara_call *snipara_answer(
    struct snipara_call *run, uint32_t number, bool ok, const void *data, size_t len);

/* Processes -------------------------------------------------------------------------------- */

/*
 * A process is a command that runs beside the cells of its session, without a time limit. It has
 * the number of the cell that started it, and ends with the session's sandbox.
 */

/*
 * Start one: a cell with argv, or with code and shell, in a session. Answer: as snipara_run(), when
 * the program has started; `cell` is the number of the process.
 */
struct snipara_call *snipara_start(struct snipara *box, const struct snipara_cell *cell);

/* List the processes of a session, running and ended: `processes`, each with `process`... */
struct snipara_call *snipara_processes(struct snipara *box, const char *session);

/*
 * Read output from these positions on; 0 = the first byte. If there is none, wait up to wait_ms (at
 * most 5000) for some, or for the end. snipara_data() has `stdout_len` bytes of standard output,
 * then `stderr_len` of standard error; they begin at `stdout` and `stderr`, which are larger than
 * requested if earlier bytes are no longer stored. `eof`: there is no more to come. `state`,
 * `exit_code`, `signal`.
 */
struct snipara_call *snipara_process_read(struct snipara *box,
                                          const char *session,
                                          int64_t process,
                                          int64_t out_from,
                                          int64_t err_from,
                                          int wait_ms);

/*
 * Write to standard input: as much as the process has room for, at most 64 KiB; if it has none,
 * wait for a second at most. `written`: the bytes taken; call again with the rest. close_input:
 * close standard input if all were taken; len may be 0. SNIPARA_NOT_FOUND: the process has ended,
 * or has closed its standard input.
 */
struct snipara_call *snipara_process_write(struct snipara *box,
                                           const char *session,
                                           int64_t process,
                                           const void *data,
                                           size_t len,
                                           bool close_input);

/* Wait up to wait_ms (at most 5000) for its end: `state`, "running" or "ended", and the rest. */
struct snipara_call *snipara_process_wait(struct snipara *box,
                                          const char *session,
                                          int64_t process,
                                          int wait_ms);

/* Send a signal (SIGTERM...) to its process group. `sent`: false = it had ended. */
struct snipara_call *snipara_process_signal(struct snipara *box,
                                            const char *session,
                                            int64_t process,
                                            int signal_number);

/* Files ---------------------------------------------------------------------------------- */

/* Paths are below /workspace: "data/a.csv". */

/* Write a complete file. mode: permissions, 0 = 0644. A path that ends in '/' makes a folder. */
struct snipara_call *snipara_put(struct snipara *box,
                                 const char *session,
                                 const char *path,
                                 const void *data,
                                 size_t len,
                                 unsigned mode);

/* Read a complete file: snipara_data(). SNIPARA_LIMIT: it is larger than most bytes (0 = 1 GiB). */
struct snipara_call *snipara_get(struct snipara *box,
                                 const char *session,
                                 const char *path,
                                 size_t most);

/*
 * List a folder: `entries`, each with `name`, `type` (file, dir, link, other), `size`, `mtime`. ""
 * or "." = /workspace.
 */
struct snipara_call *snipara_list(struct snipara *box, const char *session, const char *path);

/* Snapshots ------------------------------------------------------------------------------ */

/* A snapshot is named by its id, by SESSION@NAME, or by a unique name. */

/*
 * Take a snapshot: variables, files and history of the session after its last cell. name:
 * NULL = s1, s2...
 */
struct snipara_call *snipara_snapshot(struct snipara *box, const char *session, const char *name);

/* List the snapshots of a session, or all (NULL): `snapshots`, oldest first. */
struct snipara_call *snipara_snapshots(struct snipara *box, const char *session);

/* Roll a session back to one of its snapshots. */
struct snipara_call *snipara_rollback(struct snipara *box,
                                      const char *session,
                                      const char *snapshot);

/*
 * Make n sessions (1 to 64) that continue from a session or snapshot: `sessions`, each with `name`.
 * name: prefix of their names, or NULL.
 */
struct snipara_call *snipara_fork(struct snipara *box, const char *from, const char *name, int n);

/* Compare two sessions or snapshots: variables and files that were added, removed or changed. */
struct snipara_call *snipara_diff(struct snipara *box, const char *a, const char *b);

/* Sessions ------------------------------------------------------------------------------- */

/* List all sessions: `sessions`, each with `name`, `state`, `cells`, ... */
struct snipara_call *snipara_sessions(struct snipara *box);

/*
 * List cells of a session, newest first: `cells`. before: only those before this cell, 0 = all;
 * limit: at most 1000, 0 = 50.
 */
struct snipara_call *snipara_history(struct snipara *box,
                                     const char *session,
                                     int64_t before,
                                     int limit);

/*
 * Change limits of a session permanently: "memory=1g", "timeout=60"...; NULL-terminated. Answer:
 * all limits before and now (`was`, `limits`), and `at_wake`, the keys of limits that apply at the
 * next wake. Lowered limits are tried first; SNIPARA_LIMIT: the session cannot be restored with
 * them, and nothing changed. `untried`: why there was no trial.
 */
struct snipara_call *snipara_set_limits(struct snipara *box,
                                        const char *session,
                                        const char *const *limits);

/*
 * Get an earlier cell: `result` as snipara_run() returned it, or null. Its output and displays are
 * passed to output and display of SNIPARA_RUN(...), or to event; its other members are ignored.
 */
struct snipara_call *snipara_show(struct snipara *box,
                                  const char *session,
                                  int64_t cell,
                                  const struct snipara_cell *callbacks);

/* Save a session and end its sandbox; its next cell wakes it. */
struct snipara_call *snipara_hibernate(struct snipara *box, const char *session);

/* End a session permanently, with its files and snapshots in memory. */
struct snipara_call *snipara_destroy(struct snipara *box, const char *session);

/*
 * Send any other request of docs/wire.md: JSON text with its method, and its raw bytes. Prefer the
 * functions above for their requests.
 */
struct snipara_call *snipara_request(struct snipara *box,
                                     const char *json,
                                     const void *data,
                                     size_t len);

/* Runs ----------------------------------------------------------------------------------- */

/*
 * A run is a model that works on a prompt, and whose code runs in a session. Each run has a
 * separate process, which writes the record in the folder of logs, and uses the daemon. When its
 * connection closes it ends as interrupted, and snipara_ask() can resume it. Settings are
 * "KEY=VALUE", with the keys of the configuration (docs/reference/configuration.md).
 */

/* A tool of this program for the model. It runs in this program, outside the sandbox. */
struct snipara_tool {
    size_t size;
    /* A-Z a-z 0-9 _ -, at most 64, a letter or _ first; not the name of a built-in tool. */
    const char *name;
    const char *description; /* for the model; at most 8 KiB */
    const char *parameters;  /* JSON Schema of its arguments, an object; NULL = none */
    int64_t timeout_ms;      /* of a call; 0 = 30 s, at most 600 s */
};
#define SNIPARA_TOOL(...) \
    (&(const struct snipara_tool){.size = sizeof(struct snipara_tool), __VA_ARGS__})

struct snipara_prompt {
    size_t size;
    const char *text;   /* the prompt, or the task of an agent; at most 4 MiB */
    const char *system; /* instructions to the model, before the prompt; NULL = none */
    const char *resume; /* id of a run to resume, or a prefix of it, instead of text; NULL */
    bool agent;         /* iterations until the final answer, as `snipara-sandbox agent` */
    /*
     * Working folder of the run: its configuration, .env, project and logs; NULL = this process's.
     */
    const char *folder;
    /*
     * They override variables and files. Besides keys of the configuration: config=FILE,
     * project=DIR, no_project=true, output_dir=DIR, allow_degraded=true, allow_tools=true,
     * mcp_config=FILE, recover=WAY for a resumed run; for an agent max_iterations and budget.
     * NULL-terminated.
     */
    const char *const *settings;
    /* NULL-terminated. A resumed run needs the tools that it had. */
    const struct snipara_tool *const *tools;
    /* Callbacks while it runs; each may be NULL. Bytes are borrowed until they return. */
    /* A record, one JSON object, as written: docs/reference/trajectory.md. */
    void (*record)(void *ctx, const char *json, size_t len);
    void (*streamed)(void *ctx, const char *text, size_t len); /* the model's text, as it arrives */
    /*
     * The model calls a tool; arguments: a JSON object that fits the parameters. Answer with
     * snipara_answer(), now or later, with text for the model, at most 1 MiB; ok false: it failed.
     * After the tool's time limit the model gets an error instead, and the answer is dropped.
     */
    void (*called)(void *ctx,
                   struct snipara_call *call,
                   uint32_t number,
                   const char *tool,
                   const char *arguments,
                   size_t len);
    void *ctx;
    /*
     * A warning, a line for people: of an untrusted file, for example. NULL = in `warnings` of the
     * answer.
     */
    void (*noted)(void *ctx, const char *text, size_t len);
};
#define SNIPARA_PROMPT(...) \
    (&(const struct snipara_prompt){.size = sizeof(struct snipara_prompt), __VA_ARGS__})

/*
 * Run a model on a prompt. Answer: as `snipara-sandbox run --json` or `agent --json`, with
 * `success`, `response` or `answer`, `error`, `trajectory_id`... A run that reaches a limit is not
 * an error of the call. snipara_interrupt() stops it: it ends as usual, with its results so far.
 * Blocks for some milliseconds, until its process has started. The daemon is this user's, which the
 * run starts if needed; a connection to another socket is refused (SNIPARA_UNSUPPORTED).
 */
struct snipara_call *snipara_ask(struct snipara *box, const struct snipara_prompt *prompt);

/*
 * Run `diff`, `export`, `import` or `apply` of the command line (docs/reference/cli.md), in a
 * separate process that never prompts: SNIPARA_DENIED where the command line would ask, unless
 * `--yes` is among the words. words: {"diff", "work", "--project", NULL}; paths are relative to the
 * working folder. Answer: its output with --json. snipara_interrupt() does not stop it. A
 * connection to another socket is refused (SNIPARA_UNSUPPORTED).
 */
struct snipara_call *snipara_command(struct snipara *box, const char *const *words);

/*
 * Get the configuration in force in a folder (NULL = the working one): a member for each key, as
 * `config show --json`, and `warnings` if there are any.
 */
struct snipara_call *snipara_settings(struct snipara *box,
                                      const char *folder,
                                      const char *const *settings);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
