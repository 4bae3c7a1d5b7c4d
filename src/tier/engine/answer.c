/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/engine/answer.h"

#include <string.h>

#include "base/wire/result.h"
#include "base/wire/rpc.h"
#include "tier/engine/supervisor.h"

static void send_frame(struct snp_supervisor *supervisor,
                       uint8_t type,
                       uint32_t id,
                       const json_t *head,
                       const char *raw,
                       size_t raw_len)
{
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);
    struct snp_frame frame = {
        .type = type,
        .id = id,
        .head = text,
        .head_len = text == NULL ? 0 : strlen(text),
        .raw = raw,
        .raw_len = raw_len,
    };

    /* Answers are bounded by their makers. If one is too long, only its request fails. */
    if (frame.head_len > SNP_FRAME_HEAD_MAX ||
        frame.raw_len > SNP_FRAME_BODY_MAX - frame.head_len) {
        static const char error[] = "{\"code\":\"limit\",\"message\":\"the answer is too long\"}";
        frame.type = SNP_RPC_ERROR;
        frame.head = error;
        frame.head_len = sizeof(error) - 1;
        frame.raw_len = 0;
    }
    snp_link_send(&supervisor->daemon, &frame);
}

void snp_answer_response(struct snp_supervisor *supervisor,
                         uint32_t id,
                         const json_t *head,
                         const char *raw,
                         size_t raw_len)
{
    send_frame(supervisor, SNP_RPC_RESPONSE, id, head, raw, raw_len);
}

void snp_answer_event(struct snp_supervisor *supervisor,
                      uint32_t id,
                      const json_t *head,
                      const char *raw,
                      size_t raw_len)
{
    send_frame(supervisor, SNP_RPC_EVENT, id, head, raw, raw_len);
}

void snp_answer_error(struct snp_supervisor *supervisor, uint32_t id, const struct snp_err *err)
{
    snp_autojson json_t *head = snp_json_from_err(err);

    send_frame(supervisor, SNP_RPC_ERROR, id, head, NULL, 0);
}

void snp_answer_gone(struct snp_supervisor *supervisor, const char *session, const char *reason)
{
    snp_autojson json_t *head = json_pack("{s:s,s:s,s:o}", "event", "gone", "session", session,
                                          "reason", snp_json_bytes(reason, strlen(reason)));

    send_frame(supervisor, SNP_RPC_EVENT, 0, head, NULL, 0);
}

void snp_answer_process(struct snp_supervisor *supervisor,
                        const char *session,
                        uint64_t process,
                        int64_t exit_code,
                        const char *signal_name)
{
    snp_autojson json_t *head = SNP_WRITE(snp_event_process, .session = session, .process = process,
                                          .exit_code = exit_code, .signal = signal_name);

    send_frame(supervisor, SNP_RPC_EVENT, 0, head, NULL, 0);
}
