/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   check   every file of the project equals the patch's base
 *   stage   new contents are written and synced beside their places
 *   commit  for each file: swap, check the replaced file, remove it
 *
 * Only commit makes visible changes. If a replaced file differs from its base, it is put back and
 * the apply stops.
 */
#include "repair/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/patch/place.h"
#include "base/patch/project.h"
#include "base/str.h"

enum {
    TEMPORARY_MAX = 64,
    NAME_DIGITS = 8, /* of the path's hash, in the name of a temporary file */
    FOLDER_MODE = 0755,
};

/* The opened folder of one file, and the file's name in it. */
struct spot {
    int fd; /* owned */
    const char *name;
    char temporary[TEMPORARY_MAX];
};

struct applying {
    const struct snp_apply *apply;
    char **made; /* owned: created folders, outer before inner ones */
    size_t n_made;
    size_t n_staged;
};

static void temporary_name(const char *token, const char *path, char out[TEMPORARY_MAX])
{
    char hash[SNP_PATCH_HASH_LEN + 1] = "";

    (void)!snp_patch_hash(path, strlen(path), hash);
    (void)snprintf(out, TEMPORARY_MAX, ".snipara-apply-%.*s-%.*s", SNP_APPLY_TOKEN, token,
                   NAME_DIGITS, hash);
}

static int spot_open(
    int project_fd, const char *token, const char *path, struct spot *ret, struct snp_err *err)
{
    const char *slash = strrchr(path, '/');
    snp_autofree char *folder = strndup(path, slash == NULL ? 0 : (size_t)(slash - path));

    SNP_TRY_MEMORY(folder, err);
    ret->name = slash == NULL ? path : slash + 1;
    temporary_name(token, path, ret->temporary);
    ret->fd = snp_project_open_at(project_fd, folder, O_RDONLY | O_DIRECTORY);
    return ret->fd < 0 ? snp_fail_sys(err, errno, "open the folder of %.200s", path) : 0;
}

static void spot_done(struct spot *spot)
{
    snp_closep(&spot->fd);
}
#define autospot snp_cleanup(spot_done)

static int moved_fail(const char *path, struct snp_err *err)
{
    return snp_fail(err, SNP_E_DENIED,
                    "%.200s changed in the project since this patch was made; look at the "
                    "differences again",
                    path);
}

/* Whether name in a folder equals the patch's base. */
static int base_check(int dir_fd,
                      const char *name,
                      const struct snp_patch_file *file,
                      struct snp_err *err)
{
    struct snp_patch_side side;
    uint64_t none = 0;
    bool is_same;

    SNP_TRY(snp_project_look(dir_fd, name, &none, &side, err));
    is_same = snp_patch_side_is_same(&side, &file->base);
    snp_patch_side_done(&side);
    return is_same ? 0 : moved_fail(file->path, err);
}

int snp_apply_check(const struct snp_apply *apply, struct snp_err *err)
{
    for (size_t i = 0; i < apply->patch->n; i++) {
        const struct snp_patch_file *file = &apply->patch->files[i];

        if (file->refusal != NULL || !snp_place_is_path(file->path)) {
            return snp_fail(err, SNP_E_DENIED, "%.200s cannot be applied: %s", file->path,
                            file->refusal == NULL ? "not a path below the project" : file->refusal);
        }
        SNP_TRY(base_check(apply->project_fd, file->path, file, err));
    }
    return 0;
}

/* Staging ------------------------------------------------------------------------------------ */

static int folder_make(struct applying *all, const char *path, struct snp_err *err)
{
    autospot struct spot spot = {.fd = -1, .name = ""};
    char **grown;

    SNP_TRY(spot_open(all->apply->project_fd, all->apply->token, path, &spot, err));
    if (mkdirat(spot.fd, spot.name, FOLDER_MODE) < 0) {
        return errno == EEXIST ? 0 : snp_fail_sys(err, errno, "make the folder %.200s", path);
    }
    grown = reallocarray(all->made, all->n_made + 1, sizeof(*grown));
    SNP_TRY_MEMORY(grown, err);
    all->made = grown;
    all->made[all->n_made] = strdup(path);
    SNP_TRY_MEMORY(all->made[all->n_made], err);
    all->n_made++;
    return 0;
}

static int folders_make(struct applying *all, const char *path, struct snp_err *err)
{
    int r = 0;

    for (const char *slash = strchr(path, '/'); slash != NULL && r == 0;
         slash = strchr(slash + 1, '/')) {
        snp_autofree char *folder = strndup(path, (size_t)(slash - path));

        SNP_TRY_MEMORY(folder, err);
        r = folder_make(all, folder, err);
    }
    return r;
}

static int contents_write(const struct spot *spot,
                          const struct snp_patch_file *file,
                          struct snp_err *err)
{
    snp_autoclose int fd = openat(spot->fd, spot->temporary,
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    mode_t mode = snp_patch_mode(&file->base, &file->now);
    mode_t mask = umask(0);

    (void)umask(mask);
    mode &= file->base.kind == SNP_PATCH_FILE ? (mode_t)0777 : ~mask;
    if (fd < 0 || snp_write_all(fd, file->now.bytes, (size_t)file->now.size) < 0 ||
        fchmod(fd, mode) < 0 || fsync(fd) < 0) {
        return snp_fail_sys(err, errno, "write %.200s", file->path);
    }
    return 0;
}

static int file_stage(struct applying *all, const struct snp_patch_file *file, struct snp_err *err)
{
    autospot struct spot spot = {.fd = -1, .name = ""};

    if (file->now.kind == SNP_PATCH_NONE) {
        return 0;
    }
    SNP_TRY(folders_make(all, file->path, err));
    SNP_TRY(spot_open(all->apply->project_fd, all->apply->token, file->path, &spot, err));
    if (file->now.kind == SNP_PATCH_FILE) {
        return contents_write(&spot, file, err);
    }
    return symlinkat(file->now.target, spot.fd, spot.temporary) < 0
               ? snp_fail_sys(err, errno, "make the link %.200s", file->path)
               : 0;
}

/* Remove the files staged from the i-th on, and the empty folders made for them. */
static void unstage(struct applying *all, size_t i)
{
    const struct snp_apply *apply = all->apply;
    struct snp_err err;

    for (; i < all->n_staged; i++) {
        autospot struct spot spot = {.fd = -1, .name = ""};

        if (spot_open(apply->project_fd, apply->token, apply->patch->files[i].path, &spot, &err) ==
            0) {
            (void)unlinkat(spot.fd, spot.temporary, 0);
        }
    }
    while (all->n_made > 0) {
        autospot struct spot spot = {.fd = -1, .name = ""};
        snp_autofree char *path = all->made[--all->n_made];

        if (spot_open(apply->project_fd, apply->token, path, &spot, &err) == 0) {
            (void)unlinkat(spot.fd, spot.name, AT_REMOVEDIR);
        }
    }
    free(SNP_TAKE_PTR(all->made));
}

/* Committing --------------------------------------------------------------------------------- */

/* renameat2 inside a folder. EINVAL: the file system does not support the flags. */
static int rename_in(const struct spot *spot, const char *from, const char *to, unsigned flags)
{
    return renameat2(spot->fd, from, spot->fd, to, flags);
}

static int file_create(const struct spot *spot,
                       const struct snp_patch_file *file,
                       struct snp_err *err)
{
    int r = rename_in(spot, spot->temporary, spot->name, RENAME_NOREPLACE);

    if (r < 0 && errno == EINVAL) {
        r = linkat(spot->fd, spot->temporary, spot->fd, spot->name, 0);
        r = r < 0 ? r : unlinkat(spot->fd, spot->temporary, 0);
    }
    return r == 0            ? 0
           : errno == EEXIST ? moved_fail(file->path, err)
                             : snp_fail_sys(err, errno, "write %.200s", file->path);
}

/*
 * Move the old file out, in exchange for the new one or for nothing (flags); then check it, and put
 * it back if it differs from the base.
 */
static int file_swap(const struct spot *spot,
                     const struct snp_patch_file *file,
                     unsigned flags,
                     struct snp_err *err)
{
    int r = rename_in(spot, spot->name, spot->temporary, flags);

    if (r < 0 && errno == EINVAL) {
        SNP_TRY(base_check(spot->fd, spot->name, file, err));
        r = file->now.kind == SNP_PATCH_NONE ? unlinkat(spot->fd, spot->name, 0)
                                             : rename_in(spot, spot->temporary, spot->name, 0);
        return r == 0 ? 0 : snp_fail_sys(err, errno, "write %.200s", file->path);
    }
    if (r < 0) {
        return errno == ENOENT ? moved_fail(file->path, err)
                               : snp_fail_sys(err, errno, "write %.200s", file->path);
    }
    r = base_check(spot->fd, spot->temporary, file, err);
    if (r < 0) {
        if (rename_in(spot, spot->temporary, spot->name, flags) < 0) {
            return snp_fail(err, SNP_E_INTERNAL,
                            "%.200s changed during the apply; its earlier contents are now in %s "
                            "beside it",
                            file->path, spot->temporary);
        }
        return r;
    }
    SNP_FAULT("apply.swapped");
    return unlinkat(spot->fd, spot->temporary, 0) == 0
               ? 0
               : snp_fail_sys(err, errno, "remove the old %.200s", file->path);
}

/* Remove empty folders, inner before outer ones. */
static void folders_prune(const struct snp_apply *apply, const char *path)
{
    snp_autofree char *folder = strdup(path);
    char *slash;

    while (folder != NULL && (slash = strrchr(folder, '/')) != NULL) {
        autospot struct spot spot = {.fd = -1, .name = ""};
        struct snp_err err;

        *slash = '\0';
        if (spot_open(apply->project_fd, apply->token, folder, &spot, &err) < 0 ||
            unlinkat(spot.fd, spot.name, AT_REMOVEDIR) < 0) {
            return;
        }
    }
}

static int file_commit(const struct snp_apply *apply,
                       const struct snp_patch_file *file,
                       struct snp_err *err)
{
    autospot struct spot spot = {.fd = -1, .name = ""};
    bool is_gone = file->now.kind == SNP_PATCH_NONE;
    int r;

    SNP_TRY(spot_open(apply->project_fd, apply->token, file->path, &spot, err));
    r = file->base.kind == SNP_PATCH_NONE
            ? file_create(&spot, file, err)
            : file_swap(&spot, file, is_gone ? RENAME_NOREPLACE : RENAME_EXCHANGE, err);
    if (r < 0) {
        return r;
    }
    if (fsync(spot.fd) < 0) {
        return snp_fail_sys(err, errno, "sync the folder of %.200s", file->path);
    }
    if (is_gone) {
        folders_prune(apply, file->path);
    }
    SNP_FAULT("apply.file");
    return apply->applied == NULL ? 0 : apply->applied(apply->ctx, file, err);
}

int snp_apply_run(const struct snp_apply *apply, size_t *ret_n, struct snp_err *err)
{
    struct applying all = {.apply = apply};
    const struct snp_patch *patch = apply->patch;
    int r = snp_apply_check(apply, err);

    *ret_n = 0;
    while (r == 0 && all.n_staged < patch->n) {
        r = file_stage(&all, &patch->files[all.n_staged++], err);
    }
    SNP_THEN(r, snp_apply_check(apply, err));
    while (r == 0 && *ret_n < patch->n) {
        r = file_commit(apply, &patch->files[*ret_n], err);
        *ret_n += r == 0 ? 1 : 0;
    }
    if (r < 0) {
        /* SNP_E_INTERNAL: the temporary file is the user's only copy. */
        unstage(&all, *ret_n + (r == SNP_E_INTERNAL ? 1 : 0));
    }
    for (size_t i = 0; i < all.n_made; i++) {
        free(all.made[i]);
    }
    free(all.made);
    return r;
}

int snp_apply_sweep(int project_fd,
                    const char *token,
                    const char *path,
                    const char *base_hash,
                    char **ret_left,
                    struct snp_err *err)
{
    autospot struct spot spot = {.fd = -1, .name = ""};
    struct snp_patch_side left;
    struct snp_patch_side now;
    uint64_t none = 0;
    bool is_known;

    *ret_left = NULL;
    if (!snp_place_is_path(path) || spot_open(project_fd, token, path, &spot, err) < 0) {
        return 0; /* its folder is missing too */
    }
    SNP_TRY(snp_project_look(spot.fd, spot.temporary, &none, &left, err));
    if (left.kind == SNP_PATCH_NONE) {
        return 0;
    }
    /* Old contents as shown, or new ones not yet in place: the session still has both. */
    SNP_TRY(snp_project_look(spot.fd, spot.name, &none, &now, err));
    is_known = left.kind == SNP_PATCH_LINK || base_hash[0] == '\0' ||
               strcmp(left.hash, base_hash) == 0 ||
               (now.kind == SNP_PATCH_FILE && strcmp(now.hash, base_hash) == 0);
    snp_patch_side_done(&left);
    snp_patch_side_done(&now);
    if (is_known) {
        return unlinkat(spot.fd, spot.temporary, 0) == 0
                   ? 0
                   : snp_fail_sys(err, errno, "remove leftovers beside %.200s", path);
    }
    *ret_left = snp_format("%.*s%s", (int)(strlen(path) - strlen(spot.name)), path, spot.temporary);
    SNP_TRY_MEMORY(*ret_left, err);
    return 0;
}
