/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys.
 *
 * A command is split into words like a shell would, but without a shell: nothing in it is expanded.
 * Further requests for its key wait in a list. Memory with keys is wiped before it is freed.
 */
#include "model/keyring.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    KEY_MAX = 16 << 10,
    WORDS_MAX = 64,
    COMMAND_MS = 60000, /* the user may have to touch a device */
    READ_BYTES = 4096,
};

struct snp_key_wait {
    struct keyring_entry *entry;
    void (*on_key)(void *ctx, const char *key, const struct snp_err *err);
    void *ctx;
    struct snp_key_wait *next;
};

/* A key, named by the variable that it comes from. */
struct keyring_entry {
    struct snp_keyring *keyring;
    char name[64];
    char *key;               /* owned; NULL = not known */
    struct key_command *run; /* the running command that prints it */
    struct snp_key_wait *waits;
    struct keyring_entry *next;
};

/* A command. It outlives its entry until libuv has closed its handles. */
struct key_command {
    struct keyring_entry *entry; /* NULL: the key is not needed any more */
    uv_process_t process;
    uv_pipe_t pipe;
    uv_timer_t timer;
    struct snp_buf out;
    int64_t status;
    int signal;
    unsigned n_open;
    bool has_exited;
    bool has_ended; /* all of its output was read */
    char read[READ_BYTES];
};

struct snp_keyring {
    uv_loop_t *loop;
    struct keyring_entry *entries;
};

static void wipe(char **key)
{
    if (*key != NULL) {
        explicit_bzero(*key, strlen(*key));
        free(*key);
        *key = NULL;
    }
}

/* Take the first line, stripped; it must be printable ASCII, and the only line. */
static int key_of_text(
    const char *from, const char *text, size_t n, char **ret, struct snp_err *err)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        n--;
    }
    while (n > 0 && strchr(" \t\r\n", text[0]) != NULL) {
        text++;
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] <= ' ' || text[i] == '\x7f') {
            return snp_fail(
                err, SNP_E_INVALID,
                "%s gives no key: expected one line of printable characters without blanks", from);
        }
    }
    if (n == 0) {
        return snp_fail(err, SNP_E_INVALID, "%s gives no key: it is empty", from);
    }
    *ret = strndup(text, n);
    return *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

/* Waiting --------------------------------------------------------------------------------- */

void snp_key_wait_cancel(struct snp_key_wait *wait)
{
    struct snp_key_wait **at = &wait->entry->waits;

    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
    free(wait);
}

static void tell_all(struct keyring_entry *entry, const struct snp_err *err)
{
    while (entry->waits != NULL) {
        struct snp_key_wait *wait = entry->waits;
        entry->waits = wait->next;
        wait->on_key(wait->ctx, err == NULL ? entry->key : NULL, err);
        free(wait);
    }
}

/* Commands -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct key_command *run = handle->data;

    run->n_open--;
    if (run->n_open == 0) {
        explicit_bzero(run->read, sizeof(run->read));
        if (run->out.data != NULL) {
            explicit_bzero(run->out.data, run->out.cap);
        }
        snp_buf_done(&run->out);
        free(run);
    }
}

static void run_close(struct key_command *run)
{
    uv_close((uv_handle_t *)&run->pipe, on_closed);
    uv_close((uv_handle_t *)&run->timer, on_closed);
    uv_close((uv_handle_t *)&run->process, on_closed);
}

static int run_result(struct key_command *run, struct snp_err *err)
{
    struct keyring_entry *entry = run->entry;

    if (run->signal != 0) {
        return snp_fail(err, SNP_E_PEER, "the command of %s was ended by signal %d", entry->name,
                        run->signal);
    }
    if (run->status != 0) {
        return snp_fail(err, SNP_E_PEER, "the command of %s failed with exit status %lld",
                        entry->name, (long long)run->status);
    }
    return key_of_text(entry->name, snp_buf_cstr(&run->out), run->out.len, &entry->key, err);
}

static void run_end(struct key_command *run, const struct snp_err *failure)
{
    struct keyring_entry *entry = run->entry;
    struct snp_err err;

    run->entry = NULL;
    if (entry == NULL) {
        run_close(run);
        return;
    }
    entry->run = NULL;
    run->entry = entry; /* used in its messages */
    if (failure != NULL) {
        err = *failure;
    }
    int r = failure != NULL ? (int)err.code : run_result(run, &err);
    run->entry = NULL;
    run_close(run);
    tell_all(entry, r < 0 ? &err : NULL);
}

static void on_exited(uv_process_t *process, int64_t status, int signal)
{
    struct key_command *run = process->data;

    run->status = status;
    run->signal = signal;
    run->has_exited = true;
    if (run->has_ended && !uv_is_closing((uv_handle_t *)process)) {
        run_end(run, NULL);
    }
}

static void on_timeout(uv_timer_t *timer)
{
    struct key_command *run = timer->data;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_TIMEOUT, "the command of %s gave no key within %d s",
                   run->entry->name, COMMAND_MS / 1000);
    (void)uv_process_kill(&run->process, SIGKILL);
    run_end(run, &err);
}

static void on_alloc(uv_handle_t *handle, size_t n, uv_buf_t *buf)
{
    struct key_command *run = handle->data;

    (void)n;
    *buf = uv_buf_init(run->read, sizeof(run->read));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct key_command *run = stream->data;
    struct snp_err err;

    if (n > 0 && snp_buf_add(&run->out, buf->base, (size_t)n) < 0) {
        (void)snp_fail(&err, SNP_E_LIMIT, "the command of %s gave more than %d bytes",
                       run->entry->name, KEY_MAX);
        (void)uv_process_kill(&run->process, SIGKILL);
        run_end(run, &err);
    } else if (n < 0) {
        (void)uv_read_stop(stream);
        run->has_ended = true;
        if (run->has_exited) {
            run_end(run, NULL);
        }
    }
}

/* Split a command into words at blanks outside quotes and backslashes. text is overwritten. */
static int split(char *text, char *words[WORDS_MAX + 1])
{
    size_t n = 0;
    char *to = text;
    char quote = '\0';
    bool in_word = false;

    for (const char *at = text; *at != '\0'; at++) {
        bool is_blank = quote == '\0' && (*at == ' ' || *at == '\t');
        if (is_blank && in_word) {
            *to++ = '\0';
            in_word = false;
        }
        if (is_blank) {
            continue;
        }
        if (!in_word) {
            if (n == WORDS_MAX) {
                return -1;
            }
            to = text + (at - text); /* out never overtakes the input */
            words[n++] = to;
            in_word = true;
        }
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (quote != '\0' && *at == quote) {
            quote = '\0';
        } else {
            at += *at == '\\' && quote != '\'' && at[1] != '\0' ? 1 : 0;
            *to++ = *at;
        }
    }
    *to = '\0';
    words[n] = NULL;
    return quote == '\0' && n > 0 ? 0 : -1;
}

static int spawn(struct key_command *run, uv_loop_t *loop, char **words, struct snp_err *err)
{
    uv_stdio_container_t stdio[] = {
        {.flags = UV_INHERIT_FD, .data.fd = 0}, /* it may prompt */
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->pipe},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    uv_process_options_t options = {
        .exit_cb = on_exited,
        .file = words[0],
        .args = words,
        .stdio = stdio,
        .stdio_count = SNP_ARRAY_LEN(stdio),
    };
    int r = uv_spawn(loop, &run->process, &options);

    if (r < 0) {
        return snp_fail_sys(err, -r, "run %s, the command of %s", words[0], run->entry->name);
    }
    (void)uv_timer_start(&run->timer, on_timeout, COMMAND_MS, 0);
    r = uv_read_start((uv_stream_t *)&run->pipe, on_alloc, on_read);
    SNP_ASSERT(r == 0);
    return 0;
}

static int run_start(struct keyring_entry *entry, const char *command, struct snp_err *err)
{
    uv_loop_t *loop = entry->keyring->loop;
    snp_autofree char *text = strdup(command);
    char *words[WORDS_MAX + 1];
    struct key_command *run = calloc(1, sizeof(*run));

    if (text == NULL || run == NULL) {
        free(run);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (split(text, words) < 0) {
        free(run);
        return snp_fail(err, SNP_E_INVALID,
                        "%s: expected a command of 1 to %d words, quotes closed", entry->name,
                        WORDS_MAX);
    }
    run->entry = entry;
    snp_buf_init(&run->out, KEY_MAX);
    run->process.data = run;
    run->pipe.data = run;
    run->timer.data = run;
    run->n_open = 3;
    (void)uv_pipe_init(loop, &run->pipe, 0);
    (void)uv_timer_init(loop, &run->timer);
    int r = spawn(run, loop, words, err);
    if (r < 0) {
        run->entry = NULL;
        run_close(run); /* a process handle that failed to start is closed like the others */
        return r;
    }
    entry->run = run;
    return 0;
}

/* The keyring ----------------------------------------------------------------------------- */

int snp_keyring_new(uv_loop_t *loop, struct snp_keyring **ret, struct snp_err *err)
{
    struct snp_keyring *keyring = calloc(1, sizeof(*keyring));

    if (keyring == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    keyring->loop = loop;
    *ret = keyring;
    return 0;
}

void snp_keyring_free(struct snp_keyring *keyring)
{
    if (keyring == NULL) {
        return;
    }
    while (keyring->entries != NULL) {
        struct keyring_entry *entry = keyring->entries;

        keyring->entries = entry->next;
        while (entry->waits != NULL) {
            snp_key_wait_cancel(entry->waits);
        }
        if (entry->run != NULL) {
            entry->run->entry = NULL;
            (void)uv_process_kill(&entry->run->process, SIGKILL);
            run_close(entry->run);
        }
        wipe(&entry->key);
        free(entry);
    }
    free(keyring);
}

static struct keyring_entry *entry_find(struct snp_keyring *keyring, const char *name, bool make)
{
    struct keyring_entry *entry = keyring->entries;

    while (entry != NULL && strcmp(entry->name, name) != 0) {
        entry = entry->next;
    }
    if (entry == NULL && make) {
        entry = calloc(1, sizeof(*entry));
        if (entry != NULL) {
            entry->keyring = keyring;
            memcpy(entry->name, name, strlen(name) + 1); /* both buffers have 64 bytes */
            entry->next = keyring->entries;
            keyring->entries = entry;
        }
    }
    return entry;
}

static int read_key_file(struct keyring_entry *entry, const char *path, struct snp_err *err)
{
    char *text = NULL;
    size_t n = 0;
    int r = snp_file_read(path, KEY_MAX, &text, &n, err);

    if (r < 0) {
        return snp_err_wrap(err, "%s", entry->name);
    }
    r = key_of_text(entry->name, text, n, &entry->key, err);
    wipe(&text);
    return r;
}

static int wait_for(struct keyring_entry *entry,
                    const struct snp_key_ask *ask,
                    struct snp_key_wait **ret,
                    struct snp_err *err)
{
    struct snp_key_wait *wait = malloc(sizeof(*wait));

    if (wait == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    int r = entry->run != NULL ? 0 : run_start(entry, ask->target->key_value, err);
    if (r < 0) {
        free(wait);
        return r;
    }
    *wait = (struct snp_key_wait){entry, ask->on_key, ask->ctx, entry->waits};
    entry->waits = wait;
    *ret = wait;
    return 0;
}

int snp_keyring_get(struct snp_keyring *keyring,
                    const struct snp_key_ask *ask,
                    const char **ret_key,
                    struct snp_key_wait **ret_wait,
                    struct snp_err *err)
{
    const struct snp_model_target *target = ask->target;
    int r = 0;

    *ret_key = NULL;
    *ret_wait = NULL;
    if (target->key_kind == SNP_MODEL_KEY_NONE) {
        return 0;
    }
    struct keyring_entry *entry = entry_find(keyring, target->key_name, true);
    if (entry == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (entry->key == NULL && target->key_kind == SNP_MODEL_KEY_TEXT) {
        r = key_of_text(entry->name, target->key_value, strlen(target->key_value), &entry->key,
                        err);
    } else if (entry->key == NULL && target->key_kind == SNP_MODEL_KEY_FILE) {
        r = read_key_file(entry, target->key_value, err);
    } else if (entry->key == NULL) {
        return wait_for(entry, ask, ret_wait, err);
    }
    *ret_key = entry->key;
    return r;
}

bool snp_keyring_drop(struct snp_keyring *keyring, const struct snp_model_target *target)
{
    struct keyring_entry *entry = entry_find(keyring, target->key_name, false);

    if (entry == NULL || entry->run != NULL || target->key_kind == SNP_MODEL_KEY_NONE ||
        target->key_kind == SNP_MODEL_KEY_TEXT) {
        return false;
    }
    wipe(&entry->key);
    return true;
}
