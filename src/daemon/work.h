/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_WORK_H
#define SNP_DAEMON_WORK_H

/* A checked request for the handler of its method. */

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

struct snp_executor;
struct snp_method_form;
struct snp_request;
struct snp_session;
struct snp_tier;

/*
 * A request whose preconditions hold. All members except the request are borrowed until the handler
 * returns.
 */
struct snp_work {
    struct snp_request *request; /* owned by the handler */
    const struct snp_method_form *method;
    json_t *head; /* checked */
    const char *raw;
    size_t raw_len;
    struct snp_session *session;   /* with NEEDS_SESSION or NEEDS_LIVE */
    struct snp_executor *executor; /* with NEEDS_LIVE */
    struct snp_tier *tier;         /* with NEEDS_TIER or NEEDS_LIVE */
};

/*
 * Run a handler as a coroutine. It answers the request, or fails, and the failure is the answer.
 * `work` is borrowed until its first wait.
 */
typedef int snp_work_fn(const struct snp_work *work, struct snp_err *err);
void snp_work_start(const struct snp_work *work, snp_work_fn *run);

/* Handlers in separate files. */
void snp_run_checkpoint(const struct snp_work *work);
void snp_run_hibernate(const struct snp_work *work);
void snp_run_move(const struct snp_work *work);
void snp_run_set(const struct snp_work *work);
void snp_run_gc(const struct snp_work *work);
void snp_run_history(const struct snp_work *work);
void snp_run_cell_show(const struct snp_work *work);
void snp_run_events(const struct snp_work *work);
void snp_run_snapshot(const struct snp_work *work);
void snp_run_snapshots_list(const struct snp_work *work);
void snp_run_snapshots_remove(const struct snp_work *work);
void snp_run_rollback(const struct snp_work *work);
void snp_run_fork(const struct snp_work *work);
void snp_run_diff(const struct snp_work *work);
void snp_run_blob(const struct snp_work *work);
void snp_run_export(const struct snp_work *work);
void snp_run_import_begin(const struct snp_work *work);
void snp_run_import_data(const struct snp_work *work);
void snp_run_import_end(const struct snp_work *work);

#endif
