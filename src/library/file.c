/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a session, in parts of 1 MiB. */
#include "base/wire/file.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "library/library.h"

enum {
    GET_MOST = 1 << 30,
};

static bool put_more(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len);
static bool get_more(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len);

static struct snipara_call *new_transfer(struct snipara *box, const char *session, const char *path)
{
    struct snipara_call *call = snp_call_new(box);
    struct snp_err err;

    if (call == NULL) {
        return NULL;
    }
    call->session = session == NULL ? NULL : strdup(session);
    call->path = path == NULL ? NULL : strdup(path);
    if (call->session == NULL || call->path == NULL) {
        (void)snp_fail(&err, session == NULL || path == NULL ? SNP_E_INVALID : SNP_E_NOMEM,
                       session == NULL || path == NULL ? "give a session and a path"
                                                       : "out of memory");
        return snp_call_fail(call, &err);
    }
    return call;
}

/* Put ---------------------------------------------------------------------------------------- */

static struct snipara_call *put_part(struct snipara_call *call)
{
    size_t rest = call->data.len - call->at;
    size_t n = rest < SNP_FILE_CHUNK_MAX ? rest : SNP_FILE_CHUNK_MAX;
    size_t at = call->at;

    call->at +=
        n < SNP_FILE_CHUNK_MAX ? n + 1 : n; /* a shorter part is the last; it may be empty */
    return snp_call_ask(call,
                        SNP_WRITE(snp_put_request, .session = call->session, .path = call->path,
                                  .offset = at, .truncate = true, .mode = call->mode),
                        n == 0 ? NULL : snp_buf_bytes(&call->data) + at, n);
}

static bool put_more(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len)
{
    (void)answer;
    (void)raw;
    (void)raw_len;
    if (call->at > call->data.len) {
        snp_buf_done(&call->data);
        return false;
    }
    (void)put_part(call);
    return true;
}

struct snipara_call *snipara_put(struct snipara *box,
                                 const char *session,
                                 const char *path,
                                 const void *data,
                                 size_t len,
                                 unsigned mode)
{
    struct snipara_call *call = new_transfer(box, session, path);
    struct snp_err err;

    if (call == NULL || call->is_done) {
        return call;
    }
    call->mode = mode;
    call->more = put_more;
    if (len > 0 && snp_buf_add(&call->data, data, len) < 0) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        return snp_call_fail(call, &err);
    }
    return put_part(call);
}

/* Get ---------------------------------------------------------------------------------------- */

static struct snipara_call *get_part(struct snipara_call *call)
{
    return snp_call_ask(call,
                        SNP_WRITE(snp_get_request, .session = call->session, .path = call->path,
                                  .offset = call->data.len, .length = SNP_FILE_CHUNK_MAX),
                        NULL, 0);
}

static bool get_more(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len)
{
    struct snp_get_answer got;
    struct snp_err err;

    snp_record_read(answer, &snp_get_answer_form, &got);
    if (got.size > call->most) {
        (void)snp_fail(&err, SNP_E_LIMIT, "%.200s has %llu bytes, more than the requested %zu",
                       call->path, (unsigned long long)got.size, call->most);
        snp_err_about(&err, call->path);
        snp_err_limit(&err, "most", (int64_t)call->most);
        (void)snp_err_remedy(&err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "most", (int64_t)got.size);
        (void)snp_call_fail(call, &err);
        return true;
    }
    if (raw_len > 0 && snp_buf_add(&call->data, raw, raw_len) < 0) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        (void)snp_call_fail(call, &err);
        return true;
    }
    if (got.eof || raw_len == 0) {
        return false;
    }
    (void)get_part(call);
    return true;
}

struct snipara_call *snipara_get(struct snipara *box,
                                 const char *session,
                                 const char *path,
                                 size_t most)
{
    struct snipara_call *call = new_transfer(box, session, path);

    if (call == NULL || call->is_done) {
        return call;
    }
    call->most = most == 0 ? GET_MOST : most;
    call->more = get_more;
    return get_part(call);
}

struct snipara_call *snipara_list(struct snipara *box, const char *session, const char *path)
{
    return snp_call_ask(snp_call_new(box),
                        SNP_WRITE(snp_ls_request, .session = session,
                                  .path = path == NULL || *path == '\0' ? "." : path),
                        NULL, 0);
}
