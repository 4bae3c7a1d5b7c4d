/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/tier.h"
#include "store/checkpoint.h"
#include "wire/tier.h"

enum {
    FAILED_MAX = 1000, /* variables named that could not be restored */
};

struct load {
    unsigned pending; /* ends of the pipe */
    bool is_damaged;
    json_t *failed;     /* owned */
    struct snp_err err; /* the first error */
    snp_load_done *done;
    void *ctx;
};

static void load_end(struct load *load)
{
    bool is_ok = load->err.code == SNP_OK;

    load->pending--;
    if (load->pending > 0) {
        return;
    }
    if (load->is_damaged) {
        load->err.code = SNP_E_NOT_FOUND;
    } else if (load->err.code == SNP_E_NOT_FOUND) {
        load->err.code = SNP_E_PEER; /* the tier does not know the executor (any more) */
    }
    load->done(load->ctx, is_ok ? load->failed : NULL, is_ok ? NULL : &load->err);
    json_decref(load->failed);
    free(load);
}

static void written(void *arg,
                    const struct snp_checkpoint_report *report,
                    const struct snp_err *err)
{
    struct load *load = arg;

    (void)report;
    /* The reader's own error says more than "the reader closed the pipe". */
    load->is_damaged = err->code == SNP_E_NOT_FOUND;
    if (err->code != SNP_OK &&
        (load->err.code == SNP_OK || load->is_damaged || err->code == SNP_E_UNSUPPORTED)) {
        load->err = *err;
    }
    load_end(load);
}

static int loaded(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct load *load = ctx;

    (void)ret_bad;
    if (answer->head == NULL && !load->is_damaged && load->err.code != SNP_E_UNSUPPORTED) {
        load->err = *answer->err;
    } else if (answer->head != NULL) {
        (void)json_array_extend(load->failed, json_object_get(answer->head, "failed"));
    }
    load_end(load);
    return 0;
}

static int ask(struct load *load,
               struct snp_executor *executor,
               enum snp_load_effort effort,
               int *ret_fd,
               struct snp_err *err)
{
    struct snp_tier_call call = {
        .timeout_ms = SNP_CAP_TIER_LOAD_MS,
        .answer = &snp_tier_load_answer_form,
        .done = loaded,
        .ctx = load,
    };
    int ends[2];
    int r;

    SNP_TRY_MEMORY(load->failed, err);
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    call.head = SNP_WRITE(snp_tier_load_request, .session = executor->id, .epoch = executor->epoch,
                          .effort = effort);
    call.has_fd = true;
    call.fd = ends[0];
    r = snp_tier_ask(executor->tier, &call, err);
    if (r < 0) {
        (void)close(ends[1]);
        return r;
    }
    *ret_fd = ends[1];
    return 0;
}

int snp_load_start(struct snp_executor *executor,
                   uint64_t checkpoint,
                   enum snp_load_effort effort,
                   snp_load_done *done,
                   void *ctx,
                   struct snp_err *err)
{
    struct load *load = calloc(1, sizeof(*load));
    int fd = -1;
    int r;

    SNP_TRY_MEMORY(load, err);
    *load = (struct load){.pending = 1, .failed = json_array(), .done = done, .ctx = ctx};
    r = ask(load, executor, effort, &fd, err);
    if (r < 0) {
        json_decref(load->failed);
        free(load);
        return r;
    }
    if (snp_checkpoint_load(executor->server->store, fd,
                            &(struct snp_checkpoint_load){.checkpoint = checkpoint,
                                                          .wants_image = effort == SNP_LOAD_IMAGE,
                                                          .done = written,
                                                          .arg = load},
                            &load->err) == 0) {
        load->pending++;
    } /* else the tier meets the end of the pipe, and its answer ends it */
    return 0;
}

static int cloned(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct load *load = ctx;

    (void)ret_bad;
    load->done(load->ctx, answer->head == NULL ? NULL : load->failed, answer->err);
    json_decref(load->failed);
    free(load);
    return 0;
}

int snp_load_clone(struct snp_executor *executor,
                   const struct snp_load_origin *origin,
                   snp_load_done *done,
                   void *ctx,
                   struct snp_err *err)
{
    struct load *load = calloc(1, sizeof(*load));
    struct snp_tier_call call = {
        .timeout_ms = SNP_CAP_TIER_LOAD_MS,
        .answer = &snp_tier_clone_answer_form,
        .done = cloned,
        .ctx = load,
    };
    int r;

    SNP_TRY_MEMORY(load, err);
    *load = (struct load){.failed = json_array(), .done = done, .ctx = ctx};
    call.head =
        SNP_WRITE(snp_tier_clone_request, .session = executor->id, .from = origin->executor->id,
                  .epoch = origin->epoch, .cell = origin->cell);
    r = load->failed == NULL || executor->tier != origin->executor->tier
            ? snp_fail(err, SNP_E_UNSUPPORTED, "the session is in another tier")
            : 0;
    if (r < 0) {
        json_decref(call.head);
    } else {
        r = snp_tier_ask(executor->tier, &call, err);
    }
    if (r < 0) {
        json_decref(load->failed);
        free(load);
    }
    return r;
}
