/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/work.h"

#include "daemon/co.h"
#include "daemon/request.h"

struct started {
    const struct snp_work *work;
    snp_work_fn *run;
};

static void work_run(void *arg)
{
    const struct started *started = arg;
    struct snp_request *request = started->work->request;
    struct snp_err err;

    if (started->run(started->work, &err) < 0) {
        snp_request_fail(request, &err);
    }
}

void snp_work_start(const struct snp_work *work, snp_work_fn *run)
{
    struct started started = {.work = work, .run = run};
    struct snp_err err;

    if (snp_co_start(work_run, &started, &err) < 0) {
        snp_request_fail(work->request, &err);
    }
}
