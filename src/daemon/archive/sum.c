/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All bytes but the last SNP_ARCHIVE_SUM_LEN are in the hash at any time; the writer adds those,
 * too, at the end.
 */
#include "daemon/archive/sum.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/wire/frame.h"
#include "daemon/archive/archive.h"

_Static_assert(SNP_ARCHIVE_SUM_LEN == SNP_FRAME_HEADER_LEN + 11 + 2 * SNP_HASHER_BYTES + 2,
               "the frame's length is known before it is read");

int snp_archive_sum_init(struct snp_archive_sum *sum, struct snp_err *err)
{
    *sum = (struct snp_archive_sum){0};
    SNP_TRY(snp_hasher_new(&sum->hasher, err));
    return snp_hasher_begin(sum->hasher, err);
}

void snp_archive_sum_done(struct snp_archive_sum *sum)
{
    snp_hasher_free(sum->hasher);
    *sum = (struct snp_archive_sum){0};
}

int snp_archive_sum_add(struct snp_archive_sum *sum,
                        const char *bytes,
                        size_t n,
                        struct snp_err *err)
{
    size_t over = sum->n_last + n > SNP_ARCHIVE_SUM_LEN ? sum->n_last + n - SNP_ARCHIVE_SUM_LEN : 0;
    size_t of_last = over < sum->n_last ? over : sum->n_last;
    size_t of_new = over - of_last;
    int r = of_last == 0 ? 0 : snp_hasher_add(sum->hasher, sum->last, of_last, err);

    if (r == 0 && of_new > 0) {
        r = snp_hasher_add(sum->hasher, bytes, of_new, err);
    }
    memmove(sum->last, sum->last + of_last, sum->n_last - of_last);
    sum->n_last -= of_last;
    if (n > of_new) {
        memcpy(sum->last + sum->n_last, bytes + of_new, n - of_new);
        sum->n_last += n - of_new;
    }
    return r;
}

static int frame_make(struct snp_archive_sum *sum, struct snp_buf *out, struct snp_err *err)
{
    uint8_t hash[SNP_HASHER_BYTES];
    char hex[2 * SNP_HASHER_BYTES + 1];
    char head[SNP_ARCHIVE_SUM_LEN];
    struct snp_frame frame = {.type = SNP_ARCHIVE_TYPE_SUM, .head = head};
    int r;

    SNP_TRY(snp_hasher_end(sum->hasher, hash, err));
    snp_hex(hash, sizeof(hash), hex);
    frame.head_len = (size_t)snprintf(head, sizeof(head), "{\"sha256\":\"%s\"}", hex);
    r = snp_frame_write(out, &frame);
    return r < 0 ? snp_fail(err, (enum snp_code)r, "out of memory") : 0;
}

int snp_archive_sum_write(struct snp_archive_sum *sum, struct snp_buf *out, struct snp_err *err)
{
    int r = sum->n_last == 0 ? 0 : snp_hasher_add(sum->hasher, sum->last, sum->n_last, err);

    sum->n_last = 0;
    return r < 0 ? r : frame_make(sum, out, err);
}

int snp_archive_sum_check(struct snp_archive_sum *sum, bool *ret_has, struct snp_err *err)
{
    snp_autobuf struct snp_buf frame = {0};
    const char *made;

    snp_buf_init(&frame, SNP_ARCHIVE_SUM_LEN);
    SNP_TRY(frame_make(sum, &frame, err));
    made = snp_buf_bytes(&frame);
    SNP_ASSERT(made != NULL && frame.len == SNP_ARCHIVE_SUM_LEN);
    /* All but the digits is constant. */
    *ret_has = sum->n_last == SNP_ARCHIVE_SUM_LEN &&
               memcmp(sum->last, made, SNP_FRAME_HEADER_LEN + 11) == 0;
    return !*ret_has || memcmp(sum->last, made, SNP_ARCHIVE_SUM_LEN) == 0
               ? 0
               : snp_fail(err, SNP_E_INVALID,
                          "the file is damaged: its checksum does not match; copy or export it "
                          "again");
}
