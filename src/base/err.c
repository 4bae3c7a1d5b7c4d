/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failure reports: filling, wrapping, and the names of the codes.
 *
 * Invariants: a message is one line (control bytes become spaces), always terminated,
 * and never cut in the middle of a UTF-8 sequence. Nothing here allocates, so all of it
 * may be used between fork and exec. A NULL record is accepted and only the code returned.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[] = {
    [-SNP_OK] = "ok",
    [-SNP_E_INVALID] = "invalid",
    [-SNP_E_NOT_FOUND] = "not_found",
    [-SNP_E_LIMIT] = "limit",
    [-SNP_E_DENIED] = "denied",
    [-SNP_E_UNSUPPORTED] = "unsupported",
    [-SNP_E_TIMEOUT] = "timeout",
    [-SNP_E_NOMEM] = "no_memory",
    [-SNP_E_SYS] = "system",
    [-SNP_E_PEER] = "peer",
    [-SNP_E_INTERNAL] = "internal",
};

_Static_assert(SNP_ARRAY_LEN(code_names) == 1 - SNP_CODE_MIN, "one name per code");

static const char *const remedy_names[] = {
    [SNP_REMEDY_NONE] = "",
    [SNP_REMEDY_RECOVER] = "recover",
    [SNP_REMEDY_RAISE_LIMIT] = "raise_limit",
    [SNP_REMEDY_SET_LIMIT] = "set_limit",
    [SNP_REMEDY_NEAR_NAME] = "near_name",
    [SNP_REMEDY_OTHER_NAME] = "other_name",
    [SNP_REMEDY_FORCE] = "force",
    [SNP_REMEDY_RECURSE] = "recurse",
    [SNP_REMEDY_CLEAR_SESSION] = "clear_session",
    [SNP_REMEDY_END_SESSION] = "end_session",
    [SNP_REMEDY_NO_SESSION] = "no_session",
    [SNP_REMEDY_TIER] = "tier",
    [SNP_REMEDY_WEAKER_TIER] = "weaker_tier",
    [SNP_REMEDY_ALLOW_DEGRADED] = "allow_degraded",
    [SNP_REMEDY_ALLOW_INEXACT] = "allow_inexact",
    [SNP_REMEDY_ADD_TEMPLATE] = "add_template",
    [SNP_REMEDY_RENEW_TEMPLATE] = "renew_template",
    [SNP_REMEDY_ALLOW_PYTHON] = "allow_python",
    [SNP_REMEDY_STATE_DIR] = "state_dir",
    [SNP_REMEDY_LOG_DIR] = "log_dir",
    [SNP_REMEDY_LIST_SESSIONS] = "list_sessions",
    [SNP_REMEDY_LIST_SNAPSHOTS] = "list_snapshots",
    [SNP_REMEDY_LIST_FILES] = "list_files",
    [SNP_REMEDY_FINGERPRINTS] = "fingerprints",
    [SNP_REMEDY_DOCTOR] = "doctor",
};

_Static_assert(SNP_ARRAY_LEN(remedy_names) == SNP_REMEDY_KINDS, "one name per remedy");

const char *const snp_recover_ways[] = {"replay", "skip", "checkpoint", NULL};

/* Length of text without a UTF-8 sequence that a cut at its end left unfinished. */
static size_t whole_utf8_len(const char *text)
{
    size_t len = strlen(text);
    size_t lead = len;
    while (lead > 0 && len - lead < 3 && ((unsigned char)text[lead - 1] & 0xC0U) == 0x80U) {
        lead--;
    }
    if (lead == 0) {
        return len;
    }
    unsigned char c = (unsigned char)text[lead - 1];
    size_t need = c >= 0xF0U ? 4 : c >= 0xE0U ? 3 : c >= 0xC0U ? 2 : 1;
    return len - (lead - 1) < need ? lead - 1 : len;
}

/* Copy text, NULL as "": one line, cut to fit. */
static void store(char *out, size_t size, const char *text)
{
    int n = snprintf(out, size, "%s", text == NULL ? "" : text);
    if (n < 0) {
        out[0] = '\0';
    } else if ((size_t)n >= size) {
        out[whole_utf8_len(out)] = '\0';
    }
    for (char *p = out; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20U || c == 0x7FU) {
            *p = ' ';
        }
    }
}

int snp_err_set(struct snp_err *err,
                enum snp_code code,
                int sys_errno,
                const char *func,
                int line,
                const char *fmt,
                ...)
{
    int saved = errno;
    if (err == NULL) {
        return code;
    }
    /* Arguments may point into err->msg, so everything is formatted before anything is stored. */
    char text[sizeof(err->msg) + 64];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0) {
        text[0] = '\0';
        n = 0;
    }
    if (sys_errno != 0 && (size_t)n < sizeof(text)) {
        errno = sys_errno; /* glibc's strerror_r and musl's differ */
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ": %m");
    }
    err->code = code;
    err->sys_errno = sys_errno;
    (void)snprintf(err->where, sizeof(err->where), "%.36s:%d", func, line);
    store(err->msg, sizeof(err->msg), text);
    err->object[0] = '\0';
    err->limit[0] = '\0';
    err->limit_value = 0;
    err->remedy = (struct snp_remedy){.kind = SNP_REMEDY_NONE};
    errno = saved;
    return code;
}

int snp_err_wrap(struct snp_err *err, const char *fmt, ...)
{
    int saved = errno;
    if (err == NULL) {
        return SNP_E_INTERNAL;
    }
    char text[2 * sizeof(err->msg)];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0) {
        n = 0;
    }
    if ((size_t)n < sizeof(text)) {
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ": %s", err->msg);
    }
    store(err->msg, sizeof(err->msg), text);
    errno = saved;
    return err->code;
}

int snp_err_remedy(
    struct snp_err *err, int code, enum snp_remedy_kind kind, const char *name, int64_t value)
{
    if (err != NULL) {
        err->remedy.kind = kind;
        err->remedy.value = value;
        store(err->remedy.name, sizeof(err->remedy.name), name);
    }
    return code;
}

int snp_err_near(struct snp_err *err, int code, const char *near)
{
    char text[sizeof(err->msg) + sizeof(err->remedy.name) + 32];

    if (err != NULL && near != NULL) {
        (void)snprintf(text, sizeof(text), "%s; did you mean '%.130s'?", err->msg, near);
        store(err->msg, sizeof(err->msg), text);
        (void)snp_err_remedy(err, code, SNP_REMEDY_NEAR_NAME, near, 0);
    }
    return code;
}

void snp_err_lost(struct snp_err *err)
{
    struct snp_err said = *err;

    (void)snp_fail(err, said.code,
                   "%.300s; the next call restores the session, or names the cells that are "
                   "missing",
                   said.msg);
}

void snp_err_about(struct snp_err *err, const char *object)
{
    if (err != NULL) {
        store(err->object, sizeof(err->object), object);
    }
}

void snp_err_limit(struct snp_err *err, const char *limit, int64_t value)
{
    if (err != NULL) {
        store(err->limit, sizeof(err->limit), limit);
        err->limit_value = value;
    }
}

const char *snp_remedy_name(enum snp_remedy_kind kind)
{
    return kind < 0 || kind >= SNP_REMEDY_KINDS ? "" : remedy_names[kind];
}

enum snp_remedy_kind snp_remedy_from_name(const char *name)
{
    for (int i = 1; name != NULL && i < SNP_REMEDY_KINDS; i++) {
        if (strcmp(name, remedy_names[i]) == 0) {
            return (enum snp_remedy_kind)i;
        }
    }
    return SNP_REMEDY_NONE;
}

const char *snp_code_name(int code)
{
    if (code > 0 || code < SNP_CODE_MIN) {
        return code_names[-SNP_E_INTERNAL];
    }
    return code_names[-code];
}

enum snp_code snp_code_from_name(const char *name)
{
    for (int i = 0; name != NULL && i < (int)SNP_ARRAY_LEN(code_names); i++) {
        if (strcmp(name, code_names[i]) == 0) {
            return (enum snp_code)(-i);
        }
    }
    return SNP_E_INTERNAL;
}

int snp_code_exit(int code)
{
    if (code == SNP_OK) {
        return 0;
    }
    return code == SNP_E_INVALID ? 2 : 1;
}
