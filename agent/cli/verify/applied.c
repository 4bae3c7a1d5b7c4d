/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a record: "apply" with all files to write, synced before any is written; "applied" for
 * each file in place; "apply_end". So after a crash the record has the progress of an apply and the
 * temporary names of its files.
 */
#include "cli/verify/applied.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/clock.h"
#include "base/rundir.h"
#include "base/str.h"
#include "repair/apply.h"
#include "repair/verdict.h"
#include "trajectory/reader.h"
#include "trajectory/writer.h"

enum {
    MS = 1000, /* us */
};

struct snp_applied {
    struct snp_trajectory *record; /* owned */
    json_t *last;                  /* owned: the last "apply"; NULL = none */
    bool is_ended;                 /* the last apply has its end */
    size_t n;                      /* files written by the last apply */
    json_t *hashes;       /* owned: path -> SHA-256 that was applied, "" for a removed file */
    json_t *verdicts;     /* owned: SHA-256 of a patch -> the last verdict on it */
    bool was_first_ready; /* the first verdict on any patch */
};

void snp_applied_free(struct snp_applied *applied)
{
    if (applied != NULL) {
        snp_trajectory_free(applied->record);
        json_decref(applied->last);
        json_decref(applied->hashes);
        json_decref(applied->verdicts);
        free(applied);
    }
}

/* Reading ------------------------------------------------------------------------------------ */

static int on_line(void *ctx, json_t *line, struct snp_err *err)
{
    struct snp_applied *applied = ctx;
    const char *step = snp_trajectory_step(line);

    (void)err;
    if (strcmp(step, "apply") == 0) {
        json_decref(applied->last);
        applied->last = json_incref(line);
        applied->is_ended = false;
        applied->n = 0;
    } else if (strcmp(step, "applied") == 0) {
        applied->n++;
        (void)json_object_set_new(applied->hashes, snp_json_str(line, "path", ""),
                                  json_string(snp_json_str(line, "sha256", "")));
    } else if (strcmp(step, "verdict") == 0) {
        applied->was_first_ready =
            json_object_size(applied->verdicts) == 0
                ? strcmp(snp_json_str(line, "verdict", ""), snp_verdict_ready) == 0
                : applied->was_first_ready;
        (void)json_object_set(applied->verdicts, snp_json_str(line, "sha256", ""), line);
    } else if (strcmp(step, "apply_end") == 0) {
        applied->is_ended = true;
    }
    return 0;
}

bool snp_applied_has(const struct snp_applied *applied, const struct snp_patch_file *file)
{
    const char *hash = snp_json_str(applied->hashes, file->path, NULL);

    return hash != NULL && strcmp(hash, file->base.hash) == 0;
}

bool snp_applied_was_cut(const struct snp_applied *applied, size_t *ret_n, size_t *ret_of)
{
    *ret_n = applied->n;
    *ret_of = json_array_size(json_object_get(applied->last, "files"));
    return applied->last != NULL && !applied->is_ended;
}

static int sweep(const struct snp_applied *applied, int project_fd, struct snp_err *err)
{
    const json_t *files = json_object_get(applied->last, "files");
    const char *token = snp_json_str(applied->last, "token", "");

    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const json_t *base = json_object_get(file, "base");
        snp_autofree char *left = NULL;

        SNP_TRY(snp_apply_sweep(project_fd, token, snp_json_str(file, "path", ""),
                                snp_json_str(base, "sha256", ""), &left, err));
        if (left != NULL) {
            snp_term_printf(stderr,
                            "The previous apply was cut off, and %s has changed since. Its "
                            "earlier contents are in %s.\n",
                            snp_json_str(file, "path", ""), left);
        }
    }
    return 0;
}

static int record_open(const struct snp_session_changes *changes,
                       struct snp_applied *applied,
                       struct snp_err *err)
{
    snp_autofree char *state = NULL;
    snp_autofree char *folder = NULL;
    snp_autofree char *path = NULL;
    unsigned char key[SNP_RUN_KEY];
    struct snp_trajectory_check check;
    size_t torn = 0;

    SNP_TRY(snp_state_dir(&state, err));
    SNP_TRY(snp_run_key(key, err));
    folder = snp_need_format("%s/applied", state);
    path = snp_need_format("%s/%s.jsonl", folder, changes->session);
    if (access(path, F_OK) == 0) {
        SNP_TRY(snp_trajectory_resume(path, false, key, &applied->record, &torn, err));
        return snp_trajectory_read(path, on_line, applied, &check, err);
    }
    return snp_trajectory_create(
        &(struct snp_trajectory_place){.dir = folder}, changes->session, key,
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "_type", "trajectory_metadata", "trajectory_id",
                  changes->session, "kind", "apply", "session", changes->name, "project",
                  snp_cli_path_json(changes->project)),
        &applied->record, err);
}

int snp_applied_open(const struct snp_session_changes *changes,
                     struct snp_applied **ret,
                     struct snp_err *err)
{
    struct snp_applied *applied = snp_need(calloc(1, sizeof(*applied)));
    int r;

    applied->hashes = snp_need(json_object());
    applied->verdicts = snp_need(json_object());
    r = record_open(changes, applied, err);
    if (r == SNP_E_LIMIT) {
        r = snp_fail(err, SNP_E_LIMIT,
                     "apply or verify of session %.80s is running; try again when it has "
                     "ended",
                     changes->name);
    }
    if (r == 0 && applied->last != NULL && !applied->is_ended) {
        r = sweep(applied, changes->project_fd, err);
    }
    if (r < 0) {
        snp_applied_free(applied);
        return r;
    }
    *ret = applied;
    return 0;
}

bool snp_applied_is_ready(const struct snp_applied *applied, const char *hash)
{
    return strcmp(snp_json_str(json_object_get(applied->verdicts, hash), "verdict", ""),
                  snp_verdict_ready) == 0;
}

size_t snp_applied_before(const struct snp_applied *applied, const char *hash, bool *ret_first)
{
    *ret_first = applied->was_first_ready;
    return json_object_size(applied->verdicts) -
           (json_object_get(applied->verdicts, hash) == NULL ? 0 : 1);
}

const json_t *snp_applied_risk(const struct snp_applied *applied, const char *hash)
{
    const json_t *risk = json_object_get(json_object_get(applied->verdicts, hash), "risk");

    return json_is_object(risk) ? risk : NULL;
}

/* Writing ------------------------------------------------------------------------------------ */

/* Set the name and the time of a step. */
static void step_set(json_t *step, const char *name)
{
    (void)json_object_set_new(step, "_type", json_string("step"));
    (void)json_object_set_new(step, "step", json_string(name));
    (void)json_object_set_new(step, "time_ms", json_integer((json_int_t)(snp_wall_us() / MS)));
}

int snp_applied_judge(struct snp_applied *applied, json_t *verdict, struct snp_err *err)
{
    step_set(verdict, "verdict");
    return snp_trajectory_add(applied->record, verdict, true, err);
}

int snp_applied_decline(struct snp_applied *applied, const char *hash, struct snp_err *err)
{
    json_t *step = snp_need(json_pack("{s:s}", "sha256", hash));

    step_set(step, "declined");
    return snp_trajectory_add(applied->record, step, true, err);
}

static int on_applied(void *ctx, const struct snp_patch_file *file, struct snp_err *err)
{
    struct snp_applied *applied = ctx;

    return snp_trajectory_add(applied->record,
                              json_pack("{s:s, s:s, s:s, s:s}", "_type", "step", "step", "applied",
                                        "path", file->path, "sha256", file->now.hash),
                              true, err);
}

int snp_applied_run(struct snp_applied *applied,
                    const struct snp_session_changes *changes,
                    json_t *how,
                    size_t *ret_n,
                    struct snp_err *err)
{
    snp_autojson json_t *step = snp_need(snp_patch_to_json(&changes->patch, false));
    struct snp_err ignored;
    char token[33];
    const struct snp_apply apply = {.project_fd = changes->project_fd,
                                    .patch = &changes->patch,
                                    .token = token,
                                    .applied = on_applied,
                                    .ctx = applied};
    int r;

    *ret_n = 0;
    if (snp_random_id(token) < 0) {
        json_decref(how);
        return snp_fail_sys(err, errno, "random name");
    }
    token[SNP_APPLY_TOKEN] = '\0';
    step_set(step, "apply");
    (void)json_object_set_new(step, "token", json_string(token));
    (void)json_object_update_new(step, how);
    r = snp_apply_check(&apply, err);
    SNP_THEN(r, snp_trajectory_add(applied->record, json_incref(step), true, err));
    if (r < 0) {
        return r;
    }
    r = snp_apply_run(&apply, ret_n, err);
    if (r == 0 || *ret_n == 0) { /* else the apply remains unfinished */
        (void)!snp_trajectory_add(
            applied->record,
            json_pack("{s:s, s:s, s:b}", "_type", "step", "step", "apply_end", "success", r == 0),
            true, &ignored);
    }
    return r;
}
