/* SPDX-License-Identifier: Apache-2.0 */
#include "base/patch/patch.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/patch/place.h"
#include "base/str.h"

enum {
    GROW = 64,
    MODE_FILE = 0644,
    MODE_PROGRAM = 0755,
    MODE_RUN = 0100, /* its owner may run it */
};

int snp_patch_hash(const void *bytes, size_t n, char out[SNP_PATCH_HASH_LEN + 1])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_Digest(bytes, n, hash, &len, EVP_sha256(), NULL) != 1 ||
        len * 2 != SNP_PATCH_HASH_LEN) {
        return -1;
    }
    snp_hex(hash, len, out);
    return 0;
}

/* Sides -------------------------------------------------------------------------------------- */

void snp_patch_side_done(struct snp_patch_side *side)
{
    free(side->bytes);
    free(side->target);
    *side = (struct snp_patch_side){0};
}

int snp_patch_side_take(struct snp_patch_side *side, char *bytes, size_t n, struct snp_err *err)
{
    free(side->bytes);
    side->bytes = bytes;
    side->size = n;
    return snp_patch_hash(bytes, n, side->hash) < 0
               ? snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed")
               : 0;
}

static bool is_program(const struct snp_patch_side *side)
{
    return (side->mode & MODE_RUN) != 0;
}

bool snp_patch_side_is_same(const struct snp_patch_side *a, const struct snp_patch_side *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == SNP_PATCH_FILE) {
        return strcmp(a->hash, b->hash) == 0 && is_program(a) == is_program(b);
    }
    return a->kind != SNP_PATCH_LINK || snp_streq(a->target, b->target);
}

unsigned snp_patch_mode(const struct snp_patch_side *base, const struct snp_patch_side *now)
{
    if (base->kind != SNP_PATCH_FILE) {
        return is_program(now) ? MODE_PROGRAM : MODE_FILE;
    }
    if (is_program(base) == is_program(now)) {
        return base->mode & 0777;
    }
    return is_program(now) ? (base->mode & 0777) | (base->mode & 0444) >> 2 : base->mode & 0666;
}

/* The patch ---------------------------------------------------------------------------------- */

void snp_patch_done(struct snp_patch *patch)
{
    for (size_t i = 0; i < patch->n; i++) {
        free(patch->files[i].path);
        snp_patch_side_done(&patch->files[i].base);
        snp_patch_side_done(&patch->files[i].now);
    }
    free(patch->files);
    *patch = (struct snp_patch){0};
}

int snp_patch_add(struct snp_patch *patch,
                  const char *path,
                  struct snp_patch_file **ret,
                  struct snp_err *err)
{
    char *copy;

    if (patch->n == SNP_PATCH_FILES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "more than %d files differ from the project",
                        SNP_PATCH_FILES_MAX);
    }
    if (patch->n == patch->room) {
        size_t room = patch->room == 0 ? GROW : patch->room * 2;
        struct snp_patch_file *grown = reallocarray(patch->files, room, sizeof(*grown));

        SNP_TRY_MEMORY(grown, err);
        patch->files = grown;
        patch->room = room;
    }
    copy = strdup(path);
    SNP_TRY_MEMORY(copy, err);
    *ret = &patch->files[patch->n++];
    **ret = (struct snp_patch_file){.path = copy};
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct snp_patch_file *x = a;
    const struct snp_patch_file *y = b;

    return strcmp(x->path, y->path);
}

static json_t *side_json(const struct snp_patch_side *side, bool with_contents)
{
    static const char *const kinds[] = {
        [SNP_PATCH_NONE] = NULL,       [SNP_PATCH_FILE] = "file",   [SNP_PATCH_LINK] = "link",
        [SNP_PATCH_FOLDER] = "folder", [SNP_PATCH_OTHER] = "other",
    };
    json_t *json =
        side->kind == SNP_PATCH_NONE ? json_null() : json_pack("{s:s}", "type", kinds[side->kind]);

    if (side->kind == SNP_PATCH_FILE) {
        snp_autofree char *text = with_contents && side->bytes != NULL
                                      ? snp_base64(side->bytes, (size_t)side->size)
                                      : NULL;

        (void)json_object_set_new(json, "executable", json_boolean(is_program(side)));
        (void)json_object_set_new(json, "size", json_integer((json_int_t)side->size));
        (void)json_object_set_new(json, "sha256", json_string(side->hash));
        if (text != NULL) {
            (void)json_object_set_new(json, "base64", json_string(text));
        }
    }
    if (side->kind == SNP_PATCH_LINK) {
        (void)json_object_set_new(json, "target",
                                  snp_json_bytes(side->target, strlen(side->target)));
    }
    return json;
}

static json_t *file_json(const struct snp_patch_file *file, bool with_contents)
{
    json_t *json =
        json_pack("{s:o, s:o, s:o}", "path", snp_json_bytes(file->path, strlen(file->path)), "base",
                  side_json(&file->base, false), "now", side_json(&file->now, with_contents));

    if (file->refusal != NULL) {
        (void)json_object_set_new(json, "refused", json_string(file->refusal));
    }
    if (file->caution != NULL) {
        (void)json_object_set_new(json, "must_be_named", json_string(file->caution));
    }
    return json;
}

json_t *snp_patch_to_json(const struct snp_patch *patch, bool with_contents)
{
    json_t *files = json_array();

    for (size_t i = 0; i < patch->n; i++) {
        (void)json_array_append_new(files, file_json(&patch->files[i], with_contents));
    }
    return json_pack("{s:s, s:o}", "sha256", patch->hash, "files", files);
}

/* Find names that are equal on a file system that ignores case. */
static void collisions_find(struct snp_patch *patch)
{
    for (size_t i = 0; i < patch->n; i++) {
        for (size_t j = i + 1; j < patch->n; j++) {
            if (strcasecmp(patch->files[i].path, patch->files[j].path) == 0) {
                patch->files[j].caution = "its name differs only in case from another one";
            }
        }
    }
}

int snp_patch_close(struct snp_patch *patch, struct snp_err *err)
{
    snp_autojson json_t *json = NULL;
    snp_autofree char *text = NULL;

    if (patch->n > 1) {
        qsort(patch->files, patch->n, sizeof(*patch->files), by_path);
    }
    for (size_t i = 0; i < patch->n; i++) {
        snp_place_judge(&patch->files[i]);
    }
    collisions_find(patch);
    patch->hash[0] = '\0';
    json = snp_patch_to_json(patch, false);
    text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    SNP_TRY_MEMORY(text, err);
    return snp_patch_hash(text, strlen(text), patch->hash) < 0
               ? snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed")
               : 0;
}
