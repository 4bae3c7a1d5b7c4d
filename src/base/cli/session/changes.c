/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon knows which files the session wrote or deleted over its project; this command reads
 * the project's files in their places. The patch is valid for the moment both were read; `apply`
 * compares again.
 */
#include "base/cli/session/changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/fd.h"
#include "base/patch/place.h"
#include "base/patch/project.h"
#include "base/str.h"
#include "base/text/summary.h"
#include "base/wire/file.h"
#include "base/wire/session.h"
#include "base/wire/snapshot.h"

void snp_changes_done(struct snp_session_changes *changes)
{
    free(changes->session);
    free(changes->name);
    free(changes->project);
    snp_closep(&changes->project_fd);
    snp_patch_done(&changes->patch);
    free(changes->tier);
    free(changes->template);
    free(changes->rootfs);
    json_decref(changes->limits);
    json_decref(changes->lost);
}

char *snp_changes_path(const struct snp_diff_file *row)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = row->path_hex == NULL ? 0 : strlen(row->path_hex) / 2;
    char *path;

    if (row->path_hex == NULL) {
        return snp_need_copy(json_string_value(row->path));
    }
    path = snp_need(calloc(n + 1, 1));
    for (size_t i = 0; i < n; i++) {
        const char *high = strchr(digits, row->path_hex[2 * i]);
        const char *low = strchr(digits, row->path_hex[2 * i + 1]);

        path[i] = '?';
        if (high != NULL && low != NULL) {
            path[i] = (char)(unsigned char)((high - digits) << 4 | (low - digits));
        }
    }
    return path;
}

int snp_changes_content(struct snp_cli *cli,
                        const char *hash,
                        size_t max,
                        char **ret,
                        size_t *ret_len,
                        struct snp_err *err)
{
    snp_autobuf struct snp_buf bytes = {0};
    bool at_end = false;

    snp_buf_init(&bytes, max + 1);
    while (!at_end) {
        snp_autoreply struct snp_reply reply = {0};
        int r = snp_remote_call(cli,
                                SNP_WRITE(snp_blob_request, .hash = hash, .offset = bytes.len,
                                          .length = SNP_FILE_CHUNK_MAX),
                                &reply, err);

        if (r < 0) {
            return r;
        }
        if (snp_buf_add(&bytes, reply.raw, reply.raw_len) < 0) {
            return snp_fail(err, SNP_E_PEER, "a file is larger than the daemon reported");
        }
        at_end = snp_json_bool(reply.head, "eof", true);
        if (!at_end && reply.raw_len == 0) {
            return snp_fail(err, SNP_E_PEER, "a file ended early");
        }
    }
    *ret_len = bytes.len;
    *ret = snp_need(snp_buf_cstr(&bytes));
    bytes.data = NULL; /* nothing was consumed, so it starts there */
    bytes.cap = 0;
    return 0;
}

/* Rows --------------------------------------------------------------------------------------- */

struct change_reader {
    struct snp_cli *cli;
    struct snp_session_changes *changes;
    const char *const *only;
    size_t n_only;
    const char **paths; /* owned: of all rows, sorted, each borrowed */
    size_t n_paths;
    uint64_t base_left; /* bytes of the project that may still be read */
};

static bool is_asked_for(const struct change_reader *all, const char *path)
{
    bool is_asked = all->n_only == 0;

    for (size_t i = 0; i < all->n_only && !is_asked; i++) {
        is_asked = snp_place_is_below(path, all->only[i]);
    }
    return is_asked;
}

/*
 * Read a file of the session that has content. A sparse file is stored as its runs, so its size
 * differs.
 */
static int now_read(struct change_reader *all,
                    const struct snp_diff_file *row,
                    struct snp_patch_side *now,
                    struct snp_err *err)
{
    char *bytes = NULL;
    size_t n = 0;

    now->size = row->size_b > 0 ? (uint64_t)row->size_b : 0;
    (void)snprintf(now->hash, sizeof(now->hash), "%s", row->b == NULL ? "" : row->b);
    if (now->size > SNP_PATCH_FILE_MAX) {
        return 0;
    }
    if (now->size > SNP_PATCH_BYTES_MAX - all->changes->patch.bytes) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the session's files differ by more than %d MiB from the project; name "
                        "some of them",
                        SNP_PATCH_BYTES_MAX >> 20);
    }
    if (row->b == NULL) {
        bytes = snp_need(calloc(1, 1));
    } else {
        SNP_TRY(snp_changes_content(all->cli, row->b, SNP_PATCH_FILE_MAX, &bytes, &n, err));
    }
    if (n != now->size) {
        free(bytes);
        return 0;
    }
    all->changes->patch.bytes += n;
    return snp_patch_side_take(now, bytes, n, err);
}

/* Read the project's side of a path, and add a change unless both are equal. now: consumed. */
static int change_add(struct change_reader *all,
                      const char *path,
                      struct snp_patch_side *now,
                      struct snp_err *err)
{
    struct snp_patch *patch = &all->changes->patch;
    struct snp_patch_file *file;
    struct snp_patch_side base = {0};
    int r = 0;

    if (snp_place_is_path(path)) {
        r = snp_project_look(all->changes->project_fd, path, &all->base_left, &base, err);
    }
    if (r < 0 || snp_patch_side_is_same(&base, now)) {
        snp_patch_side_done(&base);
        snp_patch_side_done(now);
        return r;
    }
    if (base.kind == SNP_PATCH_NONE && snp_summary_is_cache(path)) {
        patch->n_caches++;
        snp_patch_side_done(now);
        return 0;
    }
    r = snp_patch_add(patch, path, &file, err);
    if (r < 0) {
        snp_patch_side_done(&base);
        snp_patch_side_done(now);
        return r;
    }
    file->base = base;
    file->now = *now;
    *now = (struct snp_patch_side){0};
    return 0;
}

static int path_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * A file in a folder that the session deleted or replaced: deleted, unless the session has one of
 * that name.
 */
static int hidden_found(void *ctx, const char *path, struct snp_err *err)
{
    struct change_reader *all = ctx;
    struct snp_patch_side none = {0};

    return bsearch(&path, all->paths, all->n_paths, sizeof(*all->paths), path_order) != NULL ||
                   !is_asked_for(all, path)
               ? 0
               : change_add(all, path, &none, err);
}

/* A project folder that the session hides or has deleted. */
static int folder_hidden(struct change_reader *all, const char *path, struct snp_err *err)
{
    return snp_project_walk(all->changes->project_fd, path, hidden_found, all, err);
}

/* A file of the copy that the session removed. Its folders go with their files. */
static int removed_add(struct change_reader *all,
                       const struct snp_diff_file *row,
                       const char *path,
                       struct snp_err *err)
{
    struct snp_patch_side none = {0};

    return snp_streq(row->type_a, "dir") || !is_asked_for(all, path)
               ? 0
               : change_add(all, path, &none, err);
}

/* A folder of the session, or a name that it deleted. New folders are added with their files. */
static int name_add(struct change_reader *all,
                    const struct snp_diff_file *row,
                    const char *path,
                    struct snp_err *err)
{
    bool is_dir = snp_streq(row->type_b, "dir");
    struct snp_patch_side now = {.kind = is_dir ? SNP_PATCH_FOLDER : SNP_PATCH_NONE};
    snp_cleanup(snp_patch_side_done) struct snp_patch_side base = {0};
    uint64_t none = 0;

    if (snp_place_is_path(path)) {
        SNP_TRY(snp_project_look(all->changes->project_fd, path, &none, &base, err));
    }
    if (base.kind == SNP_PATCH_FOLDER) {
        return !is_dir || row->opaque_b ? folder_hidden(all, path, err) : 0;
    }
    return base.kind == SNP_PATCH_NONE || !is_asked_for(all, path)
               ? 0
               : change_add(all, path, &now, err);
}

static int row_add(struct change_reader *all,
                   const struct snp_diff_file *row,
                   const char *path,
                   struct snp_err *err)
{
    struct snp_patch_side now = {.mode = row->mode_b > 0 ? (unsigned)row->mode_b & 0777U : 0};

    if (row->type_b == NULL) {
        return removed_add(all, row, path, err);
    }
    if (snp_streq(row->type_b, "dir") || snp_streq(row->type_b, "deleted")) {
        return name_add(all, row, path, err);
    }
    if (!is_asked_for(all, path)) {
        return 0;
    }
    now.kind = snp_streq(row->type_b, "file")   ? SNP_PATCH_FILE
               : snp_streq(row->type_b, "link") ? SNP_PATCH_LINK
                                                : SNP_PATCH_OTHER;
    if (now.kind == SNP_PATCH_LINK) {
        now.target =
            snp_need_copy(json_is_string(row->target_b) ? json_string_value(row->target_b) : "");
    }
    if (now.kind == SNP_PATCH_FILE && now_read(all, row, &now, err) < 0) {
        snp_patch_side_done(&now);
        return err->code;
    }
    return change_add(all, path, &now, err);
}

static int rows_read(struct change_reader *all, const json_t *rows, struct snp_err *err)
{
    size_t n = json_array_size(rows);
    snp_autofree char **owned = snp_need(calloc(n + 1, sizeof(*owned)));
    int r = 0;

    all->paths = snp_need(calloc(n + 1, sizeof(*all->paths)));
    for (size_t i = 0; i < n; i++) {
        SNP_READ(snp_diff_file, row, json_array_get(rows, i));
        owned[i] = snp_changes_path(&row);
        all->paths[i] = owned[i];
    }
    all->n_paths = n;
    qsort(all->paths, n, sizeof(*all->paths), path_order);
    for (size_t i = 0; i < n && r == 0; i++) {
        SNP_READ(snp_diff_file, row, json_array_get(rows, i));
        r = row_add(all, &row, owned[i], err);
    }
    for (size_t i = 0; i < n; i++) {
        free(owned[i]);
    }
    free(SNP_TAKE_PTR(all->paths));
    return r;
}

/* The session -------------------------------------------------------------------------------- */

static int session_read(struct snp_cli *cli,
                        const char *session,
                        struct snp_session_changes *ret,
                        struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    struct snp_sessions_show_answer shown;

    SNP_TRY(snp_remote_call(cli, SNP_WRITE(snp_sessions_show_request, .session = session), &reply,
                            err));
    snp_record_read(reply.head, &snp_sessions_show_answer_form, &shown);
    if (shown.project == NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "session %.80s has no project; make one with: exec --project DIR", session);
    }
    ret->session = snp_need_copy(shown.id);
    ret->name = snp_need_copy(shown.name == NULL ? shown.id : shown.name);
    ret->project = snp_need_copy(shown.project);
    ret->created = shown.created;
    ret->tier = snp_need_copy(shown.tier);
    ret->template = snp_need_copy(shown.template);
    ret->limits = json_incref(shown.limits);
    if (snp_streq(shown.tier, "docker")) {
        const json_t *controls = json_object_get(shown.manifest, "controls");

        ret->rootfs =
            snp_need_format("%s#%s", snp_json_str(shown.manifest, "rootfs", ""),
                            snp_json_str(json_object_get(controls, "syscalls"), "runtime", ""));
    }
    return snp_project_open(ret->project, &ret->project_fd, err);
}

/* If the project is a copy, the session is compared with that; native has only the changes. */
static int diff_ask(struct snp_cli *cli,
                    const struct snp_session_changes *changes,
                    struct snp_reply *reply,
                    struct snp_err *err)
{
    bool is_copy = !snp_streq(changes->tier, "native");
    snp_autofree char *copied = snp_need_format("%s@" SNP_SNAPSHOT_PROJECT, changes->session);
    int r = snp_remote_call(
        cli, SNP_WRITE(snp_diff_request, .a = is_copy ? copied : NULL, .b = changes->session),
        reply, err);

    return r == SNP_E_NOT_FOUND && is_copy
               ? snp_fail(err, SNP_E_UNSUPPORTED,
                          "session %.80s has no snapshot \"" SNP_SNAPSHOT_PROJECT
                          "\", which tier %.20s needs to know what changed; only tier native "
                          "knows without one",
                          changes->name, changes->tier)
               : r;
}

int snp_changes_read(struct snp_cli *cli,
                     const char *session,
                     const char *const *only,
                     size_t n_only,
                     struct snp_session_changes *ret,
                     struct snp_err *err)
{
    struct change_reader all = {.cli = cli,
                                .changes = ret,
                                .only = only,
                                .n_only = n_only,
                                .base_left = SNP_PATCH_BYTES_MAX};
    snp_autoreply struct snp_reply reply = {0};

    *ret = (struct snp_session_changes){.project_fd = -1};
    SNP_TRY(session_read(cli, session, ret, err));
    SNP_TRY(diff_ask(cli, ret, &reply, err));
    if (snp_json_bool(reply.head, "truncated", false)) {
        return snp_fail(err, SNP_E_LIMIT,
                        "more files differ from the project than one answer can hold");
    }
    ret->lost = json_incref(json_object_get(reply.head, "lost_b"));
    SNP_TRY(rows_read(&all, json_object_get(reply.head, "files"), err));
    return snp_patch_close(&ret->patch, err);
}
