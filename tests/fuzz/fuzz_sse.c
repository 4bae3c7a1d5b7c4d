/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of events from servers. The same bytes, at once and one by one, must make the same events
 * or the same refusal; nothing is larger than it may be, texts end where they say.
 */
#include <string.h>

#include "base/http/sse.h"
#include "base/macro.h"
#include "fuzz/target.h"

enum {
    EVENT_MAX = 256,
    TOLD_MAX = 1 << 22,
};

static int on_event(void *ctx, const struct snp_sse_event *event, struct snp_err *err)
{
    struct snp_buf *told = ctx;

    (void)err;
    SNP_ASSERT(event->data_len <= EVENT_MAX && event->data[event->data_len] == '\0');
    SNP_ASSERT(strpbrk(event->id, "\r\n") == NULL && strpbrk(event->event, "\r\n") == NULL);
    SNP_ASSERT(snp_buf_addf(told, "%s|%s|%llu|", event->event, event->id,
                            (unsigned long long)event->retry_ms) == 0);
    SNP_ASSERT(snp_buf_add(told, event->data, event->data_len) == 0);
    return snp_buf_adds(told, "\n");
}

/* Feed in steps; what came of it goes to told. */
static int feed(const char *bytes, size_t n, size_t step, struct snp_buf *told)
{
    struct snp_sse sse;
    struct snp_err err;
    int r = 0;

    snp_buf_init(told, TOLD_MAX);
    snp_sse_init(&sse, EVENT_MAX, on_event, told);
    for (size_t at = 0; at < n && r == 0; at += step) {
        r = snp_sse_feed(&sse, bytes + at, step < n - at ? step : n - at, &err);
    }
    SNP_ASSERT(strlen(sse.id) < sizeof(sse.id));
    if (r == 0) {
        SNP_ASSERT(snp_buf_addf(told, "last %s %llu", sse.id, (unsigned long long)sse.retry_ms) ==
                   0);
    }
    snp_sse_done(&sse);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    snp_autobuf struct snp_buf whole = {0};
    snp_autobuf struct snp_buf single = {0};
    int r = feed((const char *)bytes, n, n == 0 ? 1 : n, &whole);

    SNP_ASSERT(feed((const char *)bytes, n, 1, &single) == r);
    SNP_ASSERT(
        whole.len == single.len &&
        (whole.len == 0 || memcmp(snp_buf_bytes(&whole), snp_buf_bytes(&single), whole.len) == 0));
    return 0;
}
