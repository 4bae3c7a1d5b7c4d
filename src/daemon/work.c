/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/work.h"

#include "daemon/co.h"
#include "daemon/request.h"

struct started {
    const struct snp_work *work;
    snp_work_fn *run;
};

static void run(void *arg)
{
    const struct started *started = arg;
    struct snp_request *request = started->work->request;
    struct snp_err err;

    if (started->run(started->work, &err) < 0) {
        snp_request_fail(request, &err);
    }
}

void snp_work_start(const struct snp_work *work, snp_work_fn *fn)
{
    struct started started = {.work = work, .run = fn};
    struct snp_err err;

    if (snp_co_start(run, &started, &err) < 0) {
        snp_request_fail(work->request, &err);
    }
}
