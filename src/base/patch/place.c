/* SPDX-License-Identifier: Apache-2.0 */
/* Names are compared without case, because file systems may ignore case. */
#include "base/patch/place.h"

#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/patch/obeyed.h"
#include "base/str.h"

enum {
    PATH_MAX_BYTES = 3000,
    PART_MAX = 255,
};

/* Folders of version control: their files run commands. */
static const char *const closed_folders[] = {".git", ".hg", ".svn", ".jj", ".bzr"};

/* Call is for each part of a path until one returns true. */
static bool any_part(const char *path, bool (*is)(const char *part))
{
    char part[PART_MAX + 1];

    for (const char *at = path; *at != '\0';) {
        size_t n = strcspn(at, "/");

        if (n <= PART_MAX) {
            memcpy(part, at, n);
            part[n] = '\0';
            if (is(part)) {
                return true;
            }
        }
        at += n + (at[n] == '/' ? 1 : 0);
    }
    return false;
}

static bool is_of(const char *part, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(part, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_closed(const char *part)
{
    return is_of(part, closed_folders, SNP_ARRAY_LEN(closed_folders));
}

bool snp_place_is_below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);

    while (n > 0 && prefix[n - 1] == '/') {
        n--;
    }
    return strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/' || n == 0);
}

bool snp_place_is_path(const char *path)
{
    size_t all = strlen(path);

    if (all == 0 || all > PATH_MAX_BYTES || path[all - 1] == '/') {
        return false;
    }
    for (const char *at = path;; at++) {
        size_t n = strcspn(at, "/");

        if (n == 0 || n > PART_MAX || (n == 1 && at[0] == '.') ||
            (n == 2 && at[0] == '.' && at[1] == '.')) {
            return false;
        }
        at += n;
        if (*at == '\0') {
            return true;
        }
    }
}

/* Whether no character moves a cursor, ends a line or cannot be typed. */
static bool is_plain_text(const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            return false;
        }
    }
    return snp_utf8_valid(path, strlen(path));
}

/*
 * Whether a link may lead out of the project. It stays inside if it is relative, begins with no
 * more ".." than it has parent folders, and has no later "..": after a name, which may be a link,
 * ".." can lead anywhere.
 */
static bool leads_out(const char *path, const char *target)
{
    int above = 0;
    bool has_name = false;

    for (const char *c = path; *c != '\0'; c++) {
        above += *c == '/' ? 1 : 0;
    }
    for (const char *at = target; *at != '\0';) {
        size_t n = strcspn(at, "/");

        if (n == 2 && at[0] == '.' && at[1] == '.') {
            above--;
            if (has_name || above < 0) {
                return true;
            }
        } else if (n > 0 && !(n == 1 && at[0] == '.')) {
            has_name = true;
        }
        at += n + (at[n] == '/' ? 1 : 0);
    }
    return target[0] == '/' || target[0] == '\0';
}

static const char *caution_of(const struct snp_patch_file *file)
{
    const char *why = snp_obeyed_by(file->path);

    if (why == NULL && file->now.kind == SNP_PATCH_LINK &&
        leads_out(file->path, file->now.target)) {
        return "a link that may lead out of the project";
    }
    return why;
}

static const char *refusal_of(const struct snp_patch_file *file)
{
    const struct snp_patch_side *now = &file->now;

    if (!snp_place_is_path(file->path)) {
        return "not a path below the project";
    }
    if (!is_plain_text(file->path)) {
        return "its name has control characters, or is not UTF-8";
    }
    if (any_part(file->path, is_closed)) {
        return "it belongs to version control";
    }
    if (file->base.kind == SNP_PATCH_OTHER) {
        return "in the project it is a special file, unreadable, or behind a symbolic link";
    }
    if (file->base.kind == SNP_PATCH_FOLDER) {
        return "it is a folder in the project and none in the session";
    }
    if (now->kind == SNP_PATCH_FOLDER) {
        return "it is a folder in the session and none in the project";
    }
    if (now->kind == SNP_PATCH_OTHER) {
        return "it is a special file in the session";
    }
    return now->kind == SNP_PATCH_FILE && now->bytes == NULL
               ? "it is larger than 16 MiB, or has holes; copy it with get"
               : NULL;
}

void snp_place_judge(struct snp_patch_file *file)
{
    file->refusal = file->refusal == NULL ? refusal_of(file) : file->refusal;
    file->caution =
        file->caution == NULL && file->refusal == NULL ? caution_of(file) : file->caution;
}
