/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/load.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "daemon/co.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/tier.h"
#include "store/checkpoint.h"
#include "wire/tier.h"

static void written(void *arg,
                    const struct snp_checkpoint_report *report,
                    const struct snp_err *err)
{
    (void)report;
    snp_await_ended(arg, err);
}

int snp_load(struct snp_executor *executor,
             uint64_t checkpoint,
             enum snp_load_effort effort,
             bool *ret_is_sent,
             json_t **ret_failed,
             struct snp_err *err)
{
    struct snp_await reading = {0};
    struct snp_await writing = {0};
    struct snp_tier_call call = {
        .timeout_ms = SNP_CAP_TIER_LOAD_MS,
        .answer = &snp_tier_load_answer_form,
        .done = snp_tier_answered,
        .ctx = &reading,
        .has_fd = true,
    };
    struct snp_err why = {.code = SNP_OK};
    snp_autojson json_t *answer = NULL;
    int ends[2];
    int r;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    call.head = SNP_WRITE(snp_tier_load_request, .session = executor->id, .epoch = executor->epoch,
                          .effort = effort);
    call.fd = ends[0];
    r = snp_tier_ask(executor->tier, &call, err);
    if (r < 0) {
        (void)close(ends[1]);
        return r;
    }
    *ret_is_sent = true;
    if (snp_checkpoint_load(executor->server->store, ends[1],
                            &(struct snp_checkpoint_load){.checkpoint = checkpoint,
                                                          .wants_image = effort == SNP_LOAD_IMAGE,
                                                          .files_first = effort != SNP_LOAD_IMAGE,
                                                          .done = written,
                                                          .arg = &writing},
                            &why) < 0) {
        snp_await_end(&writing, NULL, &why); /* the tier meets the end of the pipe */
    }
    r = snp_await(&reading, &answer, err);
    (void)snp_await(&writing, NULL, &why);
    /* The reader's own error says more than "the reader closed the pipe". */
    if (why.code == SNP_E_NOT_FOUND || why.code == SNP_E_UNSUPPORTED ||
        (r == 0 && why.code != SNP_OK)) {
        *err = why;
        return why.code;
    }
    if (r < 0) {
        /* Not found: the tier does not know the executor (any more). */
        return err->code = r == SNP_E_NOT_FOUND ? SNP_E_PEER : r;
    }
    *ret_failed = json_incref(json_object_get(answer, "failed"));
    return 0;
}

int snp_load_clone(struct snp_executor *executor,
                   const struct snp_load_origin *origin,
                   struct snp_err *err)
{
    struct snp_tier_call call = {.timeout_ms = SNP_CAP_TIER_LOAD_MS,
                                 .answer = &snp_tier_clone_answer_form};

    if (executor->tier != origin->executor->tier) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "the session is in another tier");
    }
    call.head =
        SNP_WRITE(snp_tier_clone_request, .session = executor->id, .from = origin->executor->id,
                  .epoch = origin->epoch, .cell = origin->cell);
    return snp_tier_await(executor->tier, &call, NULL, err);
}
