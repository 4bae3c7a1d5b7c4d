/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandboxes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_ready(uv_poll_t *poll, int status, int events)
{
    const struct snp_sandboxes *sandboxes = poll->data;

    (void)status;
    (void)events;
    (void)snipara_step(sandboxes->sandbox);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

int snp_sandboxes_new(uv_loop_t *loop, struct snp_sandboxes **ret, struct snp_err *err)
{
    struct snp_sandboxes *sandboxes = calloc(1, sizeof(*sandboxes));

    SNP_TRY_MEMORY(sandboxes != NULL, err);
    sandboxes->poll.data = sandboxes;
    if (snipara_connect(SNIPARA_OPTIONS(.later = true), &sandboxes->sandbox) != NULL ||
        uv_poll_init(loop, &sandboxes->poll, snipara_fd(sandboxes->sandbox)) < 0) {
        snipara_close(sandboxes->sandbox);
        free(sandboxes);
        return snp_fail(err, SNP_E_SYS, "no event loop");
    }
    (void)uv_poll_start(&sandboxes->poll, UV_READABLE, on_ready);
    *ret = sandboxes;
    return 0;
}

void snp_sandboxes_free(struct snp_sandboxes *sandboxes)
{
    if (sandboxes != NULL) {
        uv_close((uv_handle_t *)&sandboxes->poll,
                 on_closed); /* stops watching before the close below */
        snipara_close(SNP_TAKE_PTR(sandboxes->sandbox));
    }
}

int snp_sandbox_error(const struct snipara_call *call, struct snp_err *err)
{
    const struct snipara_error *error = snipara_call_error(call);

    if (error == NULL) {
        return 0;
    }
    *err = (struct snp_err){
        .code = (enum snp_code)error->code,
        .sys_errno = error->system_error,
        .limit_value = error->limit_value,
        .remedy = {.kind = snp_remedy_from_name(error->remedy), .value = error->remedy_value}};
    (void)snprintf(err->where, sizeof(err->where), "%s", __func__);
    (void)snprintf(err->msg, sizeof(err->msg), "%s", error->message);
    (void)snprintf(err->object, sizeof(err->object), "%s", error->object);
    (void)snprintf(err->limit, sizeof(err->limit), "%s", error->limit);
    (void)snprintf(err->remedy.name, sizeof(err->remedy.name), "%s", error->remedy_name);
    return err->code;
}

int snp_sandbox_answer(struct snipara_call *call, json_t **ret, struct snp_err *err)
{
    snp_autocall struct snipara_call *owned SNP_UNUSED = call;
    const char *text;

    SNP_TRY(snp_sandbox_error(call, err));
    if (ret == NULL) {
        return 0;
    }
    text = snipara_json(call);
    SNP_TRY_MEMORY(text != NULL, err);
    return snp_json_parse(text, strlen(text), ret, err);
}
