/* SPDX-License-Identifier: Apache-2.0 */
/* The frame codec: byte layout, frames cut at every byte, every header field at its edge. */
#include "base/wire/frame.h"

#include <stdlib.h>
#include <string.h>

#include "unit/harness.h"

static const struct snp_frame sample = {
    .type = 2,
    .id = 0x01020304,
    .head = "{\"a\":1}",
    .head_len = 7,
    .raw = "raw\0!",
    .raw_len = 5,
};

static int peek(const struct snp_buf *buf, struct snp_frame *frame, size_t *size, bool *has)
{
    struct snp_err err;
    return snp_frame_peek(buf, SNP_FRAME_BODY_MAX, frame, size, has, &err);
}

TEST(layout_is_as_documented)
{
    static const unsigned char bytes[] = {12, 0, 0, 0, 4, 3, 2, 1, 7, 0, 0, 0, 2, 0, 0, 0};
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 100);
    assert_int_equal(snp_frame_write(&buf, &sample), 0);
    assert_int_equal(buf.len, 28);
    assert_memory_equal(snp_buf_bytes(&buf), bytes, sizeof(bytes));
    assert_memory_equal(snp_buf_bytes(&buf) + 16, "{\"a\":1}raw\0!", 12);
}

static void assert_sample(const struct snp_frame *frame)
{
    assert_int_equal(frame->type, sample.type);
    assert_int_equal(frame->id, sample.id);
    assert_int_equal(frame->head_len, sample.head_len);
    assert_memory_equal(frame->head, sample.head, sample.head_len);
    assert_int_equal(frame->raw_len, sample.raw_len);
    assert_memory_equal(frame->raw, sample.raw, sample.raw_len);
}

TEST(a_frame_cut_anywhere_waits_for_the_rest)
{
    snp_autobuf struct snp_buf whole;
    snp_buf_init(&whole, 100);
    assert_int_equal(snp_frame_write(&whole, &sample), 0);
    for (size_t cut = 0; cut <= whole.len; cut++) {
        struct snp_frame frame = {0};
        size_t size = 99;
        bool has = true;
        snp_autobuf struct snp_buf part;
        snp_buf_init(&part, 100);
        assert_int_equal(snp_buf_add(&part, snp_buf_bytes(&whole), cut), 0);
        assert_int_equal(peek(&part, &frame, &size, &has), 0);
        assert_int_equal(has, cut == whole.len);
        if (!has) {
            assert_int_equal(size, 99);
            assert_null(frame.head);
            assert_int_equal(snp_buf_add(&part, snp_buf_bytes(&whole) + cut, whole.len - cut), 0);
            assert_int_equal(peek(&part, &frame, &size, &has), 0);
            assert_true(has);
        }
        assert_int_equal(size, whole.len);
        assert_sample(&frame);
    }
}

TEST(frames_follow_each_other_byte_by_byte)
{
    snp_autobuf struct snp_buf whole;
    snp_autobuf struct snp_buf in;
    snp_buf_init(&whole, 4000);
    snp_buf_init(&in, 4000);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(snp_frame_write(&whole, &sample), 0);
    }
    int seen = 0;
    for (size_t i = 0; i < whole.len; i++) {
        struct snp_frame frame;
        size_t size = 0;
        bool has = false;
        assert_int_equal(snp_buf_add(&in, snp_buf_bytes(&whole) + i, 1), 0);
        assert_int_equal(peek(&in, &frame, &size, &has), 0);
        if (has) {
            assert_sample(&frame);
            snp_buf_consume(&in, size);
            seen++;
        }
    }
    assert_int_equal(seen, 50);
    assert_int_equal(in.len, 0);
}

struct raw_header {
    uint32_t body_len, id, head_len;
    uint8_t type, zero[3];
};

static int peek_header(const struct raw_header *header, size_t body_max, bool *has)
{
    struct snp_frame frame;
    struct snp_err err;
    size_t size = 0;
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, sizeof(*header));
    assert_int_equal(snp_buf_add(&buf, header, sizeof(*header)), 0);
    return snp_frame_peek(&buf, body_max, &frame, &size, has, &err);
}

TEST(bad_headers_are_refused_before_the_body_comes)
{
    static const struct {
        struct raw_header header;
        size_t body_max;
        int code;
    } cases[] = {
        {{0, 0, 0, 0, {0}}, SNP_FRAME_BODY_MAX, 0},
        {{100, 1, 100, 1, {0}}, 100, 0},
        {{101, 1, 0, 1, {0}}, 100, SNP_E_PEER},
        {{100, 1, 101, 1, {0}}, 1000, SNP_E_PEER},
        {{0, 1, 1, 1, {0}}, 1000, SNP_E_PEER},
        {{SNP_FRAME_BODY_MAX, 1, 0, 1, {0}}, SIZE_MAX, 0},
        {{SNP_FRAME_BODY_MAX + 1, 1, 0, 1, {0}}, SIZE_MAX, SNP_E_PEER},
        {{SNP_FRAME_BODY_MAX, 1, SNP_FRAME_HEAD_MAX, 1, {0}}, SIZE_MAX, 0},
        {{SNP_FRAME_BODY_MAX, 1, SNP_FRAME_HEAD_MAX + 1, 1, {0}}, SIZE_MAX, SNP_E_PEER},
        {{UINT32_MAX, 1, 0, 1, {0}}, SIZE_MAX, SNP_E_PEER},
        {{UINT32_MAX, 1, UINT32_MAX, 1, {0}}, SIZE_MAX, SNP_E_PEER},
        {{10, 1, UINT32_MAX, 1, {0}}, SIZE_MAX, SNP_E_PEER},
        {{10, 1, 2, 1, {1, 0, 0}}, SIZE_MAX, SNP_E_PEER},
        {{10, 1, 2, 1, {0, 1, 0}}, SIZE_MAX, SNP_E_PEER},
        {{10, 1, 2, 1, {0, 0, 128}}, SIZE_MAX, SNP_E_PEER},
        {{1, 1, 0, 1, {0}}, 0, SNP_E_PEER},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        bool has = true;
        assert_int_equal(peek_header(&cases[i].header, cases[i].body_max, &has), cases[i].code);
        assert_int_equal(has, cases[i].header.body_len == 0 && cases[i].code == 0);
    }
}

TEST(a_frame_over_a_cap_is_not_written)
{
    snp_autobuf struct snp_buf buf;
    snp_autofree char *bytes = calloc(1, SNP_FRAME_BODY_MAX + 1);
    assert_non_null(bytes);
    struct snp_frame frame = {.type = 1, .id = 1, .head = bytes, .raw = bytes};
    snp_buf_init(&buf, 2 * (size_t)SNP_FRAME_BODY_MAX);
    frame.head_len = SNP_FRAME_HEAD_MAX + 1;
    assert_int_equal(snp_frame_write(&buf, &frame), SNP_E_LIMIT);
    frame.head_len = SNP_FRAME_HEAD_MAX;
    frame.raw_len = SNP_FRAME_BODY_MAX - SNP_FRAME_HEAD_MAX + 1;
    assert_int_equal(snp_frame_write(&buf, &frame), SNP_E_LIMIT);
    frame.raw_len = SIZE_MAX;
    assert_int_equal(snp_frame_write(&buf, &frame), SNP_E_LIMIT);
    assert_int_equal(buf.len, 0);
    frame.raw_len = SNP_FRAME_BODY_MAX - SNP_FRAME_HEAD_MAX;
    assert_int_equal(snp_frame_write(&buf, &frame), 0);
    size_t size = 0;
    bool has = false;
    assert_int_equal(peek(&buf, &frame, &size, &has), 0);
    assert_true(has);
    assert_int_equal(size, SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX);
}

TEST(a_full_buffer_is_left_as_it_was)
{
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 28 + 27);
    assert_int_equal(snp_frame_write(&buf, &sample), 0);
    assert_int_equal(snp_frame_write(&buf, &sample), SNP_E_LIMIT);
    assert_int_equal(buf.len, 28);
    snp_buf_consume(&buf, 1);
    assert_int_equal(snp_frame_write(&buf, &sample), 0);
}

TEST(no_head_and_no_raw_are_fine)
{
    const struct snp_frame empty = {.type = 255, .id = UINT32_MAX};
    struct snp_frame frame;
    size_t size = 0;
    bool has = false;
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 16);
    assert_int_equal(snp_frame_write(&buf, &empty), 0);
    assert_int_equal(peek(&buf, &frame, &size, &has), 0);
    assert_true(has);
    assert_int_equal(frame.type, 255);
    assert_true(frame.id == UINT32_MAX);
    assert_int_equal(frame.head_len + frame.raw_len, 0);
    assert_int_equal(size, 16);
}

TEST(what_is_missing_is_known_after_the_header)
{
    snp_autobuf struct snp_buf whole;
    snp_autobuf struct snp_buf part;

    snp_buf_init(&whole, 100);
    snp_buf_init(&part, 100);
    assert_int_equal(snp_frame_write(&whole, &sample), 0);
    for (size_t n = 0; n <= whole.len; n++) {
        size_t known = n < SNP_FRAME_HEADER_LEN ? SNP_FRAME_HEADER_LEN : whole.len;
        assert_int_equal(snp_frame_missing(&part), known - n);
        if (n < whole.len) {
            assert_int_equal(snp_buf_add(&part, snp_buf_bytes(&whole) + n, 1), 0);
        }
    }
}

RUN(UNIT(layout_is_as_documented),
    UNIT(a_frame_cut_anywhere_waits_for_the_rest),
    UNIT(frames_follow_each_other_byte_by_byte),
    UNIT(bad_headers_are_refused_before_the_body_comes),
    UNIT(a_frame_over_a_cap_is_not_written),
    UNIT(a_full_buffer_is_left_as_it_was),
    UNIT(no_head_and_no_raw_are_fine),
    UNIT(what_is_missing_is_known_after_the_header))
