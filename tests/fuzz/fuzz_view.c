/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command shows of a cell: a result, then events, each a JSON head, a NUL, one
 * byte of length and so many raw bytes. The JSON it prints is JSON, the exit status is one, and
 * nothing that is told on standard error can steer a terminal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/session/result.h"
#include "fuzz/target.h"

struct cursor {
    const char *at;
    size_t left;
};

/* Where standard output and error are while one input is tried. */
struct streams {
    FILE *saved[2];
    char *text[2];
    size_t len[2];
};

static void streams_take(struct streams *s)
{
    *s = (struct streams){.saved = {stdout, stderr}};
    stdout = open_memstream(&s->text[0], &s->len[0]);
    stderr = open_memstream(&s->text[1], &s->len[1]);
    SNP_ASSERT(stdout != NULL && stderr != NULL);
}

static void streams_give_back(struct streams *s)
{
    (void)fclose(stdout);
    (void)fclose(stderr);
    stdout = s->saved[0];
    stderr = s->saved[1];
}

static bool next(struct cursor *c, json_t **ret_head, const char **ret_raw, size_t *ret_len)
{
    const char *nul = c->left == 0 ? NULL : memchr(c->at, 0, c->left);
    size_t head_len = nul == NULL ? c->left : (size_t)(nul - c->at);
    size_t len = nul != NULL && head_len + 1 < c->left ? (unsigned char)nul[1] : 0;
    size_t skip = head_len + (nul == NULL ? 0 : head_len + 1 < c->left ? 2 : 1);
    struct snp_err err;

    if (c->left == 0 || snp_json_parse(c->at, head_len, ret_head, &err) < 0) {
        return false;
    }
    len = len < c->left - skip ? len : c->left - skip;
    *ret_raw = c->at + skip;
    *ret_len = len;
    c->at += skip + len;
    c->left -= skip + len;
    return true;
}

static void check_json(const struct snp_view *view, json_t *head)
{
    snp_autojson json_t *result = snp_view_result(view, head);
    snp_autofree char *text = NULL;
    snp_autojson json_t *again = NULL;
    struct snp_err err;

    SNP_ASSERT(result != NULL && json_object_get(result, "stdout") != NULL);
    text = snp_json_text(result);
    SNP_ASSERT(text != NULL);
    SNP_ASSERT(snp_json_parse(text, strlen(text), &again, &err) == 0);
    SNP_ASSERT(json_equal(again, result) != 0);
}

static void show(struct cursor c, bool is_live)
{
    struct snp_view view;
    struct streams streams;
    snp_autojson json_t *result = NULL;
    const char *raw;
    size_t len = 0;
    struct snp_err err;
    int status;

    if (!next(&c, &result, &raw, &len)) {
        return;
    }
    /* Which is output, and in a pipe stays as it is. */
    (void)json_object_del(json_object_get(result, "error"), "traceback");
    streams_take(&streams);
    snp_view_init(&view, is_live, NULL);
    for (;;) {
        snp_autojson json_t *event = NULL;
        if (!next(&c, &event, &raw, &len) || snp_view_event(&view, event, raw, len, &err) < 0) {
            break;
        }
    }
    if (!is_live) {
        check_json(&view, result);
    }
    (void)snp_view_finish(&view, result);
    for (enum snp_exit_of of = SNP_EXIT_OF_PYTHON; of <= SNP_EXIT_OF_COMMAND; of++) {
        status = snp_result_exit(result, of);
        SNP_ASSERT(status >= 0 && status <= 255);
    }
    snp_view_done(&view);
    streams_give_back(&streams);
    for (size_t i = 0; !is_live && i < streams.len[1]; i++) {
        unsigned char byte = (unsigned char)streams.text[1][i];
        SNP_ASSERT(byte >= 0x20 || byte == '\n' || byte == '\t');
        SNP_ASSERT(byte != 0x7f);
    }
    free(streams.text[0]);
    free(streams.text[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const struct cursor c = {(const char *)bytes, n};

    show(c, false);
    show(c, true);
    return 0;
}
