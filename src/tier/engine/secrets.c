/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are compared without case. A match is hidden, whether file, link or folder. The walk uses
 * descriptors only, so a path swapped during the walk cannot redirect it. Paths created after the
 * walk are not hidden (docs/security/controls.md).
 */
#include "tier/engine/secrets.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/project/secret_name.h"
#include "base/str.h"

enum {
    PATH_LEN = 4096,
    CONFIG_MAX = 256 << 10,
    PROBE_LEN = 64 << 10,
    PROBES_MAX = 64, /* longer files are hidden without a search */
    HEAD_LEN = 4096, /* of a file that may be a key */
};

/*
 * Hidden when they hold a private key anywhere; other files only when they begin like a file of
 * keys.
 */
static const char *const key_names[] = {"*.pem", "*.key", "*.asc", "*.der"};

/*
 * Suffixes of sources and data, of which a project may have very many: these are not opened.
 * Sorted.
 */
static const char *const ordinary_ends[] = {
    "a",    "avi",  "bat",   "bmp",   "bz2",   "c",    "cc",   "cjs",   "class",   "cpp",  "cs",
    "css",  "csv",  "cxx",   "dart",  "dll",   "ex",   "exe",  "exs",   "gif",     "go",   "gz",
    "h",    "h5",   "hpp",   "hs",    "htm",   "html", "ico",  "ipynb", "jar",     "java", "jl",
    "jpeg", "jpg",  "js",    "jsx",   "kt",    "less", "lock", "lua",   "m",       "map",  "md",
    "mjs",  "ml",   "mp3",   "mp4",   "npy",   "npz",  "o",    "otf",   "parquet", "pdf",  "php",
    "pkl",  "pl",   "pm",    "png",   "proto", "ps1",  "py",   "pyc",   "pyi",     "pyx",  "r",
    "rb",   "rs",   "rst",   "scala", "scss",  "sh",   "so",   "sql",   "svelte",  "svg",  "swift",
    "tar",  "tex",  "tgz",   "toml",  "ts",    "tsv",  "tsx",  "ttf",   "vue",     "wasm", "webp",
    "whl",  "woff", "woff2", "xml",   "xz",    "yaml", "yml",  "zig",   "zip",     "zst",
};

/* Sections of a git configuration whose values are shown; sections of other programs are not. */
static const char *const git_sections[] = {
    "core",   "remote",     "branch",  "user",        "submodule", "extensions", "init",
    "pull",   "push",       "fetch",   "merge",       "rebase",    "diff",       "color",
    "log",    "status",     "tag",     "i18n",        "lfs",       "filter",     "index",
    "pack",   "gc",         "feature", "maintenance", "worktree",  "http",       "url",
    "clone",  "checkout",   "commit",  "format",      "blame",     "apply",      "advice",
    "rerere", "stash",      "notes",   "receive",     "transfer",  "protocol",   "safe",
    "svn",    "svn-remote", "include", "includeif",
};

/* Words in a git configuration that hide their line. */
static const char *const credential_words[] = {
    "extraheader", "passw",   "passphrase", "token",  "helper",     "askpass",
    "smtppass",    "sshpass", "secret",     "apikey", "api_key",    "authorization",
    "ghp_",        "gho_",    "ghs_",       "ghu_",   "github_pat", "glpat-",
};

struct scan {
    struct snp_buf *mask;
    json_t *paths;
    unsigned n;
    char path[PATH_LEN];
};

static bool is_key_name(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(key_names); i++) {
        if (snp_name_fits(key_names[i], name, strlen(name))) {
            return true;
        }
    }
    return false;
}

static int compare_end(const void *key, const void *item)
{
    return strcasecmp(key, *(const char *const *)item);
}

static bool is_ordinary_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL &&
           bsearch(dot + 1, (const void *)ordinary_ends, SNP_ARRAY_LEN(ordinary_ends),
                   sizeof(ordinary_ends[0]), compare_end) != NULL;
}

/*
 * Does the text name a private key, or is it DER whose first element is a number, as only keys
 * have?
 */
static bool is_private_key(const char *text, size_t n)
{
    const unsigned char *der = (const unsigned char *)text;

    return memmem(text, n, "PRIVATE KEY", strlen("PRIVATE KEY")) != NULL ||
           (n > 6 && der[0] == 0x30 &&
            ((der[1] == 0x82 && der[4] == 0x02) || (der[1] == 0x81 && der[3] == 0x02) ||
             (der[1] < 0x80 && der[2] == 0x02)));
}

/* Unsearchable files count as keys; anything but a regular file does not. */
static bool holds_private_key(int dir_fd, const char *name)
{
    char text[PROBE_LEN];
    const size_t overlap = strlen("PRIVATE KEY") - 1;
    struct stat st;
    snp_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        return errno != ELOOP && errno != ENOENT && errno != ENXIO;
    }
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        return false;
    }
    for (off_t at = 0; at < (off_t)PROBES_MAX * PROBE_LEN; at += PROBE_LEN - (off_t)overlap) {
        ssize_t n = SNP_RETRY(pread(fd, text, sizeof(text), at));
        if (n < 0 || (at == 0 && is_private_key(text, (size_t)n)) ||
            memmem(text, (size_t)n, "PRIVATE KEY", overlap + 1) != NULL) {
            return true;
        }
        if (n < (ssize_t)sizeof(text)) {
            return false;
        }
    }
    return true;
}

/* Does the file begin like a file of keys, so that it must be searched? */
static bool begins_with_keys(const char *text, size_t n, bool *ret_sure)
{
    static const char *const begins[] = {
        "-----BEGIN ",  "Bag Attributes",   "Key Attributes",
        "Private-Key:", "RSA Private-Key:", "PuTTY-User-Key-File-"};

    *ret_sure = memmem(text, n, "AGE-SECRET-KEY-1", 16) != NULL ||
                (text[0] == '{' && memmem(text, n, "\"private_key\"", 13) != NULL &&
                 memmem(text, n, "PRIVATE KEY-----", 16) != NULL);
    for (size_t i = 0; i < SNP_ARRAY_LEN(begins); i++) {
        if (snp_has_prefix(text, begins[i])) {
            *ret_sure = *ret_sure || i + 1 == SNP_ARRAY_LEN(begins);
            return true;
        }
    }
    return *ret_sure;
}

/*
 * Is this file, of any name, a private key? A file that we cannot read, the code cannot read
 * either.
 */
static bool is_key_file(int dir_fd, const char *name)
{
    char text[HEAD_LEN + 1];
    bool is_sure = false;
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : SNP_RETRY(pread(fd, text, HEAD_LEN, 0));
    const char *at = text;

    snp_closep(&fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    at += snp_has_prefix(at, "\xef\xbb\xbf") ? 3 : 0;
    at += strspn(at, " \t\r\n");
    return begins_with_keys(at, (size_t)(text + n - at), &is_sure) &&
           (is_sure || holds_private_key(dir_fd, name));
}

static int add_mask(struct scan *s, char kind, const char *bytes, size_t n, struct snp_err *err)
{
    uint32_t len = (uint32_t)n;

    if (snp_buf_add(s->mask, &kind, 1) < 0 ||
        snp_buf_add(s->mask, s->path, strlen(s->path) + 1) < 0 ||
        snp_buf_add(s->mask, &len, sizeof(len)) < 0 || snp_buf_add(s->mask, bytes, n) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "the project holds too many secrets to hide");
    }
    (void)json_array_append_new(s->paths, snp_json_bytes(s->path, strlen(s->path)));
    return 0;
}

/* Does the line continue in the next one? newline: its end. */
static bool goes_on(const char *line, const char *newline)
{
    newline -= newline > line && newline[-1] == '\r' ? 1 : 0;
    return newline > line && newline[-1] == '\\';
}

/*
 * End of the line that starts at text, with its continuation lines: past the newline, or the
 * terminator.
 */
static const char *line_end(const char *text)
{
    const char *newline = strchr(text, '\n');

    while (newline != NULL && goes_on(text, newline)) {
        newline = strchr(newline + 1, '\n');
    }
    return newline == NULL ? text + strlen(text) : newline + 1;
}

static bool line_has(const char *line, const char *end, const char *word)
{
    size_t n = strlen(word);

    for (; line + n <= end; line++) {
        if (strncasecmp(line, word, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Length of "user:password@" in the text from host to end; 0 = none. */
static size_t userinfo_len(const char *host, const char *end)
{
    size_t n = 0;

    for (const char *c = host; c < end && *c != '/' && !isspace((unsigned char)*c); c++) {
        n = *c == '@' ? (size_t)(c - host) + 1 : n;
    }
    return n;
}

/* Append one line, without "user:password@" after each "://". */
static int add_without_userinfo(struct snp_buf *out,
                                const char *line,
                                const char *end,
                                bool *changed)
{
    const char *scheme;

    while ((scheme = memmem(line, (size_t)(end - line), "://", 3)) != NULL) {
        const char *host = scheme + 3;
        size_t n = userinfo_len(host, end);
        *changed |= n > 0;
        if (snp_buf_add(out, line, (size_t)(host - line)) < 0) {
            return -1;
        }
        line = host + n;
    }
    return snp_buf_add(out, line, (size_t)(end - line));
}

/* Does the line have "user:password@host" without a scheme? */
static bool has_bare_password(const char *line, const char *end)
{
    const char *at = memchr(line, '@', (size_t)(end - line));
    const char *c = at;

    if (at == NULL || memmem(line, (size_t)(end - line), "://", 3) != NULL) {
        return false;
    }
    while (c > line && !isspace((unsigned char)c[-1]) && c[-1] != '=' && c[-1] != '"') {
        c--;
        if (*c == ':') {
            return true;
        }
    }
    return false;
}

/*
 * Does a line begin a section, and is it shown? If two sections begin in one line, the second would
 * be read as a value of the first: hide both.
 */
static bool enters_section(const char *line, const char *end, bool *is_shown)
{
    while (line < end && isspace((unsigned char)*line)) {
        line++;
    }
    if (line == end || *line != '[') {
        return false;
    }
    size_t n = 0;
    line++;
    line += strspn(line, " \t");
    while (line + n < end && (isalnum((unsigned char)line[n]) || line[n] == '-')) {
        n++;
    }
    *is_shown = false;
    for (size_t i = 0; i < SNP_ARRAY_LEN(git_sections); i++) {
        *is_shown = *is_shown ||
                    (strlen(git_sections[i]) == n && strncasecmp(git_sections[i], line, n) == 0);
    }
    *is_shown = *is_shown && memchr(line, '[', (size_t)(end - line)) == NULL;
    return true;
}

/* Hide lines that name credentials, and lines whose continuation may hide their meaning from us. */
static bool must_go(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));

    for (size_t i = 0; i < SNP_ARRAY_LEN(credential_words); i++) {
        if (line_has(line, end, credential_words[i])) {
            return true;
        }
    }
    return has_bare_password(line, end) ||
           (newline != NULL && newline + 1 < end && line_has(line, end, "@"));
}

char *snp_secrets_clean_git_config(const char *text, bool *ret_changed)
{
    snp_autobuf struct snp_buf out = {0};
    bool changed = false;
    bool is_shown = true;
    int r = 0;
    char *copy;

    snp_buf_init(&out, CONFIG_MAX + 1);
    while (r == 0 && *text != '\0') {
        const char *end = line_end(text);
        (void)enters_section(text, end, &is_shown);
        if (!is_shown || must_go(text, end)) {
            changed = true;
        } else {
            r = add_without_userinfo(&out, text, end, &changed);
        }
        text = end;
    }
    if (r < 0 || snp_buf_cstr(&out) == NULL) {
        return NULL;
    }
    copy = strdup(snp_buf_cstr(&out));
    *ret_changed = changed;
    return copy;
}

static int clean_git_config(struct scan *s, int dir_fd, const char *name, struct snp_err *err)
{
    char text[CONFIG_MAX / 8];
    snp_autofree char *clean = NULL;
    struct stat st;
    bool changed = true;
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
                    ? snp_read_all(fd, text, sizeof(text) - 1)
                    : -1;

    snp_closep(&fd);
    if (n < 0 || n == (ssize_t)sizeof(text) - 1 || memchr(text, '\0', (size_t)n) != NULL) {
        return add_mask(s, 'w', "", 0, err); /* unverifiable: hide it */
    }
    text[n] = '\0';
    clean = snp_secrets_clean_git_config(text, &changed);
    if (clean == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return changed ? add_mask(s, 'f', clean, strlen(clean), err) : 0;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);

    return len >= n && memcmp(text + (len - n), end, n) == 0;
}

/* Is it a file that git reads as a configuration? folder as in fits_in. */
static bool is_git_config(const char *folder, size_t len, const char *name)
{
    bool in_git = ends_with(folder, len, ".git/") ||
                  memmem(folder, len, ".git/modules/", 13) != NULL ||
                  memmem(folder, len, ".git/worktrees/", 15) != NULL;

    return strcmp(name, ".gitmodules") == 0 ||
           (in_git && (strcmp(name, "config") == 0 || strcmp(name, "config.worktree") == 0));
}

/* Folders where git keeps many compressed files, and package managers many public ones. */
static bool is_packed(const char *folder, size_t len)
{
    return (memmem(folder, len, ".git/", 5) != NULL &&
            memmem(folder, len, "/objects/", 9) != NULL) ||
           memmem(folder, len, "node_modules/", 13) != NULL;
}

/*
 * Skip a folder that we may not enter (the code cannot either) or that is gone. Other errors, such
 * as a lack of descriptors or memory, must not leave a folder unsearched.
 */
static bool may_pass_over(int eno)
{
    return eno == EACCES || eno == EPERM || eno == ENOENT || eno == ENOTDIR || eno == ELOOP;
}

static int walk(struct scan *s, int fd, size_t len, int depth, struct snp_err *err);

/*
 * Enter the folder whose path ends at len with its name. A mount on a folder is absent in the
 * sandbox, and the folder below it cannot be searched: hide such a folder.
 */
static int enter(struct scan *s, int dir_fd, size_t len, int depth, struct snp_err *err)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    const char *slash = memrchr(s->path, '/', len);
    int fd =
        (int)syscall(SYS_openat2, dir_fd, slash == NULL ? s->path : slash + 1, &how, sizeof(how));

    if (fd < 0 && errno == EXDEV) {
        return add_mask(s, 'w', "", 0, err);
    }
    s->path[len] = '/';
    s->path[len + 1] = '\0';
    return walk(s, fd, len + 1, depth + 1, err);
}

static int visit(struct scan *s,
                 int dir_fd,
                 const struct dirent *entry,
                 size_t len,
                 int depth,
                 struct snp_err *err)
{
    size_t name_len = strlen(entry->d_name);
    unsigned char type = entry->d_type;
    struct stat st;

    if (++s->n > SNP_SECRETS_ENTRIES_MAX || len + name_len + 2 > PATH_LEN) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the project has more than %d files, too many to search for secrets; "
                        "choose a smaller folder",
                        SNP_SECRETS_ENTRIES_MAX);
    }
    memcpy(s->path + len, entry->d_name, name_len + 1);
    if (snp_secret_name(s->path, len, entry->d_name) ||
        (is_key_name(entry->d_name) && holds_private_key(dir_fd, entry->d_name))) {
        return add_mask(s, 'w', "", 0, err);
    }
    if (type != DT_DIR && is_git_config(s->path, len, entry->d_name)) {
        return clean_git_config(s, dir_fd, entry->d_name, err);
    }
    if (type == DT_UNKNOWN && fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
    }
    if (type == DT_DIR) {
        return enter(s, dir_fd, len + name_len, depth, err);
    }
    return type == DT_REG && !is_ordinary_name(entry->d_name) && !is_packed(s->path, len) &&
                   is_key_file(dir_fd, entry->d_name)
               ? add_mask(s, 'w', "", 0, err)
               : 0;
}

/* Walk everything below the folder fd (consumed). -1 with errno: see may_pass_over. */
static int walk(struct scan *s, int fd, size_t len, int depth, struct snp_err *err)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int r = 0;

    if (dir == NULL) {
        int eno = errno;
        snp_closep(&fd);
        return may_pass_over(eno) ? 0 : snp_fail_sys(err, eno, "search the project for secrets");
    }
    if (depth > SNP_SECRETS_DEPTH_MAX) {
        r = snp_fail(err, SNP_E_LIMIT, "the project's folders are nested deeper than %d",
                     SNP_SECRETS_DEPTH_MAX);
    }
    errno = 0;
    while (r == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            r = visit(s, dirfd(dir), entry, len, depth, err);
        }
        errno = 0;
    }
    if (r == 0 && errno != 0) {
        r = snp_fail_sys(err, errno, "search the project for secrets");
    }
    (void)closedir(dir);
    return r;
}

int snp_secrets_scan(int dir_fd, struct snp_buf *mask, json_t *paths, struct snp_err *err)
{
    struct scan s = {.mask = mask, .paths = paths};

    return walk(&s, openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, 0, err);
}
