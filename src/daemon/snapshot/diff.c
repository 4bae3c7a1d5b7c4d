/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `diff` and `blob`: find two checkpoints (source.h), one after the other, and compare them in one
 * job; read contents that differ. The second side comes first: it may be a session whose first
 * snapshot, the other side, is still being saved, and its turn is after that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/file.h"
#include "base/wire/rpc.h"
#include "base/wire/snapshot.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/snapshot/compare.h"
#include "daemon/snapshot/source.h"
#include "daemon/store_wait.h"
#include "daemon/work.h"
#include "store/blob.h"

struct comparing {
    uint64_t checkpoints[2];
    json_t *lost[2];               /* owned */
    struct snp_diff_answer answer; /* variables and files are owned; made by the store's thread */
};

static void answer_clear(struct snp_diff_answer *answer)
{
    json_decref(SNP_TAKE_PTR(answer->variables));
    json_decref(SNP_TAKE_PTR(answer->files));
}

static void comparing_done(struct comparing *comparing)
{
    json_decref(comparing->lost[0]);
    json_decref(comparing->lost[1]);
    answer_clear(&comparing->answer);
}

static int run_compare(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct comparing *comparing = arg;

    answer_clear(&comparing->answer);
    return snp_compare(tx, comparing->checkpoints[0], comparing->checkpoints[1], &comparing->answer,
                       err);
}

static int run_diff(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(comparing_done) struct comparing comparing = {0};
    char refs[2][SNP_SOURCE_REF_MAX + 1];
    struct snp_diff_request asked;

    snp_record_read(work->head, &snp_diff_request_form, &asked);
    (void)snprintf(refs[0], sizeof(refs[0]), "%s", asked.a == NULL ? "" : asked.a);
    (void)snprintf(refs[1], sizeof(refs[1]), "%s", asked.b);
    for (int i = 1; i >= 0; i--) {
        struct snp_source source;

        if (i == 0 && refs[i][0] == '\0') { /* empty: checkpoint 0 */
            comparing.lost[i] = json_array();
            continue;
        }
        SNP_TRY(snp_source_find(request->server, refs[i], &source, err));
        comparing.checkpoints[i] = source.checkpoint;
        comparing.lost[i] = json_incref(source.lost);
        snp_source_done(&source);
    }
    SNP_TRY(snp_store_await(request->server->store, run_compare, &comparing, err));
    comparing.answer.lost_a = comparing.lost[0];
    comparing.answer.lost_b = comparing.lost[1];
    snp_request_answer(request, snp_record_write(&snp_diff_answer_form, &comparing.answer));
    return 0;
}

void snp_run_diff(const struct snp_work *work)
{
    snp_work_start(work, run_diff);
}

/* blob ----------------------------------------------------------------------------------------- */

struct blob_read {
    char hash[SNP_STORE_HASH_LEN + 1];
    uint64_t offset;
    uint64_t length;
    /* Written by the store's thread. */
    struct snp_buf bytes; /* owned */
    uint64_t size;
};

static void blob_read_done(struct blob_read *reading)
{
    snp_buf_done(&reading->bytes);
}

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

static int run_blob(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(blob_read_done) struct blob_read reading = {0};
    struct snp_blob_request asked;
    char head[128];
    int n;

    snp_record_read(work->head, &snp_blob_request_form, &asked);
    if (strlen(asked.hash) != SNP_STORE_HASH_LEN ||
        strspn(asked.hash, "0123456789abcdef") != SNP_STORE_HASH_LEN) {
        return snp_fail(err, SNP_E_INVALID, "blob: 'hash' must be %d lower-case hex digits",
                        SNP_STORE_HASH_LEN);
    }
    reading.offset = asked.offset;
    reading.length = asked.length;
    memcpy(reading.hash, asked.hash, SNP_STORE_HASH_LEN + 1);
    snp_buf_init(&reading.bytes, SNP_FILE_CHUNK_MAX);
    SNP_TRY(snp_store_await(request->server->store, run_read, &reading, err));
    n = snprintf(head, sizeof(head), "{\"size\":%llu,\"eof\":%s}", (unsigned long long)reading.size,
                 reading.offset + reading.bytes.len >= reading.size ? "true" : "false");
    snp_request_pass(request, head, (size_t)n, snp_buf_bytes(&reading.bytes), reading.bytes.len);
    return 0;
}

void snp_run_blob(const struct snp_work *work)
{
    snp_work_start(work, run_blob);
}
