/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What providers of models answer. The first byte chooses the provider, and whether the rest is a
 * stream or one reply. A stream read whole and byte by byte must make the same message; the message
 * must be one that every provider can be sent again.
 */
#include <string.h>

#include "base/http/sse.h"
#include "base/str.h"
#include "fuzz/target.h"
#include "model/driver.h"
#include "model/retry.h"

enum {
    EVENT_MAX = 1 << 16,
};

struct reading {
    const struct snp_model_driver *driver;
    struct snp_model_reply reply;
};

static const struct snp_model_driver *const drivers[] = {
    &snp_model_openai,
    &snp_model_anthropic,
    &snp_model_gemini,
};

static int on_sse(void *ctx, const struct snp_sse_event *event, struct snp_err *err)
{
    struct reading *reading = ctx;
    snp_autojson json_t *data = NULL;
    int r = snp_json_parse(event->data, event->data_len, &data, err);

    return r < 0 ? r : reading->driver->event(&reading->reply, data, err);
}

/* The message a stream makes; NULL if it is refused. */
static json_t *read_stream(const struct snp_model_driver *driver,
                           const char *bytes,
                           size_t n,
                           size_t piece)
{
    struct reading reading = {.driver = driver};
    struct snp_sse sse;
    struct snp_err err;
    int r = 0;

    snp_model_reply_init(&reading.reply);
    snp_sse_init(&sse, EVENT_MAX, on_sse, &reading);
    for (size_t at = 0; r == 0 && at < n; at += piece) {
        r = snp_sse_feed(&sse, bytes + at, n - at < piece ? n - at : piece, &err);
    }
    json_t *message = r < 0 ? NULL : snp_model_reply_message(&reading.reply, 1);
    SNP_ASSERT(r < 0 || message != NULL);
    snp_sse_done(&sse);
    snp_model_reply_done(&reading.reply);
    return message;
}

static json_t *read_whole(const struct snp_model_driver *driver, const char *bytes, size_t n)
{
    snp_autojson json_t *body = NULL;
    struct snp_model_reply reply;
    struct snp_err err;
    char why[SNP_MODEL_WHY_MAX];
    json_t *message = NULL;

    if (snp_json_parse(bytes, n, &body, &err) < 0) {
        return NULL;
    }
    snp_model_reply_init(&reply);
    if (driver->whole(&reply, body, &err) == 0) {
        message = snp_model_reply_message(&reply, 1);
        SNP_ASSERT(message != NULL);
    }
    if (reply.error != NULL) {
        (void)snp_model_classify(0, reply.error, why);
        SNP_ASSERT(strpbrk(why, "\n\r\x1b") == NULL && snp_utf8_count(why, strlen(why)) > 0);
    }
    snp_model_reply_done(&reply);
    return message;
}

/* What was said can be said again, to any of them. */
static void send_again(json_t *message)
{
    snp_autojson json_t *messages = json_pack("[O]", message);
    struct snp_model_request request = {.messages = messages};
    struct snp_model_job job = {.request = &request, .model = "m", .base_url = "http://x"};
    size_t i = 0;
    json_t *call = NULL;

    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        SNP_ASSERT(json_is_object(json_object_get(call, "arguments")));
        SNP_ASSERT(json_string_length(json_object_get(call, "id")) > 0);
    }
    for (i = 0; i < SNP_ARRAY_LEN(drivers); i++) {
        struct snp_model_wire wire;
        struct snp_err err;

        snp_model_wire_init(&wire);
        SNP_ASSERT(drivers[i]->write(&job, &wire, &err) == 0);
        snp_model_wire_done(&wire);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) {
        return 0;
    }
    const char *text = (const char *)bytes + 1;
    const struct snp_model_driver *driver = drivers[(bytes[0] >> 1) % SNP_ARRAY_LEN(drivers)];
    snp_autojson json_t *message = NULL;

    n--;
    if ((bytes[0] & 1) != 0) {
        message = read_whole(driver, text, n);
    } else {
        snp_autojson json_t *slow = read_stream(driver, text, n, 1);
        message = read_stream(driver, text, n, n == 0 ? 1 : n);
        SNP_ASSERT((message == NULL) == (slow == NULL));
        SNP_ASSERT(message == NULL || json_equal(message, slow));
    }
    if (message != NULL) {
        send_again(message);
    }
    return 0;
}
