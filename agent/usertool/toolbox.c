/* SPDX-License-Identifier: Apache-2.0 */
/* Toolboxes: creation and end. Their configuration is read in spec.c. */
#include "usertool/toolbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/text/say.h"
#include "base/text/text.h"
#include "usertool/usertool_priv.h"

enum {
    NOTES_MAX = 100,
    NOTE_CHARS = 300,
};

struct snp_toolbox {
    uv_loop_t *loop;
    struct snp_usertools *tools; /* owned */
    struct snp_usertool_server *servers[SNP_TOOLBOX_SERVERS_MAX];
    size_t n_servers;
    size_t n_commands;
    size_t n_unopened; /* servers that have not listed their tools */
    json_t *notes;     /* owned */
    bool has_failed;   /* a server could not be opened */
    struct snp_err err;
    uv_timer_t timer; /* reports the end of opening and of closing */
    size_t n_held;    /* running programs and servers */
    bool is_closing;
    void (*opened)(void *ctx, const struct snp_err *err);
    void (*closed)(void *ctx);
    void *ctx;
};

int snp_toolbox_new(uv_loop_t *loop, struct snp_toolbox **ret, struct snp_err *err)
{
    struct snp_toolbox *box = calloc(1, sizeof(*box));

    if (box != NULL) {
        box->notes = json_array();
        box->loop = loop;
    }
    if (box == NULL || box->notes == NULL || snp_usertools_new(loop, &box->tools, err) < 0) {
        if (box != NULL) {
            json_decref(box->notes);
        }
        free(box);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    SNP_ASSERT(uv_timer_init(loop, &box->timer) == 0);
    box->timer.data = box;
    *ret = box;
    return 0;
}

struct snp_usertools *snp_toolbox_tools(const struct snp_toolbox *box)
{
    return box->tools;
}

const json_t *snp_toolbox_notes(const struct snp_toolbox *box)
{
    return box->notes;
}

uv_loop_t *snp_toolbox_loop(const struct snp_toolbox *box)
{
    return box->loop;
}

/* Commands and servers ------------------------------------------------------------------------ */

int snp_toolbox_commands_count(struct snp_toolbox *box, struct snp_err *err)
{
    return ++box->n_commands > SNP_TOOLBOX_COMMANDS_MAX
               ? snp_fail(err, SNP_E_LIMIT, "more than %d commands", SNP_TOOLBOX_COMMANDS_MAX)
               : 0;
}

int snp_toolbox_server_start(struct snp_toolbox *box,
                             struct snp_toolbox_server *spec,
                             struct snp_err *err)
{
    struct snp_usertool_server *server = NULL;
    int r = snp_toolbox_server_add(box, spec, &server, err);

    if (server != NULL) { /* also on failure: it is to be closed */
        box->servers[box->n_servers++] = server;
        box->n_unopened += r == 0 ? 1 : 0;
    }
    return r;
}

bool snp_toolbox_has_room(const struct snp_toolbox *box)
{
    return box->n_servers < SNP_TOOLBOX_SERVERS_MAX;
}

void snp_toolbox_note(struct snp_toolbox *box, const char *server, const char *text)
{
    snp_autosay struct snp_say note = SNP_SAY((size_t)NOTE_CHARS * 16);

    if (json_array_size(box->notes) < NOTES_MAX && text != NULL) {
        snp_say(&note, "MCP server %s: ", server);
        snp_say_line(&note, text, NOTE_CHARS);
        (void)json_array_append_new(box->notes, snp_text_json(&note.buf));
    }
}

/* Opening ------------------------------------------------------------------------------------- */

static void on_opened(uv_timer_t *timer)
{
    struct snp_toolbox *box = timer->data;
    void (*opened)(void *ctx, const struct snp_err *err) = box->opened;

    box->opened = NULL;
    opened(box->ctx, box->has_failed ? &box->err : NULL);
}

static void opened_tell(struct snp_toolbox *box)
{
    if (box->opened != NULL && !box->is_closing && (box->n_unopened == 0 || box->has_failed)) {
        (void)uv_timer_start(&box->timer, on_opened, 0, 0);
    }
}

void snp_toolbox_server_opened(struct snp_toolbox *box, const struct snp_err *err)
{
    box->n_unopened--;
    if (err != NULL && !box->has_failed) {
        box->has_failed = true;
        box->err = *err;
    }
    opened_tell(box);
}

void snp_toolbox_open(struct snp_toolbox *box,
                      void (*opened)(void *ctx, const struct snp_err *err),
                      void *ctx)
{
    box->opened = opened;
    box->ctx = ctx;
    opened_tell(box);
}

/* The end ------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct snp_toolbox *box = handle->data;
    void (*closed)(void *ctx) = box->closed;
    void *ctx = box->ctx;

    snp_usertools_free(box->tools);
    json_decref(box->notes);
    free(box);
    if (closed != NULL) {
        closed(ctx);
    }
}

static void end_look(struct snp_toolbox *box)
{
    if (box->is_closing && box->n_held == 0) {
        uv_close((uv_handle_t *)&box->timer, on_closed);
    }
}

void snp_toolbox_hold(struct snp_toolbox *box)
{
    box->n_held++;
}

void snp_toolbox_release(struct snp_toolbox *box)
{
    box->n_held--;
    end_look(box);
}

void snp_toolbox_close(struct snp_toolbox *box, void (*closed)(void *ctx), void *ctx)
{
    box->is_closing = true;
    box->opened = NULL;
    box->closed = closed;
    box->ctx = ctx;
    for (size_t i = 0; i < box->n_servers; i++) {
        snp_toolbox_server_close(box->servers[i]);
    }
    end_look(box);
}

void snp_toolbox_texts_done(struct snp_toolbox_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++) {
        explicit_bzero(texts->items[i], strlen(texts->items[i])); /* they may hold keys */
        free(texts->items[i]);
    }
    free(texts->items);
    *texts = (struct snp_toolbox_texts){0};
}
