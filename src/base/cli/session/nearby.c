/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path comes from the code, so looking it up must have no side effects: only below the working
 * directory or the home folder, over no mount (an automount would send the path to a server), along
 * no link that leads out.
 */
#include "base/cli/session/nearby.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/cli/need.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

static bool is_below(const char *base, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS};
    snp_autoclose int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snp_autoclose int fd = -1;

    fd = dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
    return fd >= 0;
}

/* The part of path below base, which is not "/"; NULL: not below it. */
static const char *rest_of(const char *path, const char *base)
{
    size_t n = base == NULL ? 0 : strlen(base);

    return n > 1 && strncmp(path, base, n) == 0 && path[n] == '/' && path[n + 1] != '\0'
               ? path + n + 1
               : NULL;
}

/* Safe to paste into a shell unquoted. */
static bool is_plain(const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("/._-+,", *c) == NULL) {
            return false;
        }
    }
    return path[0] != '-' && path[0] != '\0';
}

/* The "~/..." form of a path in the home folder inside; NULL: not in it. */
static char *tilde_of(const char *path)
{
    const char *rest = snp_has_prefix(path, "~/") ? path + 2 : rest_of(path, "/tmp/.home");

    return rest == NULL ? NULL : snp_need_format("~/%s", rest);
}

/* A relative path keeps its folders, so that the code finds the file. */
static char *put_of(const char *path, const char *session)
{
    bool is_deep =
        path[0] != '/' && path[0] != '~' && strchr(path, '/') != NULL && strstr(path, "./") == NULL;

    return session == NULL
               ? snp_need_copy("run the code in a session (exec -s NAME), and copy files "
                               "into it with put")
               : snp_need_format("copy it: snipara-sandbox put %s %s:%s", path, session,
                                 is_deep ? path : "");
}

/* The place of the file, and commands that make it visible, ready to paste. */
static char *advice(const char *path, const char *session)
{
    snp_autofree char *cwd = getcwd(NULL, 0);
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): one thread */
    snp_autofree char *tilde = tilde_of(path);
    snp_autofree char *put = NULL;
    const char *rest;

    if (cwd == NULL || !is_plain(tilde != NULL ? tilde + 1 : path)) {
        return NULL;
    }
    put = put_of(tilde != NULL ? tilde : path, session);
    rest = tilde != NULL ? NULL : path[0] == '/' ? rest_of(path, cwd) : path;
    if (rest != NULL && cwd[1] != '\0' && is_below(cwd, rest)) {
        return snp_need_format(
            "%s is on this machine, not in the sandbox. %s --project . %s /workspace/%s; or %s",
            path, session == NULL ? "With" : "A new session with",
            session == NULL ? "it is" : "has it at", rest, put);
    }
    rest = tilde != NULL ? tilde + 2 : path[0] == '/' ? rest_of(path, home) : NULL;
    return rest == NULL || home == NULL || !is_below(home, rest)
               ? NULL
               : snp_need_format("%s is on this machine, not in the sandbox. Show its folder as "
                                 "/workspace with --project DIR%s; or %s",
                                 tilde != NULL ? tilde : path,
                                 session == NULL ? "" : " in a new session", put);
}

char *snp_nearby_error(const json_t *error, const char *session)
{
    const char *cause = snp_json_str(error, "cause", "");
    const char *module = snp_json_str(json_object_get(error, "module"), "name", "");
    snp_autofree char *file = NULL;

    if (snp_streq(cause, "no such file")) {
        return advice(snp_json_str(error, "path", ""), session);
    }
    if (snp_streq(cause, "no such module") && module[0] != '\0') {
        file = snp_need_format("%s.py", module);
    }
    return file == NULL ? NULL : advice(file, session);
}

/* The command failed for this word; otherwise the file may be in the sandbox. */
static bool is_missed(const char *word, const struct snp_buf *said)
{
    static const char sign[] = "No such file"; /* message of the C library, in a sandbox's
                                                * language */

    return said->len > 0 &&
           memmem(snp_buf_bytes(said), said->len, sign, sizeof(sign) - 1) != NULL &&
           memmem(snp_buf_bytes(said), said->len, word, strlen(word)) != NULL;
}

/* Debian has no `python`, so a sandbox based on it has none. */
static bool lacks_python(const struct snp_buf *said)
{
    static const char *const signs[] = {"python: not found", "python: command not found"};

    for (size_t i = 0; said->len > 0 && i < SNP_ARRAY_LEN(signs); i++) {
        if (memmem(snp_buf_bytes(said), said->len, signs[i], strlen(signs[i])) != NULL) {
            return true;
        }
    }
    return false;
}

char *snp_nearby_words(const json_t *argv, const struct snp_buf *said, const char *session)
{
    if (lacks_python(said)) {
        return snp_need_copy("The sandbox has no `python`. Use python3.");
    }
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *text = json_string_value(json_array_get(argv, i));
        char *words =
            text == NULL || (i == 0 && strchr(text, '/') == NULL) || !is_missed(text, said)
                ? NULL
                : advice(text, session);

        if (words != NULL) {
            return words;
        }
    }
    return NULL;
}
