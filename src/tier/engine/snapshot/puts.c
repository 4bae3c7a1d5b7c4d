/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests are stored and repeated in order, so that parts of a large file and versions of one
 * file end in the same state. A put that arrives during the repetition is done at once and repeated
 * in its turn.
 */
#include "tier/engine/snapshot/puts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "guest/pid1/wire.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/inside.h"
#include "tier/engine/sandbox.h"

enum {
    BYTES_MAX = 16 << 20, /* for each cell */
    FRAMES_MAX = 4096,
};

static int append(struct snp_puts *puts, const struct snp_buf *raw)
{
    struct snp_buf *grown = NULL;
    struct snp_buf copy = {0};

    if (puts->n < FRAMES_MAX && raw->len <= BYTES_MAX - puts->bytes) {
        grown = realloc(puts->frame, (puts->n + 1) * sizeof(*grown));
    }
    if (grown == NULL) {
        return -1;
    }
    puts->frame = grown;
    snp_buf_init(&copy, raw->len);
    if (snp_buf_add(&copy, snp_buf_bytes(raw), raw->len) < 0) {
        return -1;
    }
    puts->frame[puts->n++] = copy;
    puts->bytes += raw->len;
    return 0;
}

void snp_puts_add(struct snp_sandbox *s, const struct snp_buf *raw)
{
    if (append(&s->puts, raw) < 0) {
        snp_cell_note(s, "files put while the cell ran exceed what can be put again (16 MiB, "
                         "4096 parts): if the cell is undone, the rest of them is undone too");
    }
}

static void on_put(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)bytes;
    (void)n;
    if (eno == EPIPE) {
        return;
    }
    if (eno != 0) {
        snp_log(SNP_LOG_ERROR, "put-again", "session=%s error=%s", s->spec.id,
                strerrordesc_np(eno));
        snp_cell_note(
            s, "a file put while the cell ran could not be put again after the cell was undone");
    }
    snp_puts_again(s, s->puts_cb);
}

void snp_puts_again(struct snp_sandbox *s, snp_puts_cb cb)
{
    struct snp_puts *puts = &s->puts;

    s->puts_cb = cb;
    if (puts->at < puts->n) {
        const struct snp_buf *put = &puts->frame[puts->at++];
        snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_PUT, snp_buf_bytes(put), put->len, -1), on_put, s);
    } else {
        cb(s);
    }
}

void snp_puts_forget(struct snp_sandbox *s)
{
    for (size_t i = 0; i < s->puts.n; i++) {
        snp_buf_done(&s->puts.frame[i]);
    }
    free(s->puts.frame);
    s->puts = (struct snp_puts){0};
}
