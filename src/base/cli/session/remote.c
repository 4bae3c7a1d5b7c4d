/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/session/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/policy/session_name.h"
#include "base/str.h"
#include "base/wire/session.h"

enum {
    NAMES_SHOWN = 5,
    NAMES_REST = 24, /* " and N more" */
    NAMES_MAX = 120, /* of a message's 200 bytes */
    RUN_ID_MIN = 4,  /* characters of an abbreviated run id, at least */
};

static const struct snp_transport *transport; /* borrowed */

void snp_remote_over(const struct snp_transport *of_program)
{
    transport = of_program;
}

int snp_remote_find(struct snp_cli *cli, struct snp_err *err)
{
    return transport->find(cli, err);
}

int snp_remote_send(struct snp_cli *cli,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    int r = transport->send(cli, call, ret, err);

    if (r == SNP_E_PEER && snp_json_str(call->head, "session", NULL) != NULL) {
        snp_err_lost(err);
        return r;
    }
    SNP_TRY(r);
    if (json_object_get(call->head, "session") != NULL) { /* reported at the end of the command */
        json_decref(cli->unsaved);
        cli->unsaved = json_incref(json_object_get(ret->head, "unsaved"));
    }
    return 0;
}

int snp_remote_call(struct snp_cli *cli, json_t *head, struct snp_reply *ret, struct snp_err *err)
{
    snp_autojson json_t *owned = head;
    const struct snp_call call = {.head = owned};

    return owned == NULL ? snp_fail(err, SNP_E_INVALID, "an argument is not UTF-8")
                         : snp_remote_send(cli, &call, ret, err);
}

int snp_remote_list(struct snp_cli *cli, struct snp_reply *ret, struct snp_err *err)
{
    return snp_remote_call(cli, snp_record_write(&snp_sessions_list_request_form, NULL), ret, err);
}

bool snp_remote_is_usable(struct snp_cli *cli, const char *tier)
{
    snp_autoreply struct snp_reply probe = {0};
    struct snp_err err;

    return snp_remote_call(cli, SNP_WRITE(snp_probe_request, .tier = tier), &probe, &err) == 0 &&
           snp_json_bool(probe.head, "usable", false);
}

/* Names of the rows that have one, as "a, b and 3 more". */
static const char *names_text(const json_t *rows, size_t n, char *out, size_t out_len)
{
    size_t used = 0;
    size_t shown = 0;

    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(rows) && shown < NAMES_SHOWN; i++) {
        const char *name = snp_json_str(json_array_get(rows, i), "name", NULL);

        if (name != NULL && used + strlen(name) + NAMES_REST < out_len) {
            used +=
                (size_t)snprintf(out + used, out_len - used, "%s%s", shown > 0 ? ", " : "", name);
            shown++;
        }
    }
    if (n > shown) {
        (void)snprintf(out + used, out_len - used, " and %zu more", n - shown);
    }
    return out;
}

static int session_only(const json_t *rows, const char **ret_name, struct snp_err *err)
{
    const char *only = NULL;
    const char *fallback = NULL;
    char names[NAMES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *name = snp_json_str(json_array_get(rows, i), "name", NULL);

        if (name != NULL) {
            n++;
            only = name;
            fallback = strcmp(name, "default") == 0 ? name : fallback;
        }
    }
    if (n == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no sessions; exec --session NAME makes one");
    }
    if (n > 1 && fallback == NULL) {
        return snp_fail(err, SNP_E_INVALID, "%zu sessions exist; name one: %s", n,
                        names_text(rows, n, names, sizeof(names)));
    }
    *ret_name = n == 1 ? only : fallback;
    return 0;
}

int snp_remote_ref_check(const char *text, struct snp_err *err)
{
    const char *at = strchr(text, '@');
    snp_autofree char *session = at == NULL ? NULL : strndup(text, (size_t)(at - text));
    int r = at == NULL ? 0 : snp_session_name_check(snp_need(session), err);

    r = r < 0 ? r : snp_session_name_check(at == NULL ? text : at + 1, err);
    return r < 0 ? snp_err_wrap(err, "'%.80s'", text) : 0;
}

int snp_remote_refs_check(const struct snp_opts *opts, struct snp_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < snp_opts_n_args(opts); i++) {
        r = snp_remote_ref_check(snp_opts_arg(opts, i), err);
    }
    return r;
}

int snp_remote_session(struct snp_cli *cli,
                       const char *given,
                       char **ret_session,
                       struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    const char *name = given;
    int r = 0;

    if (name == NULL) {
        r = snp_remote_list(cli, &reply, err);
        if (r == 0) {
            r = session_only(json_object_get(reply.head, "sessions"), &name, err);
        }
    } else {
        r = snp_session_name_check(name, err);
        r = r < 0 ? snp_err_wrap(err, "'%.80s'", name) : 0;
    }
    if (r < 0) {
        return r;
    }
    SNP_ASSERT(name != NULL);
    *ret_session = snp_need_copy(name);
    return 0;
}

int snp_remote_run_session(struct snp_cli *cli, char **session, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *start = snp_need_format("run-%.13s", *session);
    const char *found = NULL;
    size_t n = 0;
    size_t i;
    json_t *row;

    if (strlen(*session) < RUN_ID_MIN) {
        return 0;
    }
    SNP_TRY(snp_remote_list(cli, &reply, err));
    json_array_foreach(json_object_get(reply.head, "sessions"), i, row)
    {
        const char *name = snp_json_str(row, "name", "");

        if (strcmp(name, *session) == 0 || strcmp(snp_json_str(row, "id", ""), *session) == 0) {
            return 0;
        }
        if (snp_has_prefix(name, start)) {
            found = name;
            n++;
        }
    }
    if (n > 1) {
        return snp_fail(err, SNP_E_INVALID, "%zu runs begin with %.40s; give more of the id", n,
                        *session);
    }
    if (n == 1) {
        free(*session);
        *session = snp_need_copy(found);
    }
    return 0;
}

/* Giving it twice is fine if both agree. */
static int one_check(const char *word, const char *given, struct snp_err *err)
{
    if (word != NULL && given != NULL && strcmp(word, given) != 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "two sessions are named: %.64s, and %.64s by --session; name one", word,
                        given);
    }
    return 0;
}

int snp_remote_session_of(struct snp_cli *cli,
                          const struct snp_opts *opts,
                          char **ret_session,
                          struct snp_err *err)
{
    const char *word = snp_opts_arg(opts, 0);
    const char *given = snp_opts_str(opts, "session");
    int r = one_check(word, given, err);

    return r < 0 ? r : snp_remote_session(cli, word != NULL ? word : given, ret_session, err);
}

int snp_remote_end(struct snp_cli *cli,
                   int r,
                   struct snp_err *err,
                   json_t *head,
                   int (*tell)(struct snp_cli *cli, const char *about, const json_t *answer),
                   const char *about)
{
    snp_autoreply struct snp_reply reply = {0};

    if (r < 0) {
        json_decref(head);
    } else {
        r = snp_remote_call(cli, head, &reply, err);
    }
    return r < 0 || cli->is_json ? snp_cli_end(cli, r, err, reply.head)
                                 : tell(cli, about, reply.head);
}

int snp_remote_ask(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_checkpoint_request asked; /* all such requests have a session and nothing else */
    snp_autofree char *session = NULL;
    struct snp_err err;
    int r = snp_remote_session_of(cli, opts, &session, &err);

    asked.session = session;
    return snp_remote_end(cli, r, &err, snp_record_write(cli->verb->request, &asked),
                          cli->verb->tell, session);
}

int snp_remote_given(const struct snp_opts *opts, char **ret, struct snp_err *err)
{
    const char *word = snp_opts_arg(opts, 0);
    const char *given = snp_opts_str(opts, "session");
    int r = one_check(word, given, err);

    word = word != NULL ? word : given;
    r = r < 0 || word == NULL ? r : snp_remote_ref_check(word, err);
    *ret = r < 0 ? NULL : snp_need_copy(word);
    return r;
}

int snp_remote_split(const struct snp_opts *opts,
                     const char *word,
                     char separator,
                     char **ret_session,
                     const char **ret_rest,
                     struct snp_err *err)
{
    const char *given = snp_opts_str(opts, "session");
    const char *at = word == NULL ? NULL : strchr(word, separator);
    snp_autofree char *before = at == NULL ? NULL : strndup(word, (size_t)(at - word));
    struct snp_err ignored;
    const char *name;
    int r;

    /* "./a:b" is a path if --session names the session. */
    if (given != NULL && before != NULL && snp_session_name_check(before, &ignored) < 0) {
        at = NULL;
    }
    name = at != NULL ? before : given;
    r = name == NULL ? 0 : snp_session_name_check(name, err);
    if (r < 0) {
        return snp_err_wrap(err, "'%.80s'", at != NULL ? word : given);
    }
    r = one_check(at != NULL ? before : NULL, given, err);
    if (r < 0) {
        return r;
    }
    *ret_session = snp_need_copy(name);
    *ret_rest = at == NULL ? word : at[1] == '\0' ? NULL : at + 1;
    return 0;
}

int snp_remote_moment_of(const struct snp_opts *opts,
                         const char *word,
                         char **ret,
                         struct snp_err *err)
{
    snp_autofree char *session = NULL;
    const char *name = NULL;
    int r = word == NULL ? 0 : snp_remote_ref_check(word, err);

    r = r < 0 ? r : snp_remote_split(opts, word, '@', &session, &name, err);
    if (r < 0 || (word == NULL && session == NULL)) {
        return r;
    }
    if (session == NULL) {
        *ret = snp_need_copy(word);
    } else if (name == NULL || strcmp(name, session) == 0) {
        *ret = SNP_TAKE_PTR(session);
    } else {
        *ret = snp_need_format("%s@%s", session, name);
    }
    return 0;
}
