/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `diff` and `blob`: find two checkpoints (source.h), one after the other, and compare them in one
 * job; read contents that differ. The second side comes first: it may be a session whose first
 * snapshot, the other side, is still being saved, and its turn is after that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/snapshot/compare.h"
#include "daemon/snapshot/source.h"
#include "daemon/work.h"
#include "store/blob.h"
#include "wire/file.h"
#include "wire/rpc.h"
#include "wire/snapshot.h"

struct comparing {
    struct snp_request *request; /* owned */
    struct snp_server *server;   /* borrowed */
    char refs[2][SNP_SOURCE_REF_MAX + 1];
    uint64_t checkpoints[2];
    json_t *lost[2];               /* owned */
    int at;                        /* the one being found: 1, then 0; -1 = both are found */
    struct snp_diff_answer answer; /* variables and files are owned; made by the store's thread */
};

static void source_found(void *ctx, const struct snp_source *source, const struct snp_err *err);

static void answer_clear(struct snp_diff_answer *answer)
{
    json_decref(SNP_TAKE_PTR(answer->variables));
    json_decref(SNP_TAKE_PTR(answer->files));
}

static void comparing_free(struct comparing *comparing)
{
    json_decref(comparing->lost[0]);
    json_decref(comparing->lost[1]);
    answer_clear(&comparing->answer);
    free(comparing);
}

static int run_compare(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct comparing *comparing = arg;

    answer_clear(&comparing->answer);
    return snp_compare(tx, comparing->checkpoints[0], comparing->checkpoints[1], &comparing->answer,
                       err);
}

static void compared(void *arg, const struct snp_err *compare_err)
{
    struct comparing *comparing = arg;
    const struct snp_err err = *compare_err;

    if (err.code != SNP_OK) {
        snp_request_fail(comparing->request, &err);
    } else {
        comparing->answer.lost_a = comparing->lost[0];
        comparing->answer.lost_b = comparing->lost[1];
        snp_request_answer(comparing->request,
                           snp_record_write(&snp_diff_answer_form, &comparing->answer));
    }
    comparing_free(comparing);
}

static void next_find(struct comparing *comparing)
{
    if (comparing->at == 0 && comparing->refs[0][0] == '\0') { /* empty: checkpoint 0 */
        comparing->lost[0] = json_array();
        comparing->at = -1;
    }
    if (comparing->at >= 0) {
        snp_source_find(comparing->server, comparing->refs[comparing->at], source_found, comparing);
    } else {
        SNP_STORE_DO(comparing->server->store, .run = run_compare, .done = compared,
                     .arg = comparing);
    }
}

static void source_found(void *ctx, const struct snp_source *source, const struct snp_err *err)
{
    struct comparing *comparing = ctx;

    if (err != NULL) {
        snp_request_fail(comparing->request, err);
        comparing_free(comparing);
        return;
    }
    comparing->checkpoints[comparing->at] = source->checkpoint;
    comparing->lost[comparing->at] = json_incref(source->lost);
    comparing->at--;
    next_find(comparing);
}

void snp_run_diff(const struct snp_work *work)
{
    struct comparing *comparing = snp_request_state(work->request, sizeof(*comparing));
    struct snp_diff_request asked;

    if (comparing == NULL) {
        return;
    }
    snp_record_read(work->head, &snp_diff_request_form, &asked);
    comparing->request = work->request;
    comparing->server = work->request->server;
    (void)snprintf(comparing->refs[0], sizeof(comparing->refs[0]), "%s",
                   asked.a == NULL ? "" : asked.a);
    (void)snprintf(comparing->refs[1], sizeof(comparing->refs[1]), "%s", asked.b);
    comparing->at = 1;
    next_find(comparing);
}

/* blob ----------------------------------------------------------------------------------------- */

struct blob_read {
    struct snp_request *request; /* owned */
    char hash[SNP_STORE_HASH_LEN + 1];
    uint64_t offset;
    uint64_t length;
    /* Written by the store's thread. */
    struct snp_buf bytes; /* owned */
    uint64_t size;
};

static int run_read(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct blob_read *reading = arg;
    const struct snp_blob_range range = {reading->hash, reading->offset, reading->length};
    struct snp_blob_info info;
    int r;

    snp_buf_clear(&reading->bytes);
    r = snp_blob_read(tx, &range, &reading->bytes, &info, err);
    reading->size = r < 0 ? 0 : info.size;
    return r;
}

static void was_read(void *arg, const struct snp_err *err)
{
    struct blob_read *reading = arg;
    char head[128];
    int n;

    if (err->code != SNP_OK) {
        snp_request_fail(reading->request, err);
    } else {
        n = snprintf(head, sizeof(head), "{\"size\":%llu,\"eof\":%s}",
                     (unsigned long long)reading->size,
                     reading->offset + reading->bytes.len >= reading->size ? "true" : "false");
        snp_request_pass(reading->request, head, (size_t)n, snp_buf_bytes(&reading->bytes),
                         reading->bytes.len);
    }
    snp_buf_done(&reading->bytes);
    free(reading);
}

void snp_run_blob(const struct snp_work *work)
{
    struct snp_blob_request asked;
    struct blob_read *reading;

    snp_record_read(work->head, &snp_blob_request_form, &asked);
    if (strlen(asked.hash) != SNP_STORE_HASH_LEN ||
        strspn(asked.hash, "0123456789abcdef") != SNP_STORE_HASH_LEN) {
        snp_request_refuse(work->request, SNP_E_INVALID,
                           "blob: 'hash' must be %d lower-case hex digits", SNP_STORE_HASH_LEN);
        return;
    }
    reading = snp_request_state(work->request, sizeof(*reading));
    if (reading == NULL) {
        return;
    }
    *reading = (struct blob_read){
        .request = work->request, .offset = asked.offset, .length = asked.length};
    memcpy(reading->hash, asked.hash, SNP_STORE_HASH_LEN + 1);
    snp_buf_init(&reading->bytes, SNP_FILE_CHUNK_MAX);
    SNP_STORE_DO(work->request->server->store, .run = run_read, .done = was_read, .arg = reading);
}
