/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIPARA_SANDBOX_H
#define SNIPARA_SANDBOX_H

/*
 * libsnipara-sandbox: run code that nobody has checked, in sessions that last.
 *
 *     struct snipara *box; const struct snipara_error *error = snipara_connect(NULL, &box); struct
 *     snipara_call *call = snipara_run(box, SNIPARA_RUN(.session = "work", .code = "6 * 7")); if
 *     (snipara_wait(call, -1) && snipara_call_error(call) == NULL)
 *         puts(snipara_text(call, "value", NULL));
 *     snipara_free(call);
 *     snipara_close(box);
 *
 * Calls. A function that asks the daemon for something begins a call and returns at once. Wait for
 * it with snipara_wait(), or watch snipara_fd() in your event loop and call snipara_step(). 24
 * calls of a connection run at once; up to 512 may be open, and wait for those. A call carries its
 * own failure, so a chain needs one check at its end. NULL is a call that failed for lack of
 * memory, and every function takes it as that.
 *
 * Names of sessions have 1 to 64 characters of A-Z a-z 0-9 . _ -, and do not begin with '.' or '-'.
 * Text is UTF-8. Strings that are given are copied; what is returned belongs to the call or
 * connection it came from, until that is freed. A time is in milliseconds, a size in bytes.
 *
 * Structures of options begin with their size, and the macros SNIPARA_...() set it, so a program
 * that was compiled with this header runs with a later library. Members that are not set are 0,
 * which means the default.
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
struct snipara_call; /* something that was asked for, and its answer */

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
     * The daemon went away or broke its protocol. Whether it had begun a call that was open is not
     * known: look at the session's history. Sessions are still there with the next call, which
     * connects again. A call that the daemon certainly did not read is sent to the next one
     * instead, once.
     */
    SNIPARA_LOST = -9,
    SNIPARA_INTERNAL = -10
};

/*
 * Why something failed, and the way out. Strings are "" where there is nothing to say. Code that
 * ran and failed is no error of a call: see `status` in its result.
 */
struct snipara_error {
    enum snipara_code code;
    int system_error;        /* errno, with SNIPARA_SYSTEM */
    const char *name;        /* of the code: "not_found" */
    const char *message;     /* one line for people, without the way out */
    const char *object;      /* what it is about: a session, a file, an option */
    const char *limit;       /* the limit that was met: "memory" */
    int64_t limit_value;     /* in the unit of that limit */
    const char *remedy;      /* what helps, a word of docs/wire.md: "raise_limit" */
    const char *remedy_name; /* its object: the nearest name, the limit to raise */
    int64_t remedy_value;    /* its number: a limit that would do; -1 = none */
    /* of the remedy "recover": values of `recover` that fit, "replay checkpoint" */
    const char *remedy_ways;
};

/* Connection --------------------------------------------------------------------------- */

struct snipara_options {
    size_t size;
    /* of the daemon; NULL = that of this user, whose daemon is started if none runs */
    const char *socket;
    bool no_start; /* fail with SNIPARA_NOT_FOUND rather than start one */
    bool later; /* connect with the first call that needs the daemon; then that blocks, or fails */
};
#define SNIPARA_OPTIONS(...) \
    (&(const struct snipara_options){.size = sizeof(struct snipara_options), __VA_ARGS__})

/*
 * Connect. Blocks until the daemon answers: about 1 ms if it runs, 40 s at most if not. options:
 * NULL = the default. Returns NULL and *ret (to be closed), or why not; that belongs to this thread
 * until its next snipara_connect().
 */
const struct snipara_error *snipara_connect(const struct snipara_options *options,
                                            struct snipara **ret);

/*
 * Free the connection. Its open calls end without a callback, and may only be freed afterwards.
 * Their cells go on in the daemon, but for those that were run `attached`. In a callback it takes
 * effect when that returns.
 */
void snipara_close(struct snipara *box);

/*
 * Get a descriptor that is readable (POLLIN) when snipara_step() has something to do. It is the
 * same for the whole life of the connection, also when the daemon was started again. Do not read
 * from it or close it.
 */
int snipara_fd(const struct snipara *box);

/*
 * Send and receive what can be without blocking; callbacks come from here and from snipara_wait().
 * Returns how many calls are open.
 */
size_t snipara_step(struct snipara *box);

/* Tell the version of the library: "3.0.0". */
const char *snipara_version(void);

/* Calls -------------------------------------------------------------------------------- */

/*
 * Wait until the call is done: at most timeout_ms, -1 = for ever. Returns true when it is done,
 * well or badly; false when the time is over or a signal was caught, so that the caller may look
 * why it came.
 */
bool snipara_wait(struct snipara_call *call, int timeout_ms);

/* Tell whether the call has ended, well or badly. */
bool snipara_is_done(const struct snipara_call *call);

/* Tell why the call failed; NULL = it did not, or is not done. */
const struct snipara_error *snipara_call_error(const struct snipara_call *call);

/*
 * Have done(ctx, call) called when the call is done; it may free the call and begin others. At
 * once, if it is done already.
 */
void snipara_on_done(struct snipara_call *call,
                     void (*done)(void *ctx, struct snipara_call *call),
                     void *ctx);

/*
 * Interrupt the cell of an open snipara_run(), as Ctrl-C would: Python gets a KeyboardInterrupt,
 * and what does not end is killed after a while. The call ends as usual, with status "interrupted";
 * a cell that had not begun fails with SNIPARA_TIMEOUT. An open snipara_ask() is stopped likewise.
 * Other calls are not affected.
 */
void snipara_interrupt(struct snipara_call *call);

/* Free a call. One that is open goes on, and nobody hears of its end. NULL is allowed. */
void snipara_free(struct snipara_call *call);

/* Answers ------------------------------------------------------------------------------ */

/*
 * Members of a call's answer, by path: "value", "error.type", "usage.wall_us", "sessions.0.name".
 * docs/result.md lists those of snipara_run(), docs/wire.md those of the others. Absent, null or of
 * another type: the fallback (text: NULL).
 */

/*
 * Get a text of the answer, NUL-terminated. ret_len: its bytes, for text that may hold NUL;
 * or NULL.
 */
const char *snipara_text(const struct snipara_call *call, const char *path, size_t *ret_len);

/* Get a whole number of the answer; true and false are 1 and 0. */
int64_t snipara_int(const struct snipara_call *call, const char *path, int64_t fallback);

/* Get a number of the answer. */
double snipara_real(const struct snipara_call *call, const char *path, double fallback);

/* Count the elements of an array or the members of an object in the answer; 0 = there is none. */
size_t snipara_count(const struct snipara_call *call, const char *path);

/* Get the whole answer as JSON text; NULL = the call is not done, or has failed. */
const char *snipara_json(const struct snipara_call *call);

/*
 * Get the bytes of snipara_get(); *ret_len is 0 for other calls. Followed by a NUL that is
 * not counted.
 */
const void *snipara_data(const struct snipara_call *call, size_t *ret_len);

/* Running code --------------------------------------------------------------------------- */

/*
 * Options of a new session. An existing session keeps its options, and different values are refused
 * (SNIPARA_INVALID); snipara_set_limits() changes its limits.
 */
struct snipara_session {
    size_t size;
    const char *tier; /* "native", "local", "docker", "auto"; NULL = the strongest of this host */
    /* "base", "data", "plot", or one that was added; NULL = the project's own, else base. */
    const char *template_name;
    const char *project;       /* folder seen at /workspace, which is never written to */
    const char *const *limits; /* "memory=512m", "timeout=30"...; NULL ends them */
    const char *const *env;    /* "NAME=VALUE" for the code; NULL ends them */
    bool allow_degraded;       /* run without a control that this host lacks */
    bool require_exact;        /* refuse if any control or limit is only approximate */
    /*
     * Tier docker: an image, or IMAGE#RUNTIME; else a folder whose /usr and /etc are seen instead
     * of the host's.
     */
    const char *rootfs;
    bool network;   /* tier docker: the code has the engine's network, and the result says so */
    bool temporary; /* destroy it some seconds after this process has ended, however that was */
    /* "network", "kernel"...: what its tier must give; NULL ends them */
    const char *const *guarantees;
};
#define SNIPARA_SESSION(...) \
    (&(const struct snipara_session){.size = sizeof(struct snipara_session), __VA_ARGS__})

enum snipara_stream {
    SNIPARA_STDOUT = 1,
    SNIPARA_STDERR = 2
};

/* A form of something that was displayed: its MIME type and bytes. */
struct snipara_part {
    const char *type; /* "text/plain", "image/png" */
    const char *data;
    size_t len;
};

struct snipara_cell {
    size_t size;
    /* Name or id; a new name makes a session; NULL = one that ends with this call. */
    const char *session;
    const struct snipara_session *with; /* what a new session is made with; NULL = defaults */
    const char *code;                   /* Python, or with `shell` a line for /bin/sh */
    size_t code_len;                    /* bytes of code; 0 = it ends at its NUL */
    bool shell;
    const char *const *argv; /* a command and its arguments instead of code; NULL ends them */
    const void *input;       /* standard input; NULL = /dev/null */
    size_t input_len;
    int64_t timeout_ms; /* of this cell; 0 = the session's */
    bool no_rollback;   /* what a cell did stays even if it has to be killed */
    bool atomic;        /* what a cell did is undone if it fails */
    bool attached;      /* interrupt the cell if this program goes away */
    bool quick;         /* do not wait until the outcome is safe from a power cut */
    /*
     * If cells are missing after a crash: "replay", "skip", "checkpoint"; NULL = fail and
     * name them.
     */
    const char *recover;
    /* Callbacks while it runs; each may be NULL. Bytes are borrowed until they return. */
    void (*output)(void *ctx, enum snipara_stream stream, const char *bytes, size_t len);
    void (*display)(void *ctx, const struct snipara_part *parts, size_t n_parts);
    /* The code calls its host: answer with snipara_answer(), now or later. NULL = it cannot. */
    void (*called)(
        void *ctx, struct snipara_call *call, uint32_t number, const void *request, size_t len);
    void *ctx;
    /*
     * Code of this program itself, such as what gets a value: snipara_history() leaves it out (an
     * older daemon lists it).
     */
    bool internal;
};
#define SNIPARA_RUN(...) \
    (&(const struct snipara_cell){.size = sizeof(struct snipara_cell), __VA_ARGS__})

/*
 * Run a cell. Answer: docs/result.md. `status` is "ok", "error", "timeout", "oom", "killed",
 * "limit" or "interrupted"; `state` says what became of the session. What the code prints and
 * displays comes to the callbacks only. Code and input have at most 15 MiB together.
 */
struct snipara_call *snipara_run(struct snipara *box, const struct snipara_cell *cell);

/*
 * Have a session ready, without running anything of yours in it: a cell without code. Fails if it
 * exists with other options.
 */
struct snipara_call *snipara_open(struct snipara *box,
                                  const char *session,
                                  const struct snipara_session *with);

/*
 * Answer a call from inside, at most 4 MiB (with more it fails); ok false: the code gets an
 * exception with that text. Or that of a tool, with text for the model. Answer: `answered`,
 * false = it was not waited for any more.
 */
struct snipara_call *snipara_answer(
    struct snipara_call *run, uint32_t number, bool ok, const void *data, size_t len);

/* Files ---------------------------------------------------------------------------------- */

/* Paths are below /workspace: "data/a.csv". */

/* Write a file, whole. mode: permissions, 0 = 0644. A path that ends in '/' makes a folder. */
struct snipara_call *snipara_put(struct snipara *box,
                                 const char *session,
                                 const char *path,
                                 const void *data,
                                 size_t len,
                                 unsigned mode);

/* Read a file, whole: snipara_data(). SNIPARA_LIMIT: it is larger than most bytes (0 = 1 GiB). */
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

/* A snapshot is named by its id, by SESSION@NAME, or by a name that only one has. */

/*
 * Take a snapshot: variables, files and history of the session after its last cell. name:
 * NULL = s1, s2...
 */
struct snipara_call *snipara_snapshot(struct snipara *box, const char *session, const char *name);

/* List the snapshots of a session, or all (NULL): `snapshots`, the oldest first. */
struct snipara_call *snipara_snapshots(struct snipara *box, const char *session);

/* Take a session back to a snapshot of it. */
struct snipara_call *snipara_rollback(struct snipara *box,
                                      const char *session,
                                      const char *snapshot);

/*
 * Make n sessions (1 to 64) that go on from a session or snapshot: `sessions`, each with `name`.
 * name: prefix of their names, or NULL.
 */
struct snipara_call *snipara_fork(struct snipara *box, const char *from, const char *name, int n);

/* Compare two sessions or snapshots: variables and files that were added, removed or changed. */
struct snipara_call *snipara_diff(struct snipara *box, const char *a, const char *b);

/* Sessions ------------------------------------------------------------------------------- */

/* List all sessions: `sessions`, each with `name`, `state`, `cells`, ... */
struct snipara_call *snipara_sessions(struct snipara *box);

/*
 * List cells of a session, the newest first: `cells`. before: only those before this cell, 0 = all;
 * limit: at most 1000, 0 = 50.
 */
struct snipara_call *snipara_history(struct snipara *box,
                                     const char *session,
                                     int64_t before,
                                     int limit);

/*
 * Change limits of a session permanently: "memory=1g", "timeout=60"...; NULL ends the list. Answer:
 * all limits before and now (`was`, `limits`), and `at_wake`, the keys of limits that apply at the
 * next wake. Lowered limits are tried first; SNIPARA_LIMIT: the session cannot be restored with
 * them, and nothing changed. `untried`: why there was no trial.
 */
struct snipara_call *snipara_set_limits(struct snipara *box,
                                        const char *session,
                                        const char *const *limits);

/*
 * Get an earlier cell: `result` as snipara_run() returned it, or null. Its output and displays are
 * passed to output and display of SNIPARA_RUN(...); its other members are ignored.
 */
struct snipara_call *snipara_show(struct snipara *box,
                                  const char *session,
                                  int64_t cell,
                                  const struct snipara_cell *callbacks);

/* Save a session and end its sandbox; its next cell wakes it. */
struct snipara_call *snipara_hibernate(struct snipara *box, const char *session);

/* End a session for good, with its files and snapshots in memory. */
struct snipara_call *snipara_destroy(struct snipara *box, const char *session);

/*
 * Ask any other request of docs/wire.md: JSON text with its method, and the bytes that go with it.
 * What has a function of its own above is better asked by that.
 */
struct snipara_call *snipara_request(struct snipara *box,
                                     const char *json,
                                     const void *data,
                                     size_t len);

/* Runs ----------------------------------------------------------------------------------- */

/*
 * A run is a model that works on a prompt, and whose code runs in a session. Each has a process of
 * its own, which keeps the record in the folder of logs, and asks the daemon. It ends with its
 * connection: as one that was interrupted, which snipara_ask() can resume. Settings are
 * "KEY=VALUE", with the keys of the configuration (docs/reference/configuration.md).
 */

/*
 * A tool of this program, which the model may call. It runs in this program, outside the sandbox.
 */
struct snipara_tool {
    size_t size;
    /* A-Z a-z 0-9 _ -, at most 64, a letter or _ first; not that of a built-in tool */
    const char *name;
    const char *description; /* what it does, for the model; at most 8 KiB */
    const char *parameters;  /* JSON Schema of its arguments, an object; NULL = it takes none */
    int64_t timeout_ms;      /* of a call; 0 = 30 s, at most 600 s */
};
#define SNIPARA_TOOL(...) \
    (&(const struct snipara_tool){.size = sizeof(struct snipara_tool), __VA_ARGS__})

struct snipara_prompt {
    size_t size;
    const char *text;   /* the prompt, or the task of an agent; at most 4 MiB */
    const char *system; /* instructions to the model, before it; NULL = none */
    const char *resume; /* id of a run to go on with, or its beginning, instead of text; NULL */
    bool agent;         /* iterations until the final answer, as `snipara-sandbox agent` */
    /*
     * Working folder of the run: its configuration, .env, project and logs; NULL = that of
     * this process.
     */
    const char *folder;
    /*
     * They win over variables and files. Besides keys of the configuration: config=FILE,
     * project=DIR, no_project=true, output_dir=DIR, allow_degraded=true, allow_tools=true,
     * mcp_config=FILE, recover=WAY of one that is resumed; of an agent max_iterations and budget.
     * NULL ends them.
     */
    const char *const *settings;
    /* NULL ends them. To resume a run give those that it had */
    const struct snipara_tool *const *tools;
    /* Callbacks while it runs; each may be NULL. Bytes are borrowed until they return. */
    /* A record, one JSON object, as it was written: docs/reference/trajectory.md. */
    void (*record)(void *ctx, const char *json, size_t len);
    void (*streamed)(void *ctx, const char *text, size_t len); /* text of the model, as it comes */
    /*
     * The model calls a tool; arguments: a JSON object that fits the parameters. Answer with
     * snipara_answer(), now or later, with text for the model, at most 1 MiB; ok false: it failed.
     * Too late, and the model has been told so.
     */
    void (*called)(void *ctx,
                   struct snipara_call *call,
                   uint32_t number,
                   const char *tool,
                   const char *arguments,
                   size_t len);
    void *ctx;
    /*
     * A warning, a line for people: of a file that is not trusted... NULL = they are `warnings` of
     * the answer.
     */
    void (*noted)(void *ctx, const char *text, size_t len);
};
#define SNIPARA_PROMPT(...) \
    (&(const struct snipara_prompt){.size = sizeof(struct snipara_prompt), __VA_ARGS__})

/*
 * Have a model work on a prompt. Answer: as `snipara-sandbox run --json` or `agent --json`, with
 * `success`, `response` or `answer`, `error`, `trajectory_id`... A run that meets a limit is no
 * error of the call. snipara_interrupt() stops it: it ends as usual, with what it has. Blocks for
 * some milliseconds, until its process has started. The daemon is that of this user, which the run
 * starts if need be; a connection to another socket is refused (SNIPARA_UNSUPPORTED).
 */
struct snipara_call *snipara_ask(struct snipara *box, const struct snipara_prompt *prompt);

/*
 * Run `diff`, `export`, `import` or `apply` of the command line (docs/reference/cli.md), in a
 * process of its own that asks nothing: SNIPARA_DENIED where the command line would ask, and
 * `--yes` is not among the words. words: {"diff", "work", "--project", NULL}; paths are relative to
 * the working folder. Answer: what it prints with --json. snipara_interrupt() does not stop it. A
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
